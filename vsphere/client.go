package vsphere

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// session is one login. A new login makes a new session, and collectors and views of the old one are gone.
type session struct {
	vim *vim25.Client
	// epoch counts the logins of this process.
	epoch int64
	// user is the name by which vCenter knows us (UserSession.UserName).
	user string
	// uuid is vCenter's about.instanceUuid.
	uuid string
	// since is when the login was.
	since time.Time
}

// client keeps one session for the whole process. All methods may be called from any goroutine.
//
//	no session, session() called      one login for all who ask (login.go)
//	a login failed                    nothing is called until the back-off ends: who asks gets the last error at once
//	NotAuthenticated                  vCenter has dropped the session: the next one who asks logs in
//	the network failed                the session may still live: the next one who asks tries it before a login
//	logout                            no session any more
//
// The session needs no keep-alive of its own: the inventory's stream calls more often than any time-out.
type client struct {
	cfg       Config
	endpoint  *url.URL
	transport *http.Transport
	rounds    *rounds
	// rest, tagBook and fields are about tags and custom attributes.
	rest    *restLogins
	tagBook *tagBook
	fields  fieldBook
	// base ends at logout, and with it a login under way.
	base context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	current *session
	// resting is a session that was dropped because of the network.
	resting *session
	attempt *attempt
	epoch   int64
	backoff backoff
	// why says why there is no session.
	why *vcfault.Error
	// losses counts sessions in a row that vCenter dropped soon after their login.
	losses int
}

// attempt is a login under way. Its fields are read after done is closed.
type attempt struct {
	done    chan struct{}
	session *session
	err     *vcfault.Error
}

// newClient validates the settings; it does not use the network.
func newClient(cfg Config) (*client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	endpoint, err := cfg.endpoint()
	if err != nil {
		return nil, err
	}
	trusted, err := cfg.trust()
	if err != nil {
		return nil, err
	}
	c := &client{
		cfg:       cfg,
		endpoint:  endpoint,
		transport: newTransport(trusted, endpoint.Hostname(), cfg.Dial),
		rounds:    newRounds(cfg.Log, cfg.Metrics),
		why:       vcfault.New(vcfault.ReasonVCenterUnreachable, false, "vCenter was not reached yet."),
	}
	c.rest, c.tagBook = newRESTLogins(c), newTagBook()
	c.base, c.end = context.WithCancel(context.Background())
	return c, nil
}

// session gives the current session, and logs in if there is none. While a back-off lasts it gives the last
// error at once and calls nobody. Errors are *Error.
func (c *client) session(ctx context.Context) (*session, error) {
	c.mu.Lock()
	var fresh *digest
	if c.current == nil && c.attempt == nil && c.backoff.asks(time.Now()) {
		c.mu.Unlock()
		fresh = c.cfg.fresh()
		c.mu.Lock()
	}
	if c.base.Err() != nil {
		c.mu.Unlock()
		return nil, vcfault.Classify("", c.base.Err())
	}
	if s := c.current; s != nil {
		c.mu.Unlock()
		return s, nil
	}
	if c.attempt == nil {
		if c.backoff.holds(time.Now(), fresh) {
			err := c.why
			c.mu.Unlock()
			return nil, err
		}
		c.attempt = &attempt{done: make(chan struct{})}
		go c.try(c.attempt)
	}
	a := c.attempt
	c.mu.Unlock()

	select {
	case <-a.done:
		if a.err != nil {
			return nil, a.err
		}
		return a.session, nil
	case <-ctx.Done():
		return nil, vcfault.Classify("", ctx.Err())
	}
}

// soon is how long a session should last at least; quickLosses is how many may not before logins are slowed.
// (An account whose sessions are dropped at once would else log in for ever.)
const (
	soon        = time.Minute
	quickLosses = 5
)

// lost says that a call on s failed in a way that says the session is gone or out of reach. Only the current
// session is dropped: whoever comes late with an old one changes nothing.
func (c *client) lost(s *session, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || c.current != s {
		return
	}
	c.current = nil
	c.why = vcfault.Classify("", err)
	if !vcfault.NotAuthenticated(err) {
		c.resting = s
	} else if c.losses++; time.Since(s.since) >= soon {
		c.losses = 0
	} else if c.losses > quickLosses {
		c.backoff.failures = c.losses - quickLosses
		c.backoff.until = time.Now().Add(waiting(connectFirst, connectMost, c.backoff.failures))
	}
	c.cfg.Log.Warn().Err(err).Int64("epoch", s.epoch).Msg("vCenter session lost")
}

// health gives nil, or why there is no session.
func (c *client) health() *plan.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return nil
	}
	f := c.why.Fault
	return &f
}

// logoutTimeout bounds the logout.
const logoutTimeout = 5 * time.Second

// logout ends the session in vCenter, so that none is left behind, and with it the client.
func (c *client) logout(ctx context.Context) {
	c.mu.Lock()
	c.end()
	a := c.attempt
	c.mu.Unlock()
	if a != nil {
		<-a.done
	}
	c.mu.Lock()
	s := c.current
	if s == nil {
		s = c.resting
	}
	c.current, c.resting = nil, nil
	c.why = vcfault.Classify("", context.Canceled)
	c.mu.Unlock()
	var both sync.WaitGroup // there is one bound on both
	both.Go(func() { c.rest.logout(ctx) })
	if s != nil {
		c.leave(ctx, s)
	}
	both.Wait()
	c.transport.CloseIdleConnections()
}

// leave logs s out.
func (c *client) leave(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, logoutTimeout)
	defer cancel()
	_, err := methods.Logout(ctx, s.vim, &types.Logout{This: *s.vim.ServiceContent.SessionManager})
	if err != nil && !vcfault.NotAuthenticated(err) {
		c.cfg.Log.Warn().Err(err).Msg("vCenter logout failed")
	}
}
