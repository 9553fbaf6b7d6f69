package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// certificates writes ca.crt, and for the server (at 127.0.0.1) and its clients a key and a certificate that the authority signed:
// server.crt, server.key, client.crt, client.key.
func certificates(t *testing.T, dir string) {
	t.Helper()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vmgroup e2e"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	authorityKey := newKey(t)
	sign := func(name string, c *x509.Certificate, key *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, authorityKey)
		must.Succeed(t, err)
		writePEM(t, filepath.Join(dir, name+".crt"), "CERTIFICATE", der)
	}
	sign("ca", authority, authorityKey)
	for i, name := range []string{"server", "client"} {
		usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}[i]
		key := newKey(t)
		sign(name, &x509.Certificate{SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter}, key)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		must.Succeed(t, err)
		writePEM(t, filepath.Join(dir, name+".key"), "PRIVATE KEY", der)
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	return key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
}
