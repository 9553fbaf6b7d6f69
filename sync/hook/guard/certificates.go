package guard

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// shown is the certificate that callers see, and why the files hold no better one.
type shown struct {
	pair *tls.Certificate // nil only before the first good one
	err  error
}

// parsePair keeps the pair before when the new one is broken: callers are served on, and the log says so.
func parsePair(before shown, files []content) shown {
	fail := func(err error) shown { return shown{pair: before.pair, err: err} }
	for _, f := range files {
		if err := f.unreadable(); err != nil {
			return fail(err)
		}
	}
	pair, err := tls.X509KeyPair(files[0].text, files[1].text)
	if err != nil {
		return fail(fmt.Errorf("%s and %s are no pair: %w", files[0].path, files[1].path, err))
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return fail(fmt.Errorf("%s: %w", files[0].path, err))
		}
	}
	return shown{pair: &pair}
}

// callers are the authorities of those who may call, and why the file holds none.
type callers struct {
	pool *x509.CertPool
	err  error
}

// parseCallers trusts nobody while the file says nothing: to empty it is to lock all out.
func parseCallers(_ callers, files []content) callers {
	nobody := x509.NewCertPool() // nil would be the system's authorities
	if err := files[0].unreadable(); err != nil {
		return callers{nobody, err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files[0].text) {
		return callers{nobody, fmt.Errorf("%s holds no certificate in PEM", files[0].path)}
	}
	return callers{pool: pool}
}

func (c *content) unreadable() error {
	if c.missing {
		return fmt.Errorf("%s does not exist", c.path)
	}
	return c.err
}

// expires is when the shown certificate ends, in seconds since 1970.
func (s shown) expires() float64 { return float64(s.pair.Leaf.NotAfter.Unix()) }

func (s shown) expired(now time.Time) bool { return now.After(s.pair.Leaf.NotAfter) }

// TLS is how connections are made; nil where no certificate is given. Each handshake takes the certificate and the authorities of
// its time. There are no session tickets, since a resumed session would skip both.
//
// HTTP/2 is not offered: one connection is one call then, so that the bound on connections bounds the calls of strangers, too. Who
// calls us (Metacontroller has five workers, Prometheus one scrape) gains nothing by it.
func (g *Guard) TLS() *tls.Config {
	if g.pair == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair := g.pair.now().pair
			if pair == nil {
				return nil, errors.New("there is no certificate")
			}
			cfg := &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair},
				NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
			}
			if g.callers != nil {
				cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, g.callers.now().pool
			}
			return cfg, nil
		},
	}
}

// trusts tells that the caller's certificate is good at this moment: a connection may be older than the file that says whom to
// trust, and than the certificate's end.
func (g *Guard) trusts(state *tls.ConnectionState) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	chain := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		chain.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: g.callers.now().pool, Intermediates: chain, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
