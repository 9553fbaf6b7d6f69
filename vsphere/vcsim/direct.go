package vcsim

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"reflect"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// Direct makes the SOAP calls of a session (UserSession.Key) by this wire without HTTP and XML, which are most of what a call
// costs. They are numbered, logged, broken and cut as others are. Log in over HTTP; Login cannot be called directly.
func (w *Wire) Direct(session string) soap.RoundTripper { return &direct{w, session} }

// Direct is Wire.Direct by the address of Config.Listen.
func (v *VCenter) Direct(session string) soap.RoundTripper { return v.main.Direct(session) }

type direct struct {
	wire    *Wire
	session string
}

// RoundTrip implements soap.RoundTripper. Its errors are such as an HTTP client's and a SOAP decoder's are, which callers tell
// apart: a *url.Error, or a soap fault.
func (d *direct) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	call := newDirectCall(d.wire.v, d.session, req)
	client, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	line := &directLine{hangUp}
	defer d.wire.disconnect(line)
	if !d.wire.connect(line) {
		line.reset()
	}
	answered := make(chan bool, 1)
	if client.Err() == nil {
		go func() { answered <- d.wire.lead(client, call.name, call) }()
	}
	select {
	case ok := <-answered:
		if !ok {
			return d.failed(io.EOF)
		}
	case <-client.Done():
		return d.failed(context.Cause(client))
	}
	return call.reply(res)
}

func (d *direct) failed(err error) error {
	address := d.wire.URL()
	address.User = nil
	return &url.Error{Op: "Post", URL: address.String(), Err: err}
}

// directLine is what a connection is for a call by HTTP.
type directLine struct{ hangUp context.CancelCauseFunc }

func (l *directLine) reset() {
	l.hangUp(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}

// directCall is one call. What goes in and what comes out are copies: neither side sees the other's memory.
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

// reply gives the answer to the caller.
func (c *directCall) reply(res soap.HasFault) error {
	if c.fault != nil {
		return soap.WrapSoapFault(c.fault)
	}
	reflect.ValueOf(res).Elem().FieldByName("Res").Set(reflect.ValueOf(c.res))
	return nil
}

func (c *directCall) endSession() bool { return c.v.endSession(c.session) }

func (c *directCall) fail(fault types.BaseMethodFault) { c.answer(nil, simulator.Fault("", fault)) }

func (c *directCall) answer(res any, fault *soap.Fault) {
	if fault != nil {
		c.fault = copyOf(reflect.ValueOf(fault).Elem()).Addr().Interface().(*soap.Fault)
	} else {
		c.res = copyOf(reflect.ValueOf(res).Elem()).Addr().Interface()
	}
}

// directBody is what the simulator sees of a call before dispatch does. It copies that by XML.
type directBody struct {
	Req *directRequest
	Res any
}

type directRequest struct{ This types.ManagedObjectReference }

// MarshalXML implements xml.Marshaler: of a request that dispatch puts another in the place of, nothing need be copied.
func (*directRequest) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	return e.EncodeElement("", start)
}

// UnmarshalXML implements xml.Unmarshaler.
func (*directRequest) UnmarshalXML(d *xml.Decoder, _ xml.StartElement) error { return d.Skip() }

// Fault implements soap.HasFault.
func (*directBody) Fault() *soap.Fault { return nil }

func (c *directCall) carryOut(ctx context.Context) bool {
	if !c.v.world.enter() {
		return false
	}
	defer c.v.world.leave()
	// v.world.ctx rather than the caller's: tasks outlive the call.
	inner := context.WithValue(c.v.world.ctx, exchangeKey{}, &exchange{gone: ctx.Done(), call: c})
	body := &directBody{Req: &directRequest{c.this}}
	if err := c.v.world.service.RoundTrip(inner, body, body); err != nil {
		c.answer(nil, soap.ToSoapFault(err))
	} else {
		c.answer(body.Res, nil)
	}
	return true
}

// appear puts the call itself, and who calls, in the place of what the simulator knows.
func (c *directCall) appear(ctx *simulator.Context, m *simulator.Method) {
	whole := c.v.world.context() // the simulator's own context for direct calls lacks some parts
	whole.Context, whole.Caller, whole.Session = ctx.Context, ctx.Caller, nil
	*ctx = *whole
	m.Name, m.Body = c.name, c.body
	if known, ok := c.v.books.Load(c.session); ok {
		if s := *known.(*simulator.Session); c.v.world.sessionLives(ctx, s.Key, s.UserName) {
			ctx.Session = &s
		}
	}
}

// chosen answers in the simulator's place where it would use the session of its own that it has for direct calls.
func (c *directCall) chosen(ctx *simulator.Context, m *simulator.Method, h mo.Reference, fault types.BaseMethodFault) (mo.Reference, types.BaseMethodFault) {
	switch {
	case fault != nil:
		return nil, fault
	case ctx.Session == nil && m.Name != "RetrieveServiceContent" && m.Name != "RetrieveProperties" && m.Name != "RetrievePropertiesEx":
		return nil, &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &c.this, PrivilegeId: "System.View"}}
	case h == nil && ctx.Session != nil:
		h = c.v.lookup(ctx, c.this)
	}
	m.This.Value = c.this.Value + "#" // see dispatch
	return h, nil
}
