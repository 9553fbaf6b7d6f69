package session

import (
	"context"
	"net/http"
)

type patience struct{}

// Patiently lets calls with ctx take as long as ctx lasts. It is for answers that take vCenter minutes.
func Patiently(ctx context.Context) context.Context { return context.WithValue(ctx, patience{}, true) }

func isPatient(ctx context.Context) bool { return ctx.Value(patience{}) != nil }

// pace makes slow calls on separate connections, because a transport has one bound for all answers.
type pace struct{ brisk, slow *http.Transport }

func newPace(brisk *http.Transport) pace {
	slow := brisk.Clone()
	slow.ResponseHeaderTimeout = 0
	return pace{brisk, slow}
}

// RoundTrip passes a request on.
func (p pace) RoundTrip(r *http.Request) (*http.Response, error) {
	if isPatient(r.Context()) {
		return p.slow.RoundTrip(r)
	}
	return p.brisk.RoundTrip(r)
}

// CloseIdleConnections closes those of both.
func (p pace) CloseIdleConnections() {
	p.brisk.CloseIdleConnections()
	p.slow.CloseIdleConnections()
}

// RegisterProtocol makes by answer requests of a scheme, as http.Transport does. It is for tests.
func (c *Client) RegisterProtocol(scheme string, by http.RoundTripper) {
	c.pace.brisk.RegisterProtocol(scheme, by)
	c.pace.slow.RegisterProtocol(scheme, by)
}
