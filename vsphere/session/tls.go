package session

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// DialTimeout and HandshakeTimeout bound connecting to vCenter.
	DialTimeout      = 10 * time.Second
	HandshakeTimeout = 10 * time.Second
	// answerTimeout bounds the wait for a call's answer. No call waits for a task, so only WaitForUpdatesEx takes
	// long. It takes less than this, except for its first answer (Session.Slow).
	answerTimeout = 90 * time.Second
	// idleTimeout is below the idle time after which vCenter's proxy closes connections.
	idleTimeout = 30 * time.Second
	// idleMost is how many idle connections are kept: more than the number of calls that run at once.
	idleMost = 96
)

// newTransport returns the transport of all sessions to host. It connects by dial or, if dial is nil, by TCP. It replaces
// govmomi's transport, whose TLS dial has neither time-out nor context.
func newTransport(t trust, host string, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: DialTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSClientConfig:        t.config(host),
		TLSHandshakeTimeout:    HandshakeTimeout,
		ResponseHeaderTimeout:  answerTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           idleMost,
		MaxIdleConnsPerHost:    idleMost,
		MaxResponseHeaderBytes: headerMost,
	}
}

// config returns a TLS configuration that verifies the server's certificate by Go's rules, against the system's roots or those in the file at
// that moment, or that compares it with the pinned thumbprint. A pinned certificate needs neither a chain nor the host's name.
func (t trust) config(host string) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.insecure}
	switch {
	case t.thumbprint != "":
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = func(state tls.ConnectionState) error {
			actual := vcfault.Thumbprint(state.PeerCertificates[0])
			if strings.ReplaceAll(actual, ":", "") != t.thumbprint {
				return &vcfault.PinError{Actual: actual, Pinned: t.thumbprint}
			}
			return nil
		}
	case t.roots != nil:
		cfg.InsecureSkipVerify = true // VerifyConnection verifies instead
		cfg.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, t.roots.now(), host) }
	}
	return cfg
}

// verify does what crypto/tls does without InsecureSkipVerify, against roots that may change between handshakes.
func verify(state tls.ConnectionState, roots *x509.CertPool, host string) error {
	name := state.ServerName
	if name == "" { // the handshake has no server name for an IP address, and with an empty name Verify skips the check
		name = host
	}
	chain := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		chain.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: name, Intermediates: chain})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}

// authorities are the certificate authorities in a file, which is read at each handshake, so a renewed authority needs no
// restart. While the file is invalid, the previous authorities stay trusted.
type authorities struct {
	file string
	log  zerolog.Logger

	mu   sync.Mutex
	text []byte
	pool *x509.CertPool
	// problem is the last logged problem.
	problem string
}

// readAuthorities reads the file for the first time, and returns an error if it is invalid.
func readAuthorities(file string, log zerolog.Logger) (*authorities, error) {
	a := &authorities{file: file, log: log}
	return a, a.take(secret.ReadFile(file))
}

func (a *authorities) now() *x509.CertPool {
	text, err := secret.ReadFile(a.file)
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.pool
	err = a.take(text, err)
	switch {
	case err != nil && err.Error() != a.problem:
		a.problem = err.Error()
		a.log.Error().Err(err).Msg("cannot reload the CA file of vCenter; still trusting the previous ones")
	case err == nil && (a.pool != before || a.problem != ""):
		a.problem = ""
		a.log.Info().Str("file", a.file).Msg("reloaded the CA file of vCenter")
	}
	return a.pool
}

func (a *authorities) take(text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("--ca-file (VC_CA_FILE): %w", err)
	}
	if a.pool != nil && bytes.Equal(text, a.text) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("--ca-file (VC_CA_FILE): %s contains no certificate in PEM", a.file)
	}
	a.text, a.pool = text, pool
	return nil
}

// rewinding is the transport of all clients. It bounds the answers, and gives requests a body that net/http can send again when a kept
// connection turns out to be closed before anything was written to it. (govmomi's bodies cannot be read twice, so such a call would fail.)
type rewinding struct {
	next   http.RoundTripper
	bounds bounds
}

func (r rewinding) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.GetBody != nil {
		return r.bounds.checked(r.next.RoundTrip(req))
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
	return r.bounds.checked(r.next.RoundTrip(req))
}
