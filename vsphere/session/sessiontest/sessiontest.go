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

// Config returns a configuration for a vCenter that accepts any account.
func Config(w *vctest.World) session.Config {
	cfg := session.Config{Host: w.URL().Host, User: "vmgroup", Password: "pass", Insecure: true, Log: zerolog.Nop()}
	return quick(cfg, w)
}

// quick lets a client call the functions of its vCenter directly, without HTTP and XML, if the vCenter is on an in-memory network: calls
// through HTTP and XML take three times as long.
func quick(cfg session.Config, w *vctest.World) session.Config {
	if w.Network != nil {
		cfg.Dial, cfg.Through = w.Network.DialContext, w.Direct
	}
	return cfg
}

// Lab is a vCenter with one account, whose password can change, for tests of clients without a server.
type Lab struct {
	*vctest.Lab
	T testing.TB
}

// Start starts a lab. It must be called in a synctest bubble.
func Start(t testing.TB, c vcsim.Config) *Lab {
	t.Helper()
	return &Lab{vctest.NewLab(t, c), t}
}

// Config returns a valid configuration with the account's password in a file.
func (l *Lab) Config() session.Config {
	l.T.Helper()
	return quick(session.Config{Host: l.URL().Host, User: vctest.User, PasswordFile: l.PasswordFile(), Thumbprint: l.ThumbprintSHA256(),
		UserAgent: "vmgroup-test", Log: zerolog.Nop(), Metrics: l.Metrics}, l.World)
}

// Client returns a client that logs out when the test ends.
func (l *Lab) Client(cfg session.Config) *session.Client {
	l.T.Helper()
	c, err := session.New(cfg)
	l.Must(err)
	l.T.Cleanup(func() { c.Logout(context.Background()) })
	return c
}
