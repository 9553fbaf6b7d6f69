package vcsim

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// exchange is one HTTP request or direct call. The simulator does not show it to the object that answers.
type exchange struct {
	gone     <-chan struct{}       // closed when the client has disconnected
	fault    types.BaseMethodFault // the answer, if not nil
	ends     bool                  // ends its session before it is answered
	ended    bool                  // the session existed
	unlocked bool                  // the call waits, and no longer holds the world lock
}

// beginCall begins a call, which holds the world lock; false if this vCenter is closed.
func (v *VCenter) beginCall(ctx context.Context, e *exchange) (end func(), ok bool) {
	if !v.world.Enter() {
		return nil, false
	}
	v.world.Lock()
	e.gone, v.current = ctx.Done(), e
	return func() {
		if !e.unlocked {
			v.world.Unlock()
		}
		v.world.Leave()
	}, true
}

// outliving extends a registry's hook that finds a call's session. It also replaces the context of the request, because tasks and the timer of
// idle sessions must continue after the request.
func (v *VCenter) outliving(cookie func(*simulator.Context) string) func(*simulator.Context) string {
	return func(ctx *simulator.Context) string {
		found := cookie(ctx)
		ctx.Context = v.world.Ctx
		return found
	}
}

// servePBM serves the storage policy service.
func (v *VCenter) servePBM(r *simulator.Registry) {
	r.Cookie, r.Handler = v.outliving(simulator.SOAPCookie), v.dispatchPBM
	v.world.Service.RegisterSDK(r)
}

// dispatchPBM is the registry's hook before each call.
func (v *VCenter) dispatchPBM(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if fault := v.breakCall(ctx, m); fault != nil || isAdmin(ctx.Session) {
		return nil, fault
	}
	return nil, v.rights.Admit(ctx, m)
}

// breakCall ends the session or returns the fault that an exchange asks for, before the call has an effect.
func (v *VCenter) breakCall(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	e := v.current
	if e.fault != nil || !e.ends || ctx.Session == nil {
		return e.fault
	}
	e.ended = v.terminate(func(key string) bool { return key == ctx.Session.Key }) > 0
	ctx.Session = nil
	return mustHaveSession(ctx, m)
}

// dispatch is the registry's hook before each call: it checks permissions and returns the object that answers. Objects are wrapped for one
// call; the registry keeps the simulator's own.
func (v *VCenter) dispatch(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
	if m.Name == "WaitForUpdatesEx" {
		defer func(e *exchange) {
			e.unlocked = true
			v.world.Unlock()
		}(v.current)
	}
	if fault := v.breakCall(ctx, m); fault != nil {
		return nil, fault
	}
	return v.choose(ctx, m)
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

// markChanged marks the objects that a call changes without an announcement of the simulator. The caller holds the world lock until the call has
// changed them.
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
	ok, refused    int
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
	ok := r.UserName != adminUser && matches(v.login.user, r.UserName) && matches(v.login.password, r.Password)
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
	v.world.Lock()
	defer v.world.Unlock()
	v.terminate(all)
	v.rest.drop(all)
}

// terminate ends the clients' sessions with matching keys and returns their number. The caller holds the world lock.
func (v *VCenter) terminate(match func(key string) bool) (ended int) {
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
