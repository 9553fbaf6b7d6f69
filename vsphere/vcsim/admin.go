package vcsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/operator"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/policy"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/wire"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Admin returns a client that may do everything, at any time: it does not come over the network, so
// it works during outages, and none of the latencies, faults, lost rights and counts are for it. All
// share its one session, which Sessions does not count and Restart does not end. Do not log it out.
func (v *VCenter) Admin() *govmomi.Client { return v.admin }

func (v *VCenter) loginAdmin() (err error) {
	v.admin, err = v.Login(context.Background(), url.UserPassword(world.AdminUser, v.login.adminPassword), inProcess{v})
	if err != nil {
		return fmt.Errorf("log the admin in: %w", err)
	}
	session, err := v.admin.SessionManager.UserSession(context.Background())
	if err != nil {
		return fmt.Errorf("find the admin's session: %w", err)
	}
	v.admin.RoundTripper = adminCalls{v, session.Key}
	return nil
}

// adminCalls makes the admin's SOAP calls directly, by no wire.
type adminCalls struct {
	v       *VCenter
	session string
}

// RoundTrip implements soap.RoundTripper.
func (a adminCalls) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	call := newDirectCall(a.v, a.session, req)
	done := make(chan bool, 1)
	go func() { done <- call.CarryOut(ctx) }()
	select {
	case answered := <-done:
		if !answered {
			return errClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return call.Reply(res)
}

var errClosed = errors.New("this vCenter is closed")

// Login logs a client in, as Wire.Login does, by the address of Config.Listen.
func (v *VCenter) Login(ctx context.Context, as *url.Userinfo, through http.RoundTripper) (*govmomi.Client, error) {
	return v.main.Login(ctx, as, through)
}

// inProcess calls the simulator without a network.
type inProcess struct{ v *VCenter }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	inner := r.Clone(r.Context())
	inner.Body = io.NopCloser(bytes.NewReader(body))
	inner.RemoteAddr = "127.0.0.1:0"
	a := wire.NewAnswer()
	done := make(chan bool, 1)
	go func() { done <- behind(p).CarryOut(a, inner) }()
	select {
	case answered := <-done:
		if !answered {
			return nil, errClosed
		}
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(a.Status), StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.Header(), Body: io.NopCloser(&a.Body), ContentLength: int64(a.Body.Len()), Request: r,
	}, nil
}

// tagManager is Admin's client for tags, with a session of its own.
func (v *VCenter) tagManager(ctx context.Context) (*tags.Manager, error) {
	c := rest.NewClient(v.admin.Client)
	c.Client.Client.Transport = inProcess{v}
	if err := c.Login(ctx, url.UserPassword(world.AdminUser, v.login.adminPassword)); err != nil {
		return nil, fmt.Errorf("log the admin in to REST: %w", err)
	}
	return tags.NewManager(c), nil
}

// furnish logs Admin in and makes the templates.
func (v *VCenter) furnish(c Config, policies *policy.Policies) error {
	if err := v.loginAdmin(); err != nil {
		return err
	}
	v.Operator = operator.New(v.Objects, v.admin, v.tagManager, policies)
	for _, name := range c.Templates {
		if _, err := v.AddTemplate("/DC0/vm", name); err != nil {
			return err
		}
	}
	return nil
}
