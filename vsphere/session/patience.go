package session

import (
	"context"
	"net/http"
)

type patience struct{}

// Patiently lets calls with ctx take as long as ctx lasts. It is for answers that take vCenter minutes.
func Patiently(ctx context.Context) context.Context { return context.WithValue(ctx, patience{}, true) }

func isPatient(ctx context.Context) bool { return ctx.Value(patience{}) != nil }

// transports makes slow calls on separate connections, because a transport has one bound for all answers.
type transports struct{ fast, slow *http.Transport }

func newTransports(fast *http.Transport) transports {
	slow := fast.Clone()
	slow.ResponseHeaderTimeout = 0
	return transports{fast, slow}
}

// RoundTrip passes a request on.
func (p transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if isPatient(r.Context()) {
		return p.slow.RoundTrip(r)
	}
	return p.fast.RoundTrip(r)
}

// CloseIdleConnections closes those of both.
func (p transports) CloseIdleConnections() {
	p.fast.CloseIdleConnections()
	p.slow.CloseIdleConnections()
}

// RegisterProtocol makes by answer requests of a scheme, as http.Transport does. It is for tests.
func (c *Client) RegisterProtocol(scheme string, by http.RoundTripper) {
	c.transports.fast.RegisterProtocol(scheme, by)
	c.transports.slow.RegisterProtocol(scheme, by)
}
