package session

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

// Session is one login. With a new login, the collectors and views of the old session are gone.
type Session struct {
	Vim *vim25.Client
	// Slow is Vim for calls whose answers may take vCenter minutes: only the context bounds their duration.
	Slow *vim25.Client
	// Epoch counts the logins of this process.
	Epoch int64
	// User is the account's name in vCenter (UserSession.UserName).
	User string
	// UUID is vCenter's about.instanceUuid.
	UUID string
	// since is the time of the login.
	since time.Time
	// searchMost bounds the calls of a search; 0 means the constant searchMost.
	searchMost int32
}

// Client keeps one session for the whole process. All methods can be called from any goroutine.
//
//	no session, Session called        one login for all callers (login.go)
//	a login failed                    no call until the back-off ends: callers get the last error at once
//	NotAuthenticated                  vCenter has dropped the session: the next caller logs in
//	the network failed                the session may still exist: the next caller tries it before a login
//	logout                            no session from now on
//
// The session needs no keep-alive: the inventory's stream makes calls more often than any session times out.
type Client struct {
	cfg       Config
	endpoint  *url.URL
	transport *http.Transport
	slow      *http.Transport // of Session.Slow: a transport has one time-out for all answers
	metrics   *callMetrics
	rest      *restLogins // for tags
	// base ends at logout, and so does any running login.
	base context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	current *Session
	// resting is a session that was dropped because the network failed. It may still exist in vCenter.
	resting *Session
	attempt *attempt
	epoch   int64
	backoff backoff
	// why is the reason why there is no session.
	why *vcfault.Error
	// losses counts sessions in a row that vCenter dropped soon after their login; losing is when the first of them began.
	losses int
	losing time.Time
}

// attempt is a running login. Its fields are read after done is closed.
type attempt struct {
	done    chan struct{}
	session *Session
	err     *vcfault.Error
}

// New validates the settings; it does not use the network.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
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
	c := &Client{
		cfg:       cfg,
		endpoint:  endpoint,
		transport: newTransport(trusted, endpoint.Hostname(), cfg.Dial),
		metrics:   newCallMetrics(cfg.Log, cfg.Metrics),
		why:       vcfault.ForRetry(vcfault.ReasonVCenterUnreachable, "vCenter was not reached yet."),
	}
	c.slow = c.transport.Clone()
	c.slow.ResponseHeaderTimeout = 0
	c.rest = newRESTLogins(c)
	c.base, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Session returns the current session, and logs in if there is none. During a back-off it returns the last
// error at once and makes no call. Errors are *vcfault.Error.
func (c *Client) Session(ctx context.Context) (*Session, error) {
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

// soon is the shortest normal life of a session. After quickLosses shorter ones in a row, logins slow down. (Otherwise the server would
// log in continuously if vCenter drops its sessions at once.)
const (
	soon        = time.Minute
	quickLosses = 5
)

// Lost reports that a call on s failed because the session is gone or unreachable. It drops only the current
// session: a late report about an old one has no effect.
func (c *Client) Lost(s *Session, err error) {
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
	} else if c.losses == 1 {
		c.losing = s.since
	} else if c.losses > quickLosses {
		c.backoff.failures, c.backoff.since = c.losses-quickLosses, c.losing
		c.backoff.wait(time.Now())
	}
	c.cfg.Log.Warn().Err(err).Int64("epoch", s.Epoch).Msg("vCenter session lost")
}

// Transport makes the connections to vCenter. It is for the check, which examines each part of the connection, and for tests.
func (c *Client) Transport() *http.Transport { return c.transport }

// Endpoint is the URL of vCenter's API.
func (c *Client) Endpoint() *url.URL { return c.endpoint }

// REST runs f on the session of the REST API that belongs to s. It opens that session if there is none. If f fails with 401, vCenter has done
// nothing, so REST runs f again, on a new session. Errors are *vcfault.Error.
func (c *Client) REST(ctx context.Context, s *Session, f func(context.Context, *RESTSession) error) error {
	return c.rest.call(ctx, s, f)
}

// Health returns nil, or why there is no session.
func (c *Client) Health() *plan.Fault {
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

// Logout ends the sessions in vCenter. The client can't be used afterwards.
func (c *Client) Logout(ctx context.Context) {
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
	var both sync.WaitGroup // at once, because logoutTimeout bounds both
	both.Go(func() { c.rest.logout(ctx) })
	if s != nil {
		c.leave(ctx, s)
	}
	both.Wait()
	c.transport.CloseIdleConnections()
	c.slow.CloseIdleConnections()
}

// RegisterProtocol lets by answer the requests of a scheme, like http.Transport.RegisterProtocol. It is for tests.
func (c *Client) RegisterProtocol(scheme string, by http.RoundTripper) {
	c.transport.RegisterProtocol(scheme, by)
	c.slow.RegisterProtocol(scheme, by)
}

// leave logs s out.
func (c *Client) leave(ctx context.Context, s *Session) {
	ctx, cancel := context.WithTimeout(ctx, logoutTimeout)
	defer cancel()
	_, err := methods.Logout(ctx, s.Vim, &types.Logout{This: *s.Vim.ServiceContent.SessionManager})
	if err != nil && !vcfault.NotAuthenticated(err) {
		c.cfg.Log.Warn().Err(err).Msg("vCenter logout failed")
	}
}
