package vcsim

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
)

// serve begins to answer on l.
func (v *VCenter) serve(l net.Listener) {
	address := l.Addr().(*net.TCPAddr)
	host := address.IP.String()
	if address.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	v.extend(net.JoinHostPort(host, strconv.Itoa(address.Port)))
	v.server = &http.Server{
		Handler:      http.HandlerFunc(v.serveClient),
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{v.cert}},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2: one call, one connection to cut
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	go func() { _ = v.server.ServeTLS(listener{l, v.gate}, "", "") }()
}

// exchange is one HTTP request, as the code behind the simulator's dispatch sees it.
type exchange struct {
	gone <-chan struct{} // the client has hung up
	lose bool            // carry it out, but cut the connection instead of answering
	door *sync.RWMutex   // held for reading while the simulator looks the session up
}

type exchangeKey struct{}

// exchangeOf returns the request that ctx's call came in.
func exchangeOf(ctx *simulator.Context) *exchange {
	if ctx.Context != nil {
		if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
			return e
		}
	}
	return &exchange{}
}

// serveClient answers a request from the network, if the gate lets it in and its answer out.
func (v *VCenter) serveClient(w http.ResponseWriter, r *http.Request) {
	// Read it all first: only then does net/http notice that a client hangs up.
	body, err := io.ReadAll(r.Body)
	if err != nil || !v.gate.pass(r.Context()) {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := &answer{header: make(http.Header), status: http.StatusOK}
	e := v.carryOut(answer, r)
	if e == nil || e.lose || !v.gate.pass(r.Context()) {
		panic(http.ErrAbortHandler)
	}
	for key, values := range answer.header {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

// carryOut has the simulator answer r; nil: this vCenter is closed.
//
// The simulator shows an overriding method neither the request nor its context, which REST sees. What it does show is
// the session's cookie, so the request's number travels there, and sessionCookie takes it off again.
func (v *VCenter) carryOut(w http.ResponseWriter, r *http.Request) *exchange {
	if !v.enter() {
		return nil
	}
	defer v.running.Done()
	e := &exchange{gone: r.Context().Done()}
	v.mu.Lock()
	v.nextID++
	id := strconv.Itoa(v.nextID)
	v.exchanges[id] = e
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.exchanges, id)
		v.mu.Unlock()
	}()

	var session string
	cookies := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range cookies {
		if c.Name != soap.SessionCookieName {
			r.AddCookie(c) // REST has one of its own
		} else if session == "" {
			session = c.Value
		}
	}
	r.AddCookie(&http.Cookie{Name: soap.SessionCookieName, Value: session + "." + id})
	v.service.ServeMux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
	return e
}

// sessionCookie is the registry's hook that finds out a call's session.
func (v *VCenter) sessionCookie(ctx *simulator.Context) string {
	cookie := simulator.HTTPCookie(ctx)
	dot := strings.LastIndexByte(cookie, '.')
	if dot < 0 {
		return cookie
	}
	v.mu.Lock()
	e := v.exchanges[cookie[dot+1:]]
	v.mu.Unlock()
	// Looking a session up stores it again. dispatch opens the door once that is over, lest a session
	// that is dropped meanwhile come back.
	v.door.RLock()
	e.door = &v.door
	// v.ctx rather than the request's: tasks and the watch for idle sessions outlive the request.
	ctx.Context = context.WithValue(v.ctx, exchangeKey{}, e)
	return cookie[:dot]
}

// answer holds back what the simulator answers, so that it can still be lost.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
