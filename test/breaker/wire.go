// Package breaker is the wire between one copy of the server and the embedded vCenter, and it breaks as it is told. It is
// a TLS reverse proxy on loopback, so that it serves copies in this process and in processes of their own alike. Each copy
// has a Wire of its own: what breaks on one is not felt on another.
//
//	the copy ──TLS──► Wire: On(Call) says what becomes of the call ──TLS──► vcsim.VCenter
//
// Cookies, headers and bodies pass unchanged, of SOAP (/sdk, /pbm) and of REST (/rest, /api).
package breaker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Call is one call of the copy.
type Call struct {
	// N counts all calls of this wire, the first is 1.
	N int
	// Method is the SOAP method, or the REST operation as vcsim.VCenter.Calls names it.
	Method string
	// Nth counts the calls of this method, the first is 1.
	Nth int
}

// String is the call's name among those of one life: "CloneVM_Task#2".
func (c Call) String() string { return fmt.Sprintf("%s#%d", c.Method, c.Nth) }

// Kind is a way to break.
type Kind int

// The ways to break.
const (
	// Pass breaks nothing.
	Pass Kind = iota
	// Refused cuts the connection before vCenter sees the call.
	Refused
	// ReplyLost has vCenter carry the call out, and cuts the connection instead of answering.
	ReplyLost
	// SessionGone ends the session that the call bears, in vCenter, and then passes the call.
	SessionGone
	// Faulted answers Break.Fault, and vCenter never sees the call.
	Faulted
	// Stalled waits for Break.Stall and then passes the call, unless the client has gone.
	Stalled
	// KilledBefore is Kill right before vCenter sees the call.
	KilledBefore
	// KilledAfter is Kill right after vCenter carried the call out.
	KilledAfter
)

var kinds = []string{"Pass", "Refused", "ReplyLost", "SessionGone", "Faulted", "Stalled", "KilledBefore", "KilledAfter"}

// String is the kind's name.
func (k Kind) String() string { return kinds[k] }

// Break says what becomes of a call.
type Break struct {
	Kind  Kind
	Fault types.BaseMethodFault // of Faulted
	Stall time.Duration         // of Stalled
}

// Entry is a call and what became of it.
type Entry struct {
	Call
	Break Break
	// Began is when the call came; Took, how long until its answer was passed on, or not.
	Began time.Time
	Took  time.Duration
	// Done tells that the call was answered, or not, already; Broken, that Break did happen. (A stall does not when the
	// client goes first, the end of a session does not when the call bears none.)
	Done, Broken bool
}

// Wire is the way of one copy to its vCenter. All methods may be called at any time from any goroutine.
type Wire struct {
	vc     *vcsim.VCenter
	cert   tls.Certificate
	listen *listener
	server *http.Server
	up     *http.Transport

	// alive ends with Kill, open with Close.
	alive, open context.Context
	kill, shut  context.CancelFunc

	// turn is held while a call gets its numbers and is asked for: so On sees them in the order of arrival.
	turn sync.Mutex

	mu  sync.Mutex // guards what follows
	ask func(Call) Break
	nth map[string]int
	log []*Entry
}

// New opens a wire to vc. It listens on a free port of loopback until Close.
func New(vc *vcsim.VCenter) (*Wire, error) {
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	w := &Wire{vc: vc, cert: cert, listen: newListener(raw), nth: make(map[string]int), up: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // loopback, to a port that we know
		MaxIdleConnsPerHost: 100,
		DisableCompression:  true,                                                   // the client's headers pass as they are
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2: one call, one connection to cut
	}}
	w.open, w.shut = context.WithCancel(context.Background())
	w.alive, w.kill = context.WithCancel(w.open)
	w.server = &http.Server{
		Handler:      http.HandlerFunc(w.serve),
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{cert}},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	go func() { _ = w.server.ServeTLS(w.listen, "", "") }()
	return w, nil
}

// Point has a copy of the server go through this wire: it sets host, credentials and thumbprint.
func (w *Wire) Point(c *vsphere.Config) {
	u := w.URL()
	c.Host, c.User = u.Host, u.User.Username()
	c.Password, _ = u.User.Password()
	c.Thumbprint, c.Insecure, c.CAFile = w.ThumbprintSHA256(), false, ""
}

// URL is the vCenter's URL with this wire's address, with the user and password of now.
func (w *Wire) URL() *url.URL {
	u := w.vc.URL()
	u.Host = w.listen.Addr().String()
	return u
}

// ThumbprintSHA256 is that of the wire's certificate: "AA:BB:…".
func (w *Wire) ThumbprintSHA256() string { return soap.ThumbprintSHA256(w.cert.Leaf) }

// On has f asked for every call, in the order of arrival, before it is passed on; nil: all pass. f must not call the
// wire's On. A call that is under way is not asked for again.
func (w *Wire) On(f func(Call) Break) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ask = f
}

// Calls are those so far, in the order of arrival.
func (w *Wire) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := make([]Call, len(w.log))
	for i, e := range w.log {
		calls[i] = e.Call
	}
	return calls
}

// Log is what became of the calls so far, in the order of arrival.
func (w *Wire) Log() []Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := make([]Entry, len(w.log))
	for i, e := range w.log {
		entries[i] = *e
	}
	return entries
}

// Broken are the calls that were broken so far.
func (w *Wire) Broken() []Entry {
	return slices.DeleteFunc(w.Log(), func(e Entry) bool { return !e.Broken })
}

// Kill has nothing pass from now on, and drops the replies that are under way: to vCenter it looks as if the copy's
// process had died. There is no way back: a new copy needs a new wire.
func (w *Wire) Kill() {
	w.listen.cut(true)
	w.kill()
	w.up.CloseIdleConnections()
}

// Cut takes the network away: all connections are reset, and every new one, until Mend. What vCenter has begun it goes
// on with, unheard.
func (w *Wire) Cut() { w.listen.cut(true) }

// Mend gives the network back. It does not undo a Kill.
func (w *Wire) Mend() {
	if w.alive.Err() == nil {
		w.listen.cut(false)
	}
}

// Close ends the wire, and what is under way on it.
func (w *Wire) Close() error {
	w.Kill()
	w.shut()
	err := w.server.Close()
	w.up.CloseIdleConnections()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
