package vcsim

import (
	"context"
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
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
	return &directCall{v: v, session: session, name: body.Type().Name(), body: world.CopyOf(body).Addr().Interface(),
		this: body.FieldByName("This").Interface().(types.ManagedObjectReference)}
}

// Name implements wire.DirectCall.
func (c *directCall) Name() string { return c.name }

// Reply implements wire.DirectCall.
func (c *directCall) Reply(res soap.HasFault) error {
	if c.fault != nil {
		return soap.WrapSoapFault(c.fault)
	}
	reflect.ValueOf(res).Elem().FieldByName("Res").Set(reflect.ValueOf(c.res))
	return nil
}

// EndSession implements wire.Carrier.
func (c *directCall) EndSession() bool { return c.v.endSession(c.session) }

// Fail implements wire.Carrier.
func (c *directCall) Fail(fault types.BaseMethodFault) { c.answer(nil, simulator.Fault("", fault)) }

func (c *directCall) answer(res any, fault *soap.Fault) {
	if fault != nil {
		c.fault = world.CopyOf(reflect.ValueOf(fault).Elem()).Addr().Interface().(*soap.Fault)
	} else {
		c.res = world.CopyOf(reflect.ValueOf(res).Elem()).Addr().Interface()
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

// CarryOut implements wire.Carrier.
func (c *directCall) CarryOut(ctx context.Context) bool {
	if !c.v.world.Enter() {
		return false
	}
	defer c.v.world.Leave()
	// v.world.Ctx rather than the caller's: tasks outlive the call.
	inner := context.WithValue(c.v.world.Ctx, exchangeKey{}, &exchange{gone: ctx.Done(), call: c})
	body := &directBody{Req: &directRequest{c.this}}
	if err := c.v.world.Service.RoundTrip(inner, body, body); err != nil {
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
	if known, ok := c.v.sessions.Load(c.session); ok {
		if s := *known.(*simulator.Session); c.v.world.SessionLives(ctx, s.Key, s.UserName) {
			ctx.Session = &s
		}
	}
}

// chosen returns the object for a call for which the simulator would use its own session.
func (c *directCall) chosen(ctx *simulator.Context, m *simulator.Method, h mo.Reference, fault types.BaseMethodFault) (mo.Reference, types.BaseMethodFault) {
	switch {
	case fault != nil:
		return nil, fault
	case ctx.Session == nil && m.Name != "RetrieveServiceContent" && m.Name != "RetrieveProperties" && m.Name != "RetrievePropertiesEx":
		return nil, &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &c.this, PrivilegeId: "System.View"}}
	case h == nil && ctx.Session != nil:
		h = c.v.streams.Lookup(ctx, c.this)
	}
	m.This.Value = c.this.Value + "#" // see dispatch
	return h, nil
}
