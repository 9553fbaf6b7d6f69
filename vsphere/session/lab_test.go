package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// lab is a vCenter with one account, whose password can change, for tests of clients without a server.
type lab struct {
	*vctest.Lab
	t testing.TB
}

// startLab starts a lab. It must be called in a synctest bubble.
func startLab(t testing.TB) *lab {
	t.Helper()
	return &lab{vctest.NewLab(t, vcsim.Config{}), t}
}

// inABubble runs a test with a lab in a synctest bubble, in parallel with other tests.
func inABubble(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, startLab(t)) })
}

// tried requires this number of logins since the last call.
func (l *lab) tried(logins int) {
	l.t.Helper()
	if n := l.Tries(); n != logins {
		l.t.Errorf("%d logins, want %d", n, logins)
	}
}

// open requires this number of open sessions.
func (l *lab) open(sessions int) {
	l.t.Helper()
	if n := l.Sessions(); n != sessions {
		l.t.Fatalf("%d sessions, want %d", n, sessions)
	}
}

func (l *lab) must(err error) {
	l.t.Helper()
	l.Must(err)
}

// config returns a valid configuration with the account's password in a file.
func (l *lab) config() Config {
	cfg := Config{Host: l.URL().Host, User: vctest.User, PasswordFile: l.PasswordFile(), Thumbprint: l.ThumbprintSHA256(),
		UserAgent: "vmgroup-test", Log: zerolog.Nop(), Metrics: l.Metrics}
	if l.Network != nil {
		cfg.Dial, cfg.Through = l.Network.DialContext, l.Direct
	}
	return cfg
}

// client returns a client that logs out when the test ends.
func (l *lab) client(cfg Config) *Client {
	l.t.Helper()
	c, err := New(cfg)
	l.must(err)
	l.t.Cleanup(func() { c.Logout(context.Background()) })
	return c
}
