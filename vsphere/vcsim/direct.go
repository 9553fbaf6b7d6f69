package vcsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"syscall"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// Direct is Wire.Direct for the address of Config.Listen.
func (v *VCenter) Direct(session string) soap.RoundTripper { return v.main.Direct(session) }

// directCall is one call without HTTP. Request and response are copied, so that neither side sees the other's memory.
type directCall struct {
	v       *VCenter
	session string
	name    string
	this    types.ManagedObjectReference
	body    any

	res   any // a pointer to a response
	fault *soap.Fault
}

func newDirectCall(v *VCenter, session string, req soap.HasFault) *directCall {
	body := reflect.ValueOf(req).Elem().FieldByName("Req").Elem()
	return &directCall{v: v, session: session, name: body.Type().Name(), body: copyOf(body).Addr().Interface(),
		this: body.FieldByName("This").Interface().(types.ManagedObjectReference)}
}

// Name implements carrier.
func (c *directCall) Name() string { return c.name }

// Reply implements carrier.
func (c *directCall) Reply(res soap.HasFault) error {
	if c.fault != nil {
		return soap.WrapSoapFault(c.fault)
	}
	reflect.ValueOf(res).Elem().FieldByName("Res").Set(reflect.ValueOf(c.res))
	return nil
}

// EndSession implements carrier.
func (c *directCall) EndSession() bool { return c.v.endSession(c.session) }

// Fail implements carrier.
func (c *directCall) Fail(fault types.BaseMethodFault) { c.answer(nil, simulator.Fault("", fault)) }

func (c *directCall) answer(res any, fault *soap.Fault) {
	if fault != nil {
		c.fault = copyOf(reflect.ValueOf(fault).Elem()).Addr().Interface().(*soap.Fault)
	} else {
		c.res = copyOf(reflect.ValueOf(res).Elem()).Addr().Interface()
	}
}

// directBody is the simulator's view of a call before dispatch. The simulator copies it as XML.
type directBody struct {
	Req *directRequest
	Res any
}

type directRequest struct{ This types.ManagedObjectReference }

// MarshalXML implements xml.Marshaler. It copies nothing, because dispatch replaces the request.
func (*directRequest) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	return e.EncodeElement("", start)
}

// UnmarshalXML implements xml.Unmarshaler.
func (*directRequest) UnmarshalXML(d *xml.Decoder, _ xml.StartElement) error { return d.Skip() }

// Fault implements soap.HasFault.
func (*directBody) Fault() *soap.Fault { return nil }

// CarryOut implements carrier.
func (c *directCall) CarryOut(ctx context.Context) bool {
	end, ok := c.v.beginCall(&exchange{gone: ctx.Done(), call: c})
	if !ok {
		return false
	}
	defer end()
	// v.world.Ctx rather than the caller's: tasks outlive the call.
	body := &directBody{Req: &directRequest{c.this}}
	if err := c.v.world.Service.RoundTrip(c.v.world.Ctx, body, body); err != nil {
		c.answer(nil, soap.ToSoapFault(err))
	} else {
		c.answer(body.Res, nil)
	}
	return true
}

// restore replaces the simulator's placeholder with the call itself and the caller's session.
func (c *directCall) restore(ctx *simulator.Context, m *simulator.Method) {
	whole := c.v.world.Context() // the simulator's own context for direct calls lacks some parts
	whole.Context, whole.Caller, whole.Session = ctx.Context, ctx.Caller, nil
	*ctx = *whole
	m.Name, m.Body = c.name, c.body
	if known := c.v.sessions[c.session]; known != nil && c.v.world.SessionLives(ctx, known.Key, known.UserName) {
		session := *known
		ctx.Session = &session
	}
}

// chosen returns the object for a call for which the simulator would use its own session.
func (c *directCall) chosen(ctx *simulator.Context, m *simulator.Method, h mo.Reference, fault types.BaseMethodFault) (mo.Reference, types.BaseMethodFault) {
	switch {
	case fault != nil:
		return nil, fault
	case ctx.Session == nil && m.Name != "RetrieveServiceContent" && m.Name != "RetrievePropertiesEx":
		return nil, &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &c.this, PrivilegeId: "System.View"}}
	case h == nil && ctx.Session != nil:
		h = ctx.Session.Get(c.this)
	}
	m.This.Value = c.this.Value + "#" // see dispatch
	return h, nil
}

// Direct makes the SOAP calls of a session (UserSession.Key) over this wire without HTTP and XML, which cause most of a call's cost. They
// are numbered, logged and broken like other calls. Login works only over HTTP.
func (w *Wire) Direct(session string) soap.RoundTripper { return &directWire{w, session} }

// directWire makes the calls of a session over a wire.
type directWire struct {
	wire    *Wire
	session string
}

// RoundTrip implements soap.RoundTripper. Its errors are those of an HTTP client or a SOAP decoder: a *url.Error or a soap fault.
func (d *directWire) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	call := newDirectCall(d.wire.network.v, d.session, req)
	client, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	line := &directLine{hangUp}
	defer d.wire.disconnect(line)
	if !d.wire.connect(line) {
		line.reset()
	}
	answered := make(chan bool, 1)
	if client.Err() == nil {
		go func() { answered <- d.wire.handle(client, call.Name(), call) }()
	}
	select {
	case ok := <-answered:
		if !ok {
			return d.failed(io.EOF)
		}
	case <-client.Done():
		return d.failed(context.Cause(client))
	}
	return call.Reply(res)
}

func (d *directWire) failed(err error) error {
	address := d.wire.URL()
	address.User = nil
	return &url.Error{Op: "Post", URL: address.String(), Err: err}
}

// directLine stands in for the connection of an HTTP call.
type directLine struct{ hangUp context.CancelCauseFunc }

func (l *directLine) reset() {
	l.hangUp(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}

// Admin returns a client with all permissions. It does not use the network, so it works during outages, and latency, faults, withdrawn
// privileges and counters do not apply to it. Its single session is shared, not counted by Sessions and not ended by Restart. Do not log it
// out.
func (v *VCenter) Admin() *govmomi.Client { return v.admin }

func (v *VCenter) loginAdmin() (err error) {
	v.admin, err = v.Login(context.Background(), url.UserPassword(adminUser, v.login.adminPassword), inProcess{v})
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
		Status: http.StatusText(a.Status), StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.Header(), Body: io.NopCloser(&a.Body), ContentLength: int64(a.Body.Len()), Request: r,
	}, nil
}

// tagManager returns Admin's client for tags, with its own session.
func (v *VCenter) tagManager(ctx context.Context) (*tags.Manager, error) {
	c := rest.NewClient(v.admin.Client)
	c.Client.Client.Transport = inProcess{v}
	if err := c.Login(ctx, url.UserPassword(adminUser, v.login.adminPassword)); err != nil {
		return nil, fmt.Errorf("log in to REST as admin: %w", err)
	}
	return tags.NewManager(c), nil
}

// setUp logs Admin in and creates the templates.
func (v *VCenter) setUp(c Config) error {
	if err := v.loginAdmin(); err != nil {
		return err
	}
	v.operator, v.libraries.login = &operator{v: v.inventory, admin: v.admin, tags: v.tagManager}, v.tagManager
	for _, name := range c.Templates {
		if _, err := v.AddTemplate("/DC0/vm", name); err != nil {
			return err
		}
	}
	return nil
}
