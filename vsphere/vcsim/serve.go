package vcsim

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
)

// serve answers a request from the network, unless the wire breaks it.
func (w *Wire) serve(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // net/http notices a client's disconnect only after the whole body was read
	if err != nil || w.alive.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	c := &request{v: w.network.v, r: r, body: body, answer: newAnswer()}
	if !w.handle(r.Context(), methodOf(r, body), c.carryOut) {
		panic(http.ErrAbortHandler)
	}
	c.answer.writeTo(rw)
}

// carrier makes vCenter answer a call in transit, an HTTP request or a direct call (direct.go), while ctx lasts; false if vCenter is closed.
type carrier func(ctx context.Context, e *exchange) bool

// handle answers a call, unless the wire breaks it, and reports whether there is an answer. client ends when the client disconnects.
func (w *Wire) handle(client context.Context, method string, c carrier) (answered bool) {
	e, x := w.enter(client, method), new(exchange)
	broken := false
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e.Took, e.Done, e.Broken = time.Since(e.Began), true, broken || x.ended
	}()
	while, stop := either(client, w.alive)
	defer stop()

	switch e.Break.Kind {
	case Refused:
		broken = true
		return false
	case KilledBefore:
		broken = true
		w.Kill()
		return false
	case ReplyLost, KilledAfter: // executed even if the client has gone
		broken = w.carryOut(w.open, x, c)
		if e.Break.Kind == KilledAfter {
			w.Kill()
		}
		return false
	case Faulted:
		broken, x.fault = true, e.Break.Fault
	case SessionGone:
		x.ends = true
	case Stalled:
		select {
		case <-time.After(e.Break.Stall):
			broken, x.fault = true, e.Break.Fault
		case <-while.Done():
			return false
		}
	}
	return w.carryOut(while, x, c) && while.Err() == nil
}

// carryOut makes vCenter answer a call while ctx lasts, once a worker is free, unless an outage stops the call or its answer.
func (w *Wire) carryOut(ctx context.Context, x *exchange, c carrier) bool {
	return w.network.gate.pass(ctx) && w.network.turns.serve(ctx) && c(ctx, x) && w.network.gate.pass(ctx)
}

// request is an HTTP call.
type request struct {
	v      *VCenter
	r      *http.Request
	body   []byte
	answer *answer
}

// carryOut is a carrier.
func (c *request) carryOut(ctx context.Context, e *exchange) bool {
	end, ok := c.v.beginCall(ctx, e)
	if !ok {
		return false
	}
	defer end()
	inner := c.r.WithContext(ctx)
	inner.Body = io.NopCloser(bytes.NewReader(c.body))
	c.v.world.Service.ServeMux.ServeHTTP(c.answer, inner)
	return true
}

// enter numbers a call and decides how to break it.
func (w *Wire) enter(client context.Context, method string) *Entry {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.mu.Lock()
	w.nth[method]++
	e := &Entry{Call: Call{N: len(w.log) + 1, Method: method, Nth: w.nth[method]}, Began: time.Now()}
	if w.records {
		w.log = append(w.log, e)
	}
	ask := w.ask
	w.mu.Unlock()
	var b Break
	switch {
	case client.Err() != nil: // the client disconnected while waiting for its turn
		b = Break{Kind: Refused}
	case ask != nil:
		b = ask(e.Call)
	}
	if b.Kind == Pass {
		b = w.network.nextBreak(method)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Break = b
	return e
}

// either returns a context that ends with either of two.
func either(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(a)
	stop := context.AfterFunc(b, cancel)
	return ctx, func() { stop(); cancel() }
}

// answer buffers the simulator's answer, so that it can still be lost.
type answer struct {
	header http.Header
	Status int
	Body   bytes.Buffer
}

// newAnswer returns an empty answer.
func newAnswer() *answer { return &answer{header: make(http.Header), Status: http.StatusOK} }

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.Status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.Body.Write(p) }

func (a *answer) writeTo(w http.ResponseWriter) {
	for key, values := range a.header {
		w.Header()[key] = values
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body.Bytes())
}

// ids matches the variable parts of a REST operation's path.
var ids = regexp.MustCompile(`/id:[^/]*`)

// inBody finds the first element of a SOAP body, which is named after its method.
var inBody = regexp.MustCompile(`<(?:\w+:)?Body[^>]*>\s*<(?:\w+:)?(\w+)`)

// items is the path of the call that returns the VM template of a library's item, up to the item's id.
const items = "/rest/vcenter/vm-template/library-items/"

// methodOf names a call by its SOAP method or REST operation.
func methodOf(r *http.Request, body []byte) string {
	if !isREST(r) && r.Method == http.MethodPost {
		if m := inBody.FindSubmatch(body); m != nil {
			return string(m[1])
		}
	}
	path := ids.ReplaceAllString(r.URL.Path, "/id:")
	if strings.HasPrefix(path, items) {
		path = items
	}
	name := r.Method + " " + path
	if action := r.URL.Query().Get("~action"); action != "" {
		name += "?~action=" + action
	}
	return name
}

// isREST reports whether a request is for the REST API.
func isREST(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/rest/") || strings.HasPrefix(r.URL.Path, "/api/")
}

// Login logs a client in with its own transport, such as one that dials an in-memory network. It returns the errors of the calls.
func (w *Wire) Login(ctx context.Context, as *url.Userinfo, through http.RoundTripper) (*govmomi.Client, error) {
	address := w.URL()
	address.User = nil
	client := soap.NewClient(address, true)
	client.Transport = through
	vim, err := vim25.NewClient(ctx, client)
	if err != nil {
		return nil, err
	}
	c := &govmomi.Client{Client: vim, SessionManager: session.NewManager(vim)}
	return c, c.SessionManager.Login(ctx, as)
}

// newCertificate creates a self-signed certificate for host and loopback. Every vCenter has its own, so that tests can distinguish trusted
// from untrusted ones.
func newCertificate(host string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "vcsim"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else if host != "" {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("parse the certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
