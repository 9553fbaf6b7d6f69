package vcsim

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Wire is a listener of the vCenter whose connections and calls break on demand. A test gives each replica of the server its own wire, so
// that breaks affect only one replica. The address of Config.Listen is also a wire, without breaks of its own. Outages, FailCall and
// LoseReply affect all wires; Admin uses none.
//
// All methods are safe for concurrent use.
type Wire struct {
	network  *network
	listener net.Listener
	server   *http.Server
	records  bool

	// alive ends with Kill, open with Close.
	alive, open context.Context
	kill, shut  context.CancelFunc

	// turn is held while a call is numbered and passed to On, which keeps the order of arrival.
	turn lock

	mu    sync.Mutex // guards what follows
	ask   func(Call) Break
	nth   map[string]int
	log   []*Entry
	cut   bool
	conns map[line]bool
}

// Call is one call over a wire.
type Call struct {
	// N is the number of the call on this wire, from 1.
	N int
	// Method is the SOAP method, or the REST operation as in Network.Calls.
	Method string
	// Nth is the number of the call among those of this method, from 1.
	Nth int
}

// String returns the call's name on its wire: "CloneVM_Task#2".
func (c Call) String() string { return fmt.Sprintf("%s#%d", c.Method, c.Nth) }

// BreakKind is a way to break a call.
type BreakKind int

// The ways to break a call.
const (
	// Pass breaks nothing.
	Pass BreakKind = iota
	// Refused cuts the connection before vCenter sees the call.
	Refused
	// ReplyLost cuts the connection instead of answering, after vCenter carried the call out.
	ReplyLost
	// SessionGone ends the call's session in vCenter and then passes the call.
	SessionGone
	// Faulted answers Break.Fault without a call of vCenter.
	Faulted
	// Stalled waits for Break.Stall and then passes the call, or answers Break.Fault if it is set, unless the client disconnects.
	Stalled
	// KilledBefore calls Kill right before vCenter sees the call.
	KilledBefore
	// KilledAfter calls Kill right after vCenter carried the call out.
	KilledAfter
)

var breakKinds = []string{"Pass", "Refused", "ReplyLost", "SessionGone", "Faulted", "Stalled", "KilledBefore", "KilledAfter"}

// String returns the kind's name.
func (k BreakKind) String() string { return breakKinds[k] }

// Break says how to break a call.
type Break struct {
	Kind  BreakKind
	Fault types.BaseMethodFault // for Faulted and Stalled
	Stall time.Duration         // for Stalled
}

// Entry is a logged call and its outcome.
type Entry struct {
	Call
	Break Break
	// Began is the time of arrival, and Took the duration until the answer was sent or dropped.
	Began time.Time
	Took  time.Duration
	// Done reports whether the call has ended, and Broken whether Break took effect. (A stall takes no effect if the client disconnects first,
	// and SessionGone takes none without a session.)
	Done, Broken bool
}

// Wire opens a wire on a listener or, if that is nil, on a free loopback port. The wire closes the listener, and the vCenter the wire.
func (n *network) Wire(listener net.Listener) (*Wire, error) {
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	return n.opened(n.newWire(listener, true)), nil
}

// Open opens a wire whose calls are not recorded.
func (n *network) Open(listener net.Listener) *Wire {
	return n.opened(n.newWire(listener, false))
}

func (n *network) opened(w *Wire) *Wire {
	n.gate.add(w)
	return w
}

// newWire starts serving on a listener.
func (n *network) newWire(listener net.Listener, records bool) *Wire {
	w := &Wire{network: n, listener: listener, records: records, turn: newLock(), nth: make(map[string]int), conns: make(map[line]bool)}
	w.open, w.shut = context.WithCancel(n.v.world.Ctx)
	w.alive, w.kill = context.WithCancel(w.open)
	w.server = &http.Server{
		Handler:      http.HandlerFunc(w.serve),
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{n.cert}},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2: one call, one connection to cut
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	go func() {
		if n.plain {
			_ = w.server.Serve(wireListener{listener, w})
		} else {
			_ = w.server.ServeTLS(wireListener{listener, w}, "", "")
		}
	}()
	return w
}

// URL returns the vCenter's URL over this wire with the current user and password.
func (w *Wire) URL() *url.URL {
	return &url.URL{Scheme: w.network.Scheme(), Host: hostOf(w.listener), Path: vim25.Path, User: w.network.v.userinfo()}
}

// On sets a callback that decides about every call, in order of arrival, before vCenter sees it; nil passes all. f must not call On of this
// wire. Calls in progress are not affected.
func (w *Wire) On(f func(Call) Break) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ask = f
}

// Log returns the outcome of the calls so far, in order of arrival.
func (w *Wire) Log() []Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := make([]Entry, len(w.log))
	for i, e := range w.log {
		entries[i] = *e
	}
	return entries
}

// Kill cuts all connections and drops pending replies, as if the client's process had crashed. A new process needs a new wire.
func (w *Wire) Kill() {
	w.sever(true)
	w.kill()
}

// Cut resets all connections, including new ones, until Mend. Running calls continue without an answer.
func (w *Wire) Cut() { w.sever(true) }

// Mend ends Cut. It does not undo Kill.
func (w *Wire) Mend() {
	if w.alive.Err() == nil {
		w.sever(false)
	}
}

// Close closes the wire and ends its calls.
func (w *Wire) Close() error {
	w.Kill()
	w.shut()
	w.network.gate.remove(w)
	if err := w.server.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// sever resets all connections and rejects new ones, or accepts new ones again.
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

// hostOf returns the address to dial a listener at: loopback if it listens on all addresses.
func hostOf(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return l.Addr().String()
}

// wireListener keeps its port while the wire is cut or vCenter is down, so that no parallel test can take the port, and resets connections at
// once.
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

// line is a connection or a direct call, which is reset when the wire is cut.
type line interface{ reset() }

// connect registers a line and reports whether the network is up.
func (w *Wire) connect(l line) bool {
	w.mu.Lock()
	// Register the line before checking the gate, so that an outage in between resets it.
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

// reset closes the connection with an error for the client, not an orderly end.
func (c *conn) reset() {
	if lingers, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		_ = lingers.SetLinger(0)
	}
	_ = c.Close()
}

// network is all wires of one vCenter with their outages and injected faults.
type network struct {
	v     *VCenter
	plain bool // no TLS
	cert  tls.Certificate
	gate  *gate
	turns *turns

	mu     sync.Mutex // guards what follows
	calls  map[string]int
	breaks []*callBreak
}

// Close cuts all connections and closes all wires.
func (n *network) Close() (err error) {
	n.gate.set(down)
	for _, w := range n.gate.all() {
		err = errors.Join(err, w.Close())
	}
	return err
}

// Down resets all connections, including new ones. Running calls continue without an answer.
func (n *network) Down() { n.gate.set(down) }

// Stall accepts connections but answers nothing until Up or Down.
func (n *network) Stall() { n.gate.set(stalled) }

// Up ends an outage. Address, inventory, sessions and tasks are unchanged.
func (n *network) Up() { n.gate.set(up) }

// Scheme returns the URL scheme: https, or http without TLS.
func (n *network) Scheme() string {
	if n.plain {
		return "http"
	}
	return "https"
}

// CACert returns the endpoint's self-signed certificate in PEM, to trust as a CA.
func (n *network) CACert() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.cert.Leaf.Raw})
}

// ThumbprintSHA256 returns the certificate's SHA-256 thumbprint.
func (n *network) ThumbprintSHA256() string { return soap.ThumbprintSHA256(n.cert.Leaf) }

type condition int

const (
	up condition = iota
	down
	stalled
)

// gate has the state of the network, which all wires share.
type gate struct {
	mu      sync.Mutex
	now     condition
	changed chan struct{} // closed and replaced at each change
	wires   map[*Wire]bool
}

func newGate() *gate {
	return &gate{changed: make(chan struct{}), wires: make(map[*Wire]bool)}
}

func (g *gate) add(w *Wire) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wires[w] = true
}

func (g *gate) remove(w *Wire) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.wires, w)
}

// all returns the open wires.
func (g *gate) all() (wires []*Wire) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range g.wires {
		wires = append(wires, w)
	}
	return wires
}

func (g *gate) set(c condition) {
	g.mu.Lock()
	g.now = c
	close(g.changed)
	g.changed = make(chan struct{})
	g.mu.Unlock()
	if c == down {
		for _, w := range g.all() {
			w.resetAll()
		}
	}
}

func (g *gate) isDown() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now == down
}

// pass waits while the network is stalled, and reports whether the request or its answer can pass.
func (g *gate) pass(ctx context.Context) bool {
	for {
		g.mu.Lock()
		now, changed := g.now, g.changed
		g.mu.Unlock()
		if now != stalled {
			return now == up
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// callBreak is a break that tests inject into the calls of all wires. The simulator's own fault injection cannot withdraw a single rule,
// and it applies to Admin, too.
type callBreak struct {
	repeats
	method string
	how    Break
}

// FailCall makes this many calls of a SOAP method ("Login", "CloneVM_Task", "WaitForUpdatesEx", ...), or of a REST operation as Calls names
// it, return a fault without any effect; 0: all calls.
func (n *network) FailCall(method string, fault types.BaseMethodFault, times int) {
	n.breakCalls(method, times, Break{Kind: Faulted, Fault: fault})
}

// Deny makes all calls of a method return NoPermission with this privilege.
func (n *network) Deny(method, privilege string) {
	n.FailCall(method, &types.NoPermission{PrivilegeId: privilege}, 0)
}

// LoseReply cuts the connection instead of answering this many calls of a SOAP method, after their execution; 0: all calls.
func (n *network) LoseReply(method string, times int) {
	n.breakCalls(method, times, Break{Kind: ReplyLost})
}

func (n *network) breakCalls(method string, times int, how Break) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breaks = append(n.breaks, &callBreak{method: method, how: how, repeats: newRepeats(times)})
}

// HealCalls withdraws FailCall, Deny and LoseReply.
func (n *network) HealCalls() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breaks = nil
}

// Calls counts the calls so far by SOAP method, without Admin's. REST calls have their method and path without ids: "POST
// /rest/com/vmware/cis/tagging/tag-association/id:?~action=attach".
func (n *network) Calls() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.calls)
}

// nextBreak counts a call and returns the break injected for it.
func (n *network) nextBreak(method string) Break {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[method]++
	i := slices.IndexFunc(n.breaks, func(o *callBreak) bool { return o.method == method && o.Take() })
	if i < 0 {
		return Break{}
	}
	return n.breaks[i].how
}
