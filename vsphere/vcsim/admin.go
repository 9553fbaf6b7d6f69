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
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Admin returns a client that may do everything, at any time: it does not come over the network, so
// it works during outages, and none of the latencies, faults, lost rights and counts are for it. All
// share its one session, which Sessions does not count and Restart does not end. Do not log it out.
func (v *VCenter) Admin() *govmomi.Client { return v.admin }

func (v *VCenter) loginAdmin() (err error) {
	v.admin, err = v.Login(context.Background(), url.UserPassword(adminUser, v.login.adminPassword), inProcess{v})
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
	go func() { done <- call.carryOut(ctx) }()
	select {
	case answered := <-done:
		if !answered {
			return errClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return call.reply(res)
}

var errClosed = errors.New("this vCenter is closed")

// result waits for a task of Admin's. A client's way, by a PropertyCollector of its own, takes four calls more.
func (v *VCenter) result(begun *object.Task) (info types.TaskInfo, err error) {
	ref, ctx := begun.Reference(), v.world.context()
	for {
		_, next := v.world.read()
		switch t := v.objects.Get(ref).(type) {
		case *job:
			v.objects.WithLock(ctx, ref, func() { info = t.Info })
		case *simulator.Task:
			v.objects.WithLock(ctx, ref, func() { info = t.Info })
		default:
			return info, soap.WrapVimFault(&types.ManagedObjectNotFound{Obj: ref}) // a restart
		}
		switch info.State {
		case types.TaskInfoStateSuccess:
			return info, nil
		case types.TaskInfoStateError:
			return info, task.Error{LocalizedMethodFault: info.Error, Description: info.Description}
		}
		select {
		case <-next:
		case <-v.world.ctx.Done():
			return info, v.world.ctx.Err()
		}
	}
}

// Login logs a client in, as Wire.Login does, by the address of Config.Listen.
func (v *VCenter) Login(ctx context.Context, as *url.Userinfo, through http.RoundTripper) (*govmomi.Client, error) {
	return v.main.Login(ctx, as, through)
}

// Login logs a client in whose calls go through a transport of its own, such as one that dials a network in memory. Its
// errors are those of the calls.
func (w *Wire) Login(ctx context.Context, as *url.Userinfo, through http.RoundTripper) (*govmomi.Client, error) {
	address := w.URL()
	address.User = nil
	client := soap.NewClient(address, true)
	client.Transport = through
	vim, err := vim25.NewClient(ctx, client)
	if err != nil {
		return nil, err
	}
	c := &govmomi.Client{Client: vim, SessionManager: session.NewManager(vim)}
	return c, c.SessionManager.Login(ctx, as)
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
	a := newAnswer()
	done := make(chan bool, 1)
	go func() { done <- p.v.carryOut(a, inner) }()
	select {
	case answered := <-done:
		if !answered {
			return nil, errClosed
		}
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r,
	}, nil
}
