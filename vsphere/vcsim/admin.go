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

// Admin returns a client with all permissions. It does not use the network, so it works during outages, and latency, faults, withdrawn
// privileges and counters do not apply to it. Its single session is shared, not counted by Sessions and not ended by Restart. Do not log it
// out.
func (v *VCenter) Admin() *govmomi.Client { return v.admin }

func (v *VCenter) loginAdmin() (err error) {
	v.admin, err = v.Login(context.Background(), url.UserPassword(world.AdminUser, v.login.adminPassword), inProcess{v})
	if err != nil {
		return fmt.Errorf("log in as admin: %w", err)
	}
	session, err := v.admin.SessionManager.UserSession(context.Background())
	if err != nil {
		return fmt.Errorf("get the admin's session: %w", err)
	}
	v.admin.RoundTripper = adminCalls{v, session.Key}
	return nil
}

// adminCalls makes the admin's SOAP calls directly, without a wire.
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

// Login logs a client in like Wire.Login, at the address of Config.Listen.
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
	go func() { done <- endpoint(p).CarryOut(a, inner) }()
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

// tagManager returns Admin's client for tags, with its own session.
func (v *VCenter) tagManager(ctx context.Context) (*tags.Manager, error) {
	c := rest.NewClient(v.admin.Client)
	c.Client.Client.Transport = inProcess{v}
	if err := c.Login(ctx, url.UserPassword(world.AdminUser, v.login.adminPassword)); err != nil {
		return nil, fmt.Errorf("log in to REST as admin: %w", err)
	}
	return tags.NewManager(c), nil
}

// setUp logs Admin in and creates the templates.
func (v *VCenter) setUp(c Config, policies *policy.Policies) error {
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
