package guard

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Limits of what callers, and strangers, can hold open.
type Limits struct {
	// Header bounds the time of the handshake, and then of the header's arrival; Read, that of the header and the body; Write,
	// that from the header's end to the answer's; Idle, that between two calls of a connection.
	Header, Read, Write, Idle time.Duration
	// HeaderBytes bounds the header (net/http allows about 4 KiB more).
	HeaderBytes int
	// Connections bounds those that are open at once, and PerAddress those from one address (of IPv6, from one /64): what is
	// beyond is closed at once, so that one stranger cannot lock all others out.
	Connections, PerAddress int
}

// NewServer makes a server of HTTP/1.1 with the limits of time and header. handshakes is told where a failed handshake came
// from; it may be nil.
func NewServer(h http.Handler, l Limits, log zerolog.Logger, handshakes func(from string)) *http.Server {
	if handshakes == nil {
		handshakes = func(string) {}
	}
	only := &http.Protocols{}
	only.SetHTTP1(true)
	return &http.Server{
		Handler: h, Protocols: only, MaxHeaderBytes: l.HeaderBytes, ErrorLog: serverLog(log, handshakes),
		ReadHeaderTimeout: l.Header, ReadTimeout: l.Read, WriteTimeout: l.Write, IdleTimeout: l.Idle,
		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * before h is asked who calls
	}
}

// Server is one that serves next, over TLS where there is a certificate, to those who may call and within the limits of time and
// header.
func (g *Guard) Server(next http.Handler, l Limits) *http.Server {
	s := NewServer(g.Wrap(next), l, g.cfg.Log, func(from string) { g.count(handshake, from) })
	s.TLSConfig = g.TLS()
	return s
}

// Listen bounds the connections of a listener.
func (g *Guard) Listen(inner net.Listener, l Limits) net.Listener {
	return Bound(inner, l, func(from string) { g.count(tooMany, from) })
}

// Bound bounds the connections of a listener; beyond is told where one too many came from.
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

// origin is who a connection counts for. What is no address (a test's pipe) counts as one.
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
