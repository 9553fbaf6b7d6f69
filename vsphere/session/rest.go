package session

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// restLogins keeps a session of vCenter's REST API beside the SOAP session, for tags and content libraries, which the SOAP API does not have.
// The session is opened when it is first needed, as the same user, and belongs to one SOAP session: the next SOAP session gets a new
// one. All methods can be called from any goroutine.
//
//	no session, on() called     one login for all callers, if the SOAP session is valid
//	the password is refused     no login for afterRefusal.Most, or until there are other credentials or a new SOAP session:
//	                            one refusal in addition to the SOAP login's (login.go) does not lock the account
//	another failure             a separate back-off: the SOAP session is not affected
//	401                         vCenter has dropped the session: one login, and the call runs once more
type restLogins struct {
	client *Client
	// turn has the capacity 1. The goroutine that logs in or out holds it.
	turn chan struct{}

	mu      sync.Mutex
	current *RESTSession
	backoff backoff
	why     *vcfault.Error // why the last login failed
	failed  *Session       // the SOAP session during which the last login failed
}

// RESTSession is one login at the REST API, under one SOAP session.
type RESTSession struct {
	*tags.Manager
	Under *Session
}

func newRESTLogins(c *Client) *restLogins {
	return &restLogins{client: c, turn: make(chan struct{}, 1)}
}

// call runs f on the session. If f fails with 401, vCenter has done nothing, so call runs f again, on a new session. Errors are
// *vcfault.Error.
func (r *restLogins) call(ctx context.Context, s *Session, f func(context.Context, *RESTSession) error) error {
	ctx = WithOperationID(ctx)
	for again := true; ; again = false {
		rs, err := r.on(ctx, s)
		if err != nil {
			return err
		}
		if err = CleanError(ctx, f(ctx, rs)); err == nil {
			return nil
		}
		if RESTStatus(err) == statusUnauthenticated {
			r.drop(rs)
			if again {
				continue
			}
		}
		return restClassify(err)
	}
}

// on returns the session that belongs to s, and logs in if there is none. During a back-off it returns the last error at
// once and makes no call.
func (r *restLogins) on(ctx context.Context, s *Session) (*RESTSession, error) {
	if rs := r.under(s); rs != nil {
		return rs, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, vcfault.Classify("", ctx.Err())
	}
	if rs := r.under(s); rs != nil {
		return rs, nil
	}
	if err := r.client.base.Err(); err != nil {
		return nil, vcfault.Classify("", err)
	}
	if err := r.held(s); err != nil {
		return nil, err
	}
	r.mu.Lock()
	old := r.current
	r.current = nil
	r.mu.Unlock()
	if old != nil { // it belongs to a SOAP session that is gone
		r.leave(ctx, old)
	}
	rs, refused, err := r.login(ctx, s)
	if err != nil {
		return nil, r.fail(s, err, refused)
	}
	r.mu.Lock()
	r.current, r.backoff, r.why = rs, backoff{}, nil
	r.mu.Unlock()
	r.client.cfg.Log.Info().Str("user", s.User).Int64("epoch", s.Epoch).Msg("vCenter REST session opened")
	return rs, nil
}

func (r *restLogins) under(s *Session) *RESTSession {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil && r.current.Under == s {
		return r.current
	}
	return nil
}

// held returns why it is too early for a login; nil if it is not.
func (r *restLogins) held(s *Session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != s { // vCenter has since accepted the password for a new SOAP session
		r.backoff = backoff{}
	}
	var fresh *digest
	if r.backoff.asks(time.Now()) {
		r.mu.Unlock()
		fresh = r.client.cfg.fresh()
		r.mu.Lock()
	}
	if r.backoff.holds(time.Now(), fresh) {
		return r.why
	}
	return nil
}

// fail notes a failed login. refused is the digest of the credentials if vCenter refused them; otherwise nil.
func (r *restLogins) fail(s *Session, err error, refused *digest) *vcfault.Error {
	e := restClassify(err)
	if refused != nil {
		e = restRefusal(err)
	}
	r.mu.Lock()
	first := r.why == nil || r.why.Fault != e.Fault
	r.why, r.failed = e, s
	r.backoff.fail(time.Now(), refused)
	if refused != nil {
		r.backoff.until = time.Now().Add(afterRefusal.Most)
	}
	r.mu.Unlock()
	if first {
		r.client.cfg.Log.Error().Err(err).Str("reason", e.Reason).Str("fault", e.Message).Msg("cannot log in to vCenter's REST API")
	}
	return e
}

// login opens a session. refused is the digest of the credentials if vCenter refused them; otherwise nil.
func (r *restLogins) login(ctx context.Context, s *Session) (rs *RESTSession, refused *digest, err error) {
	c := r.client
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	user, password, err := c.readCredentials()
	if err != nil {
		return nil, nil, err
	}
	wire := soap.NewClient(c.endpoint, c.cfg.Insecure)
	wire.Client.Transport = restWire{c.metrics, rewinding{c.wired(quickOrSlow{c.transport, c.slow}), jsonBounds}}
	wire.UserAgent = c.cfg.UserAgent
	rs = &RESTSession{Manager: tags.NewManager(&rest.Client{Client: wire}), Under: s}
	unhurried, stop := lingering(ctx, logoutTimeout)
	defer stop()
	if err = CleanError(ctx, rs.Login(unhurried, url.UserPassword(user, password))); err != nil {
		if RESTStatus(err) == statusUnauthenticated { // [doc] vSphere Automation API, Create Session: 401 or 503
			d := digestOf(user, password)
			refused = &d
		}
		return nil, refused, err
	}
	secret.Keep("sessions of vCenter's REST API", rs.SessionID())
	if c.base.Err() != nil {
		r.leave(context.WithoutCancel(ctx), rs)
		return nil, nil, c.base.Err()
	}
	return rs, nil, nil
}

// drop forgets a session that vCenter has dropped.
func (r *restLogins) drop(rs *RESTSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == rs {
		r.current = nil
	}
}

// logout ends the session in vCenter. The client has ended before, so no other session is opened afterwards.
func (r *restLogins) logout(ctx context.Context) {
	select {
	case r.turn <- struct{}{}: // after a login that is in flight
		defer func() { <-r.turn }()
	case <-ctx.Done():
	}
	r.mu.Lock()
	rs := r.current
	r.current = nil
	r.mu.Unlock()
	if rs != nil {
		r.leave(ctx, rs)
	}
}

// leave logs rs out.
func (r *restLogins) leave(ctx context.Context, rs *RESTSession) {
	ctx, cancel := context.WithTimeout(ctx, logoutTimeout)
	defer cancel()
	if err := rs.Logout(ctx); err != nil && RESTStatus(err) != statusUnauthenticated {
		r.client.cfg.Log.Warn().Err(err).Msg("vCenter REST logout failed")
	}
}
