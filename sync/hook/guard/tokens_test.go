package guard

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func tokenFiles(t *testing.T, hooks, next, readers string) (*volume, Config) {
	t.Helper()
	files := map[string][]byte{}
	for name, text := range map[string]string{"token": hooks, "token-next": next, "reader": readers} {
		if text != "" {
			files[name] = []byte(text)
		}
	}
	v := newVolume(t, files)
	return v, Config{TokenFiles: []string{v.path("token"), v.path("token-next")}, ReaderTokenFiles: []string{v.path("reader")}}
}

func TestOnlyCallersWithAValidTokenAreAdmitted(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first+"\n", second, reader)
	d := open(t, cfg, generous)
	c := client(t, nil, nil)
	for _, tc := range []struct {
		method, authorization string
		want                  int
	}{
		{"POST", right, 200},
		{"POST", "bearer  " + first, 200}, // RFC 9110: the scheme's case does not matter, nor the number of spaces
		{"POST", "Bearer " + second, 200},
		{"GET", right, 200},
		{"GET", "Bearer " + reader, 200},
		{"POST", "Bearer " + reader, 403},
		{"PUT", "Bearer " + reader, 403},
		{"HEAD", "Bearer " + reader, 200},
		{"POST", "", 401},
		{"GET", "", 401},
		{"HEAD", "", 401},
		{"HEAD", "Bearer " + first + "x", 401},
		{"POST", "Bearer", 401},
		{"POST", "Bearer ", 401},
		{"POST", "Basic " + first, 401},
		{"POST", first, 401},
		{"POST", "Bearer " + first + "x", 401},
		{"POST", "Bearer " + first[:len(first)-1], 401},
		{"POST", "Bearer " + first + " " + second, 401},
		{"POST", "Bearer " + strings.ToUpper(first), 401},
	} {
		r := d.ask(c, tc.method, tc.authorization)
		if r == nil || r.StatusCode != tc.want {
			t.Errorf("%s %q: %+v", tc.method, tc.authorization, r)
			continue
		}
		text, _ := io.ReadAll(r.Body)
		if (r.Header.Get("WWW-Authenticate") != "") != (tc.want == 401) || tc.want != 200 && len(text) > 60 {
			t.Errorf("%s %q: %v %q", tc.method, tc.authorization, r.Header, text)
		}
	}
	if n := d.calls.Load(); n != 6 {
		t.Errorf("%d requests reached the handler; want 6", n)
	}
	if a, b, c := d.counted(noToken), d.counted(wrongToken), d.counted(onlyReads); a != 7 || b != 5 || c != 2 {
		t.Errorf("the refusals counted are %v without a token, %v with a wrong one and %v of readers; want 7, 5 and 2", a, b, c)
	}
	twice, _ := http.NewRequest("POST", d.url, nil)
	twice.Header["Authorization"] = []string{"Bearer wrong-token-of-hooks", right}
	if r, err := c.Do(twice); err != nil || r.StatusCode != 401 {
		t.Errorf("two headers: %v %v", r, err)
	}
}

func TestATokenChangesWithoutAGapAndTheOldOneIsInvalidAtOnce(t *testing.T) {
	t.Parallel()
	v, cfg := tokenFiles(t, first, "", "")
	d := open(t, cfg, generous)
	c := client(t, nil, nil)
	for _, step := range []struct {
		files     map[string][]byte
		old, new_ int
	}{
		{map[string][]byte{"token": []byte(first)}, 200, 401},
		{map[string][]byte{"token": []byte(first), "token-next": []byte(second)}, 200, 200},
		{map[string][]byte{"token": []byte(second), "token-next": []byte(second)}, 401, 200},
		{map[string][]byte{"token": []byte(second)}, 401, 200},
	} {
		v.swap(step.files)
		if a, b := d.code(c, "POST", right), d.code(c, "POST", "Bearer "+second); a != step.old || b != step.new_ {
			t.Errorf("with the files %s, the first token is answered %d and the second %d; want %d and %d", step.files, a, b, step.old, step.new_)
		}
	}
}

// Emptying the file is the quickest way to lock out every holder of the token, so the previous token must become invalid.
func TestWithoutATokenNoCallerIsAdmitted(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string][]byte{
		"gone":      {"reader": []byte(reader)},
		"empty":     {"token": nil},
		"blank":     {"token": []byte(" \n")},
		"too short": {"token": []byte("short")},
		"several":   {"token": []byte(first + "\n" + second)},
	} {
		v, cfg := tokenFiles(t, first, "", reader)
		d := open(t, cfg, generous)
		c := client(t, nil, nil)
		if got := d.code(c, "POST", right); got != 200 {
			t.Fatalf("%s: before: %d; want 200", name, got)
		}
		v.swap(files)
		for _, authorization := range []string{right, "Bearer ", "", "Bearer short", "Bearer " + second, "Bearer " + reader} {
			if got := d.code(c, "POST", authorization); got == 200 || got == 0 {
				t.Errorf("%s: %q: %d", name, authorization, got)
			}
		}
		if log := d.log.String(); strings.Count(log, "rejecting all calls of the hooks") != 1 || strings.Contains(log, first) || strings.Contains(log, second) {
			t.Errorf("%s: the log says %s", name, log)
		}
		v.swap(map[string][]byte{"token": []byte(first)})
		if got := d.code(c, "POST", right); got != 200 {
			t.Errorf("%s: and back again: %d; want 200", name, got)
		}
	}
}

// A mistake in the next token must not lock out callers with the current one.
func TestAnInvalidTokenDoesNotAffectTheOther(t *testing.T) {
	t.Parallel()
	v, cfg := tokenFiles(t, first, "", reader)
	d := open(t, cfg, generous)
	c := client(t, nil, nil)
	v.swap(map[string][]byte{"token": []byte(first), "token-next": []byte("short"), "reader": []byte(reader)})
	if a, b := d.code(c, "POST", right), d.code(c, "POST", "Bearer short"); a != 200 || b != 401 {
		t.Errorf("the current token is answered %d, and the invalid next one %d; want 200 and 401", a, b)
	}
	if log := d.log.String(); !strings.Contains(log, "token-next contains a token of 5 bytes") {
		t.Errorf("the log says %s; want %q in the text", log, "token-next contains a token of 5 bytes")
	}
	// A reader that is given the hooks' token must not become a caller.
	v.swap(map[string][]byte{"token": []byte(first), "token-next": []byte(second), "reader": []byte(second)})
	if a, b, c := d.code(c, "POST", right), d.code(c, "POST", "Bearer "+second), d.code(c, "GET", "Bearer "+second); a != 200 || b != 403 || c != 200 {
		t.Errorf("the hooks' token is answered %d, and the one that readers share %d, and %d to a GET; want 200, 403 and 200", a, b, c)
	}
}

func TestInvalidTokensAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	for want, given := range map[string][3]string{
		"there is no token in":                               {"", "", reader},
		"token contains a token of 16 bytes":                 {"0123456789abcdef", "", ""},
		"token-next contains more than one token":            {first, first + "\n" + second, ""},
		"reader contains more than one token":                {first, "", "a token with spaces in it"},
		"token contains 4097 bytes":                          {strings.Repeat("a", 4097), "", ""},
		"a reader's token is also a token for the hooks":     {first, second, second},
		"token contains more than one token of printable ch": {"ein-schlüssel-für-alle-haken", "", ""},
	} {
		_, cfg := tokenFiles(t, given[0], given[1], given[2])
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
			continue
		}
		for _, text := range given {
			if text != "" && strings.Contains(err.Error(), text) {
				t.Errorf("the error shows the token: %v", err)
			}
		}
	}
	_, cfg := tokenFiles(t, "0123456789abcdef0", "", reader)
	if _, err := New(cfg); err != nil {
		t.Errorf("17 bytes: %v", err)
	}
	cfg.TokenFiles = nil
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "requires --token-file") {
		t.Errorf("readers alone: %v; want an error and %q in the text", err, "requires --token-file")
	}
	if _, err := New(Config{TokenFiles: []string{t.TempDir()}}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a directory: %v; want an error and %q in the text", err, "cannot be read")
	}
}

// The server never waits for an unauthenticated body: it answers after the header, and closes the connection.
func TestAnUnauthenticatedBodyIsNotRead(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", "")
	d := open(t, cfg, generous)
	for _, header := range []string{"", "Authorization: Bearer not-a-token-of-ours\r\n", "Expect: 100-continue\r\n"} {
		conn, err := net.Dial("tcp", d.addr)
		must.Succeed(t, err)
		_ = conn.SetDeadline(time.Now().Add(timeout))
		fmt.Fprintf(conn, "POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n%s\r\nthe beginning", header)
		r := bufio.NewReader(conn)
		response, err := http.ReadResponse(r, nil)
		if err != nil || response.StatusCode != 401 || !response.Close {
			t.Fatalf("%q: %+v %v", header, response, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		if _, err := r.ReadByte(); err == nil {
			t.Error("more is answered")
		}
		_ = conn.Close()
	}
	if d.calls.Load() > 0 {
		t.Error("a request got in")
	}
}

// OPTIONS * asks about the server as a whole: by default net/http answers it without the handler.
func TestOPTIONSNeedsAuthentication(t *testing.T) {
	t.Parallel()
	_, cfg := tokenFiles(t, first, "", "")
	d := open(t, cfg, generous)
	conn := dial(t, d)
	_, _ = io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || response.StatusCode != 401 || !response.Close {
		t.Errorf("%+v %v", response, err)
	}
}

// A caller with an old token must read the refusal: if the server reset the connection while the caller still writes, the
// caller would see only a broken network.
func TestASenderOfABodyLearnsWhyItIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cfg := tokenFiles(t, first, "", "")
		d := openInMemory(t, cfg, generous)
		conn := dial(t, d)
		const length = 128 << 10
		go func() { // no buffer takes the body, so the write blocks until the server reads
			fmt.Fprintf(conn, "POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", length)
			if _, err := conn.Write(make([]byte, length)); err != nil {
				t.Error(err)
			}
		}()
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
			t.Errorf("%q %v", answer, err)
		}
	})
}

func TestManyRefusalsAreFewLogLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, cfg := tokenFiles(t, first, "", "")
		d := openInMemory(t, cfg, generous)
		c := client(t, nil, nil)
		c.Transport.(*http.Transport).DialContext = d.dial
		for range 50 {
			if got := d.code(c, "POST", "Bearer a-wrong-token-of-another"); got != 401 {
				t.Fatalf("a wrong token is answered %d; want 401", got)
			}
		}
		log := d.log.String()
		if n := strings.Count(log, "\n"); n != 1 || !strings.Contains(log, `"reason":"wrong-token"`) || !strings.Contains(log, `"from":"127.0.0.1:`) {
			t.Errorf("%d lines: %s; want 1 and %q and %q in the text", n, log, `"reason":"wrong-token"`, `"from":"127.0.0.1:`)
		}
		if strings.Contains(log, "a-wrong-token") {
			t.Error("the log has the token tried, which may be that of another server")
		}
		if n := d.counted(wrongToken); n != 50 {
			t.Errorf("counted: %v; want 50", n)
		}
	})
}

func TestLocalNamesKeepWebPagesOut(t *testing.T) {
	t.Parallel()
	d := open(t, Config{LocalNames: true}, generous)
	for host, want := range map[string]int{"": 200, "localhost": 200, "LOCALHOST:8080": 200, "[::1]:8080": 200, "127.0.0.1": 200, "evil.example.com": 403, "evil.example.com:8080": 403, "localhost.evil.example.com": 403} {
		r, _ := http.NewRequest("POST", d.url, nil)
		r.Host = host
		response, err := client(t, nil, nil).Do(r)
		if err != nil || response.StatusCode != want {
			t.Errorf("%q: %v %v", host, response, err)
		}
	}
}
