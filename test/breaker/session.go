package breaker

import (
	"context"
	"net/http"
	"regexp"

	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// restHeader names the REST session of a call, in a header or a cookie. (govmomi keeps the name to itself.)
const restHeader = "vmware-api-session-id"

// inHeader finds the session in a SOAP header, where calls of other services bear it (soap.Header.Cookie).
var inHeader = regexp.MustCompile(`<vcSessionCookie[^>]*>([^<]+)</vcSessionCookie>`)

// endSession ends the session that a call bears, and no other, and tells whether there was one.
func (w *Wire) endSession(ctx context.Context, r *http.Request, body []byte) bool {
	if isREST(r) {
		return w.endREST(ctx, r)
	}
	key := ""
	if c, err := r.Cookie(soap.SessionCookieName); err == nil {
		key = c.Value // vcsim's cookie is the session's key
	} else if m := inHeader.FindSubmatch(body); m != nil {
		key = string(m[1])
	}
	if key == "" {
		return false
	}
	admin := w.vc.Admin()
	manager := *admin.ServiceContent.SessionManager
	ended := false
	// A call that comes at the same moment stores the session again when it looks it up: so look, too.
	for range 100 {
		var m mo.SessionManager
		if admin.RetrieveOne(ctx, manager, []string{"sessionList"}, &m) != nil {
			return ended
		}
		lives := false
		for _, s := range m.SessionList {
			lives = lives || s.Key == key
		}
		if !lives {
			return ended
		}
		ended = true
		_, _ = methods.TerminateSession(ctx, admin, &types.TerminateSession{This: manager, SessionId: []string{key}})
	}
	return ended
}

// endREST logs the call's REST session out.
func (w *Wire) endREST(ctx context.Context, r *http.Request) bool {
	id := r.Header.Get(restHeader)
	if c, err := r.Cookie(restHeader); id == "" && err == nil {
		id = c.Value
	}
	if id == "" {
		return false
	}
	out, err := http.NewRequestWithContext(ctx, http.MethodDelete, rest.Path+"/com/vmware/cis/session", nil)
	if err != nil {
		return false
	}
	out.Header.Set(restHeader, id)
	res, err := w.pass(ctx, out, nil)
	return err == nil && res.status == http.StatusOK
}
