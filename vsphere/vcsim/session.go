package vcsim

import (
	"cmp"
	"net/url"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

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
	v.mu.Lock()
	defer v.mu.Unlock()
	l := v.login
	return url.UserPassword(cmp.Or(l.user, "user"), cmp.Or(l.password, "pass"))
}

func matches(want, got string) bool { return got != "" && (want == "" || want == got) }

func (v *VCenter) validLogin(r *types.Login) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.UserName == world.AdminUser {
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
	v.mu.Lock()
	defer v.mu.Unlock()
	v.login.password = password
}

// Logins counts the successful and rejected logins by SOAP and REST.
func (v *VCenter) Logins() (ok, refused int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.login.ok, v.login.refused
}

// Sessions counts the current SOAP sessions without Admin's.
func (v *VCenter) Sessions() int { return len(v.clientSessions()) }

// RESTSessions counts the current REST sessions without Admin's.
func (v *VCenter) RESTSessions() int { return v.rest.Sessions() }

// DropSessions ends all SOAP and REST sessions but Admin's: their waits and their next calls get NotAuthenticated.
func (v *VCenter) DropSessions() {
	v.terminate(func(string) bool { return true })
	v.rest.DropAll()
}

// terminate ends the clients' sessions with matching keys and returns their number.
func (v *VCenter) terminate(match func(key string) bool) (ended int) {
	v.sessionLock.Lock()
	defer v.sessionLock.Unlock()
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
		if s.UserName != world.AdminUser {
			keys = append(keys, s.Key)
		}
	}
	return keys
}
