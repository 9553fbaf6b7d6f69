package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	statusUnauthenticated = http.StatusUnauthorized
	statusForbidden       = http.StatusForbidden
)

// The kinds of errors of the REST API that the server distinguishes ("type" in the answer).
const (
	RESTAlreadyExists = "com.vmware.vapi.std.errors.already_exists"
	kindUnauthorized  = "com.vmware.vapi.std.errors.unauthorized"
	// kindUnauthenticated is the kind of 401. vCenter 8.0.0 may fail to encode it and answer 400 with a message that has it among its arguments
	// (vmware/terraform-provider-vsphere#1819).
	kindUnauthenticated = "com.vmware.vapi.std.errors.unauthenticated"
	// tooManySessions is the id of the message with which vCenter refuses a login, with 503, when a user has 550 sessions
	// (vmware-tanzu/tanzu-cli#749).
	tooManySessions = "com.vmware.vapi.endpoint.failedToLoginMaxUserSessionCountReached"
)

// restError is an error answer of the REST API. Of the request, it has only the name of the call.
type restError struct {
	call   string // "POST tagging/category"
	status int
	kind   string // one of vapi.std.errors; can be empty
	words  string // vCenter's message; can be empty
	full   bool   // whether vCenter allows the user no more sessions
}

func (e *restError) Error() string {
	s := fmt.Sprintf("%s: %d %s", e.call, e.status, http.StatusText(e.status))
	for _, more := range []string{e.kind, e.words} {
		if more != "" {
			s += ": " + more
		}
	}
	return s
}

// restWire counts, times and logs the calls of the REST API, and turns each error answer into an error. (govmomi
// turns most into a text, but the server distinguishes failures by type.) It never shows a call's contents.
type restWire struct {
	*callMetrics
	next http.RoundTripper
}

func (w restWire) RoundTrip(req *http.Request) (*http.Response, error) {
	call := RESTCall(req)
	w.calls.WithLabelValues(call).Inc()
	began := time.Now()
	res, err := w.next.RoundTrip(req)
	took := time.Since(began)
	w.seconds.WithLabelValues(call).Observe(took.Seconds())
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		err = readRESTError(call, res)
		_ = res.Body.Close()
		res = nil
	}
	w.log.Debug().Str("method", call).Str("opID", operationID(req.Context())).Dur("durationSeconds", took).Err(err).Msg("vCenter call")
	return res, err
}

// quickOrSlow makes calls whose answers may take vCenter minutes with slow, and all others with quick.
type quickOrSlow struct{ quick, slow http.RoundTripper }

func (p quickOrSlow) RoundTrip(req *http.Request) (*http.Response, error) {
	if RESTCall(req) == DeployOVF {
		return p.slow.RoundTrip(req)
	}
	return p.quick.RoundTrip(req)
}

// RESTCall names a call, without the ids in it: "GET tagging/tag", "tagging/tag-association attach-multiple-tags-to-object".
func RESTCall(req *http.Request) string {
	return RESTName(req.Method, req.URL.Path, req.URL.Query().Get("~action"))
}

// RESTName names the call of a method, a path and an action, which can be empty, as RESTCall does.
func RESTName(method, path, action string) string {
	path, _, _ = strings.Cut(strings.TrimPrefix(path, "/rest/"), "/id:")
	if strings.HasPrefix(path, vmTemplatePath) {
		path = vmTemplatePath
	}
	path = strings.TrimPrefix(strings.TrimPrefix(path, "com/vmware/"), "cis/")
	if action != "" {
		return path + " " + action
	}
	return method + " " + path
}

// The calls about content libraries.
const (
	libraryPath    = "content/library"
	vmTemplatePath = "vcenter/vm-template/library-items"
	ovfPath        = "vcenter/ovf/library-item"
	// DeployOVF and SyncItem are calls that need a privilege of their own.
	DeployOVF = ovfPath + " deploy"
	SyncItem  = libraryPath + "/subscribed-item sync"
)

// isLibraryCall reports whether a call, by its name, is about content libraries.
func isLibraryCall(call string) bool {
	return strings.Contains(call, libraryPath) || strings.Contains(call, vmTemplatePath) || strings.Contains(call, ovfPath)
}

// restErrorMost bounds how much of an error's body is read, in bytes.
const restErrorMost = 64 << 10

func readRESTError(call string, res *http.Response) error {
	e := &restError{call: call, status: res.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(res.Body, restErrorMost))
	var answer struct {
		Type  string `json:"type"`
		Value struct {
			Messages []struct {
				ID   string `json:"id"`
				Text string `json:"default_message"`
				Args []any  `json:"args"`
			} `json:"messages"`
		} `json:"value"`
	}
	if json.Unmarshal(body, &answer) == nil { // a proxy's answer is HTML
		e.kind = secret.Clean(answer.Type)
		for _, m := range answer.Value.Messages {
			e.words = secret.Clean(strings.TrimSpace(e.words + " " + m.Text))
			e.full = e.full || m.ID == tooManySessions
			if slices.Contains(m.Args, any(kindUnauthenticated)) {
				e.kind = kindUnauthenticated
			}
		}
		if e.kind == kindUnauthenticated {
			e.status = statusUnauthenticated
		}
	}
	return e
}

// RESTStatus returns the HTTP status of an error answer; 0 if err is something else.
func RESTStatus(err error) int {
	if e, is := errors.AsType[*restError](err); is {
		return e.status
	}
	return 0
}

// RESTKind reports whether err is an error answer of that kind.
func RESTKind(err error, kind string) bool {
	e, is := errors.AsType[*restError](err)
	return is && e.kind == kind
}

// restClassify returns the fault for an error of a REST call; nil for nil. It classifies errors without an answer like those of SOAP.
func restClassify(err error) *vcfault.Error {
	e, is := errors.AsType[*restError](err)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	if _, kind := errors.AsType[*json.UnmarshalTypeError](err); syntax || kind {
		return vcfault.NotVCenterAPI("a REST call", err)
	}
	if _, own := errors.AsType[*vcfault.Error](err); own || !is {
		return vcfault.Classify("", err)
	}
	if isLibraryCall(e.call) && !e.full && e.status != statusUnauthenticated {
		return libraryFault(e)
	}
	typed := vcfault.ForOperator(vcfault.ReasonTagRefused, "vCenter refuses the tags: %s", vcfault.Steady(e.Error()))
	switch {
	case e.status == statusUnauthenticated:
		typed = vcfault.ForRetry(vcfault.ReasonNotAuthenticated, "vCenter's REST API has dropped the server's session; the server logs in again.")
	case e.full:
		typed = vcfault.ForOperator(vcfault.ReasonTaggingUnavailable, "vCenter allows its user no more sessions of the REST API: end those that other programs left behind, or give the server an account of its own.")
	case e.call != "POST session" && (e.status == statusForbidden || e.kind == kindUnauthorized): // a login needs no privilege
		typed = vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "vCenter's user lacks the privilege %s: grant it.", taggingPrivilege(e.call))
	case e.status == http.StatusNotFound && strings.HasPrefix(e.call, "GET "):
		typed = vcfault.ForRetry(vcfault.ReasonGone, "A tag or its category is no longer in vCenter; the tags are read again.")
	case e.status == statusForbidden, e.status == http.StatusNotFound, e.status == http.StatusTooManyRequests, e.status >= http.StatusInternalServerError:
		service, may := "tagging service", ""
		if e.call == "POST session" {
			service = "REST API"
			if e.status == http.StatusServiceUnavailable { // since 8.0 U3, vpxd counts the sessions of both APIs together (KB 375546)
				may = " Other programs may have used up vCenter's sessions."
			}
		}
		typed = vcfault.ForRetry(vcfault.ReasonTaggingUnavailable, "vCenter's %s does not answer (%d %s); the server tries again.%s", service, e.status, http.StatusText(e.status), may)
		typed.Transient = true
	}
	typed.Err = err
	return typed
}

// libraryFault returns the fault for an error answer to a call about content libraries.
//
// [doc] vSphere Automation API, content/library and vcenter/vm-template/library-items, get: "requires System.Read" on the library or item.
// vSphere Security, Content Library Privileges: "To assign a permission on a content library, an Administrator must grant the permission
// to the user as a global permission."
func libraryFault(e *restError) *vcfault.Error {
	typed := vcfault.ForRetry(vcfault.ReasonLibraryUnavailable, "vCenter's content library service does not answer (%d %s); the server tries again.", e.status, http.StatusText(e.status))
	switch {
	case e.status == statusForbidden || e.kind == kindUnauthorized:
		lacks := "System.Read on the content library: grant it, as a global permission"
		switch e.call {
		case DeployOVF:
			lacks = "VApp.Import on the pool and the root folder of the groups: grant it"
		case SyncItem:
			lacks = "ContentLibrary.SyncLibraryItem on the content library: grant it, as a global permission, or synchronize the item yourself"
		}
		typed = vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "vCenter's user lacks the privilege %s.", lacks)
	case e.status == http.StatusNotFound:
		typed = vcfault.ForRetry(vcfault.ReasonGone, "A content library or an item of it is no longer in vCenter; they are read again.")
	case e.status == http.StatusBadRequest:
		typed = vcfault.ForRetry(vcfault.ReasonLibraryUnavailable, "vCenter refuses to show the content library: %s", vcfault.Steady(e.Error()))
	}
	typed.Err = e
	return typed
}

// taggingPrivilege returns the privilege that a call needs.
//
// [doc] vSphere Automation API, tagging/category create: "the create category privilege"; tagging/tag create: "the create tag
// privilege on the input category"; tag-association attach: "the attach tag privilege on the tag and the read privilege on the
// object". vSphere Security, Privileges for Tags: only global permissions count, and those on the tag itself, except for
// ObjectAttachable (since 7.0), which is needed on the VM.
func taggingPrivilege(call string) string {
	const global = " as a global permission"
	switch call {
	case "POST tagging/category":
		return "InventoryService.Tagging.CreateCategory" + global
	case "POST tagging/tag":
		return "InventoryService.Tagging.CreateTag" + global
	case "tagging/tag-association " + AttachTags, "tagging/tag-association " + DetachTags:
		return "InventoryService.Tagging.AttachTag" + global + ", or InventoryService.Tagging.ObjectAttachable on the VM"
	}
	return "System.Read" + global + ", for tags and their categories"
}

// restRefusal returns the fault for credentials that the REST API refused.
func restRefusal(err error) *vcfault.Error {
	return &vcfault.Error{Err: err, Fault: plan.Fault{Reason: vcfault.ReasonInvalidLogin, NeedsOperator: true,
		Message: "vCenter refuses the user name or password: correct VC_USER and VC_PASS, or the files they are in."}}
}
