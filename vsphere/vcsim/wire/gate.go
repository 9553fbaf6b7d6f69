package wire

import (
	"context"
	"sync"
)

type condition int

const (
	up condition = iota
	down
	stalled
)

// gate holds the state of the network, which all wires share.
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

// pass waits while the network is stalled, and reports whether the request or its answer may pass.
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
