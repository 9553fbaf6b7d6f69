package vsphere

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
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

func (l *lab) must(err error) {
	l.t.Helper()
	l.Must(err)
}

// config is one that works, given the account's password in a file.
func (l *lab) config() session.Config {
	cfg := session.Config{Host: l.URL().Host, User: vctest.User, PasswordFile: l.PasswordFile(), Thumbprint: l.ThumbprintSHA256(),
		UserAgent: "vmgroup-test", Log: zerolog.Nop(), Metrics: l.Metrics}
	if l.Network != nil {
		cfg.Dial, cfg.Through = l.Network.DialContext, l.Direct
	}
	return cfg
}

// client makes one that logs out when the test ends.
func (l *lab) client(cfg session.Config) *session.Client {
	l.t.Helper()
	c, err := session.New(cfg)
	l.must(err)
	l.t.Cleanup(func() { c.Logout(context.Background()) })
	return c
}

// restLab is a lab whose REST API a test can answer for.
type restLab struct {
	*vctest.REST
	*lab
}

func startRESTLab(t testing.TB) *restLab {
	t.Helper()
	l := startLab(t)
	return &restLab{vctest.NewREST(session.RESTCall), l}
}

func (l *restLab) client(logger zerolog.Logger) *session.Client {
	l.t.Helper()
	cfg := l.lab.config()
	cfg.Log, cfg.Metrics = logger, nil
	c := l.lab.client(cfg)
	c.Transport().RegisterProtocol("https", l)
	return c
}
