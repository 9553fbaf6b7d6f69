package vcsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Direct is Wire.Direct for the address of Config.Listen.
func (v *VCenter) Direct(session string) soap.RoundTripper { return v.main.Direct(session) }

// directCall is one call without HTTP. Request and response are copied, so that neither side sees the other's memory.
type directCall struct {
	v       *VCenter
	session string
	method  *simulator.Method

	res   any // a pointer to a response
	fault *soap.Fault
}

func newDirectCall(v *VCenter, session string, req soap.HasFault) *directCall {
	body := reflect.ValueOf(req).Elem().FieldByName("Req").Elem()
	return &directCall{v: v, session: session, method: &simulator.Method{Name: body.Type().Name(), Body: copyOf(body).Addr().Interface(),
		This: body.FieldByName("This").Interface().(types.ManagedObjectReference)}}
}

// Reply gives the client the answer.
func (c *directCall) Reply(res soap.HasFault) error {
	if c.fault != nil {
		return soap.WrapSoapFault(c.fault)
	}
	reflect.ValueOf(res).Elem().FieldByName("Res").Set(reflect.ValueOf(c.res))
	return nil
}

// carryOut is a carrier.
func (c *directCall) carryOut(ctx context.Context, e *exchange) bool {
	end, ok := c.v.beginCall(ctx, e)
	if !ok {
		return false
	}
	defer end()
	if res, fault := c.v.answer(c.session, c.method); fault != nil {
		c.fault = copyOf(reflect.ValueOf(fault).Elem()).Addr().Interface().(*soap.Fault)
	} else {
		c.res = copyOf(reflect.ValueOf(res).Elem()).Addr().Interface()
	}
	return true
}

// answer answers a call like the simulator (Service.call in its simulator.go), but on behalf of a session.
func (v *VCenter) answer(session string, m *simulator.Method) (res any, _ *soap.Fault) {
	ctx := v.inventory.adminContext()
	ctx.Context, ctx.Caller = v.world.Ctx, &m.This // tasks outlive the call
	if session != adminSession {
		ctx.Session = nil
	}
	if known := v.sessions[session]; known != nil && v.world.SessionLives(ctx, known.Key, known.UserName) {
		own := *known
		ctx.Session = &own
	}
	h, fault := v.dispatch(ctx, m)
	if fault == nil {
		fault = mustHaveSession(ctx, m)
	}
	switch {
	case fault != nil:
		return nil, simulator.Fault("", fault)
	case h == nil && ctx.Session != nil:
		h = ctx.Session.Get(m.This)
	case h == nil:
		h = v.objects.Get(m.This)
	}
	do := reflect.ValueOf(h).MethodByName(strings.Replace(m.Name, "_Task", "Task", 1))
	if !do.IsValid() {
		return nil, simulator.Fault(fmt.Sprintf("%s does not implement: %s", m.This, m.Name), &types.MethodNotFound{Receiver: m.This, Method: m.Name})
	}
	args := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(m.Body)}
	var body soap.HasFault
	v.objects.WithLock(ctx, h, func() { body = do.Call(args[2-do.Type().NumIn():])[0].Interface().(soap.HasFault) })
	if f := body.Fault(); f != nil {
		return nil, f
	}
	return reflect.ValueOf(body).Elem().FieldByName("Res").Interface(), nil
}

// withoutSession are the calls that need no session.
var withoutSession = []string{"Login", "RetrieveServiceContent", "PbmRetrieveServiceContent", "RetrieveProperties", "RetrievePropertiesEx"}

// mustHaveSession rejects a call whose session has ended.
func mustHaveSession(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	if ctx.Session != nil || slices.Contains(withoutSession, m.Name) {
		return nil
	}
	return &types.NotAuthenticated{NoPermission: types.NoPermission{Object: &m.This, PrivilegeId: "System.View"}}
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
		go func() { answered <- d.wire.handle(client, call.method.Name, call.carryOut) }()
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

// adminUser is Admin's user name. Latency, faults, withdrawn privileges, outages and counters do not apply to it.
const adminUser = "Administrator@VSPHERE.LOCAL"

// adminSession is the session of Admin, who never logs in.
var adminSession = uuid.NewString()

// isAdmin reports whether a session is Admin's.
func isAdmin(s *simulator.Session) bool { return s != nil && s.UserName == adminUser }

// Admin returns a client with all permissions. It does not use the network, so it works during outages, and latency, faults, withdrawn
// privileges and counters do not apply to it. Sessions does not count it, and Restart does not end it.
func (v *VCenter) Admin() *govmomi.Client { return v.admin }

// newAdmin returns the admin's clients of the SOAP API and of the REST API.
func (v *VCenter) newAdmin() (*govmomi.Client, *rest.Client, error) {
	client := soap.NewClient(v.main.URL(), true)
	client.Transport = inProcess{v}
	vim, err := vim25.NewClient(context.Background(), client)
	if err != nil {
		return nil, nil, fmt.Errorf("get the admin's client: %w", err)
	}
	vim.RoundTripper = adminCalls{v}
	api := rest.NewClient(vim)
	api.Client.Client.Transport = inProcess{v}
	api.SessionID(adminSession)
	return &govmomi.Client{Client: vim, SessionManager: session.NewManager(vim)}, api, nil
}

// adminCalls makes the admin's SOAP calls directly, without a wire.
type adminCalls struct{ v *VCenter }

// RoundTrip implements soap.RoundTripper.
func (a adminCalls) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	call := newDirectCall(a.v, adminSession, req)
	if err := alone(ctx, call.carryOut); err != nil {
		return err
	}
	return call.Reply(res)
}

// alone carries a call out without a network.
func alone(ctx context.Context, carryOut carrier) error {
	done := make(chan bool, 1)
	go func() { done <- carryOut(ctx, new(exchange)) }()
	select {
	case answered := <-done:
		if !answered {
			return errors.New("this vCenter is closed")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inProcess calls the simulator without a network.
type inProcess struct{ v *VCenter }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c := &request{v: p.v, r: r.Clone(r.Context()), body: body, answer: newAnswer()}
	c.r.RemoteAddr = "127.0.0.1:0"
	if err := alone(r.Context(), c.carryOut); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(c.answer.Status), StatusCode: c.answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.answer.Header(), Body: io.NopCloser(&c.answer.Body), ContentLength: int64(c.answer.Body.Len()), Request: r,
	}, nil
}

// setUp makes the admin's clients and the templates.
func (v *VCenter) setUp(c Config) error {
	admin, api, err := v.newAdmin()
	if err != nil {
		return err
	}
	v.admin, v.libraries.api = admin, api
	v.operator = &operator{v: v.inventory, admin: admin, tags: tags.NewManager(api)}
	for _, name := range c.Templates {
		if _, err := v.AddTemplate("/DC0/vm", name); err != nil {
			return err
		}
	}
	if c.Furnished {
		return v.furnish()
	}
	return nil
}

// Login logs a client in like Wire.Login, at the address of Config.Listen.
func (v *VCenter) Login(ctx context.Context, as *url.Userinfo, through http.RoundTripper) (*govmomi.Client, error) {
	return v.main.Login(ctx, as, through)
}
