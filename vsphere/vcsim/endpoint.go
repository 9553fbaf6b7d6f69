package vcsim

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	vimxml "github.com/vmware/govmomi/vim25/xml"
)

// exchange is one HTTP request or direct call. The simulator does not show it to the object that answers.
type exchange struct {
	gone     <-chan struct{} // closed when the client has gone
	call     *directCall     // nil for an HTTP request
	unlocked bool            // the call waits and does not hold the world lock any more
}

// beginCall begins a call, which holds the world lock; false if this vCenter is closed.
func (v *VCenter) beginCall(e *exchange) (end func(), ok bool) {
	if !v.world.Enter() {
		return nil, false
	}
	v.world.Lock()
	v.current = e
	return func() {
		if !e.unlocked {
			v.world.Unlock()
		}
		v.world.Leave()
	}, true
}

// carryOut makes the simulator answer r; false if this vCenter is closed.
func (v *VCenter) carryOut(w http.ResponseWriter, r *http.Request) bool {
	end, ok := v.beginCall(&exchange{gone: r.Context().Done()})
	if !ok {
		return false
	}
	defer end()
	v.world.Service.ServeMux.ServeHTTP(w, r)
	return true
}

// outliving makes a registry's hook that finds a call's session also replace the context of the request, which tasks and the timer of idle
// sessions outlive.
func (v *VCenter) outliving(cookie func(*simulator.Context) string) func(*simulator.Context) string {
	return func(ctx *simulator.Context) string {
		found := cookie(ctx)
		ctx.Context = v.world.Ctx
		return found
	}
}

// inHeader finds the session in a SOAP header, where other services put it (soap.Header.Cookie).
var inHeader = regexp.MustCompile(`<vcSessionCookie[^>]*>([^<]+)</vcSessionCookie>`)

// endSessionOf ends only the session of a request, and reports whether it existed.
func (v *VCenter) endSessionOf(r *http.Request, body []byte) bool {
	if isREST(r) {
		v.world.Lock()
		defer v.world.Unlock()
		return v.rest.drop(func(id string) bool { return id == sessionID(r) }) > 0
	}
	key := ""
	if cookie, err := r.Cookie(soap.SessionCookieName); err == nil {
		key = cookie.Value // the simulator's cookie is the session's key
	} else if m := inHeader.FindSubmatch(body); m != nil {
		key = string(m[1])
	}
	return v.endSession(key)
}

// endSession ends a session, and reports whether it existed.
func (v *VCenter) endSession(key string) bool {
	return key != "" && v.terminate(func(s string) bool { return s == key }) > 0
}

// refuse answers a fault in the form of the API that is called.
func refuse(w http.ResponseWriter, r *http.Request, fault types.BaseMethodFault) {
	if isREST(r) {
		refuseREST(w, fault)
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
	r.Cookie, r.Handler = v.outliving(simulator.SOAPCookie), v.dispatchPBM
	v.world.Service.RegisterSDK(r)
}

// dispatchPBM is the registry's hook before each call.
func (v *VCenter) dispatchPBM(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if isAdmin(ctx.Session) {
		return nil, nil
	}
	return nil, v.rights.Admit(ctx, m)
}

// dispatch is the registry's hook before each call: it checks permissions and returns the object that answers. Objects are wrapped for one
// call; the registry keeps the simulator's own.
func (v *VCenter) dispatch(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	e := v.current
	if e.call != nil {
		e.call.restore(ctx, m)
	}
	if m.Name == "WaitForUpdatesEx" {
		defer func() {
			e.unlocked = true
			v.world.Unlock()
		}()
	}
	if e.call == nil {
		return v.choose(ctx, m)
	}
	h, fault := v.choose(ctx, m)
	return e.call.chosen(ctx, m, h, fault)
}

// choose returns the object for a call with a known session.
func (v *VCenter) choose(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if !isAdmin(ctx.Session) {
		if change, e := v.rewrite, v.current; change != nil {
			v.world.Unlock() // change can call this vCenter
			change(m.Body)
			v.world.Lock()
			v.current = e
		}
		if fault := v.rights.Admit(ctx, m); fault != nil {
			return nil, fault
		}
	}
	if ctx.Session == nil {
		// Without a session, properties are reported as missing, but they are still read.
		switch o := v.objects.Get(m.This).(type) {
		case *simulator.PropertyCollector:
			return v.streams.Collector(o, v.current.gone), nil
		case *simulator.SessionManager:
			return &sessionManager{SessionManager: o, v: v}, nil
		}
		return nil, nil
	}
	if !isAdmin(ctx.Session) {
		v.remember(ctx.Session)
	}
	h, fault := v.wrapped(ctx, m, ctx.Session.Get(m.This))
	if h != nil && fault == nil {
		// The simulator would prefer the session's object with this reference to ours. It reads the reference only for that: methods use
		// the one in the body.
		m.This.Value += "#"
	}
	return h, fault
}

// wrapped returns the wrapper of an object for a call, or nil if the simulator's own object answers.
func (v *VCenter) wrapped(ctx *simulator.Context, m *simulator.Method, obj mo.Reference) (mo.Reference, types.BaseMethodFault) {
	c := &call{ctx, m.Name}
	switch o := obj.(type) {
	case nil: // the simulator would also write to the standard log
		return nil, &types.ManagedObjectNotFound{Obj: m.This}
	case *simulator.PropertyCollector:
		return v.streams.Collector(o, v.current.gone), nil
	case *simulator.PropertyFilter:
		return &propertyFilter{PropertyFilter: o, v: v.streams}, nil
	case *simulator.SearchIndex:
		return &searchIndex{SearchIndex: o, v: v}, nil
	case *simulator.ListView, *simulator.ViewManager: // they tell which objects are missing
		return nil, nil
	}
	if fault := v.world.MissingArgument(ctx, m); fault != nil {
		return nil, fault
	}
	v.markChanged(m, obj)
	switch o := obj.(type) {
	case *simulator.VcenterVStorageObjectManager:
		return &fcdManager{VcenterVStorageObjectManager: o, call: c, d: v.fcds}, nil
	case *simulator.AuthorizationManager:
		return &authorizationManager{AuthorizationManager: o, v: v.rights}, nil
	}
	return v.inventory.wrap(m, obj, c), nil
}

// markChanged marks what a call changes that the simulator does not announce. The world lock is held until it has changed.
func (v *VCenter) markChanged(m *simulator.Method, obj mo.Reference) {
	switch obj.(type) {
	case *simulator.VirtualMachine, *simulator.Folder:
		if !strings.HasSuffix(m.Name, "_Task") {
			v.world.Mark(m.This)
		}
	case *simulator.CustomFieldsManager:
		if set, is := m.Body.(*types.SetField); is {
			v.world.Mark(set.Entity)
			return
		}
		for _, e := range v.objects.All("") {
			v.world.Mark(e.Reference())
		}
	}
}

// Rewrite changes the requests of all SOAP calls but Admin's before they are executed, so that this vCenter misbehaves, for example by
// ignoring changeVersion; nil: none. change gets a pointer, such as *types.CloneVM_Task.
func (v *VCenter) Rewrite(change func(request any)) {
	v.world.Lock()
	defer v.world.Unlock()
	v.rewrite = change
}

// login is the valid credentials and the number of logins.
type login struct {
	user, password string // empty: any value
	adminPassword  string
	ok, refused    int
}

func newLogin(user, password string) login {
	return login{user: user, password: password, adminPassword: uuid.NewString()}
}

// userinfo returns the current credentials.
func (v *VCenter) userinfo() *url.Userinfo {
	v.world.Lock()
	defer v.world.Unlock()
	l := v.login
	return url.UserPassword(cmp.Or(l.user, "user"), cmp.Or(l.password, "pass"))
}

func matches(want, got string) bool { return got != "" && (want == "" || want == got) }

func (v *VCenter) validLogin(r *types.Login) bool {
	if r.UserName == adminUser {
		return r.Password == v.login.adminPassword
	}
	ok := matches(v.login.user, r.UserName) && matches(v.login.password, r.Password)
	if ok {
		v.login.ok++
	} else {
		v.login.refused++
	}
	return ok
}

// sessionManager wraps the SessionManager for a login.
type sessionManager struct {
	*simulator.SessionManager
	v *VCenter
}

// Login also records the session for direct calls.
func (s *sessionManager) Login(ctx *simulator.Context, req *types.Login) soap.HasFault {
	body := s.SessionManager.Login(ctx, req)
	if ctx.Session != nil {
		s.v.remember(ctx.Session)
	}
	return body
}

// SetPassword changes the password for new logins. Existing sessions continue, as in a real vCenter.
func (v *VCenter) SetPassword(password string) {
	v.world.Lock()
	defer v.world.Unlock()
	v.login.password = password
}

// Logins counts the successful and rejected logins by SOAP and REST.
func (v *VCenter) Logins() (ok, refused int) {
	v.world.Lock()
	defer v.world.Unlock()
	return v.login.ok, v.login.refused
}

// Sessions counts the current SOAP sessions without Admin's.
func (v *VCenter) Sessions() int { return len(v.clientSessions()) }

// RESTSessions counts the current REST sessions without Admin's.
func (v *VCenter) RESTSessions() (n int) {
	v.world.Lock()
	defer v.world.Unlock()
	for _, session := range v.rest.sessions {
		if session.User != adminUser {
			n++
		}
	}
	return n
}

// DropSessions ends all SOAP and REST sessions but Admin's: their waits and their next calls get NotAuthenticated.
func (v *VCenter) DropSessions() {
	all := func(string) bool { return true }
	v.terminate(all)
	v.world.Lock()
	defer v.world.Unlock()
	v.rest.drop(all)
}

// terminate ends the clients' sessions with matching keys and returns their number.
func (v *VCenter) terminate(match func(key string) bool) (ended int) {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.world.Context()
	for _, key := range v.clientSessions() {
		if match(key) {
			// The only possible fault is NotFound: the session has just ended.
			_ = v.objects.SessionManager().TerminateSession(ctx, &types.TerminateSession{SessionId: []string{key}})
			ended++
		}
	}
	v.world.Mark() // wakes waiting calls
	return ended
}

func (v *VCenter) clientSessions() []string {
	view := simulator.Session{Registry: simulator.NewRegistry(), Map: v.objects}
	var keys []string
	for _, s := range view.Get(v.objects.SessionManager().Self).(*simulator.SessionManager).SessionList {
		if s.UserName != adminUser {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// Counts are the server-side objects of clients. Each takes up memory while its session lives, so a client that recreates them without
// removing the old ones leaks.
type Counts struct {
	// Sessions and RESTSessions are the SOAP and REST sessions without Admin's.
	Sessions, RESTSessions int
	// Collectors are the PropertyCollectors in addition to each session's default one, Filters the filters in all of them.
	Collectors, Filters int
	// ListViews and ContainerViews are the views, Listed the entries in the list views.
	ListViews, ContainerViews, Listed int
}

// Counts returns the current counts for all clients but Admin.
func (v *VCenter) Counts() Counts {
	keys := v.clientSessions()
	c := Counts{Sessions: len(keys), RESTSessions: v.RESTSessions()}
	v.world.Lock()
	defer v.world.Unlock()
	for _, key := range keys {
		if s, ok := v.sessions[key]; ok {
			v.count(s.Registry, &c)
		}
	}
	return c
}

func (v *VCenter) count(registry *simulator.Registry, c *Counts) {
	own := v.objects.Get(types.ManagedObjectReference{Type: "ServiceInstance", Value: "ServiceInstance"}).(*simulator.ServiceInstance).Content.PropertyCollector
	for _, pc := range registry.AllReference("PropertyCollector") {
		if pc.Reference() != own {
			c.Collectors++
		}
	}
	c.Filters += len(registry.AllReference("PropertyFilter"))
	c.ContainerViews += len(registry.AllReference("ContainerView"))
	for _, view := range registry.AllReference("ListView") {
		c.ListViews++
		c.Listed += len(view.(*simulator.ListView).View)
	}
}

// remember records a session with its objects, because the simulator shows them only to the session's own calls. It forgets sessions that
// have ended.
func (v *VCenter) remember(s *simulator.Session) {
	if v.sessions[s.Key] != nil {
		return
	}
	v.sessions[s.Key] = s
	ctx := v.world.Context()
	maps.DeleteFunc(v.sessions, func(key string, s *simulator.Session) bool { return !v.world.SessionLives(ctx, key, s.UserName) })
}
