// Package browser tests the server's page in a real browser: Debian's chromium, without a window. `make browser` runs it.
package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/hook/guard"
	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

var (
	wanted = flag.Bool("browser", false, "start a browser")
	shots  = flag.String("shots", "", "directory for pictures of the pages; none if empty")
)

const token = "the-token-of-a-reader-in-a-browser"

// certificate returns a self-signed certificate for 127.0.0.1, with its key.
func certificate(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must.Succeed(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(t, err)
	return map[string][]byte{"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}

// serve serves a page, with TLS and a token if asked to, and returns its address.
func serve(t *testing.T, w *world, locked bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	var pages *page.Page
	cfg := guard.Config{Log: zerolog.Nop(), Browser: &guard.Browser{Covers: page.Covers, Open: page.IsAsset, SignIn: page.SignIn, SignOut: page.SignOut,
		Form: func(w http.ResponseWriter, r *http.Request, denied bool) { pages.AskToken(w, r, denied) }}}
	if locked {
		dir, files := t.TempDir(), certificate(t)
		files["token"], files["reader"] = []byte("another-token-for-the-hooks"), []byte(token)
		for name, text := range files {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		cfg.TokenFiles, cfg.ReaderTokenFiles = []string{filepath.Join(dir, "token")}, []string{filepath.Join(dir, "reader")}
		cfg.CertFile, cfg.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	}
	g, err := guard.New(cfg)
	must.Succeed(t, err)
	pages = page.New(page.Config{Source: w, Next: forecast, VCenter: "vc.example.com", Version: "v1.2.3", Pod: "vmgroup-7d9f4c8b6-x2lqp", SignedIn: g.SignedIn})
	limits := guard.Limits{Header: time.Minute, Read: time.Minute, Write: time.Minute, Idle: time.Minute, HeaderBytes: 8 << 10, Connections: 100, PerAddress: 100}
	server := g.Server(hook.New(hook.Config{Page: pages, Log: zerolog.Nop()}), limits)
	t.Cleanup(func() { _ = server.Close() })
	if locked {
		go server.ServeTLS(listener, "", "") //nolint:errcheck // it ends with the test
		return "https://" + listener.Addr().String()
	}
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	return "http://" + listener.Addr().String()
}

// JavaScript expressions: fits is true if nothing is wider than the page; overlap is the text of overlapping cells of a row; faint is the text
// whose contrast to its background is below 4.5 (WCAG 2.2, 1.4.3, which excepts disabled elements).
const (
	fits    = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
	overlap = `[...document.querySelectorAll("tr")].flatMap(row => [...row.children].flatMap((a, i) => [...row.children].slice(i + 1).filter(b => {
		const inside = e => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect(); };
		const p = inside(a), q = inside(b);
		return Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1;
	}).map(b => a.innerText + " / " + b.innerText))).join("; ")`
	faint = `(() => {
		const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
		const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
		const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
		const found = [];
		for (const e of document.querySelectorAll("body *")) {
			if (![...e.childNodes].some(n => n.nodeType === 3 && n.nodeValue.trim()) || e.closest("[aria-hidden]")) continue;
			const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
			if ((a + .05) / (b + .05) < 4.5) found.push(e.className + " " + e.textContent.trim().slice(0, 40) + " " + ((a + .05) / (b + .05)).toFixed(1));
		}
		return found.join("; ");
	})()`
)

func TestEveryPageFitsEveryScreenWithoutABrowserComplaint(t *testing.T) {
	url := serve(t, newWorld(), false)
	c := start(t)
	for _, width := range []int{1400, 1280, 768, 390} {
		p := c.open(width)
		for name, path := range map[string]string{"overview": "/", "group": "/ui/groups/shop/web", "blocked": "/ui/groups/shop/postgres", "held": "/ui/groups/shop/canary", "stopped": "/ui/groups/shop/stopped", "paused": "/ui/groups/shop/paused",
			"unreachable": "/ui/groups/edge/unreachable", "lost": "/ui/groups/shop/missing", "deleting": "/ui/groups/staging/old-frontend", "waits": "/ui/groups/batch/workers", "elsewhere": "/ui/groups/edge/cache-frankfurt",
			"filtered": "/?q=shop", "nothing": "/?q=nothing-has-this-name", "docs": "/ui/docs/troubleshooting#templatenotfound", "reference": "/ui/docs/reference", "missing": "/ui/groups/no/such"} {
			p.visit("about:blank") // a visit to the page that is already open would load nothing
			p.visit(url + path)
			if !eval[bool](p, fits) {
				t.Errorf("%s is wider than %d pixels", path, width)
			}
			if cells := eval[string](p, overlap); cells != "" {
				t.Errorf("%s, %d pixels wide: cells overlap: %s; want none", path, width, cells)
			}
			for _, dark := range []bool{false, true} {
				p.dark(dark)
				if text := eval[string](p, faint); text != "" {
					t.Errorf("%s, dark %t: too little contrast: %s; want none", path, dark, text)
				}
				p.shot(fmt.Sprintf("%s-%d-%s", name, width, map[bool]string{true: "dark", false: "light"}[dark]))
			}
			p.clean("status of 404")
		}
	}
}

func TestAPageShowsChangesAndKeepsFocusSelectionAndScrolling(t *testing.T) {
	w := newWorld()
	url := serve(t, w, false)
	p := start(t).open(1280)
	p.visit(url + "/")
	p.until("the page is live", `document.getElementById("link").textContent === "Live"`)
	eval[bool](p, `window.kept = [...document.querySelectorAll("tbody a")].find(a => a.textContent === "postgres"); kept.focus(); window.scrollTo(0, 120); window.row = kept.closest("tr"); true`)
	w.change(func(w *world) {
		for i := range w.groups {
			if w.groups[i].Name == "postgres" {
				w.groups[i].Phase, w.groups[i].Message, w.groups[i].Faults = v1alpha1.PhasePending, "cloning 1 member", nil
			}
		}
		w.groups = append(w.groups, group("brand-new", "fresh", v1alpha1.PhaseError, 1, "<b>no</b> markup"))
	})
	p.until("the change is shown", `document.body.innerText.includes("cloning 1 member")`)
	p.until("the new group is shown", `document.body.innerText.includes("<b>no</b> markup") && document.title === "(4) Groups · VmGroup"`)
	if !eval[bool](p, `document.activeElement === kept && kept.isConnected && row.isConnected && row.innerText.includes("Pending") && scrollY === 120`) {
		t.Errorf("the focus is on %s, and the page is scrolled to %d, want both as before the change", eval[string](p, "document.activeElement.outerHTML"), eval[int](p, "scrollY"))
	}
	w.change(func(w *world) {
		w.health = plan.Health{UnknownSince: time.Now().Add(-time.Minute), Fault: &plan.Fault{Reason: "VCenterUnreachable", Message: "vc.example.com does not answer"}}
	})
	p.until("vCenter's outage is shown", `document.querySelector(".fact.bad")?.innerText.includes("Restore the connection")`)
	p.shot("trouble-1280-light")
	w.change(func(w *world) {
		w.calls.Silent, w.calls.Last = true, time.Now().Add(-20*time.Minute)
		for i := range w.groups {
			w.groups[i].LastKnown, w.groups[i].Lease = w.groups[i].Lease, false
		}
	})
	p.until("Metacontroller's silence is shown", `[...document.querySelectorAll(".fact.bad")].some(f => f.innerText.includes("Doesn't call")) && document.body.innerText.includes("delete none because of this page")`)
	p.shot("silent-1280-light")
	if text := eval[string](p, faint); text != "" || !eval[bool](p, fits) {
		t.Errorf("too little contrast, or too wide: %s", text)
	}
	offline := func(is bool) {
		p.do("Network.emulateNetworkConditions", map[string]any{"offline": is, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}, nil)
	}
	offline(true)
	p.until("the page says that it is out of date", `document.getElementById("link").textContent.startsWith("Not up to date: as of ") && document.getElementById("link").classList.contains("lost")`)
	p.shot("offline-1280-light")
	offline(false)
	p.until("the page is live again", `document.getElementById("link").textContent === "Live"`)
	p.clean("ERR_INTERNET_DISCONNECTED")
	p.visit(url + "/ui/groups/shop/web")
	if text := eval[string](p, faint); text != "" {
		t.Errorf("too little contrast: %s; want none", text)
	}
	p.shot("trouble-group-1280-light")
	p.clean()
}

// After a restart, a group without VMs is known again once Metacontroller calls for it.
func TestThePageOfAGroupIsShownAgainAfterARestart(t *testing.T) {
	w := newWorld()
	url := serve(t, w, false)
	p := start(t).open(1280)
	p.visit(url + "/ui/groups/shop/web")
	p.until("the page is live", `document.getElementById("link").textContent === "Live"`)
	before := w.groups
	w.change(func(w *world) { w.groups, w.calls = nil, plan.Calls{Began: time.Now()} })
	p.until("the group is not known", `document.body.innerText.includes("is shown here as soon as Metacontroller calls for it")`)
	p.shot("restarted-1280-light")
	w.change(func(w *world) { w.groups, w.calls.Last = before, time.Now() })
	p.until("the group is known again", `document.querySelector("h1").textContent === "web" && document.title === "shop/web · VmGroup"`)
	p.clean("status of 404")
}

// Each time is shown relative to now and as an absolute time, because a screenshot, or a colleague on the phone, has no tooltip.
func TestTimesAreAlsoAbsolute(t *testing.T) {
	w := newWorld()
	w.change(func(w *world) {
		for i := range 40 {
			w.groups = append(w.groups, group("fine", fmt.Sprintf("fine-%d", i), v1alpha1.PhaseRunning, 1, reconciled))
		}
	})
	p := start(t).open(1400)
	p.visit(serve(t, w, false) + "/")
	p.until("the page is live", `document.getElementById("link").textContent === "Live"`)
	if text := eval[string](p, `[...document.querySelectorAll("time")].filter(t => !/ (ago|now|yesterday) \(.*\d\d:\d\d.* UTC\)$|^now \(|^for .* since .*\d\d:\d\d.* UTC$/.test(t.textContent)).map(t => t.textContent).join("; ")`); text != "" {
		t.Errorf("times without an absolute time: %s; want none", text)
	}
	p.shot("folded-1400-light")
}

func TestTheKeyboardIsEnoughToFilterAndOpenAGroup(t *testing.T) {
	url := serve(t, newWorld(), false)
	p := start(t).open(1280)
	p.visit(url + "/")
	p.press("Tab")
	if text := eval[string](p, "document.activeElement.textContent"); text != "Skip to content" {
		t.Errorf("the first Tab moves the focus to %q, want Skip to content", text)
	}
	if !eval[bool](p, `getComputedStyle(document.activeElement).outlineStyle === "solid" && document.activeElement.getBoundingClientRect().top >= 0`) {
		t.Error("the focus is not visible")
	}
	p.press("/")
	p.insert("postg")
	p.until("the list is filtered", `document.querySelectorAll(".groups tbody tr").length === 1 && location.search === "?q=postg"`)
	if eval[string](p, "document.activeElement.id") != "q" {
		t.Error("the filter lost the focus")
	}
	for i := 0; eval[string](p, "document.activeElement.textContent") != "postgres"; i++ {
		if i == 20 {
			t.Fatal("the keyboard doesn't reach the group")
		}
		p.press("Tab")
	}
	p.loads(func() { p.press("Enter") })
	p.until("the group's page", `document.querySelector("h1").textContent === "postgres" && document.body.innerText.includes("name a template that exists")`)
	p.loads(func() { eval[bool](p, `document.querySelector("a.why").click(); true`) })
	p.until("the documentation of the reason", `location.pathname === "/ui/docs/troubleshooting" && location.hash === "#templatenotfound" && document.querySelector(":target") !== null`)
	p.clean()
}

func TestAPageAsksForTheTokenOnceAndForgetsItAtSignOut(t *testing.T) {
	url := serve(t, newWorld(), true)
	c := start(t)
	p := c.open(1280)
	p.visit(url + "/ui/groups/shop/web")
	p.until("the form", `document.activeElement.id === "token"`)
	for _, dark := range []bool{false, true} {
		p.dark(dark)
		p.shot(fmt.Sprintf("signin-1280-%s", map[bool]string{true: "dark", false: "light"}[dark]))
	}
	p.dark(false)
	p.insert("a-token-that-is-wrong")
	p.loads(func() { p.press("Enter") })
	p.until("the token is refused", `document.querySelector("[role=alert]")?.textContent === "This token is not valid."`)
	p.shot("denied-1280-light")
	p.insert(token)
	p.loads(func() { p.press("Enter") })
	p.until("the requested group", `location.pathname === "/ui/groups/shop/web" && document.querySelector("h1").textContent === "web"`)
	if text := eval[string](p, "document.cookie + location.href + document.documentElement.outerHTML + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"); strings.Contains(text, token) || strings.Contains(text, "vmgroup=") {
		t.Errorf("scripts of the page can read the token or the cookie: %s", text)
	}
	p.shot("signedin-1280-light")
	phone := c.open(390)
	phone.visit(url + "/")
	phone.until("another tab is signed in", `document.querySelector("h1").textContent === "Groups"`)
	p.loads(func() { eval[bool](p, `document.querySelector("form[action='/ui/sign-out'] button").click(); true`) })
	p.until("the form again", `document.getElementById("token") !== null`)
	phone.until("the other tab shows the form by itself", `document.getElementById("token") !== null`)
	if !eval[bool](phone, fits) {
		t.Error("the form is wider than a phone")
	}
	phone.shot("signin-390-light")
	p.clean("status of 401")
	phone.clean("status of 401")
}

// A browser sends no SameSite=Strict cookie when it follows a link from another site, even if it is signed in.
func TestALinkFromAnotherSiteOpensThePageIfTheUserIsSignedIn(t *testing.T) {
	url := serve(t, newWorld(), true)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	site := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a id="alert" href="%s/ui/groups/shop/web">web has a problem</a>`, url)
	})}
	go site.Serve(other) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { _ = site.Close() })
	p := start(t).open(1280)
	p.visit(url + "/")
	p.insert(token)
	p.loads(func() { p.press("Enter") })
	p.until("signed in", `document.querySelector("h1").textContent === "Groups"`)
	p.visit(strings.Replace("http://"+other.Addr().String(), "127.0.0.1", "localhost", 1) + "/")
	p.loads(func() { eval[bool](p, `document.getElementById("alert").click(); true`) })
	p.until("the group", `location.pathname === "/ui/groups/shop/web" && document.querySelector("h1").textContent === "web"`)
}

func TestThePageWorksWithoutItsScript(t *testing.T) {
	url := serve(t, newWorld(), true)
	p := start(t).open(1280)
	p.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	p.visit(url + "/?state=error")
	p.until("the form", `document.activeElement.id === "token"`)
	p.insert(token)
	p.loads(func() { p.press("Enter") })
	p.until("the requested page", `document.querySelectorAll(".groups tbody tr").length === 4 && document.querySelector("time").textContent.endsWith(" UTC")`)
	eval[bool](p, `document.getElementById("q").focus(); true`)
	p.insert("postgres")
	p.loads(func() { p.press("Enter") })
	p.until("the filter keeps the state", `document.querySelectorAll(".groups tbody tr").length === 1 && location.search === "?q=postgres&state=error"`)
	p.clean("status of 401")
}
