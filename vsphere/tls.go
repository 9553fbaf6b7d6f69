package vsphere

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// answerTimeout bounds the wait for a call's answer. Tasks run on their own, so only WaitForUpdatesEx takes
	// long, and never as long as this.
	answerTimeout = 90 * time.Second
	// idleTimeout is below the idle time after which vCenter's proxy closes connections.
	idleTimeout = 30 * time.Second
	// idleMost is how many connections are kept for the next calls: more than calls run at once.
	idleMost = 96
)

// newTransport makes the connections of all sessions. It replaces govmomi's, whose TLS dial knows neither
// time-out nor context.
func newTransport(t trust) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       t.config(),
		TLSHandshakeTimeout:   handshakeTimeout,
		ResponseHeaderTimeout: answerTimeout,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConns:          idleMost,
		MaxIdleConnsPerHost:   idleMost,
	}
}

// config verifies by Go's rules against the roots, or compares the server's certificate with the pinned one.
// The latter needs neither chain nor host name: it is that very certificate.
func (t trust) config() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.roots, InsecureSkipVerify: t.insecure}
	if t.thumbprint != "" {
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = func(state tls.ConnectionState) error {
			actual := thumbprint(state.PeerCertificates[0])
			if strings.ReplaceAll(actual, ":", "") != t.thumbprint {
				return &pinError{actual: actual, pinned: t.thumbprint}
			}
			return nil
		}
	}
	return cfg
}

// rewinding makes requests that net/http may send again when a kept connection turns out to be closed before
// anything was written on it. (govmomi's bodies cannot be read twice, so such a call would fail.)
type rewinding struct{ *http.Transport }

func (r rewinding) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.GetBody != nil {
		return r.Transport.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	return r.Transport.RoundTrip(req)
}
