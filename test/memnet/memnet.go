// Package memnet is a network in memory. Servers and clients that use it need no socket, so they can run in a testing/synctest
// bubble: a goroutine that waits for a real socket is not durably blocked, so the bubble's time would never advance.
//
// It is only for tests. Connections behave like TCP on loopback as far as HTTP and TLS can see: they have addresses, honor
// deadlines, are refused where nothing listens, and can be reset.
package memnet

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Network connects dialers with listeners. Create one inside the bubble that uses it. Its methods may be
// called at any time from any goroutine.
type Network struct {
	mu        sync.Mutex
	last      int // the port of the newest listener
	listeners map[string]*listener
}

// New returns a network without listeners.
func New() *Network { return &Network{last: 1024, listeners: make(map[string]*listener)} }

// Listen listens on a free port of 127.0.0.1.
func (n *Network) Listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	l := &listener{network: n, address: address(n.last), dialed: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[l.address.String()] = l
	return l
}

// DialContext connects to the listener of an address, like net.Dialer.DialContext. It fails with ECONNREFUSED if there is none, and
// with the context's error if no Accept follows before the context ends.
func (n *Network) DialContext(ctx context.Context, network, to string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[to]
	n.last++
	from := address(n.last)
	n.mu.Unlock()
	if l == nil {
		return nil, refused(network)
	}
	near, far := pipe(from, l.address)
	select {
	case l.dialed <- far:
		return near, nil
	case <-l.closed:
		return nil, refused(network)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Transport returns an HTTP transport that dials through the network. It verifies no certificates: nothing leaves the process.
// Close its idle connections before the bubble ends.
func (n *Network) Transport() *http.Transport {
	return &http.Transport{DialContext: n.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 100}
}

func address(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

func refused(network string) error {
	return &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

type listener struct {
	network *Network
	address net.Addr
	dialed  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept, and refuses later dials. Connections stay open.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, l.address.String())
	})
	return nil
}

// Addr returns a *net.TCPAddr of 127.0.0.1.
func (l *listener) Addr() net.Addr { return l.address }

// conn is one end of a connection.
type conn struct {
	net.Conn
	local, remote net.Addr
	abrupt        atomic.Bool  // Close resets the connection
	reset         *atomic.Bool // the connection was reset; both ends share it
}

func pipe(a, b net.Addr) (net.Conn, net.Conn) {
	near, far := net.Pipe()
	reset := new(atomic.Bool)
	return &conn{Conn: near, local: a, remote: b, reset: reset}, &conn{Conn: far, local: b, remote: a, reset: reset}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetLinger makes Close reset the connection if seconds is 0, as with net.TCPConn.
func (c *conn) SetLinger(seconds int) error {
	c.abrupt.Store(seconds == 0)
	return nil
}

// Close closes the connection. The other end then reads io.EOF, or ECONNRESET if the connection is reset.
func (c *conn) Close() error {
	if c.abrupt.Load() {
		c.reset.Store(true)
	}
	return c.Conn.Close()
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.cause("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.cause("write", err)
}

// cause returns the error that TCP would return for an error of net.Pipe.
func (c *conn) cause(op string, err error) error {
	if err == nil || !c.reset.Load() {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: os.NewSyscallError(op, syscall.ECONNRESET)}
}
