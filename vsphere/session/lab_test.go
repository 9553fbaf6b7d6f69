package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// lab is a vCenter with one account, whose password can change, and clients of it that are no whole servers.
type lab struct {
	*vctest.Lab
	t testing.TB
}

// startLab makes one in a bubble.
func startLab(t testing.TB) *lab {
	t.Helper()
	return &lab{vctest.NewLab(t, vcsim.Config{}), t}
}

// inABubble runs a test in a bubble with a lab, in parallel with others.
func inABubble(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, startLab(t)) })
}

// tried expects that a password was tried so often.
func (l *lab) tried(logins int) {
	l.t.Helper()
	if n := l.Tries(); n != logins {
		l.t.Errorf("%d logins, want %d", n, logins)
	}
}

// open expects that so many sessions are.
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

// config is one that works, given the account's password in a file.
func (l *lab) config() Config {
	cfg := Config{Host: l.URL().Host, User: vctest.User, PasswordFile: l.PasswordFile(), Thumbprint: l.ThumbprintSHA256(),
		UserAgent: "vmgroup-test", Log: zerolog.Nop(), Metrics: l.Metrics}
	if l.Network != nil {
		cfg.Dial, cfg.Through = l.Network.DialContext, l.Direct
	}
	return cfg
}

// client makes one that logs out when the test ends.
func (l *lab) client(cfg Config) *Client {
	l.t.Helper()
	c, err := New(cfg)
	l.must(err)
	l.t.Cleanup(func() { c.Logout(context.Background()) })
	return c
}
