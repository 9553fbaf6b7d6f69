package vcsim

import (
	"context"
	"net"
	"sync"
)

type condition int

const (
	up condition = iota
	down
	stalled
)

// gate stands between the network and the simulator, and is where outages happen.
type gate struct {
	mu      sync.Mutex
	now     condition
	changed chan struct{} // closed and replaced at each change
	conns   map[*conn]bool
}

func newGate() *gate {
	return &gate{changed: make(chan struct{}), conns: make(map[*conn]bool)}
}

func (g *gate) set(c condition) {
	g.mu.Lock()
	g.now = c
	close(g.changed)
	g.changed = make(chan struct{})
	var cut []*conn
	if c == down {
		for c := range g.conns {
			cut = append(cut, c)
		}
	}
	g.mu.Unlock()
	for _, c := range cut {
		c.reset()
	}
}

// pass waits while the gate is stalled, and says whether the request, or its answer, may pass.
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

// listener keeps its port while the gate is down, so that no parallel test can take it; connections
// are reset as soon as they are made.
type listener struct {
	net.Listener
	gate *gate
}

func (l listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, gate: l.gate}
		l.gate.mu.Lock()
		open := l.gate.now != down
		if open {
			l.gate.conns[c] = true
		}
		l.gate.mu.Unlock()
		if open {
			return c, nil
		}
		c.reset()
	}
}

type conn struct {
	net.Conn
	gate *gate
}

func (c *conn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// reset closes the connection so that the client sees an error, not an orderly end.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
