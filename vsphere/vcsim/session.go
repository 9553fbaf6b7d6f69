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

// login says who may log in, and counts who tried.
type login struct {
	user, password string // empty: whoever says anything
	adminPassword  string
	ok, refused    int
}

func newLogin(user, password string) login {
	return login{user: user, password: password, adminPassword: uuid.NewString()}
}

// userinfo is what a login must name now.
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

// sessionManager is the SessionManager during a login.
type sessionManager struct {
	*simulator.SessionManager
	v *VCenter
}

// Login also notes the session, for those who call directly.
func (s *sessionManager) Login(ctx *simulator.Context, req *types.Login) soap.HasFault {
	body := s.SessionManager.Login(ctx, req)
	if ctx.Session != nil {
		s.v.note(ctx.Session)
	}
	return body
}

// SetPassword changes what the next Login must say. Sessions that exist go on, as in a real vCenter.
func (v *VCenter) SetPassword(password string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.login.password = password
}

// Logins counts the logins that were let in, and those that were refused for the user or the password, by SOAP
// and by REST.
func (v *VCenter) Logins() (ok, refused int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.login.ok, v.login.refused
}

// Sessions counts the SOAP sessions that exist now, without Admin's.
func (v *VCenter) Sessions() int { return len(v.clientSessions()) }

// RESTSessions counts the sessions of the REST API that exist now, without Admin's.
func (v *VCenter) RESTSessions() int { return v.rest.Sessions() }

// DropSessions ends all sessions but Admin's, REST's too: the next call of each is NotAuthenticated, and so is a
// wait that is under way.
func (v *VCenter) DropSessions() {
	v.terminate(func(string) bool { return true })
	v.rest.DropAll()
}

// terminate ends the clients' sessions whose keys match, and reports how many there were.
func (v *VCenter) terminate(match func(key string) bool) (ended int) {
	v.door.Lock()
	defer v.door.Unlock()
	ctx := v.world.Context()
	for _, key := range v.clientSessions() {
		if match(key) {
			// Only NotFound can come of it: the session has just ended by itself.
			_ = v.objects.SessionManager().TerminateSession(ctx, &types.TerminateSession{SessionId: []string{key}})
			ended++
		}
	}
	v.world.Mark() // wakes the waits
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
