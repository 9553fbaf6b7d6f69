package wire

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

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Wire is a way to this vCenter: a listener of its own, whose connections and calls break as it is told. A test gives each
// replica of the server a wire, so that what breaks for one is not felt by another. The address of Config.Listen is a wire,
// too, to which nobody tells anything. Outages and what FailCall and LoseReply order are for all wires; Admin comes by none.
//
// All methods may be called at any time from any goroutine.
type Wire struct {
	network  *Network
	listener net.Listener
	server   *http.Server
	records  bool

	// alive ends with Kill, open with Close.
	alive, open context.Context
	kill, shut  context.CancelFunc

	// turn is held while a call gets its numbers and is asked for: so On sees them in the order of arrival.
	turn world.Lock

	mu    sync.Mutex // guards what follows
	ask   func(Call) Break
	nth   map[string]int
	log   []*Entry
	cut   bool
	conns map[line]bool
}

// Call is one call by a wire.
type Call struct {
	// N counts all calls of this wire, the first is 1.
	N int
	// Method is the SOAP method, or the REST operation as VCenter.Calls names it.
	Method string
	// Nth counts the calls of this method, the first is 1.
	Nth int
}

// String is the call's name among those of one wire: "CloneVM_Task#2".
func (c Call) String() string { return fmt.Sprintf("%s#%d", c.Method, c.Nth) }

// BreakKind is a way to break.
type BreakKind int

// The ways to break.
const (
	// Pass breaks nothing.
	Pass BreakKind = iota
	// Refused cuts the connection before vCenter sees the call.
	Refused
	// ReplyLost has vCenter carry the call out, and cuts the connection instead of answering.
	ReplyLost
	// SessionGone ends the session that the call carries, in vCenter, and then passes the call.
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

var breakKinds = []string{"Pass", "Refused", "ReplyLost", "SessionGone", "Faulted", "Stalled", "KilledBefore", "KilledAfter"}

// String is the kind's name.
func (k BreakKind) String() string { return breakKinds[k] }

// Break says what becomes of a call.
type Break struct {
	Kind  BreakKind
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
	// Done reports whether the call was answered, or not, already; Broken, that Break did happen. (A stall does not when the
	// client goes first, the end of a session does not when the call carries none.)
	Done, Broken bool
}

// Wire opens another way to this vCenter, on a listener, or on a free port of loopback if that is nil. It closes the
// listener with the wire, and the wire with the vCenter.
func (n *Network) Wire(listener net.Listener) (*Wire, error) {
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	return n.opened(n.newWire(listener, true)), nil
}

// Open opens a wire whose calls are not recorded.
func (n *Network) Open(listener net.Listener) *Wire {
	return n.opened(n.newWire(listener, false))
}

func (n *Network) opened(w *Wire) *Wire {
	n.gate.add(w)
	return w
}

// newWire begins to serve on a listener. Calls may come at once.
func (n *Network) newWire(listener net.Listener, records bool) *Wire {
	w := &Wire{network: n, listener: listener, records: records, turn: world.NewLock(), nth: make(map[string]int), conns: make(map[line]bool)}
	w.open, w.shut = context.WithCancel(n.set.Context)
	w.alive, w.kill = context.WithCancel(w.open)
	w.server = &http.Server{
		Handler:      http.HandlerFunc(w.serve),
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{n.set.Cert}},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2: one call, one connection to cut
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	go func() {
		if n.set.Plain {
			_ = w.server.Serve(wireListener{listener, w})
		} else {
			_ = w.server.ServeTLS(wireListener{listener, w}, "", "")
		}
	}()
	return w
}

// URL is the vCenter's URL by this wire, with the user and password of now.
func (w *Wire) URL() *url.URL {
	return &url.URL{Scheme: w.network.Scheme(), Host: HostOf(w.listener), Path: vim25.Path, User: w.network.set.User()}
}

// On has f asked for every call, in the order of arrival, before vCenter sees it; nil: all pass. f must not call the
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

// Kill cuts all connections from now on, and drops the replies that are under way: to vCenter it looks as if the client's
// process had died. There is no way back: a new process needs a new wire.
func (w *Wire) Kill() {
	w.sever(true)
	w.kill()
}

// Cut takes the network away: all connections are reset, and every new one, until Mend. What vCenter has begun it goes
// on with, unheard.
func (w *Wire) Cut() { w.sever(true) }

// Mend gives the network back. It does not undo a Kill.
func (w *Wire) Mend() {
	if w.alive.Err() == nil {
		w.sever(false)
	}
}

// Close ends the wire, and what is under way on it.
func (w *Wire) Close() error {
	w.Kill()
	w.shut()
	w.network.gate.remove(w)
	if err := w.server.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// sever resets all connections, and those to come; or lets them come again.
func (w *Wire) sever(cut bool) {
	w.mu.Lock()
	w.cut = cut
	w.mu.Unlock()
	if cut {
		w.resetAll()
	}
}

func (w *Wire) resetAll() {
	w.mu.Lock()
	var all []line
	for c := range w.conns {
		all = append(all, c)
	}
	w.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
}

// HostOf is where clients dial a listener: loopback, if it listens everywhere.
func HostOf(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return l.Addr().String()
}

// wireListener keeps its port while the wire is cut or the vCenter down, so that no parallel test can take it; connections
// are reset as soon as they are made.
type wireListener struct {
	net.Listener
	wire *Wire
}

// Accept implements net.Listener.
func (l wireListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, wire: l.wire}
		if l.wire.connect(c) {
			return c, nil
		}
		c.reset()
	}
}

// line is what is reset when the wire is cut: a connection, or a direct call.
type line interface{ reset() }

// connect lists a line, and reports whether the way is open.
func (w *Wire) connect(l line) bool {
	w.mu.Lock()
	// The line is listed before the gate is asked, so that it is reset by an outage that begins in between.
	w.conns[l] = true
	open := !w.cut
	w.mu.Unlock()
	return open && !w.network.gate.isDown()
}

func (w *Wire) disconnect(l line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, l)
}

type conn struct {
	net.Conn
	wire *Wire
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.wire.disconnect(c)
	return c.Conn.Close()
}

// reset closes the connection so that the client sees an error, not an orderly end.
func (c *conn) reset() {
	if lingers, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		_ = lingers.SetLinger(0)
	}
	_ = c.Close()
}
