package tagging

import (
	"testing"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// restLab is a lab with a REST API whose answers a test can replace.
type restLab struct {
	*vctest.REST
	*sessiontest.Lab
}

func startRESTLab(t testing.TB) *restLab {
	t.Helper()
	l := sessiontest.Start(t, vcsim.Config{})
	return &restLab{vctest.NewREST(session.RESTCall), l}
}

func (l *restLab) client(logger zerolog.Logger) *session.Client {
	l.T.Helper()
	cfg := l.Config()
	cfg.Log, cfg.Metrics = logger, nil
	c := l.Client(cfg)
	c.Transport().RegisterProtocol("https", l)
	return c
}
