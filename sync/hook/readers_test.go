package hook_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// many lists so many members, of one group each.
func many(n int) (all []plan.Listed) {
	for i := range n {
		vm := plan.VM{MoRef: fmt.Sprintf("vm-%d", i), Name: "web-0", Power: plan.PoweredOn, Reachable: true, IPs: []string{fmt.Sprintf("10.%d.%d.7", i/250, i%250)}, Host: "esx-01.example.com"}
		all = append(all, plan.Listed{Ref: plan.Ref{Namespace: "shop", Name: fmt.Sprintf("web-%d", i), UID: "u"}, VMs: []plan.VM{vm}})
	}
	return all
}

// readers is a server on an in-memory network, and the connections to it.
type readers struct {
	t       *testing.T
	network *memnet.Network
	address string
}

func newReaders(t *testing.T, cfg hook.Config) *readers {
	network := memnet.New()
	listener := network.Listen()
	server := &http.Server{Handler: hook.New(cfg), WriteTimeout: 30 * time.Second, ReadTimeout: 15 * time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return &readers{t, network, listener.Addr().String()}
}

// deaf opens connections that request a path repeatedly and never read the answers.
func (c *readers) deaf(connections int, path string) {
	c.t.Helper()
	for range connections {
		conn, err := c.network.DialContext(context.Background(), "tcp", c.address)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = conn.Close() })
		go func() {
			for {
				if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					return
				}
			}
		}()
	}
	synctest.Wait()
}

// ask sends one request, and returns the status and how long the answer took; 0 if the connection ended without one.
func (c *readers) ask(request string) (status int, took time.Duration) {
	c.t.Helper()
	began := time.Now()
	conn, err := c.network.DialContext(context.Background(), "tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test has read what it needs
	go func() { _, _ = io.WriteString(conn, request) }()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, time.Since(began)
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err != nil {
		return 0, time.Since(began)
	}
	return response.StatusCode, time.Since(began)
}

const aSync = `{"parent":{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","metadata":{"name":"web","namespace":"shop","uid":"u"}}}`

func syncCall() string {
	return fmt.Sprintf("POST /sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(aSync), aSync)
}

// A client that doesn't read its answer takes no other caller's place, neither a hook's nor another reader's.
func TestReadersThatReadNothingStopNoOtherReader(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 40<<10)) })
	for _, path := range []string{"/sd?port=9100", "/groups", "/groups/shop/web-1", "/slots", "/", "/ui/assets/style.css", "/nothing"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listed := many(500)
				c := newReaders(t, hook.Config{Controller: &controller{state: healthy()}, Page: page, ListGroups: func() ([]plan.Listed, bool) { return listed, true }, Log: zerolog.Nop()})
				c.deaf(70, path)
				for range 5 { // five rounds, longer than any answer can take
					for _, request := range []string{syncCall(), "GET /groups HTTP/1.1\r\nHost: x\r\n\r\n", "GET /sd HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /ui/assets/style.css HTTP/1.1\r\nHost: x\r\n\r\n"} {
						if status, took := c.ask(request); status != http.StatusOK || took > time.Second {
							t.Errorf("%.20s: %d after %s", request, status, took)
						}
					}
					time.Sleep(7 * time.Second)
				}
			})
		})
	}
}

// The server stops writing an answer that its client doesn't read, soon if the answer is small.
func TestAnAnswerIsWrittenForAWhileOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listed := many(2000)
		c := newReaders(t, hook.Config{Controller: &controller{}, ListGroups: func() ([]plan.Listed, bool) { return listed, true }, Log: zerolog.Nop()})
		conn, err := c.network.DialContext(t.Context(), "tcp", c.address)
		must.Succeed(t, err)
		defer conn.Close() //nolint:errcheck // the test has read what it needs
		_, _ = io.WriteString(conn, "GET /sd HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(10 * time.Second)
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		text, err := io.ReadAll(conn)
		if timeout, is := err.(net.Error); is && timeout.Timeout() || len(text) > 1<<20 {
			t.Errorf("after ten seconds the answer of %d bytes is still being written: %v", len(text), err)
		}
	})
}

func TestAnAnswerToAReaderIsBoundedInSize(t *testing.T) {
	t.Parallel()
	reports := make([]plan.Report, 40)
	for i := range reports {
		reports[i] = plan.Report{Namespace: "shop", Name: fmt.Sprint("web-", i), Message: strings.Repeat("x", 1<<20), Phase: v1alpha1.PhaseRunning}
	}
	h := serve(&controller{reports: reports})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/groups", nil))
	if w.Code != http.StatusServiceUnavailable || w.Body.Len() > 300 || !strings.Contains(w.Body.String(), "ask for less") {
		t.Errorf("%d %.300s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/groups/shop/web-7", nil))
	if w.Code != http.StatusOK {
		t.Errorf("%d %.300s; want %d", w.Code, w.Body, http.StatusOK)
	}
}

// Each port adds a target for every member, so the server counts a repeated port once, and bounds the number of ports.
func TestTheParametersOfServiceDiscoveryAreBoundedAndCountOnce(t *testing.T) {
	t.Parallel()
	listed := many(2000)
	h := hook.New(hook.Config{Controller: &controller{}, ListGroups: func() ([]plan.Listed, bool) { return listed, true }, Log: zerolog.Nop()})
	get := func(query string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/sd?"+query, nil))
		return w.Code, w.Body.String()
	}
	_, once := get("port=1&namespace=shop&group=web-1")
	if code, text := get(strings.Repeat("port=1&port=01&namespace=shop&group=web-1&", 500)); code != http.StatusOK || text != once || !strings.Contains(once, `["10.0.1.7:1"]`) {
		t.Errorf("%d %.300s", code, text)
	}
	several := func(name string, n int) string {
		var query strings.Builder
		for i := range n {
			fmt.Fprintf(&query, "%s=%d&", name, i+1)
		}
		return query.String()
	}
	for query, want := range map[string]int{
		several("port", 16): 200, several("port", 17): 400, several("port", 1500): 400,
		several("namespace", 64): 200, several("namespace", 65): 400, several("group", 64): 200, several("group", 65): 400,
	} {
		if code, text := get(query); code != want || code == 400 && !strings.Contains(text, "can be at most") {
			t.Errorf("%.40s…: %d %.200s", query, code, text)
		}
	}
}
