package guard

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
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
	// that exceeds PerAddress at once. For one that exceeds Connections, it closes another that has shown no credential yet, so that no number of
	// clients can lock those out that have one: the oldest of the address that has most of these.
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
	s.ConnContext = withConnection
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

// bounded shares the connections fairly among addresses. Once all are in use, a new connection replaces the oldest one without a credential, of the
// address that has most of these: so a client with a credential gets in however many addresses fill the listener, if it shows the credential before as
// many others come as there are connections. If each connection has shown one, the new one replaces the oldest of the address that has most, unless
// that is its own.
type bounded struct {
	net.Listener
	limits Limits
	beyond func(from string)

	mu       sync.Mutex
	open     int
	accepted uint64
	by       map[netip.Prefix][]*counted // the oldest first
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
		if loser = b.weakest(c.from); loser == nil {
			return c
		}
		b.drop(loser)
	}
	b.open++
	b.accepted++
	c.number = b.accepted
	b.by[c.from] = append(b.by[c.from], c)
	return loser
}

// weakest returns the connection that a new one from an address replaces; nil if that address itself has most. The caller holds mu.
func (b *bounded) weakest(from netip.Prefix) *counted {
	if c, most := b.oldestOfMost(true); c != nil {
		if most <= len(unknownAmong(b.by[from])) {
			return nil
		}
		return c
	}
	if c, most := b.oldestOfMost(false); most > len(b.by[from])+1 {
		return c
	}
	return nil
}

// oldestOfMost returns the oldest connection of the address that has most, and how many that has; of connections without a credential, or of all. The
// caller holds mu.
func (b *bounded) oldestOfMost(unknown bool) (oldest *counted, most int) {
	for _, all := range b.by {
		if unknown {
			all = unknownAmong(all)
		}
		if n := len(all); n > most || n > 0 && n == most && all[0].number < oldest.number {
			oldest, most = all[0], n
		}
	}
	return oldest, most
}

// unknownAmong returns the connections that have shown no credential.
func unknownAmong(all []*counted) (unknown []*counted) {
	if !slices.ContainsFunc(all, func(c *counted) bool { return c.known.Load() }) {
		return all
	}
	for _, c := range all {
		if !c.known.Load() {
			unknown = append(unknown, c)
		}
	}
	return unknown
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
	from   netip.Prefix
	in     *bounded
	number uint64      // in the order in which connections were accepted
	known  atomic.Bool // a call with a credential came on it
}

// connectionKey is the key of a call's connection in its context.
type connectionKey struct{}

// withConnection puts a connection into the context of its calls.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	if c, is := conn.(*counted); is {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// know records that a call had a credential: its connection makes room for no other one that has shown none.
func know(ctx context.Context) {
	if c, is := ctx.Value(connectionKey{}).(*counted); is {
		c.known.Store(true)
	}
}

func (c *counted) Close() error {
	c.in.mu.Lock()
	c.in.drop(c)
	c.in.mu.Unlock()
	return c.Conn.Close()
}
