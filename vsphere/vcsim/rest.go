package vcsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	vapi "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// restAPI extends govmomi's simulator of the REST API by what the simulator lacks: privileges, tags only on visible objects, the VM templates of
// library items, and deployments that take time. It also has its own login, because the simulator's starts a goroutine for idle sessions that
// does not end with this vCenter.
type restAPI struct {
	*libraries
	v        *VCenter
	inner    http.Handler
	sessions map[string]*rest.Session // of inner
}

// Names that govmomi does not export.
const (
	restSession     = rest.Path + "/com/vmware/cis/session"
	restTagging     = rest.Path + "/com/vmware/cis/tagging"
	restAssociation = restTagging + "/tag-association"
	restHeader      = "vmware-api-session-id"
)

// newREST serves the API under /rest and /api.
func newREST(v *VCenter) *restAPI {
	patterns, inner := vapi.New(v.world.Service.Listen, v.objects)
	a := &restAPI{libraries: &libraries{world: v.world, templates: make(map[string]*template)}, v: v, inner: inner,
		sessions: reflect.ValueOf(inner).Elem().FieldByName("Session").Interface().(map[string]*rest.Session)}
	a.sessions[adminSession] = &rest.Session{User: adminUser}
	for _, pattern := range patterns {
		v.world.Service.ServeMux.Handle(pattern, a)
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *restAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := a.v.current
	if e.fault != nil {
		refuseREST(w, e.fault)
		return
	}
	if e.ends {
		e.ended = a.drop(func(id string) bool { return id == sessionID(r) }) > 0
	}
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
		if fault := a.v.rights.AdmitREST(r); fault != nil {
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
	case strings.HasPrefix(r.URL.Path, restAssociation) && strings.HasPrefix(r.URL.Query().Get("~action"), "detach"):
		a.detach(w, r, user)
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
	if !ok || !a.v.validLogin(&types.Login{UserName: user, Password: password}) {
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

// attach attaches tags to an object that the client sees.
//
// [doc] com.vmware.cis.tagging.TagAssociation.attach: unauthorized without the privilege to read the object, also for a missing or hidden one.
func (a *restAPI) attach(w http.ResponseWriter, r *http.Request) {
	ref, ok := taggedObject(w, r)
	if !ok {
		return
	}
	if a.v.objects.Get(ref) == nil || a.v.rights.hides(ref) {
		refuseREST(w, &types.NoPermission{Object: &ref, PrivilegeId: "System.Read"})
		return
	}
	a.inner.ServeHTTP(w, r)
}

// detach detaches tags from an object, and posts an event if it is a VM; its form is that of the sources in vsphere/tagging.
func (a *restAPI) detach(w http.ResponseWriter, r *http.Request, user string) {
	ref, ok := taggedObject(w, r)
	if !ok {
		return
	}
	a.inner.ServeHTTP(w, r)
	if vm, is := a.v.objects.Get(ref).(*simulator.VirtualMachine); is {
		ctx := a.v.adminContext()
		defer asUser(ctx, user)()
		event := &types.EventEx{EventTypeId: "com.vmware.cis.tagging.detach", ObjectType: ref.Type, ObjectId: ref.Value} // govmomi's simulator wants an object
		a.v.post(ctx, event)
		event.ObjectType, event.ObjectId = "", ""
		event.FullFormattedMessage = fmt.Sprintf("User %s detached\n a tag from object\n %s", user, vm.Name)
	}
}

// taggedObject returns the object that a request names, which can still be read afterwards; ok is false if it was refused.
func taggedObject(w http.ResponseWriter, r *http.Request) (ref types.ManagedObjectReference, ok bool) {
	var call struct {
		Object struct {
			Type string `json:"type"`
			ID   string `json:"id"`
		} `json:"object_id"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &call) != nil {
		refuseREST(w, &types.InvalidArgument{InvalidProperty: "body"})
		return ref, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return types.ManagedObjectReference{Type: call.Object.Type, Value: call.Object.ID}, true
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
