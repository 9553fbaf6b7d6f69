package session

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// selfSigned returns a certificate for 127.0.0.1 that is its own authority, and its PEM.
func selfSigned(t *testing.T, serial int64) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must.Succeed(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestAReplacedAuthorityAppliesFromTheNextHandshake(t *testing.T) {
	t.Parallel()
	pair, right := selfSigned(t, 1)
	_, other := selfSigned(t, 2)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	defer server.Close()

	file, log := filepath.Join(t.TempDir(), "ca.crt"), bytes.Buffer{}
	write := func(text []byte) {
		t.Helper()
		must.Succeed(t, os.WriteFile(file, text, 0o600))
	}
	write(right)
	cfg := Config{CAFile: file, Log: zerolog.New(&log)}
	trusted, err := cfg.trust()
	must.Succeed(t, err)
	transport := newTransport(trusted, "127.0.0.1", nil)
	transport.DisableKeepAlives = true // so that each call makes a handshake
	call := func(url string) error {
		response, err := (&http.Client{Transport: transport}).Get(url)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	refused := func(err error) bool {
		var verify *tls.CertificateVerificationError
		return errors.As(err, &verify) && len(verify.UnverifiedCertificates) == 1
	}
	must.Succeed(t, call(server.URL))
	if err := call(strings.Replace(server.URL, "127.0.0.1", "localhost", 1)); !refused(err) || !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("by another name: %v", err)
	}
	write(nil)
	for range 2 {
		if err := call(server.URL); err != nil {
			t.Errorf("with a broken file: %v", err)
		}
	}
	if n := strings.Count(log.String(), "still trusting the previous ones"); n != 1 {
		t.Errorf("the line was logged %d times, want 1: %s", n, &log)
	}
	write(other)
	if err := call(server.URL); !refused(err) || !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("by an authority that is no longer trusted: %v", err)
	}
	write(append(other, right...))
	if err := call(server.URL); err != nil {
		t.Errorf("the call failed although one of the two authorities is the right one: %v", err)
	}
}

// If the host is an IP address, the handshake has no server name. The client must compare the address with the certificate nevertheless.
func TestAnAddressThatIsNotInTheCertificateIsRefused(t *testing.T) {
	t.Parallel()
	pair, right := selfSigned(t, 1)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.crt")
	must.Succeed(t, os.WriteFile(file, right, 0o600))
	cfg := Config{CAFile: file}
	trusted, err := cfg.trust()
	must.Succeed(t, err)
	transport := newTransport(trusted, "127.0.0.9", nil)
	defer transport.CloseIdleConnections()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	_, err = (&http.Client{Transport: transport}).Get("https://127.0.0.9/")
	if !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("got %v", err)
	}
}
