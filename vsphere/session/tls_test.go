package session

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// authority is a file with the certificate that vCenter presents.
func (l *lab) authority() string {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "ca.pem")
	l.must(os.WriteFile(file, l.CACert(), 0o600))
	return file
}

func TestACertificateIsTrustedByItsAuthorityOrItsThumbprintOrNotAtAll(t *testing.T) {
	l := &lab{vctest.NewRealLab(t), t}
	actual, file := l.ThumbprintSHA256(), l.authority()
	for name, tc := range map[string]struct {
		change  func(*Config)
		trusted bool
	}{
		"the system's authorities": {func(c *Config) {}, false},
		"its own authority":        {func(c *Config) { c.CAFile = file }, true},
		"its thumbprint":           {func(c *Config) { c.Thumbprint = strings.ToLower(actual) }, true},
		"another thumbprint":       {func(c *Config) { c.Thumbprint = strings.Repeat("00:", 31) + "00" }, false},
		"no verification":          {func(c *Config) { c.Insecure = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := l.config()
			cfg.Thumbprint = ""
			tc.change(&cfg)
			c := l.client(cfg)
			_, err := c.Session(t.Context())
			if tc.trusted {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if vctest.ReasonOf(t, err) != vcfault.ReasonCertificateNotTrusted {
				t.Fatalf("got %v", err)
			}
			if e := vctest.AsError(err); !e.NeedsOperator || !vctest.Mentions(e.Message, actual, "--thumbprint") {
				t.Errorf("the message does not say what to set: %s", e.Message)
			}
			if n := l.Counted()["Login"]; n > 3 {
				t.Errorf("vCenter saw %d logins; want at most 3", n)
			}
		})
	}
}

func TestACertificateForAnotherHostSaysSo(t *testing.T) {
	l := &lab{vctest.NewRealLab(t), t}
	cfg := l.config()
	cfg.Thumbprint, cfg.CAFile = "", l.authority()
	cfg.Host, cfg.Dial = "vc.example.com", func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.URL().Host)
	}
	c := l.client(cfg)
	_, err := c.Session(t.Context())
	if e := vctest.AsError(err); e == nil || e.Reason != vcfault.ReasonCertificateNotTrusted || !strings.Contains(e.Message, "another host name") {
		t.Errorf("got %v", err)
	}
}

func TestAPortThatSpeaksNoTLSSaysSo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-no-vcenter\r\n"))
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	c, err := New(Config{Host: listener.Addr().String(), User: "u", Password: "p"})
	must.Succeed(t, err)
	_, err = c.Session(t.Context())
	if e := vctest.AsError(err); e == nil || e.Reason != vcfault.ReasonVCenterUnreachable || !strings.Contains(e.Message, "TLS") {
		t.Errorf("got %v", err)
	}
}

func TestARequestCanBeSentAgainOnAnotherConnection(t *testing.T) {
	var length int64
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		length = r.ContentLength
		text, _ := io.ReadAll(r.Body)
		body = string(text)
	}))
	defer server.Close()
	transport := newTransport(trust{}, "", nil)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodPost, server.URL, io.MultiReader(strings.NewReader("a"), strings.NewReader("b")))
	must.Succeed(t, err)
	res, err := rewinding{transport, xmlBounds}.RoundTrip(req)
	must.Succeed(t, err)
	_ = res.Body.Close()
	if length != 2 || body != "ab" || res.Request.GetBody == nil {
		t.Errorf("got %d bytes, %q", length, body)
	}
}

// The server writes the end of a chunked answer separately, after the last element.
func TestAConnectionIsKeptThoughTheDecoderStopsBeforeTheAnswersEnd(t *testing.T) {
	decoded, connections := make(chan bool), atomic.Int32{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<a></a>\n")
		_ = http.NewResponseController(w).Flush()
		<-decoded
	}))
	server.Config.ConnState = func(_ net.Conn, is http.ConnState) {
		if is == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	transport := newTransport(trust{}, "", nil)
	defer transport.CloseIdleConnections()
	for range 3 {
		req, err := http.NewRequest(http.MethodGet, server.URL, nil)
		must.Succeed(t, err)
		res, err := rewinding{transport, xmlBounds}.RoundTrip(req)
		must.Succeed(t, err)
		must.Succeed(t, xml.NewDecoder(res.Body).Decode(new(struct{ XMLName xml.Name })))
		decoded <- true
		_ = res.Body.Close()
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("three calls, one after the other, took %d connections; want one", n)
	}
}
