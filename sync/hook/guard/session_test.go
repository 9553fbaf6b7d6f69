package guard

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// withBrowser lets browsers in at "/" and below /ui/.
func withBrowser(cfg Config) Config {
	cfg.Browser = &Browser{
		Covers: func(path string) bool { return path == "/" || strings.HasPrefix(path, "/ui/") },
		Open:   func(path string) bool { return strings.HasPrefix(path, "/ui/assets/") }, SignIn: "/ui/sign-in", SignOut: "/ui/sign-out",
		Form: func(w http.ResponseWriter, _ *http.Request, denied bool) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, "form, denied %t", denied)
		},
	}
	return cfg
}

// send sends a request with these headers, follows no redirect, and returns the answer with its body.
func (d *guarded) send(c *http.Client, method, path, body string, header http.Header) (*http.Response, string) {
	d.t.Helper()
	r, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	still := *c
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := still.Do(r)
	if err != nil {
		return &http.Response{Header: http.Header{}}, err.Error()
	}
	defer response.Body.Close() //nolint:errcheck // the body was only read
	text, _ := io.ReadAll(response.Body)
	return response, string(text)
}

// signIn posts the form, and returns the header of a browser that is signed in.
func (d *guarded) signIn(c *http.Client, token string) http.Header {
	d.t.Helper()
	response, text := d.send(c, "POST", "/ui/sign-in", url.Values{"token": {token}, "to": {"/ui/x?y=1"}}.Encode(), nil)
	cookies := response.Cookies()
	if response.StatusCode != 303 || response.Header.Get("Location") != "/ui/x?y=1" || len(cookies) != 1 {
		d.t.Fatalf("%d %v %s", response.StatusCode, response.Header, text)
	}
	return http.Header{"Cookie": {cookies[0].Name + "=" + cookies[0].Value}}
}

func TestACookieOpensPagesAndNothingElse(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", reader)
	d := open(t, withBrowser(cfg), generous)
	c := client(t, nil, nil)
	for _, token := range []string{reader, first, " " + reader + "\n"} {
		in := d.signIn(c, token)
		for request, want := range map[string]int{
			"GET /": 200, "GET /ui/groups/shop/web": 200, "GET /ui/assets/style.css": 200,
			"GET /groups": 401, "GET /groups/shop/web": 401, "GET /sd": 401, "GET /nothing": 401, "GET /uix": 401,
			"POST /sync": 401, "POST /finalize": 401, "POST /customize": 401, "POST /plan": 401, "POST /": 401, "POST /ui/groups/shop/web": 401,
			"PUT /": 401, "DELETE /ui/groups/shop/web": 401, "HEAD /": 200, "HEAD /ui/assets/style.css": 200, "HEAD /groups": 401, "OPTIONS /": 401,
		} {
			method, path, _ := strings.Cut(request, " ")
			if r, text := d.send(c, method, path, "", in); r.StatusCode != want || (text == "in") != (want == 200 && method == "GET") {
				t.Errorf("%s with the cookie: %d %s", request, r.StatusCode, text)
			}
		}
	}
}

func TestWithoutACookieABrowserGetsTheFormAndAProgramARefusal(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", reader)
	d := open(t, withBrowser(cfg), generous)
	c := client(t, nil, nil)
	for _, tc := range []struct {
		method, path, authorization string
		want                        int
		says                        string
	}{
		{"GET", "/", "", 401, "form, denied false"},
		{"GET", "/ui/groups/shop/web", "", 401, "form, denied false"},
		{"GET", "/ui/sign-in", "", 401, "form, denied false"},
		{"GET", "/ui/assets/style.css", "", 200, "in"},
		{"POST", "/ui/assets/style.css", "", 401, "authentication required\n"},
		{"GET", "/", "Bearer " + reader, 200, "in"},
		{"GET", "/", "Bearer a-token-that-is-wrong", 401, "authentication required\n"},
		{"GET", "/", "Basic eDp5", 401, "authentication required\n"},
		{"GET", "/groups", "", 401, "authentication required\n"},
		{"POST", "/", "", 401, "authentication required\n"},
		{"POST", "/sync", "", 401, "authentication required\n"},
	} {
		header := http.Header{}
		if tc.authorization != "" {
			header.Set("Authorization", tc.authorization)
		}
		r, text := d.send(c, tc.method, tc.path, "", header)
		if r.StatusCode != tc.want || text != tc.says || tc.want == 401 && (r.Header.Get("WWW-Authenticate") != challenge || !r.Close) {
			t.Errorf("%s %s: %d %q %v", tc.method, tc.path, r.StatusCode, text, r.Header)
		}
	}
}

func TestAWrongTokenDoesNotSignIn(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", reader)
	d := open(t, withBrowser(cfg), generous)
	c := client(t, nil, nil)
	for body, want := range map[string]int{
		"token=a-token-that-is-wrong": 401, "": 401, "token=": 401, "token=" + reader[1:]: 401, "other=" + reader: 401,
		"token=x%zz": 400, "token=" + strings.Repeat("x", formBytes): 413,
	} {
		if r, text := d.send(c, "POST", "/ui/sign-in?token="+reader, body, nil); r.StatusCode != want || len(r.Cookies()) != 0 || want == 401 && text != "form, denied true" {
			t.Errorf("%.40q: %d %s %v", body, r.StatusCode, text, r.Header)
		}
	}
	if n := d.counted(wrongToken); n != 5 || strings.Contains(d.log.String(), "a-token-that-is-wrong") {
		t.Errorf("%v were counted; the log says %s", n, d.log)
	}
	if d.calls.Load() != 0 {
		t.Error("a request got in")
	}
}

func TestACookieIsForThisHostOnlyAndHasNoToken(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, encrypted := range []bool{false, true} {
		v, cfg := tokenFiles(t, first, "", reader)
		name := "vmgroup"
		if encrypted {
			files := pairFiles(a)
			files["token"], files["reader"] = []byte(first), []byte(reader)
			v.swap(files)
			cfg, name = withPair(v, cfg), "__Host-vmgroup"
		}
		d := open(t, withBrowser(cfg), generous)
		c := client(t, a, nil)
		r, _ := d.send(c, "POST", "/ui/sign-in", "token="+reader, nil)
		if len(r.Cookies()) != 1 {
			t.Fatalf("the sign-in is answered with the headers %v; want one cookie", r.Header)
		}
		got := r.Cookies()[0]
		digest := sha256.Sum256([]byte(reader))
		if got.Name != name || !got.HttpOnly || got.Secure != encrypted || got.SameSite != http.SameSiteStrictMode || got.Path != "/" || got.Domain != "" || got.MaxAge != 12*60*60 ||
			strings.Contains(got.Raw, reader) || strings.Contains(got.Raw, hex.EncodeToString(digest[:])) {
			t.Errorf("got the cookie %s; want %s for 12 hours, for this site and scripts of none, and without the token or its digest", got.Raw, name)
		}
		if encrypted { // a cookie set without TLS may be from an attacker who changes the traffic
			if r, _ := d.send(c, "GET", "/", "", http.Header{"Cookie": {"vmgroup=" + got.Value}}); r.StatusCode != 401 {
				t.Errorf("a cookie of plain HTTP: %d; want 401", r.StatusCode)
			}
		}
		out, _ := d.send(c, "POST", "/ui/sign-out", "", http.Header{"Cookie": {got.Name + "=" + got.Value}})
		if out.StatusCode != 303 || out.Header.Get("Location") != "/" || len(out.Cookies()) != 1 || out.Cookies()[0].Name != name || out.Cookies()[0].MaxAge >= 0 {
			t.Errorf("%d %v", out.StatusCode, out.Header)
		}
	}
}

func TestAForgedOrOldCookieOpensNothing(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", reader)
	d := open(t, withBrowser(cfg), generous)
	c := client(t, nil, nil)
	good := d.signIn(c, reader).Get("Cookie")
	value := strings.TrimPrefix(good, "vmgroup=")
	ends, code, _ := strings.Cut(value, ".")
	at := func(offset time.Duration, token string) string {
		ends := time.Now().Add(offset).Unix()
		return strconv.FormatInt(ends, 10) + "." + hex.EncodeToString(seal(sha256.Sum256([]byte(token)), ends))
	}
	for name, cookie := range map[string]string{
		"nothing": "", "no MAC": ends, "no end": "." + code, "an empty MAC": ends + ".", "half the MAC": ends + "." + code[:32], "a longer MAC": value + "00",
		"a later end": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) + "." + code, "over": at(-time.Second, reader), "beyond what is given": at(13*time.Hour, reader),
		"another token's": at(time.Hour, "a-token-that-is-wrong"), "no token's": at(time.Hour, ""), "no hex": ends + ".zz", "the token": reader,
	} {
		if r, _ := d.send(c, "GET", "/", "", http.Header{"Cookie": {"vmgroup=" + cookie}}); r.StatusCode != 401 {
			t.Errorf("%s: %d; want 401", name, r.StatusCode)
		}
	}
	for _, cookie := range []string{good, "vmgroup=" + at(time.Hour, reader), "vmgroup=" + at(time.Hour, first)} {
		if r, _ := d.send(c, "GET", "/", "", http.Header{"Cookie": {cookie}}); r.StatusCode != 200 {
			t.Errorf("%s: %d; want 200", cookie, r.StatusCode)
		}
	}
}

// A second replica accepts the cookie. Once the token is removed, no replica accepts it.
func TestACookieIsValidAtEveryReplicaAndAsLongAsItsToken(t *testing.T) {
	t.Parallel()
	v, cfg := tokenFiles(t, first, second, reader)
	one, other := open(t, withBrowser(cfg), generous), open(t, withBrowser(cfg), generous)
	c := client(t, nil, nil)
	byReader, byHook := one.signIn(c, reader), one.signIn(c, second)
	want := func(when string, header http.Header, code int) {
		t.Helper()
		for _, d := range []*guarded{one, other} {
			if r, _ := d.send(c, "GET", "/", "", header); r.StatusCode != code {
				t.Errorf("%s: %d; want %d", when, r.StatusCode, code)
			}
		}
	}
	want("signed in", byReader, 200)
	want("signed in", byHook, 200)
	v.swap(map[string][]byte{"token": []byte(first), "reader": []byte(reader)})
	want("one of the hooks' tokens is gone", byHook, 401)
	want("the reader's is there", byReader, 200)
	v.swap(map[string][]byte{"token": []byte(first), "reader": []byte("a-new-token-of-a-reader")})
	want("the reader has another", byReader, 401)
	v.swap(nil)
	want("no token", byReader, 401)
	if r, _ := one.send(c, "POST", "/ui/sign-in", "token=", nil); r.StatusCode != 401 {
		t.Errorf("on a server without tokens, a sign-in with the empty one is answered %d; want 401", r.StatusCode)
	}
}

func TestWithMTLSABrowserNeedsACertificateAsWell(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	files := pairFiles(a)
	files["token"], files["reader"], files["ca.crt"] = []byte(first), []byte(reader), a.pem()
	v := newVolume(t, files)
	cfg := withPair(v, Config{TokenFiles: []string{v.path("token")}, ReaderTokenFiles: []string{v.path("reader")}, ClientCAFile: v.path("ca.crt")})
	d := open(t, withBrowser(cfg), generous)
	with := client(t, a, a.client(x509.ExtKeyUsageClientAuth, later()))
	in := d.signIn(with, reader)
	for path, want := range map[string]int{"/": 200, "/groups": 401} {
		if r, _ := d.send(with, "GET", path, "", in); r.StatusCode != want {
			t.Errorf("%s with certificate and cookie: %d; want %d", path, r.StatusCode, want)
		}
	}
	if r, text := d.send(with, "GET", "/", "", nil); r.StatusCode != 401 || text != "form, denied false" {
		t.Errorf("with a certificate alone: %d %s; want 401 and %s", r.StatusCode, text, "form, denied false")
	}
	for name, c := range map[string]*http.Client{"none": client(t, a, nil), "another authority's": client(t, a, other.client(x509.ExtKeyUsageClientAuth, later()))} {
		for _, request := range []string{"GET /", "GET /ui/assets/style.css", "POST /ui/sign-in"} {
			method, path, _ := strings.Cut(request, " ")
			if r, text := d.send(c, method, path, "token="+reader, in); r.StatusCode == 200 || r.StatusCode == 303 || strings.Contains(text, "form") {
				t.Errorf("%s with the certificate %s: %d %s", request, name, r.StatusCode, text)
			}
		}
	}

	for _, request := range []string{"GET /", "GET /ui/assets/style.css", "POST /ui/sign-in", "POST /ui/sign-out"} { // the certificate of the connection has expired since the handshake
		method, path, _ := strings.Cut(request, " ")
		r, w := httptest.NewRequest(method, path, strings.NewReader("token="+reader)), httptest.NewRecorder()
		r.TLS, r.Header = &tls.ConnectionState{}, in.Clone()
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		d.guard.wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != 401 || w.Body.String() != "authentication required\n" || len(w.Result().Cookies()) != 0 {
			t.Errorf("%s without a certificate that is trusted: %d %s", request, w.Code, w.Body)
		}
	}

	alone := open(t, withBrowser(withPair(v, Config{ClientCAFile: v.path("ca.crt")})), generous)
	if r, text := alone.send(with, "GET", "/", "", nil); r.StatusCode != 200 || text != "in" {
		t.Errorf("without tokens the certificate suffices: %d %s; want 200 and %s", r.StatusCode, text, "in")
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", reader)
	d := open(t, withBrowser(cfg), generous)
	c := client(t, nil, nil)
	in := d.signIn(c, reader)
	for _, path := range []string{"/ui/sign-in", "/ui/sign-out"} {
		for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
			header := in.Clone()
			header.Set(name, value)
			if r, _ := d.send(c, "POST", path, "token="+reader, header); r.StatusCode != 403 || len(r.Cookies()) != 0 {
				t.Errorf("%s, %s: %d %v", path, name, r.StatusCode, r.Header)
			}
		}
		own := in.Clone()
		own.Set("Sec-Fetch-Site", "same-origin")
		own.Set("Origin", d.url)
		if r, _ := d.send(c, "POST", path, "token="+reader, own); r.StatusCode != 303 {
			t.Errorf("a post to %s from the server's own page is answered %d; want 303", path, r.StatusCode)
		}
	}
	if n := d.counted(crossSite); n != 4 {
		t.Errorf("%v were counted; want 4", n)
	}
}

func TestSigningInRedirectsOnlyToThisServer(t *testing.T) {
	t.Parallel()
	b := withBrowser(Config{}).Browser
	for to, want := range map[string]string{
		"/": "/", "/?q=a%20b": "/?q=a%20b", "/ui/groups/shop/web?page=2": "/ui/groups/shop/web?page=2",
		"": "/", "/ui/sign-in": "/", "/groups": "/", "//evil.example/": "/", "///evil.example/ui/": "/", "https://evil.example/ui/": "/", "https:/ui/": "/", `/\evil.example/ui/`: "/", `\\evil.example`: "/",
		"/\t/evil.example": "/", "/ui/\r\nSet-Cookie: a=b": "/", "javascript:alert(1)": "/", "//user@/ui/": "/", "/%2f%2fevil.example": "/", "ui/": "/", "?": "/",
	} {
		if got := b.within(to); got != want {
			t.Errorf("%q redirects to %q, not %q", to, got, want)
		}
	}
}

// sendSlowly sends the head of a request, and a byte of its body each second, and returns the answer after which the server hangs up.
func sendSlowly(t *testing.T, head string) (answer string, took time.Duration) {
	t.Helper()
	_, cfg := tokenFiles(t, first, "", reader)
	synctest.Test(t, func(t *testing.T) {
		conn := dial(t, openInMemory(t, withBrowser(cfg), generous))
		began := time.Now()
		_, _ = fmt.Fprint(conn, head)
		drip(t, conn)
		answer = cutOff(t, conn)
		took = time.Since(began)
	})
	return answer, took
}

func TestTheServerHangsUpOnASlowForm(t *testing.T) {
	t.Parallel()
	answer, took := sendSlowly(t, "POST /ui/sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken=")
	if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || took > formTime+2*time.Second {
		t.Errorf("after %s: %s", took, answer)
	}
}

// The server doesn't read the body of a request that isn't signed in.
func TestTheFormIsShownWithoutReadingABody(t *testing.T) {
	t.Parallel()
	answer, took := sendSlowly(t, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
	if !strings.Contains(answer, "form, denied false") || took > 2*time.Second {
		t.Errorf("after %s: %s", took, answer)
	}
}

func TestWithoutTokensThereIsNothingToSignInTo(t *testing.T) {
	t.Parallel()
	d := open(t, withBrowser(Config{LocalNames: true}), generous)
	c := client(t, nil, nil)
	if r, text := d.send(c, "GET", "/", "", nil); r.StatusCode != 200 || text != "in" {
		t.Errorf("%d %s; want 200 and %s", r.StatusCode, text, "in")
	}
	if r, text := d.send(c, "POST", "/ui/sign-in", "token=", nil); text != "in" || len(r.Cookies()) != 0 {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	r, err := http.NewRequest("GET", d.url+"/", bytes.NewReader(nil))
	must.Succeed(t, err)
	r.Host = "evil.example"
	if response, err := c.Do(r); err != nil || response.StatusCode != 403 {
		t.Errorf("a request for the host evil.example got %v, and the error %v; want 403", response, err)
	}
}
