// Package sessiontest makes clients of an embedded vCenter for the tests of the packages that use vsphere/session.
package sessiontest

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// Config is one that works with a vCenter of any account.
func Config(w *vctest.World) session.Config {
	cfg := session.Config{Host: w.URL().Host, User: "vmgroup", Password: "pass", Insecure: true, Log: zerolog.Nop()}
	return quick(cfg, w)
}

// quick has a client call directly, if its vCenter is on a network in memory: HTTP and XML cost three times as much.
func quick(cfg session.Config, w *vctest.World) session.Config {
	if w.Network != nil {
		cfg.Dial, cfg.Through = w.Network.DialContext, w.Direct
	}
	return cfg
}

// Lab is a vCenter with one account, whose password can change, and clients of it that are no whole servers.
type Lab struct {
	*vctest.Lab
	T testing.TB
}

// Start makes one in a bubble.
func Start(t testing.TB, c vcsim.Config) *Lab {
	t.Helper()
	return &Lab{vctest.NewLab(t, c), t}
}

// Config is one that works, given the account's password in a file.
func (l *Lab) Config() session.Config {
	l.T.Helper()
	return quick(session.Config{Host: l.URL().Host, User: vctest.User, PasswordFile: l.PasswordFile(), Thumbprint: l.ThumbprintSHA256(),
		UserAgent: "vmgroup-test", Log: zerolog.Nop(), Metrics: l.Metrics}, l.World)
}

// Client makes one that logs out when the test ends.
func (l *Lab) Client(cfg session.Config) *session.Client {
	l.T.Helper()
	c, err := session.New(cfg)
	l.Must(err)
	l.T.Cleanup(func() { c.Logout(context.Background()) })
	return c
}
