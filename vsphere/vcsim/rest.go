package vcsim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	vapi "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// API is the REST API, with the content libraries: govmomi's simulator behind sessions of this package, because the simulator's own leave goroutines running.
type restAPI struct {
	objects *simulator.Registry
	rights  restRights
	valid   func(*types.Login) bool // whether a user may log in
	inner   http.Handler
	key     string // the only session of inner

	*libraries
	attaching lock // serializes attach calls, so that their checks stay valid

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
type restRights interface {
	// IsDenied returns the privilege denied for a call, if any.
	IsDenied(method string) (privilege string, denied bool)
	// ForbiddenREST returns the fault if the clients' role does not allow a call, or nil.
	ForbiddenREST(r *http.Request) types.BaseMethodFault
	// Hides reports whether an object is hidden from the clients.
	Hides(ref types.ManagedObjectReference) bool
}

// New serves the API under /rest and /api. valid reports whether credentials are correct.
func newREST(w *world, r restRights, valid func(*types.Login) bool) *restAPI {
	a := &restAPI{objects: w.Objects, rights: r, valid: valid, key: uuid.NewString(), libraries: newLibraries(), attaching: newLock(), sessions: make(map[string]string)}
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
func (a *restAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := sessionID(r)
	a.mu.Lock()
	user, known := a.sessions[id]
	a.mu.Unlock()
	login := r.URL.Path == restSession && r.Method == http.MethodPost && r.URL.Query().Get("~action") == ""
	if login {
		user, _, _ = r.BasicAuth()
	}
	if user != adminUser {
		if fault := a.admit(r); fault != nil {
			refuseREST(w, fault)
			return
		}
	}
	switch {
	case login:
		a.login(w, r)
	case !known:
		refuseREST(w, new(types.NotAuthenticated))
	case r.URL.Path == restSession && r.Method == http.MethodDelete:
		a.Drop(id)
	case r.URL.Path == restSession:
		answerJSON(w, rest.Session{User: user, Created: time.Now(), LastAccessed: time.Now()})
	case isLibraryCall(r):
		a.libraries.serve(w, r)
	default:
		call, err := attachmentOf(r)
		switch {
		case err != nil:
			refuseREST(w, &types.InvalidArgument{InvalidProperty: "body"})
		case call != nil:
			a.attach(w, r, call)
		default:
			a.pass(w, r)
		}
	}
}

// pass makes the simulator answer.
func (a *restAPI) pass(w http.ResponseWriter, r *http.Request) {
	r.Header.Set(restHeader, a.key)
	a.inner.ServeHTTP(w, r)
}

// SessionID returns the id of a request's session; "" if there is none.
func sessionID(r *http.Request) string {
	if id := r.Header.Get(restHeader); id != "" {
		return id
	}
	if c, err := r.Cookie(restHeader); err == nil {
		return c.Value
	}
	return ""
}

// admit returns the fault if the clients' privileges do not allow a call, or nil.
func (a *restAPI) admit(r *http.Request) types.BaseMethodFault {
	if privilege, denied := a.rights.IsDenied(methodOf(r, nil)); denied {
		return &types.NoPermission{PrivilegeId: privilege}
	}
	return a.rights.ForbiddenREST(r)
}

// login begins a session for a user with valid credentials.
func (a *restAPI) login(w http.ResponseWriter, r *http.Request) {
	user, password, ok := r.BasicAuth()
	if !ok || !a.valid(&types.Login{UserName: user, Password: password}) {
		refuseREST(w, new(types.NotAuthenticated))
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
func (a *restAPI) Drop(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, was := a.sessions[id]
	delete(a.sessions, id)
	return was
}

// DropAll ends all sessions but Admin's.
func (a *restAPI) DropAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, user := range a.sessions {
		if user != adminUser {
			delete(a.sessions, id)
		}
	}
}

// Sessions counts the current sessions without Admin's.
func (a *restAPI) Sessions() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, user := range a.sessions {
		if user != adminUser {
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
func refuseREST(w http.ResponseWriter, fault types.BaseMethodFault) {
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

const (
	restTagging     = rest.Path + "/com/vmware/cis/tagging"
	restAssociation = restTagging + "/tag-association"
)

// tagged is an object reference in the REST API's form.
type tagged struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// attachment is a call that attaches tags to one or more objects.
type attachment struct {
	Object  *tagged  `json:"object_id,omitempty"`
	Objects []tagged `json:"object_ids,omitempty"`
	Tags    []string `json:"tag_ids,omitempty"`
}

// attachmentOf parses a request without consuming its body; nil if it is another call.
func attachmentOf(r *http.Request) (*attachment, error) {
	if !strings.HasPrefix(r.URL.Path, restAssociation) || !strings.HasPrefix(r.URL.Query().Get("~action"), "attach") {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := new(attachment)
	if err := json.Unmarshal(body, call); err != nil {
		return nil, err
	}
	if _, id, ok := strings.Cut(r.URL.Path, "/id:"); ok {
		call.Tags = []string{id}
	}
	if call.Object != nil {
		call.Objects = append(call.Objects, *call.Object)
	}
	return call, nil
}

// attach rejects tags that an object cannot have, which the simulator does not.
//
// [doc] com.vmware.cis.tagging.TagAssociation.attach: unauthorized without the privilege to read the object, also for a missing or hidden
// one; invalid_argument if the tag is not eligible for the object: its category is for other types, or it allows one tag and the object has
// another. A call with several tags lists the ineligible ones in its errors, whose ids are not documented.
func (a *restAPI) attach(w http.ResponseWriter, r *http.Request, call *attachment) {
	a.attaching.Lock()
	defer a.attaching.Unlock()
	for _, o := range call.Objects {
		ref := types.ManagedObjectReference{Type: o.Type, Value: o.ID}
		if a.objects.Get(ref) == nil || a.rights.Hides(ref) {
			refuseREST(w, &types.NoPermission{Object: &ref, PrivilegeId: "System.Read"})
			return
		}
	}
	var eligible []string
	var ineligible tags.BatchErrors
	for _, id := range call.Tags {
		if slices.ContainsFunc(call.Objects, func(o tagged) bool { return !a.eligible(id, o) }) {
			ineligible = append(ineligible, tags.BatchError{Type: "cis.tagging.invalidArgument.error", Message: "Tag " + id + " cannot be attached to the object."})
			continue
		}
		eligible = append(eligible, id)
	}
	switch {
	case len(ineligible) == 0:
		a.pass(w, r)
	case !strings.HasSuffix(r.URL.Path, "/tag-association"): // one tag
		refuseREST(w, &types.InvalidArgument{InvalidProperty: "tag_id"})
	default:
		var done struct {
			Errors tags.BatchErrors `json:"error_messages"`
		}
		a.ask(http.MethodPost, r.URL.RequestURI(), attachment{Object: call.Object, Tags: eligible}, &done)
		answerJSON(w, map[string]any{"success": false, "error_messages": append(done.Errors, ineligible...)})
	}
}

// eligible reports whether an object may have a tag. A missing tag is left for the simulator to reject.
func (a *restAPI) eligible(id string, o tagged) bool {
	var tag, other tags.Tag
	var category tags.Category
	a.ask(http.MethodGet, restTagging+"/tag/id:"+id, nil, &tag)
	a.ask(http.MethodGet, restTagging+"/category/id:"+tag.CategoryID, nil, &category)
	if len(category.AssociableTypes) > 0 && !slices.Contains(category.AssociableTypes, o.Type) {
		return false
	}
	if category.Cardinality != "SINGLE" {
		return true
	}
	var has []string
	a.ask(http.MethodPost, restAssociation+"?~action=list-attached-tags", attachment{Object: &o}, &has)
	return !slices.ContainsFunc(has, func(had string) bool {
		a.ask(http.MethodGet, restTagging+"/tag/id:"+had, nil, &other)
		return had != id && other.CategoryID == tag.CategoryID
	})
}

// ask calls the simulator; out is unchanged if the object does not exist.
func (a *restAPI) ask(method, uri string, body, out any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return
	}
	r, err := http.NewRequest(method, uri, bytes.NewReader(encoded))
	if err != nil {
		return
	}
	reply := newAnswer()
	a.pass(reply, r)
	if reply.Status == http.StatusOK {
		_ = json.Unmarshal(reply.Body.Bytes(), &struct {
			Value any `json:"value"`
		}{out})
	}
}
