package guard

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Limits bounds what clients, authenticated or not, can hold open.
type Limits struct {
	// Header bounds the time of the handshake, and then of the header; Read, that of header and body; Write,
	// that from the end of the header to the end of the answer; Idle, that between two calls of a connection.
	Header, Read, Write, Idle time.Duration
	// HeaderBytes bounds the header (net/http allows about 4 KiB more).
	HeaderBytes int
	// Connections bounds the open connections, and PerAddress those from one address (in IPv6, from one /64): the listener closes
	// more at once, so that one client cannot lock all others out.
	Connections, PerAddress int
}

// NewServer returns an HTTP/1.1 server with the limits of time and header. It calls handshakes, which may be nil, with the address
// of each failed handshake.
func NewServer(h http.Handler, l Limits, log zerolog.Logger, handshakes func(from string)) *http.Server {
	if handshakes == nil {
		handshakes = func(string) {}
	}
	only := &http.Protocols{}
	only.SetHTTP1(true)
	return &http.Server{
		Handler: h, Protocols: only, MaxHeaderBytes: l.HeaderBytes, ErrorLog: serverLog(log, handshakes),
		ReadHeaderTimeout: l.Header, ReadTimeout: l.Read, WriteTimeout: l.Write, IdleTimeout: l.Idle,
		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * without authentication
	}
}

// Server returns a server that serves next to admitted callers, over TLS if there is a certificate, within the limits of time and
// header.
func (g *Guard) Server(next http.Handler, l Limits) *http.Server {
	s := NewServer(g.wrap(next), l, g.cfg.Log, func(from string) { g.count(handshake, from) })
	s.TLSConfig = g.tlsConfig()
	return s
}

// Listen bounds the connections of a listener.
func (g *Guard) Listen(inner net.Listener, l Limits) net.Listener {
	return Bound(inner, l, func(from string) { g.count(tooMany, from) })
}

// Bound bounds the connections of a listener. It calls beyond with the address of each connection that it refuses.
func Bound(inner net.Listener, l Limits, beyond func(from string)) net.Listener {
	return &bounded{Listener: inner, limits: l, beyond: beyond, by: map[netip.Prefix]int{}}
}

type bounded struct {
	net.Listener
	limits Limits
	beyond func(from string)

	mu   sync.Mutex
	open int
	by   map[netip.Prefix]int
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := origin(c.RemoteAddr())
		if b.take(from) {
			return &counted{Conn: c, done: sync.OnceFunc(func() { b.giveBack(from) })}, nil
		}
		_ = c.Close()
		b.beyond(c.RemoteAddr().String())
	}
}

func (b *bounded) take(from netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= b.limits.Connections || b.by[from] >= b.limits.PerAddress {
		return false
	}
	b.open++
	b.by[from]++
	return true
}

func (b *bounded) giveBack(from netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if b.by[from]--; b.by[from] == 0 {
		delete(b.by, from)
	}
}

// origin returns the network that a connection counts for. All connections without a TCP address (a test's pipe) have the same.
func origin(a net.Addr) netip.Prefix {
	tcp, isTCP := a.(*net.TCPAddr)
	if !isTCP {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

type counted struct {
	net.Conn
	done func()
}

func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}
