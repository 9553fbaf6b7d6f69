package memnet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Handlers pass HTTP requests to handlers without connections, serialization or goroutines. They don't exercise HTTP itself, but a call costs
// only half as much as over a Network. The zero value has no handlers.
type Handlers struct {
	mu  sync.Mutex
	all map[string]*served // by host
}

type served struct {
	handler http.Handler
	ctx     context.Context
}

// Handle makes a handler answer the requests for a host until stop. Requests that are in flight then fail, as with
// http.Server.Close.
func (h *Handlers) Handle(host string, handler http.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]*served{}
	}
	h.all[host] = &served{handler, ctx}
	return func() {
		h.mu.Lock()
		delete(h.all, host)
		h.mu.Unlock()
		cancel()
	}
}

// RoundTrip passes the request to the handler of its host. It fails with ECONNREFUSED if there is none, and with the error of the
// request's context if that ends first.
func (h *Handlers) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	s := h.all[r.URL.Host]
	h.mu.Unlock()
	if s == nil {
		return nil, refused("tcp")
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	answer := httptest.NewRecorder()
	asked := r.Clone(ctx)
	asked.RequestURI, asked.RemoteAddr = r.URL.RequestURI(), address(1).String()
	s.handler.ServeHTTP(answer, asked)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}
