package browser

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// timeout is how long a test waits for a reaction that an idle browser shows at once.
const timeout = time.Minute

// chromium is a browser without a window, driven over a pipe by its DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/).
type chromium struct {
	t    *testing.T
	to   io.Writer
	mu   sync.Mutex
	next int
	wait map[int]chan answer
	tabs map[string]*tab
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// tab is one page of the browser. Its complaints are the errors that a developer would see in the console.
type tab struct {
	*chromium
	session    string
	complaints []string
	loaded     chan struct{}
}

// binary finds Debian's Chromium. If it is missing, the tests are skipped; in CI they fail.
func binary(t *testing.T) string {
	t.Helper()
	if !*wanted {
		t.Skip("runs only in make browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("CI=true needs a browser: install Debian's package chromium")
	}
	t.Skip("found no browser: install Debian's package chromium")
	return ""
}

func start(t *testing.T) *chromium {
	t.Helper()
	theirs, to, err := os.Pipe()
	must.Succeed(t, err)
	from, ours, err := os.Pipe()
	must.Succeed(t, err)
	command := exec.Command(binary(t), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--ignore-certificate-errors", "--user-data-dir="+t.TempDir(), "about:blank")
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	var says bytes.Buffer
	command.Stderr, command.ExtraFiles = &says, []*os.File{theirs, ours}
	must.Succeed(t, command.Start())
	_ = theirs.Close()
	_ = ours.Close()
	c := &chromium{t: t, to: to, wait: map[int]chan answer{}, tabs: map[string]*tab{}}
	ended := make(chan struct{})
	go func() { defer close(ended); c.listen(from) }()
	t.Cleanup(func() {
		_, _ = fmt.Fprint(to, `{"id":0,"method":"Browser.close"}`+"\x00")
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
		}
		_ = command.Process.Kill()
		_ = command.Wait()
		_, _ = to.Close(), from.Close()
		if t.Failed() {
			t.Logf("the browser's output: %s", says.String())
		}
	})
	return c
}

// listen dispatches the browser's messages until the browser ends.
func (c *chromium) listen(from io.Reader) {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID        int
			Method    string
			SessionID string `json:"sessionId"`
			Params    json.RawMessage
			answer
		}
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		if to := c.wait[m.ID]; m.Method == "" && to != nil {
			delete(c.wait, m.ID)
			to <- m.answer
		} else if tab := c.tabs[m.SessionID]; tab != nil {
			tab.hear(m.Method, m.Params)
		}
		c.mu.Unlock()
	}
}

// hear records an event of the browser. The caller holds c.mu.
func (p *tab) hear(method string, params json.RawMessage) {
	switch method {
	case "Runtime.exceptionThrown":
		p.complaints = append(p.complaints, string(params))
	case "Runtime.consoleAPICalled":
		if bytes.Contains(params, []byte(`"type":"error"`)) || bytes.Contains(params, []byte(`"type":"warning"`)) {
			p.complaints = append(p.complaints, string(params))
		}
	case "Log.entryAdded": // violations of the Content-Security-Policy, and resources that failed to load
		var e struct {
			Entry struct{ Level, Text, URL string }
		}
		if json.Unmarshal(params, &e) == nil && (e.Entry.Level == "error" || e.Entry.Level == "warning") {
			p.complaints = append(p.complaints, e.Entry.Level+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	case "Page.loadEventFired":
		select {
		case p.loaded <- struct{}{}:
		default:
		}
	}
}

func (c *chromium) ask(session, method string, params any, into any) {
	c.t.Helper()
	if err := c.try(session, method, params, into); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// try sends a command, and returns the error with which the browser refuses it, as it does while a page is being replaced.
func (c *chromium) try(session, method string, params any, into any) error {
	answered := make(chan answer, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.wait[id] = answered
	m := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = c.to.Write(append(text, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case a := <-answered:
		switch {
		case a.Error != nil:
			return errors.New(a.Error.Message)
		case into != nil:
			return json.Unmarshal(a.Result, into)
		}
		return nil
	case <-time.After(timeout):
		return errors.New("the browser does not answer")
	}
}

// open opens a tab with this width in pixels.
func (c *chromium) open(width int) *tab {
	c.t.Helper()
	var made struct{ TargetID string }
	c.ask("", "Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var joined struct{ SessionID string }
	c.ask("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &joined)
	p := &tab{chromium: c, session: joined.SessionID, loaded: make(chan struct{}, 1)}
	c.mu.Lock()
	c.tabs[p.session] = p
	c.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.do(domain+".enable", nil, nil)
	}
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	return p
}

func (p *tab) do(method string, params map[string]any, into any) {
	p.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	p.ask(p.session, method, params, into)
}

// visit opens an address and waits until the page is loaded.
func (p *tab) visit(url string) {
	p.t.Helper()
	p.loads(func() { p.do("Page.navigate", map[string]any{"url": url}, nil) })
}

// loads calls a function that makes the tab load a page, and waits until the page is loaded.
func (p *tab) loads(what func()) {
	p.t.Helper()
	select {
	case <-p.loaded:
	default:
	}
	what()
	select {
	case <-p.loaded:
	case <-time.After(timeout):
		p.t.Fatal("the page was not loaded in time")
	}
}

// dark emulates a system in dark or light mode.
func (p *tab) dark(on bool) {
	p.t.Helper()
	value := map[bool]string{true: "dark", false: "light"}[on]
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": value}}}, nil)
}

// eval evaluates JavaScript in the page.
func eval[T any](p *tab, script string) (value T) {
	p.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.do("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", script, out.ExceptionDetails)
	}
	if len(out.Result.Value) > 0 {
		if err := json.Unmarshal(out.Result.Value, &value); err != nil {
			p.t.Fatalf("%s: %v", script, err)
		}
	}
	return value
}

// until waits for a condition in JavaScript.
func (p *tab) until(what, condition string) {
	p.t.Helper()
	if !p.soon(condition, timeout) {
		p.t.Fatalf("waiting until %s; the page shows: %s", what, eval[string](p, "document.body.innerText"))
	}
}

// soon reports whether a condition in JavaScript becomes true within a time.
func (p *tab) soon(condition string, within time.Duration) bool {
	p.t.Helper()
	holds := func() bool {
		var out struct{ Result struct{ Value bool } }
		script := "(() => { try { return Boolean(" + condition + "); } catch { return false; } })()"
		return p.try(p.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &out) == nil && out.Result.Value
	}
	for began := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > within {
			return false
		}
	}
	return true
}

// press presses and releases a key.
func (p *tab) press(key string) {
	p.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "/": 191}
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	switch {
	case key == "Enter":
		event["text"] = "\r"
	case len(key) == 1:
		event["text"] = key
	}
	p.do("Input.dispatchKeyEvent", event, nil)
	p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// insert types a text into the field that has the focus. It waits for the focus, because autofocus only takes effect when the page is drawn,
// which may be after the page is loaded (HTML, "flush autofocus candidates").
func (p *tab) insert(text string) {
	p.t.Helper()
	p.until("a field has the focus", `document.activeElement.matches("input")`)
	p.do("Input.insertText", map[string]any{"text": text}, nil)
}

// clean fails the test for every complaint of the browser since the last call, unless it contains one of the expected texts.
func (p *tab) clean(expected ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, c := range p.complaints {
		for _, word := range expected {
			if strings.Contains(c, word) {
				continue next
			}
		}
		p.t.Errorf("the browser complains: %s", c)
	}
	p.complaints = nil
}

// shot takes a picture of the whole page, if -shots names a directory.
func (p *tab) shot(name string) {
	p.t.Helper()
	if *shots == "" {
		return
	}
	var size struct {
		CSSContentSize struct{ Width, Height float64 } `json:"cssContentSize"`
	}
	p.do("Page.getLayoutMetrics", nil, &size)
	var picture struct{ Data string }
	p.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": min(size.CSSContentSize.Height, 3000), "scale": 1}}, &picture)
	png, err := base64.StdEncoding.DecodeString(picture.Data)
	if err == nil {
		err = os.MkdirAll(*shots, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
