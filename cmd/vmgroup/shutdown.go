package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// leaveTimeout is how long a server that ends waits until its clients have closed their connections. Metacontroller calls for settled
	// groups every few seconds, so most connections are used once more in that time.
	leaveTimeout = 2 * time.Second
	stopTimeout  = 8 * time.Second // for the hooks that run when the process stops
)

// leaving ends the connections of a server between two calls. http.Server.Shutdown closes idle connections at once, and a call that is on
// its way then fails: net/http's clients don't repeat a POST of which they have sent something
// (https://pkg.go.dev/net/http#Transport). Metacontroller reports each such call as a Warning on a group.
type leaving struct {
	mu   sync.Mutex
	open map[net.Conn]bool
	// done is set once the server ends, and closed once no connection is open.
	done chan struct{}
}

// watch has the server end its connections once leave is called.
func (l *leaving) watch(s *http.Server) {
	l.open = map[net.Conn]bool{}
	answer := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.begun() {
			w.Header().Set("Connection", "close")
		}
		answer.ServeHTTP(w, r)
	})
	s.ConnState = func(c net.Conn, is http.ConnState) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch is {
		case http.StateNew:
			l.open[c] = true
		case http.StateClosed, http.StateHijacked:
			delete(l.open, c)
			l.end()
		}
	}
}

func (l *leaving) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done != nil
}

// end closes done once no connection is open. The caller holds mu.
func (l *leaving) end() {
	if l.done == nil || len(l.open) > 0 {
		return
	}
	select {
	case <-l.done:
	default:
		close(l.done)
	}
}

// leave asks each client to close its connection after its next answer, and returns when all have, or after leaveTimeout.
func (l *leaving) leave() {
	l.mu.Lock()
	l.done = make(chan struct{})
	l.end()
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(leaveTimeout):
	}
}

// shutDown ends connections between two calls, waits until running hooks are answered, and only then closes the other servers, so that
// probes don't fail while hooks run.
func shutDown(ctx context.Context, servers []*http.Server, clients *leaving) error {
	clients.leave()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := servers[0].Shutdown(ctx)
	for _, server := range servers[1:] {
		_ = server.Close()
	}
	return err
}
