package vcsim

import (
	"context"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	vimxml "github.com/vmware/govmomi/vim25/xml"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/rest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/wire"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// endpoint is this vCenter as the wires see it.
type endpoint struct{ v *VCenter }

// exchange is the state of one HTTP request or direct call during the simulator's dispatch.
type exchange struct {
	gone <-chan struct{} // closed when the client has gone
	lock *sync.RWMutex   // held for reading while the simulator looks up the session
	call *directCall     // nil for an HTTP request
}

type exchangeKey struct{}

// exchangeOf returns the exchange of ctx's call.
func exchangeOf(ctx *simulator.Context) *exchange {
	if ctx.Context != nil {
		if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
			return e
		}
	}
	return &exchange{}
}

// CarryOut makes the simulator answer r; false if this vCenter is closed.
//
// The simulator shows an overriding method neither the request nor its context, except to REST, but it does show the session's cookie: the
// request's number is appended to it here, and sessionCookie removes it.
func (b endpoint) CarryOut(w http.ResponseWriter, r *http.Request) bool {
	v := b.v
	if !v.world.Enter() {
		return false
	}
	defer v.world.Leave()
	e := &exchange{gone: r.Context().Done()}
	id := strconv.Itoa(v.world.NextID())
	v.mu.Lock()
	v.exchanges[id] = e
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.exchanges, id)
		v.mu.Unlock()
	}()

	var session string
	cookies := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range cookies {
		if c.Name != soap.SessionCookieName {
			r.AddCookie(c) // such as REST's own
		} else if session == "" {
			session = c.Value
		}
	}
	r.AddCookie(&http.Cookie{Name: soap.SessionCookieName, Value: session + "." + id})
	v.world.Service.ServeMux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
	return true
}

// sessionCookie is the registry's hook that finds a call's session.
func (v *VCenter) sessionCookie(ctx *simulator.Context) string {
	cookie := simulator.HTTPCookie(ctx)
	dot := strings.LastIndexByte(cookie, '.')
	if dot < 0 {
		return cookie
	}
	v.mu.Lock()
	e := v.exchanges[cookie[dot+1:]]
	v.mu.Unlock()
	// The lookup stores the session again, so a session dropped meanwhile would come back. dispatch releases the lock after the lookup.
	v.sessionLock.RLock()
	e.lock = &v.sessionLock
	// v.world.Ctx rather than the request's: tasks and the timer of idle sessions outlive the request.
	ctx.Context = context.WithValue(v.world.Ctx, exchangeKey{}, e)
	return cookie[:dot]
}

// inHeader finds the session in a SOAP header, where other services put it (soap.Header.Cookie).
var inHeader = regexp.MustCompile(`<vcSessionCookie[^>]*>([^<]+)</vcSessionCookie>`)

// EndSession implements wire.Endpoint.
func (b endpoint) EndSession(r *http.Request, body []byte) bool {
	if wire.IsREST(r) {
		return b.v.rest.Drop(rest.SessionID(r))
	}
	key := ""
	if cookie, err := r.Cookie(soap.SessionCookieName); err == nil {
		key = cookie.Value // the simulator's cookie is the session's key
	} else if m := inHeader.FindSubmatch(body); m != nil {
		key = string(m[1])
	}
	return b.v.endSession(key)
}

// endSession ends a session, and reports whether it existed.
func (v *VCenter) endSession(key string) bool {
	return key != "" && v.terminate(func(s string) bool { return s == key }) > 0
}

// Refuse implements wire.Endpoint.
func (endpoint) Refuse(w http.ResponseWriter, r *http.Request, fault types.BaseMethodFault) {
	if wire.IsREST(r) {
		rest.Refuse(w, fault)
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.WriteHeader(http.StatusInternalServerError)
	var body struct {
		Fault *soap.Fault
	}
	body.Fault = simulator.Fault("", fault)
	body.Fault.Detail.Fault = detail{fault}
	_ = vimxml.NewEncoder(w).Encode(soap.Envelope{Body: &body})
}

// detail encodes a fault as vCenter does: an element named after its type, with an xsi:type.
type detail struct{ fault types.BaseMethodFault }

// MarshalXML implements xml.Marshaler.
func (d detail) MarshalXML(e *vimxml.Encoder, start vimxml.StartElement) error {
	kind := reflect.TypeOf(d.fault).Elem().Name()
	start.Name = vimxml.Name{Local: kind + "Fault"}
	start.Attr = []vimxml.Attr{
		{Name: vimxml.Name{Local: "xmlns"}, Value: "urn:" + vim25.Namespace},
		{Name: vimxml.Name{Local: "xmlns:xsi"}, Value: "http://www.w3.org/2001/XMLSchema-instance"},
		{Name: vimxml.Name{Local: "xsi:type"}, Value: kind},
	}
	return e.EncodeElement(d.fault, start)
}

// servePBM serves the storage policy service.
func (v *VCenter) servePBM(r *simulator.Registry) {
	r.Cookie, r.Handler = v.pbmCookie, v.dispatchPBM
	v.world.Service.RegisterSDK(r)
}

// pbmCookie finds a call's session in the SOAP header, because the HTTP cookie holds only the request's number.
func (v *VCenter) pbmCookie(ctx *simulator.Context) string {
	v.sessionCookie(ctx)
	return simulator.SOAPCookie(ctx)
}

// dispatchPBM is the registry's hook before each call.
func (v *VCenter) dispatchPBM(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	e := exchangeOf(ctx)
	if e.lock != nil {
		e.lock.RUnlock()
	}
	if world.IsAdmin(ctx.Session) {
		return nil, nil
	}
	return nil, v.Rights.Admit(ctx, m)
}
