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

// behind is this vCenter as the wires know it.
type behind struct{ v *VCenter }

// exchange is one HTTP request, or one direct call, as the code behind the simulator's dispatch sees it.
type exchange struct {
	gone <-chan struct{} // nobody waits for the answer any more
	door *sync.RWMutex   // held for reading while the simulator looks the session up
	call *directCall     // nil: it is a request
}

type exchangeKey struct{}

// exchangeOf returns the request that ctx's call came in.
func exchangeOf(ctx *simulator.Context) *exchange {
	if ctx.Context != nil {
		if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
			return e
		}
	}
	return &exchange{}
}

// CarryOut has the simulator answer r, and reports whether it did: not, if this vCenter is closed.
//
// The simulator shows an overriding method neither the request nor its context, which REST sees. What it does show is
// the session's cookie, so the request's number travels there, and sessionCookie takes it off again.
func (b behind) CarryOut(w http.ResponseWriter, r *http.Request) bool {
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
			r.AddCookie(c) // REST has one of its own
		} else if session == "" {
			session = c.Value
		}
	}
	r.AddCookie(&http.Cookie{Name: soap.SessionCookieName, Value: session + "." + id})
	v.world.Service.ServeMux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
	return true
}

// sessionCookie is the registry's hook that finds out a call's session.
func (v *VCenter) sessionCookie(ctx *simulator.Context) string {
	cookie := simulator.HTTPCookie(ctx)
	dot := strings.LastIndexByte(cookie, '.')
	if dot < 0 {
		return cookie
	}
	v.mu.Lock()
	e := v.exchanges[cookie[dot+1:]]
	v.mu.Unlock()
	// Looking a session up stores it again. dispatch opens the door once that is over, lest a session
	// that is dropped meanwhile come back.
	v.door.RLock()
	e.door = &v.door
	// v.world.ctx rather than the request's: tasks and the watch for idle sessions outlive the request.
	ctx.Context = context.WithValue(v.world.Ctx, exchangeKey{}, e)
	return cookie[:dot]
}

// inHeader finds the session in a SOAP header, where calls of other services bear it (soap.Header.Cookie).
var inHeader = regexp.MustCompile(`<vcSessionCookie[^>]*>([^<]+)</vcSessionCookie>`)

// EndSession implements wire.Endpoint.
func (b behind) EndSession(r *http.Request, body []byte) bool {
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

// endSession ends a session, and reports whether there was one.
func (v *VCenter) endSession(key string) bool {
	return key != "" && v.terminate(func(s string) bool { return s == key }) > 0
}

// Refuse implements wire.Endpoint.
func (behind) Refuse(w http.ResponseWriter, r *http.Request, fault types.BaseMethodFault) {
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

// detail writes a fault as vCenter does: an element named after its type, which xsi:type says once more.
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

// servePBM serves the storage policies.
func (v *VCenter) servePBM(r *simulator.Registry) {
	r.Cookie, r.Handler = v.pbmCookie, v.dispatchPBM
	v.world.Service.RegisterSDK(r)
}

// pbmCookie finds out a call's session: here it is in the SOAP header, not in the HTTP cookie, which has the
// request's number.
func (v *VCenter) pbmCookie(ctx *simulator.Context) string {
	v.sessionCookie(ctx)
	return simulator.SOAPCookie(ctx)
}

// dispatchPBM is the registry's hook before each call.
func (v *VCenter) dispatchPBM(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	e := exchangeOf(ctx)
	if e.door != nil {
		e.door.RUnlock()
	}
	if world.IsAdmin(ctx.Session) {
		return nil, nil
	}
	return nil, v.Rights.Admit(ctx, m)
}
