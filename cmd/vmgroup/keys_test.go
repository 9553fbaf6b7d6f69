package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const (
	hookToken   = "planted-hook-token-b7c1f0aa93"
	nextToken   = "planted-next-token-5d2ce81b47"
	readerToken = "planted-reader-token-90ab12cd"
)

// keys are the files of a server with TLS and authentication.
type keys struct {
	t      *testing.T
	dir    string
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	serial int64
}

func newKeys(t *testing.T) *keys {
	t.Helper()
	k := &keys{t: t, dir: t.TempDir()}
	der, key := k.make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	k.ca, _ = x509.ParseCertificate(der)
	k.caKey = key
	k.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	k.issue("tls")
	k.write("token", hookToken+"\n")
	k.write("reader", readerToken)
	return k
}

func (k *keys) make(c *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	k.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		k.t.Fatal(err)
	}
	k.serial++
	c.SerialNumber, c.Subject = big.NewInt(k.serial), pkix.Name{CommonName: "test"}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := k.ca, k.caKey
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		k.t.Fatal(err)
	}
	return der, key
}

// issue writes name.crt and name.key, for the host name that Metacontroller calls, and returns the key's text.
func (k *keys) issue(name string) (key string) {
	k.t.Helper()
	return k.issueUntil(name, time.Time{})
}

// issueUntil is issue, with the end of the certificate.
func (k *keys) issueUntil(name string, end time.Time) (key string) {
	k.t.Helper()
	der, private := k.make(&x509.Certificate{NotAfter: end, DNSNames: []string{"vmgroup.vmgroup-system.svc"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		k.t.Fatal(err)
	}
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	k.write(name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	k.write(name+".key", key)
	return key
}

func (k *keys) path(name string) string { return filepath.Join(k.dir, name) }

// write replaces the file atomically, as a mounted volume does.
func (k *keys) write(name, text string) {
	k.t.Helper()
	err := os.WriteFile(k.path(name)+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(k.path(name)+".new", k.path(name))
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

// flags are those of a server with TLS, tokens and readers.
func (k *keys) flags() []string {
	return []string{"--tls-cert-file", k.path("tls.crt"), "--tls-private-key-file", k.path("tls.key"),
		"--token-file", k.path("token"), "--token-file", k.path("token-next"), "--reader-token-file", k.path("reader")}
}

// client trusts the authority, and presents a token and, optionally, certificates.
func (k *keys) client(token string, shows ...tls.Certificate) *http.Client {
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "vmgroup.vmgroup-system.svc", Certificates: shows}
	cfg.RootCAs.AddCert(k.ca)
	transport := &http.Transport{TLSClientConfig: cfg}
	k.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: 2 * time.Minute, Transport: withToken{transport, token}}
}

type withToken struct {
	http.RoundTripper
	token string
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	return w.RoundTripper.RoundTrip(r)
}
