package guard

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

func later() time.Time { return time.Now().Add(time.Hour) }

func pairFiles(a *authority) map[string][]byte {
	cert, key := a.sign(later(), x509.ExtKeyUsageServerAuth)
	return map[string][]byte{"tls.crt": cert, "tls.key": key}
}

func withPair(v *volume, cfg Config) Config {
	cfg.CertFile, cfg.KeyFile = v.path("tls.crt"), v.path("tls.key")
	return cfg
}

// shownTo returns the serial number of the certificate that a new connection gets.
func (d *guarded) shownTo() string {
	d.t.Helper()
	conn, err := tls.Dial("tcp", d.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestAReplacedCertificateIsUsedAtOnceAndABrokenOneNever(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	good := pairFiles(a)
	v := newVolume(t, good)
	d := open(t, withPair(v, Config{}), generous)
	before := d.shownTo()
	other := pairFiles(a)
	for name, broken := range map[string]map[string][]byte{
		"no files":           {},
		"empty":              {"tls.crt": nil, "tls.key": nil},
		"no PEM":             {"tls.crt": []byte("x"), "tls.key": []byte("y")},
		"another's key":      {"tls.crt": good["tls.crt"], "tls.key": other["tls.key"]},
		"the key is missing": {"tls.crt": other["tls.crt"]},
	} {
		v.swap(broken)
		was := strings.Count(d.log.String(), "still using the former one")
		for range 5 {
			if got := d.shownTo(); got != before {
				t.Errorf("%s: the certificate is %s; want %s", name, got, before)
			}
		}
		if n := strings.Count(d.log.String(), "still using the former one") - was; n != 1 {
			t.Errorf("%s: logged %d times, want 1: %s", name, n, d.log)
		}
	}
	v.swap(other)
	if after := d.shownTo(); after == before || !strings.Contains(d.log.String(), "reloaded the certificate") {
		t.Errorf("the certificate is still %s", after)
	}
	if strings.Contains(d.log.String(), "PRIVATE") {
		t.Error("the log has a key")
	}
	cert, key := a.sign(time.Now().Add(-time.Minute), x509.ExtKeyUsageServerAuth)
	v.swap(map[string][]byte{"tls.crt": cert, "tls.key": key})
	if d.shownTo(); !strings.Contains(d.log.String(), "the certificate has expired") {
		t.Errorf("the log says %s", d.log)
	}
}

// The files may be replaced after the read of the certificate and before the read of its key.
func TestASwapDuringAReadingIsNotABrokenPair(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	pairs := []map[string][]byte{pairFiles(a), pairFiles(a)}
	v := newVolume(t, pairs[0])
	g, err := New(withPair(v, Config{}))
	must.Succeed(t, err)
	g.pair.every, g.pair.wait = 0, timeout
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			v.swap(pairs[i%2])
		}
	}()
	for swapping := true; swapping; {
		select {
		case <-done:
			swapping = false
		default:
		}
		if s := g.pair.now(); s.err != nil {
			t.Fatalf("the pair cannot be read while its files are swapped: %v", s.err)
		}
	}
	if s := g.pair.now(); s.err != nil {
		t.Errorf("the pair cannot be read after its files were swapped: %v", s.err)
	}
}

func TestConnectionsAreTLS12OrNewerAndHTTP11(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	d := open(t, withPair(newVolume(t, pairFiles(a)), Config{}), generous)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", d.addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version, NextProtos: []string{"h2", "http/1.1"}})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err != nil {
			continue
		}
		if p := conn.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
			t.Errorf("the protocol is %q; want %q", p, "http/1.1")
		}
		_ = conn.Close()
	}
	cache := tls.NewLRUClientSessionCache(1)
	for range 2 { // a resumed session would use the old certificate and CAs
		conn, err := tls.Dial("tcp", d.addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, ClientSessionCache: cache})
		if err != nil || conn.ConnectionState().DidResume {
			t.Errorf("resumed: %v", err)
		}
		_ = conn.Close()
	}
	if r := d.ask(client(t, a, nil), "POST", ""); r == nil || r.StatusCode != 200 || r.ProtoMajor != 1 {
		t.Errorf("a client that would like HTTP/2 got %+v", r)
	}
	if r := d.ask(client(t, newAuthority(t), nil), "POST", ""); r != nil {
		t.Error("a client that trusts another authority got an answer")
	}
	eventually(t, "the failed handshakes are counted", func() bool { return d.counted(handshake) >= 3 })
	if n := strings.Count(d.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines of failed handshakes, want 1: %s", n, d.log)
	}
}

func TestCallersNeedACertificateOfTheCurrentAuthority(t *testing.T) {
	t.Parallel()
	a, callers, others := newAuthority(t), newAuthority(t), newAuthority(t)
	files := pairFiles(a)
	files["ca.crt"], files["token"] = callers.pem(), []byte(first)
	v := newVolume(t, files)
	d := open(t, withPair(v, Config{ClientCAFile: v.path("ca.crt"), TokenFiles: []string{v.path("token")}}), generous)
	good := callers.client(x509.ExtKeyUsageClientAuth, later())
	for name, c := range map[string]struct {
		shows         *tls.Certificate
		authorization string
		want          int
	}{
		"a valid one and the token":     {good, right, 200},
		"a valid one alone":             {good, "", 401},
		"the token alone":               {nil, right, 0},
		"another authority's":           {others.client(x509.ExtKeyUsageClientAuth, later()), right, 0},
		"a server's":                    {callers.client(x509.ExtKeyUsageServerAuth, later()), right, 0},
		"an expired one":                {callers.client(x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute)), right, 0},
		"one of the server's authority": {a.client(x509.ExtKeyUsageClientAuth, later()), right, 0},
	} {
		if got := d.code(client(t, a, c.shows), "POST", c.authorization); got != c.want {
			t.Errorf("%s: %d; want %d", name, got, c.want)
		}
	}
	kept := client(t, a, good)
	if got := d.code(kept, "POST", right); got != 200 {
		t.Fatalf("the client that keeps its connection is answered %d; want 200", got)
	}
	files["ca.crt"] = others.pem()
	v.swap(files)
	if got := d.code(kept, "POST", right); got != 401 {
		t.Errorf("a connection from before the change: %d; want 401", got)
	}
	if got := d.code(client(t, a, others.client(x509.ExtKeyUsageClientAuth, later())), "POST", right); got != 200 {
		t.Errorf("the new authority's: %d; want 200", got)
	}
	for _, broken := range [][]byte{nil, []byte("x")} {
		files["ca.crt"] = broken
		v.swap(files)
		if pool := d.guard.callers.now().pool; pool == nil || !pool.Equal(x509.NewCertPool()) {
			t.Error("without an authority, the system's or another one is trusted")
		}
		for _, by := range []*authority{callers, others} {
			if got := d.code(client(t, a, by.client(x509.ExtKeyUsageClientAuth, later())), "POST", right); got != 0 {
				t.Errorf("while there is no authority: %d; want 0", got)
			}
		}
	}
	if n := strings.Count(d.log.String(), "no client CA left"); n != 2 {
		t.Errorf("the line was logged %d times, want 2: %s", n, d.log)
	}
}

// vmgroup status in the server's container shows the server's own certificate: the client's key is Metacontroller's. A holder of the
// server's key could pose as the server and learn the same data, so the server's certificate, with the token, suffices to read. It permits
// nothing else.
func TestTheServersOwnCertificateSufficesToRead(t *testing.T) {
	t.Parallel()
	a, callers := newAuthority(t), newAuthority(t)
	files := pairFiles(a)
	files["ca.crt"], files["token"], files["reader"] = callers.pem(), []byte(first), []byte("a-token-of-readers-2b")
	v := newVolume(t, files)
	shows := func(files map[string][]byte) *tls.Certificate {
		pair, err := tls.X509KeyPair(files["tls.crt"], files["tls.key"])
		must.Succeed(t, err)
		return &pair
	}
	with := Config{ClientCAFile: v.path("ca.crt"), TokenFiles: []string{v.path("token")}, ReaderTokenFiles: []string{v.path("reader")}}
	d := open(t, withPair(v, with), generous)
	own := shows(files)
	for _, c := range []struct {
		name, method, authorization string
		shows                       *tls.Certificate
		want                        int
	}{
		{"reads with a reader's token", "GET", "Bearer a-token-of-readers-2b", own, 200},
		{"reads with the hooks' token", "GET", right, own, 200},
		{"reads without a token", "GET", "", own, 401},
		{"calls a hook", "POST", right, own, 401},
		{"another certificate of the server's authority", "GET", right, shows(pairFiles(a)), 0},
	} {
		if got := d.code(client(t, a, c.shows), c.method, c.authorization); got != c.want {
			t.Errorf("%s: %d; want %d", c.name, got, c.want)
		}
	}
	renewed := pairFiles(a)
	files["tls.crt"], files["tls.key"] = renewed["tls.crt"], renewed["tls.key"]
	v.swap(files)
	if got := d.code(client(t, a, own), "GET", right); got != 0 {
		t.Errorf("the certificate before the renewal: %d; want 0", got)
	}
	if got := d.code(client(t, a, shows(renewed)), "GET", right); got != 200 {
		t.Errorf("the renewed certificate: %d; want 200", got)
	}
}

func TestInvalidCertificatesAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	files := pairFiles(a)
	files["other.key"], files["empty"] = pairFiles(a)["tls.key"], nil
	v := newVolume(t, files)
	full := withPair(v, Config{})
	for want, change := range map[string]func(*Config){
		"set both, or neither":              func(c *Config) { c.KeyFile = "" },
		"do not match":                      func(c *Config) { c.KeyFile = v.path("other.key") },
		"does not exist":                    func(c *Config) { c.CertFile = v.path("nothing") },
		"--client-ca-file requires":         func(c *Config) { *c = Config{ClientCAFile: v.path("tls.crt")} },
		"empty contains no PEM certificate": func(c *Config) { c.ClientCAFile = v.path("empty") },
		"--client-ca-file: " + v.path("n"):  func(c *Config) { c.ClientCAFile = v.path("n") },
	} {
		cfg := full
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	must.Succeed(t, os.WriteFile(v.path("big"), make([]byte, secret.Largest+1), 0o600))
	full.CertFile = v.path("big")
	if _, err := New(full); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("a large file: %v; want an error and %q in the text", err, "larger than 1 MiB")
	}
}
