package rest

import (
	"encoding/json"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	vapi "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/wire"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// API is the REST API, with the content libraries: govmomi's simulator behind sessions of this package, because the simulator's own leave goroutines running.
type API struct {
	objects *simulator.Registry
	rights  Rights
	valid   func(*types.Login) bool // whether a user may log in
	inner   http.Handler
	key     string // the only session of inner

	*Libraries
	attaching world.Lock // serializes attach calls, so that their checks stay valid

	mu       sync.Mutex        // guards what follows
	sessions map[string]string // user by session id
}

// Names that govmomi does not export.
const (
	restSession = rest.Path + "/com/vmware/cis/session"
	restHeader  = "vmware-api-session-id"
	restInBody  = "vmware-use-header-authn"
)

// Rights are the clients' privileges.
type Rights interface {
	// IsDenied returns the privilege denied for a call, if any.
	IsDenied(method string) (privilege string, denied bool)
	// ForbiddenREST returns the fault if the clients' role does not allow a call, or nil.
	ForbiddenREST(r *http.Request) types.BaseMethodFault
	// Hides reports whether an object is hidden from the clients.
	Hides(ref types.ManagedObjectReference) bool
}

// New serves the API under /rest and /api. valid reports whether credentials are correct.
func New(w *world.World, r Rights, valid func(*types.Login) bool) *API {
	a := &API{objects: w.Objects, rights: r, valid: valid, key: uuid.NewString(), Libraries: newLibraries(), attaching: world.NewLock(), sessions: make(map[string]string)}
	patterns, inner := vapi.New(w.Service.Listen, w.Objects)
	a.inner = inner
	// A login would start a goroutine for idle sessions that outlives this vCenter.
	known := reflect.ValueOf(inner).Elem().FieldByName("Session").Interface().(map[string]*rest.Session)
	known[a.key] = &rest.Session{User: "vcsim", Created: time.Now(), LastAccessed: time.Now()}
	for _, pattern := range patterns {
		w.Service.ServeMux.Handle(pattern, a)
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := SessionID(r)
	a.mu.Lock()
	user, known := a.sessions[id]
	a.mu.Unlock()
	login := r.URL.Path == restSession && r.Method == http.MethodPost && r.URL.Query().Get("~action") == ""
	if login {
		user, _, _ = r.BasicAuth()
	}
	if user != world.AdminUser {
		if fault := a.admit(r); fault != nil {
			Refuse(w, fault)
			return
		}
	}
	switch {
	case login:
		a.login(w, r)
	case !known:
		Refuse(w, new(types.NotAuthenticated))
	case r.URL.Path == restSession && r.Method == http.MethodDelete:
		a.Drop(id)
	case r.URL.Path == restSession:
		answerJSON(w, rest.Session{User: user, Created: time.Now(), LastAccessed: time.Now()})
	case isLibraryCall(r):
		a.Libraries.serve(w, r)
	default:
		call, err := attachmentOf(r)
		switch {
		case err != nil:
			Refuse(w, &types.InvalidArgument{InvalidProperty: "body"})
		case call != nil:
			a.attach(w, r, call)
		default:
			a.pass(w, r)
		}
	}
}

// pass makes the simulator answer.
func (a *API) pass(w http.ResponseWriter, r *http.Request) {
	r.Header.Set(restHeader, a.key)
	a.inner.ServeHTTP(w, r)
}

// SessionID returns the id of a request's session; "" if there is none.
func SessionID(r *http.Request) string {
	if id := r.Header.Get(restHeader); id != "" {
		return id
	}
	if c, err := r.Cookie(restHeader); err == nil {
		return c.Value
	}
	return ""
}

// admit returns the fault if the clients' privileges do not allow a call, or nil.
func (a *API) admit(r *http.Request) types.BaseMethodFault {
	if privilege, denied := a.rights.IsDenied(wire.MethodOf(r, nil)); denied {
		return &types.NoPermission{PrivilegeId: privilege}
	}
	return a.rights.ForbiddenREST(r)
}

// login begins a session for a user with valid credentials.
func (a *API) login(w http.ResponseWriter, r *http.Request) {
	user, password, ok := r.BasicAuth()
	if !ok || !a.valid(&types.Login{UserName: user, Password: password}) {
		Refuse(w, new(types.NotAuthenticated))
		return
	}
	id := uuid.NewString()
	a.mu.Lock()
	a.sessions[id] = user
	a.mu.Unlock()
	if r.Header.Get(restInBody) != "true" {
		http.SetCookie(w, &http.Cookie{Name: restHeader, Value: id, Path: rest.Path})
	}
	answerJSON(w, id)
}

// Drop ends a session, and reports whether it existed.
func (a *API) Drop(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, was := a.sessions[id]
	delete(a.sessions, id)
	return was
}

// DropAll ends all sessions but Admin's.
func (a *API) DropAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, user := range a.sessions {
		if user != world.AdminUser {
			delete(a.sessions, id)
		}
	}
}

// Sessions counts the current sessions without Admin's.
func (a *API) Sessions() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, user := range a.sessions {
		if user != world.AdminUser {
			n++
		}
	}
	return n
}

func answerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"value": value})
}

// Refuse answers a fault in the form of the REST API.
//
// [doc] com.vmware.vapi.std.errors: unauthenticated 401, unauthorized 403, not_found 404, invalid_argument 400,
// already_exists 400, service_unavailable 503, internal_server_error 500.
func Refuse(w http.ResponseWriter, fault types.BaseMethodFault) {
	status, kind := http.StatusInternalServerError, "internal_server_error"
	switch fault.(type) {
	case *types.NotAuthenticated, types.BaseInvalidLogin:
		status, kind = http.StatusUnauthorized, "unauthenticated"
	case types.BaseNoPermission:
		status, kind = http.StatusForbidden, "unauthorized"
	case *types.NotFound, *types.ManagedObjectNotFound:
		status, kind = http.StatusNotFound, "not_found"
	case types.BaseInvalidArgument:
		status, kind = http.StatusBadRequest, "invalid_argument"
	case *types.DuplicateName, *types.AlreadyExists:
		status, kind = http.StatusBadRequest, "already_exists"
	case types.BaseHostCommunication, types.BaseTaskInProgress, *types.Timedout:
		status, kind = http.StatusServiceUnavailable, "service_unavailable"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "com.vmware.vapi.std.errors." + kind, "value": map[string]any{"messages": []string{}},
	})
}
