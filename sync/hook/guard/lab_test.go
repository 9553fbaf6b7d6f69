package guard

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

const (
	first, second, reader = "first-token-of-the-hooks", "second-token-of-the-hooks", "the-token-of-a-reader"
	right                 = "Bearer " + first
)

// authority signs certificates with any expiry.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var serial atomic.Int64

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	var der []byte
	der, a.key = a.make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)})
	a.cert, _ = x509.ParseCertificate(der)
	return a
}

func (a *authority) make(c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore = big.NewInt(serial.Add(1)), time.Now().Add(-time.Hour)
	c.Subject = pkix.Name{CommonName: c.SerialNumber.String()}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err = x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// sign returns a certificate for 127.0.0.1 with that expiry, and its key, in PEM.
func (a *authority) sign(ends time.Time, use x509.ExtKeyUsage) (cert, key []byte) {
	a.t.Helper()
	der, private := a.make(&x509.Certificate{
		NotAfter: ends, ExtKeyUsage: []x509.ExtKeyUsage{use}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) client(use x509.ExtKeyUsage, ends time.Time) *tls.Certificate {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.sign(ends, use))
	if err != nil {
		a.t.Fatal(err)
	}
	return &pair
}

// volume is a directory of files that change like a mounted Secret: swapping a link changes all files.
type volume struct {
	t   *testing.T
	dir string
	n   int
}

func newVolume(t *testing.T, files map[string][]byte) *volume {
	t.Helper()
	v := &volume{t: t, dir: t.TempDir()}
	v.swap(files)
	return v
}

func (v *volume) path(name string) string { return filepath.Join(v.dir, "data", name) }

func (v *volume) swap(files map[string][]byte) {
	v.t.Helper()
	v.n++
	next := filepath.Join(v.dir, strconv.Itoa(v.n))
	err := os.Mkdir(next, 0o700)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(next, name), text, 0o600)
		}
	}
	if err == nil {
		err = os.Symlink(next, next+".link")
	}
	if err == nil {
		err = os.Rename(next+".link", filepath.Join(v.dir, "data"))
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// guarded is a guarded server whose handler answers "in" after reading the body.
type guarded struct {
	t      *testing.T
	guard  *Guard
	url    string
	addr   string
	log    *syncBuffer
	meter  *prometheus.Registry
	server *http.Server
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	// calls counts admitted calls.
	calls atomic.Int64
}

// timeout is how long a test waits for a result that is immediate on an idle machine.
const timeout = 2 * time.Minute

// generous are limits that no test reaches by accident.
var generous = Limits{Header: time.Minute, Read: time.Minute, Write: time.Minute, Idle: time.Minute, HeaderBytes: 16 << 10, Connections: 100, PerAddress: 100}

func open(t *testing.T, cfg Config, l Limits, inner ...http.Handler) *guarded {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	d := openOn(t, listener, cfg, l, inner...)
	d.dial = new(net.Dialer).DialContext
	return d
}

// openInMemory opens a guarded server in a bubble.
func openInMemory(t *testing.T, cfg Config, l Limits, inner ...http.Handler) *guarded {
	t.Helper()
	network := memnet.New()
	d := openOn(t, network.Listen(), cfg, l, inner...)
	d.dial = network.DialContext
	return d
}

func openOn(t *testing.T, listener net.Listener, cfg Config, l Limits, inner ...http.Handler) *guarded {
	t.Helper()
	d := &guarded{t: t, log: &syncBuffer{}, meter: prometheus.NewRegistry()}
	cfg.Log, cfg.Meter = zerolog.New(d.log), d.meter
	g, err := New(cfg)
	must.Succeed(t, err)
	if d.guard = g; g.keys != nil { // reads the files at every call, however slow this machine is
		g.keys.every, g.keys.wait = 0, timeout
	}
	if g.pair != nil {
		g.pair.every, g.pair.wait = 0, timeout
	}
	if g.callers != nil {
		g.callers.every, g.callers.wait = 0, timeout
	}
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		d.calls.Add(1)
		_, _ = io.WriteString(w, "in")
	})
	if len(inner) > 0 {
		next = inner[0]
	}
	d.server, d.addr = g.Server(next, l), listener.Addr().String()
	d.url = "http://" + d.addr
	bounded := g.Listen(listener, l)
	if g.Encrypts() {
		d.url = "https://" + d.addr
		go d.server.ServeTLS(bounded, "", "") //nolint:errcheck // Serve returns when the test ends
	} else {
		go d.server.Serve(bounded) //nolint:errcheck // Serve returns when the test ends
	}
	t.Cleanup(func() { _ = d.server.Close() })
	return d
}

// client returns a client that trusts an authority, and can present a certificate. It shares no connections.
func client(t *testing.T, trusts *authority, shows *tls.Certificate) *http.Client {
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	if trusts != nil {
		cfg.RootCAs.AddCert(trusts.cert)
	}
	if shows != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shows, nil }
	}
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: timeout}
}

func (d *guarded) ask(c *http.Client, method, authorization string) *http.Response {
	d.t.Helper()
	r, err := http.NewRequest(method, d.url+"/groups", strings.NewReader("body"))
	if err != nil {
		d.t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	response, err := c.Do(r)
	if err != nil {
		return nil
	}
	defer response.Body.Close() //nolint:errcheck // the body was only read
	text, _ := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(text))
	return response
}

// code returns the answer's status, 0 if there was no answer.
func (d *guarded) code(c *http.Client, method, authorization string) int {
	d.t.Helper()
	if r := d.ask(c, method, authorization); r != nil {
		return r.StatusCode
	}
	return 0
}

// counted returns the metric's value for that reason.
func (d *guarded) counted(why reason) float64 {
	d.t.Helper()
	families, err := d.meter.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "vmgroup_refused_total" && m.GetLabel()[0].GetValue() == string(why) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > timeout {
			t.Fatalf("never: %s", what)
		}
	}
}
