package guard

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Limits bounds what clients, authenticated or not, can keep open.
type Limits struct {
	// Header bounds the time of the handshake, and then the time until the header is complete; Read, the time of header and body; Write, the
	// time from the end of the header to the end of the answer; Idle, the time between two calls on one connection.
	Header, Read, Write, Idle time.Duration
	// HeaderBytes bounds the header (net/http allows about 4 KiB more).
	HeaderBytes int
	// Connections bounds the open connections, and PerAddress those from one address (in IPv6, from one /64). The listener closes a connection
	// that exceeds PerAddress at once. For one that exceeds Connections, it closes the oldest connection of the address that has most, so that
	// no client can lock all others out.
	Connections, PerAddress int
}

// NewServer returns an HTTP/1.1 server with the limits of time and header. It calls handshakes, which can be nil, with the address
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

// Bound bounds the connections of a listener. It calls beyond with the address of each connection that it refuses or closes.
func Bound(inner net.Listener, l Limits, beyond func(from string)) net.Listener {
	return &bounded{Listener: inner, limits: l, beyond: beyond, by: map[netip.Prefix][]*counted{}}
}

// bounded shares the connections fairly among addresses: once all are in use, a new connection replaces the oldest one of the address that
// has most, unless that is its own address. So Metacontroller, with its few connections, gets in however many addresses fill the listener.
type bounded struct {
	net.Listener
	limits Limits
	beyond func(from string)

	mu   sync.Mutex
	open int
	by   map[netip.Prefix][]*counted // the oldest first
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &counted{Conn: conn, from: origin(conn.RemoteAddr()), in: b}
		loser := b.take(c)
		if loser == nil {
			return c, nil
		}
		b.beyond(loser.RemoteAddr().String())
		if loser == c {
			_ = conn.Close()
			continue
		}
		_ = loser.Conn.Close() // http.Server then closes its side
		return c, nil
	}
}

// take adds a connection. It returns the connection that must be closed for that: another one, or c itself; nil if there is room.
func (b *bounded) take(c *counted) (loser *counted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := len(b.by[c.from])
	if own >= b.limits.PerAddress {
		return c
	}
	if b.open >= b.limits.Connections {
		var most []*counted
		for _, all := range b.by {
			if len(all) > len(most) {
				most = all
			}
		}
		if len(most) <= own+1 {
			return c
		}
		loser = most[0]
		b.drop(loser)
	}
	b.open++
	b.by[c.from] = append(b.by[c.from], c)
	return loser
}

// drop forgets a connection, if it is known. The caller holds mu.
func (b *bounded) drop(c *counted) {
	at := slices.Index(b.by[c.from], c)
	if at < 0 {
		return
	}
	b.open--
	if b.by[c.from] = slices.Delete(b.by[c.from], at, at+1); len(b.by[c.from]) == 0 {
		delete(b.by, c.from)
	}
}

// origin returns the address or /64 that a connection counts for. All connections without a TCP address (a test's pipe) count for the same
// one.
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
	from netip.Prefix
	in   *bounded
}

func (c *counted) Close() error {
	c.in.mu.Lock()
	c.in.drop(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}
