package breaker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// listener keeps its port while the wire is cut, so that nobody else can take it; connections are reset as soon as they
// are made.
type listener struct {
	net.Listener

	mu    sync.Mutex
	away  bool
	conns map[*conn]bool
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, conns: make(map[*conn]bool)}
}

// Accept waits for a connection while the wire is whole.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, of: l}
		l.mu.Lock()
		away := l.away
		if !away {
			l.conns[c] = true
		}
		l.mu.Unlock()
		if !away {
			return c, nil
		}
		c.reset()
	}
}

// cut resets all connections, and those to come; or lets them come again.
func (l *listener) cut(away bool) {
	l.mu.Lock()
	l.away = away
	var all []*conn
	if away {
		for c := range l.conns {
			all = append(all, c)
		}
	}
	l.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
}

type conn struct {
	net.Conn
	of *listener
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// reset closes the connection so that the client sees an error, not an orderly end.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// certificate is the one of all wires of this process, for loopback.
var certificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "breaker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
})
