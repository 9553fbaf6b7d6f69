package session

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// loginTimeout bounds a login with all its calls.
	loginTimeout = 30 * time.Second
	// locale is the language of vCenter's messages.
	locale = "en_US"
)

// afterFailure are the pauses after failed connections: an attempt costs vCenter little, and groups wait for it after an outage. An outage that lasts
// (retry.Lasting) gets an attempt a minute, or up to a fifth of one later.
//
// afterRefusal are the pauses after refused credentials, before the same are tried again. vCenter locks an account after 5 refusals within 180 s by
// default
// (https://techdocs.broadcom.com/us/en/vmware-cis/vcf/vcf-5-2-and-earlier/4-5/configure-the-account-lockout-policy-for-vcenter-single-sign-on.html).
// Even if both waits are a fifth shorter, the first and the third of three tries are 192 s apart: so a process makes at most two within 180 s, and two
// replicas make four.
var (
	afterFailure = retry.Backoff{First: time.Second, Most: 5 * time.Second}
	afterRefusal = retry.Backoff{First: 80 * time.Second, Most: 10 * time.Minute}
)

// backoff decides when the next login can be tried.
type backoff struct {
	failures int       // since the last refusal
	since    time.Time // of the first of these failures
	until    time.Time
	// refused is the digest of the credentials that were refused; nil if the last failure was another one.
	refused *digest
	// refusals is the number of refusals of the credentials with the digest last. Other failures in between don't reset it.
	refusals int
	last     digest
}

type digest [sha256.Size]byte

func digestOf(user, password string) digest { return sha256.Sum256([]byte(user + "\x00" + password)) }

// holds reports whether it is too early for a login. After a refusal, other credentials can be tried at once.
// fresh is the digest of the present credentials; nil if they are not known.
func (b *backoff) holds(now time.Time, fresh *digest) bool {
	if !now.Before(b.until) {
		return false
	}
	if b.refused == nil || fresh == nil || *fresh == *b.refused {
		return true
	}
	*b = backoff{}
	return false
}

// asks reports whether holds depends on the present credentials.
func (b *backoff) asks(now time.Time) bool { return now.Before(b.until) && b.refused != nil }

// fresh returns the digest of the present credentials; nil if they cannot be read. The caller must hold no lock: reading a file may take long.
func (c Config) fresh() *digest {
	user, password, err := c.credentials()
	if err != nil {
		return nil
	}
	d := digestOf(user, password)
	return &d
}

// fail notes a failed login. refused is the digest of the credentials if vCenter refused them; otherwise nil.
func (b *backoff) fail(now time.Time, refused *digest) {
	b.refused = refused
	if refused == nil {
		if b.failures++; b.failures == 1 {
			b.since = now
		}
		b.wait(now)
		return
	}
	if *refused != b.last {
		b.refusals, b.last = 0, *refused
	}
	b.refusals, b.failures = b.refusals+1, 0
	b.until = now.Add(waiting(afterRefusal.After(b.refusals)))
}

// wait holds logins until the next attempt after so many failures.
func (b *backoff) wait(now time.Time) {
	d := waiting(afterFailure.After(b.failures))
	if lasting := retry.Lasting(now.Sub(b.since), d); lasting > d {
		d = lasting + rand.N(lasting/5)
	}
	b.until = now.Add(d)
}

// waiting returns a pause plus or minus up to a fifth at random, so that replicas do not retry at the same time.
func waiting(pause time.Duration) time.Duration { return pause - pause/5 + rand.N(2*pause/5) }

// try makes one login for all callers that wait for it.
func (c *Client) try(a *attempt) {
	ctx, cancel := context.WithTimeout(c.base, loginTimeout)
	defer cancel()
	c.mu.Lock()
	resting := c.resting
	c.mu.Unlock()

	s, refused, err := c.login(WithOperationID(ctx), resting)

	c.mu.Lock()
	c.attempt = nil
	fresh := err == nil && s != resting
	if err != nil {
		a.err = vcfault.Classify("log in", err)
		first := c.why == nil || c.why.Fault != a.err.Fault
		c.why = a.err
		c.backoff.fail(time.Now(), refused)
		if first {
			c.cfg.Log.Error().Err(err).Str("reason", a.err.Reason).Str("fault", a.err.Message).Msg("cannot log in to vCenter")
		}
	} else {
		a.session, c.current, c.resting = s, s, nil
		c.backoff = backoff{}
	}
	if fresh {
		c.epoch++
		s.Epoch, s.since = c.epoch, time.Now()
	}
	c.mu.Unlock()
	if fresh {
		c.cfg.Log.Info().Str("user", s.User).Int64("epoch", s.Epoch).Msg("vCenter session opened")
	}
	close(a.done)
}

// login returns the resting session if it is still valid, otherwise a new one. It always uses a new client, because vCenter refuses a login
// by a client that is logged in, with InvalidLogin. refused is the digest of the credentials if vCenter refused them.
func (c *Client) login(ctx context.Context, resting *Session) (s *Session, refused *digest, err error) {
	if resting != nil {
		_, err = methods.GetCurrentTime(ctx, resting.Vim)
		if err == nil {
			return resting, nil, nil
		}
		if !vcfault.NotAuthenticated(err) {
			return nil, nil, err
		}
	}
	user, password, err := c.readCredentials()
	if err != nil {
		return nil, nil, err
	}
	wire, slowWire := c.newWire(c.transport), c.newWire(c.slow)
	slowWire.Jar = wire.Jar // both clients send the session's cookie
	vim, slow := &vim25.Client{Client: wire, RoundTripper: c.metrics.on(wire)}, &vim25.Client{Client: slowWire, RoundTripper: c.metrics.on(slowWire)}
	vim.ServiceContent, err = methods.GetServiceContent(ctx, vim)
	if err != nil {
		return nil, nil, err
	}
	if !vim.IsVC() || vim.ServiceContent.SessionManager == nil {
		return nil, nil, vcfault.ForOperator(vcfault.ReasonNotVCenter, "VC_HOST is the address of %q, not of a vCenter: set it to the address of a vCenter.", vim.ServiceContent.About.Name)
	}
	if lack := missingManager(vim.ServiceContent); lack != "" {
		return nil, nil, vcfault.NotVCenterAPI("RetrieveServiceContent", fmt.Errorf("the answer has no %s", lack))
	}
	unhurried, cancel := lingering(ctx, logoutTimeout)
	defer cancel()
	res, err := methods.Login(unhurried, vim, &types.Login{
		This:     *vim.ServiceContent.SessionManager,
		UserName: user,
		Password: password,
		Locale:   locale,
	})
	if err != nil {
		if refusal(err) {
			d := digestOf(user, password)
			refused = &d
		}
		return nil, refused, err
	}
	secret.Keep("sessions of vCenter", res.Returnval.Key)
	if cookie := wire.SessionCookie(); cookie != nil {
		secret.Keep("cookies of vCenter's sessions", cookie.Value)
	}
	if c.cfg.Through != nil {
		through := c.cfg.Through(res.Returnval.Key)
		vim.RoundTripper, slow.RoundTripper = c.metrics.on(withTimeout{through}), c.metrics.on(through)
	}
	slow.ServiceContent = vim.ServiceContent
	s = &Session{Vim: vim, Slow: slow, User: res.Returnval.UserName, UUID: vim.ServiceContent.About.InstanceUuid, searchMost: c.cfg.SearchMost}
	if c.base.Err() != nil {
		c.leave(context.WithoutCancel(ctx), s)
		return nil, nil, c.base.Err()
	}
	return s, nil, nil
}

// newWire returns a client of vCenter's SOAP API that is not logged in.
func (c *Client) newWire(by *http.Transport) *soap.Client {
	wire := soap.NewClient(c.endpoint, c.cfg.Insecure)
	wire.Client.Transport = rewinding{c.wired(by), xmlBounds}
	wire.UserAgent = c.cfg.UserAgent
	wire.Namespace = "urn:" + vim25.Namespace
	wire.Version = vim25.Version
	return wire
}

// wired returns next or, if the configuration has one, the transport that makes its calls with next.
func (c *Client) wired(next http.RoundTripper) http.RoundTripper {
	if c.cfg.Wire == nil {
		return next
	}
	return c.cfg.Wire(next)
}

// readCredentials reads the user and password.
func (c *Client) readCredentials() (user, password string, err error) {
	if user, password, err = c.cfg.credentials(); err != nil {
		e := vcfault.ForOperator(vcfault.ReasonCredentials, "The user or password of vCenter cannot be read from its file: check VC_USER_FILE and VC_PASS_FILE.")
		e.Err = err
		return "", "", e
	}
	return user, password, nil
}

// lingering returns a context that ends a while after ctx. A running login gets that time to end, because the client can't
// log out a session whose key it has not received.
func lingering(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(while, cancel) })
	return longer, func() { stop(); cancel() }
}

// refusal reports whether a login failed because vCenter refused the credentials.
func refusal(err error) bool {
	var login types.BaseInvalidLogin
	var permission types.BaseNoPermission
	if _, ok := fault.As(err, &login); ok {
		return true
	}
	_, ok := fault.As(err, &permission)
	return ok
}
