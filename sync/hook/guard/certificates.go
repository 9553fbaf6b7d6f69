package guard

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// shown is the server's certificate, and the error of the last reload.
type shown struct {
	pair *tls.Certificate // nil only before the first good one
	err  error
}

// parsePair keeps the former pair if the new one is invalid, so that callers are still served.
func parsePair(before shown, files []content) shown {
	fail := func(err error) shown { return shown{pair: before.pair, err: err} }
	for _, f := range files {
		if err := f.unreadable(); err != nil {
			return fail(err)
		}
	}
	pair, err := tls.X509KeyPair(files[0].text, files[1].text)
	if err != nil {
		return fail(fmt.Errorf("%s and %s do not match: %w", files[0].path, files[1].path, err))
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return fail(fmt.Errorf("%s: %w", files[0].path, err))
		}
	}
	return shown{pair: &pair}
}

// callers has the certificate authorities (CAs) of clients, or the reason why the file has none.
type callers struct {
	pool *x509.CertPool
	err  error
}

// parseCallers rejects all callers while the file has no CA: emptying the file locks all of them out.
func parseCallers(_ callers, files []content) callers {
	none := x509.NewCertPool() // nil would mean the system's CAs
	if err := files[0].unreadable(); err != nil {
		return callers{none, err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files[0].text) {
		return callers{none, fmt.Errorf("%s contains no PEM certificate", files[0].path)}
	}
	return callers{pool: pool}
}

func (c *content) unreadable() error {
	if c.missing {
		return fmt.Errorf("%s does not exist", c.path)
	}
	return c.err
}

// expires returns when the certificate expires, in seconds since 1970.
func (s shown) expires() float64 { return float64(s.pair.Leaf.NotAfter.Unix()) }

func (s shown) expired(now time.Time) bool { return now.After(s.pair.Leaf.NotAfter) }

// tlsConfig returns the configuration of the listener; nil without a certificate. Each handshake uses the current certificate and
// CAs: session tickets are disabled, so each connection makes a full handshake.
//
// HTTP/2 is disabled: a connection has one call at a time, so that the bound on connections also bounds the calls of unauthenticated
// clients. Our callers (Metacontroller has five workers, Prometheus one scrape) would gain nothing from HTTP/2.
func (g *Guard) tlsConfig() *tls.Config {
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
				cfg.ClientAuth, cfg.ClientCAs = tls.RequireAnyClientCert, g.callers.now().pool // the server tells clients these CAs
				cfg.VerifyConnection = func(state tls.ConnectionState) error {
					if !g.trusts(&state) && !g.isOwn(&state) {
						return errors.New("no CA in --client-ca-file signed the client's certificate, or the certificate has expired")
					}
					return nil
				}
			}
			return cfg, nil
		},
	}
}

// Names are the DNS names of the current certificate; none without one.
func (g *Guard) Names() []string {
	if g.pair == nil {
		return nil
	}
	if pair := g.pair.now().pair; pair != nil {
		return pair.Leaf.DNSNames
	}
	return nil
}

// trusts reports whether the caller's certificate is valid now: the connection may have begun before the CAs changed, or before the
// certificate expired.
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

// isOwn reports whether the caller has the server's current certificate, and so its key: vmgroup status, in the server's container, has no
// other certificate. Reading gives a holder of that key nothing new: it could pose as the server, and get tokens and all groups from
// callers.
func (g *Guard) isOwn(state *tls.ConnectionState) bool {
	return state != nil && len(state.PeerCertificates) > 0 && state.PeerCertificates[0].Equal(g.pair.now().pair.Leaf)
}
