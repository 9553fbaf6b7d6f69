package vcsim

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vapi/rest"
	vapi "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/types"
)

// restAPI is govmomi's simulator of the REST API with what it lacks: privileges, tags only on eligible objects, which VM templates the
// items of libraries are, and deployments that take time. A login is its own, as the simulator's starts a goroutine for idle sessions that outlives this vCenter.
type restAPI struct {
	*libraries
	world    *world
	rights   *rights
	valid    func(*types.Login) bool // whether a user can log in
	inner    vapiSimulator
	vms      *inventory
	unlock   func()                   // unlocks the world until the end of the call
	sessions map[string]*rest.Session // of inner
	tags     map[string]*tags.Tag
	category map[string]*tags.Category
}

// vapiSimulator is govmomi's simulator, as far as it is exported.
type vapiSimulator interface {
	http.Handler
	AttachedTags(types.ManagedObjectReference) ([]string, types.BaseMethodFault)
	AttachTag(types.ManagedObjectReference, string) types.BaseMethodFault
}

// Names that govmomi does not export.
const (
	restSession     = rest.Path + "/com/vmware/cis/session"
	restTagging     = rest.Path + "/com/vmware/cis/tagging"
	restAssociation = restTagging + "/tag-association"
	restHeader      = "vmware-api-session-id"
)

// newREST serves the API under /rest and /api. valid reports whether credentials are correct.
func newREST(w *world, vms *inventory, r *rights, valid func(*types.Login) bool, unlock func()) *restAPI {
	patterns, inner := vapi.New(w.Service.Listen, w.Objects)
	of := func(name string) any { return reflect.ValueOf(inner).Elem().FieldByName(name).Interface() }
	a := &restAPI{libraries: &libraries{world: w, templates: make(map[string]*template)}, world: w, vms: vms, rights: r, valid: valid, unlock: unlock, inner: inner.(vapiSimulator),
		sessions: of("Session").(map[string]*rest.Session), tags: of("Tag").(map[string]*tags.Tag), category: of("Category").(map[string]*tags.Category)}
	for _, pattern := range patterns {
		w.Service.ServeMux.Handle(pattern, a)
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *restAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session, known := a.sessions[sessionID(r)]
	login := r.URL.Path == restSession && r.Method == http.MethodPost && r.URL.Query().Get("~action") == ""
	user := ""
	switch {
	case login:
		user, _, _ = r.BasicAuth()
	case known:
		user = session.User
	}
	if user != adminUser {
		if fault := a.rights.AdmitREST(r); fault != nil {
			refuseREST(w, fault)
			return
		}
	}
	switch {
	case login:
		a.login(w, r)
	case !known:
		refuseREST(w, new(types.NotAuthenticated))
	case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, items):
		a.libraries.describe(w, strings.TrimPrefix(r.URL.Path, items))
	case r.URL.Path == restAssociation && r.URL.Query().Get("~action") == "attach-multiple-tags-to-object":
		a.attach(w, r)
	case a.answerOVF(w, r, user):
	default:
		a.inner.ServeHTTP(w, r)
	}
}

// sessionID returns the id of a request's session; "" if there is none.
func sessionID(r *http.Request) string { return r.Header.Get(restHeader) }

// login begins a session for a user with valid credentials.
func (a *restAPI) login(w http.ResponseWriter, r *http.Request) {
	user, password, ok := r.BasicAuth()
	if !ok || !a.valid(&types.Login{UserName: user, Password: password}) {
		refuseREST(w, new(types.NotAuthenticated))
		return
	}
	id, now := uuid.NewString(), time.Now()
	a.sessions[id] = &rest.Session{User: user, Created: now, LastAccessed: now}
	answerJSON(w, id)
}

// drop ends the clients' sessions with matching ids and returns their number. The caller holds the world lock.
func (a *restAPI) drop(match func(id string) bool) (ended int) {
	for id, session := range a.sessions {
		if session.User != adminUser && match(id) {
			delete(a.sessions, id)
			ended++
		}
	}
	return ended
}

// attach attaches tags to an object, and rejects those that it cannot have, which the simulator does not.
//
// [doc] com.vmware.cis.tagging.TagAssociation.attach: unauthorized without the privilege to read the object, also for a missing or hidden
// one; invalid_argument if the tag is not eligible for the object: its category is for other types, or it allows one tag and the object has
// another. A call with several tags lists the ineligible ones in its errors, whose ids are not documented.
func (a *restAPI) attach(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Object struct {
			Type string `json:"type"`
			ID   string `json:"id"`
		} `json:"object_id"`
		Tags []string `json:"tag_ids"`
	}
	if json.NewDecoder(r.Body).Decode(&call) != nil {
		refuseREST(w, &types.InvalidArgument{InvalidProperty: "body"})
		return
	}
	ref := types.ManagedObjectReference{Type: call.Object.Type, Value: call.Object.ID}
	if a.world.Objects.Get(ref) == nil || a.rights.hides(ref) {
		refuseREST(w, &types.NoPermission{Object: &ref, PrivilegeId: "System.Read"})
		return
	}
	var errors tags.BatchErrors
	for _, id := range call.Tags {
		switch {
		case a.tags[id] == nil:
			errors = append(errors, tags.BatchError{Type: "cis.tagging.objectNotFound.error", Message: "Tagging object " + id + " not found"})
		case !a.eligible(a.tags[id], ref):
			errors = append(errors, tags.BatchError{Type: "cis.tagging.invalidArgument.error", Message: "Tag " + id + " cannot be attached to the object."})
		default:
			_ = a.inner.AttachTag(ref, id) // the tag exists
		}
	}
	answerJSON(w, map[string]any{"success": len(errors) == 0, "error_messages": errors})
}

// eligible reports whether an object can have a tag.
func (a *restAPI) eligible(tag *tags.Tag, ref types.ManagedObjectReference) bool {
	category := a.category[tag.CategoryID]
	if len(category.AssociableTypes) > 0 && !slices.Contains(category.AssociableTypes, ref.Type) {
		return false
	}
	has, _ := a.inner.AttachedTags(ref)
	return category.Cardinality != "SINGLE" || !slices.ContainsFunc(has, func(had string) bool {
		return had != tag.ID && a.tags[had].CategoryID == tag.CategoryID
	})
}

func answerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"value": value})
}

// refuseREST answers a fault in the form of the REST API.
//
// [doc] com.vmware.vapi.std.errors: unauthenticated 401, unauthorized 403, not_found 404, invalid_argument 400,
// service_unavailable 503, internal_server_error 500.
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
	case types.BaseHostCommunication, types.BaseTaskInProgress, *types.Timedout:
		status, kind = http.StatusServiceUnavailable, "service_unavailable"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "com.vmware.vapi.std.errors." + kind, "value": map[string]any{"messages": []string{}},
	})
}
