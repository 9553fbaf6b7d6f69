// Package page serves the page for browsers: which groups there are, which steps run and why, what blocks a group and what to do. It only
// reads, from memory. It works without scripts: the script only updates the page that is shown.
//
// Users choose names, in vCenter as in Kubernetes. html/template keeps names from becoming markup; send escapes unprintable characters; and
// the Content-Security-Policy lets the browser run and load only this package's own files.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Source provides what the page shows. It answers from memory, at any time.
type Source interface {
	// Groups lists what is known about all groups, by namespace and name, and reports whether the list is complete.
	Groups() (all []plan.Report, known bool)
	// Slots returns how many vCenter tasks of this replica of the server run, and how many can.
	Slots() plan.Slots
	// Health says whether vCenter's state is known.
	Health() plan.Health
	// Calls says when Metacontroller last called.
	Calls() plan.Calls
}

// Config has the parts of the page.
type Config struct {
	Source Source
	// Next forecasts at most that many steps for a group. It can be nil.
	Next func(group types.UID, most int) plan.Outlook
	// VCenter is the address of the server's vCenter; empty to hide it.
	VCenter string
	// Version is the server's, and Pod the name of its host: of its pod, in Kubernetes.
	Version, Pod string
	// Names returns the DNS names of the server's certificate, such as "vmgroup.vmgroup-system.svc", from which the sign-in form takes the name
	// of the install. It can be nil.
	Names func() []string
	// SignedIn reports whether a request comes from a browser that can sign out. It can be nil.
	SignedIn func(*http.Request) bool
}

// Page serves "/" and everything below Root.
type Page struct {
	cfg     Config
	manual  *manual
	handler http.Handler
	facts   facts
	// One forecast is made at a time, and is shown to all users who open its group within freshFor, because the forecast of a group of 1,000
	// takes 0.1 s.
	forecasting sync.Mutex
	forecasts   map[types.UID]forecast
}

// forecast is the next steps of a group, as of a time.
type forecast struct {
	plan.Outlook
	at time.Time
}

// The paths of the page. A browser has to load Assets to show the sign-in form.
const (
	Root   = "/ui/"
	Assets = Root + "assets/"
	SignIn = Root + "sign-in"
	// SignOut is the target of a POST.
	SignOut = Root + "sign-out"

	groupPath = Root + "groups/"
	docsPath  = Root + "docs/"
)

//go:embed assets templates
var files embed.FS

var layouts = parse("overview", "group", "document", "problem", "signin")

func parse(names ...string) map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.New("layout.html").Funcs(template.FuncMap{"utc": utc, "iso": iso, "seconds": seconds, "after": after, "memory": memory}).
			ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return all
}

// New makes the page.
func New(cfg Config) *Page {
	p := &Page{cfg: cfg, manual: theManual(), forecasts: map[types.UID]forecast{}}
	if p.cfg.Next == nil {
		p.cfg.Next = func(types.UID, int) plan.Outlook { return plan.Outlook{} }
	}
	if p.cfg.SignedIn == nil {
		p.cfg.SignedIn = func(*http.Request) bool { return false }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.overview)
	mux.HandleFunc("GET "+groupPath+"{namespace}/{name}", p.group)
	mux.HandleFunc("GET "+docsPath+"{name}", p.document)
	mux.HandleFunc("GET "+docsPath+"{$}", p.contents)
	mux.HandleFunc("GET "+strings.TrimSuffix(docsPath, "/"), p.contents)
	mux.HandleFunc("GET "+Assets+"{file}", p.asset)
	mux.Handle("GET "+SignIn, http.RedirectHandler("/", http.StatusSeeOther)) // a browser that is signed in
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		p.problem(w, r, http.StatusNotFound, "There is no such page.")
	})
	p.handler = mux
	return p
}

// ServeHTTP answers a GET.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Covers reports whether a path is one of the page's.
func Covers(path string) bool { return path == "/" || strings.HasPrefix(path, Root) }

// IsAsset reports whether a path is a file that the sign-in form needs: style, script or icon. These files contain nothing about groups.
func IsAsset(path string) bool { return strings.HasPrefix(path, Assets) }

// AskToken writes the form in which a user enters a token, with status 401. denied reports that the entered token was refused.
func (p *Page) AskToken(w http.ResponseWriter, r *http.Request, denied bool) {
	to := r.URL.RequestURI()
	if r.URL.Path == SignIn {
		to = r.PostFormValue("to")
	}
	service, namespace := p.install()
	p.send(w, r, http.StatusUnauthorized, "signin", frame{Title: "Sign in", Body: signIn{To: to, Denied: denied, Namespace: namespace, Secret: service + "-reader-token"}})
}

type signIn struct {
	To                string
	Denied            bool
	Namespace, Secret string // the Secret with the token
}

// install returns the names of the server's Service and namespace, from the address <service>.<namespace>.svc that Metacontroller calls.
func (p *Page) install() (service, namespace string) {
	if p.cfg.Names != nil {
		for _, name := range p.cfg.Names() {
			if labels := strings.Split(name, "."); len(labels) >= 3 && labels[2] == "svc" {
				return labels[0], labels[1]
			}
		}
	}
	return "vmgroup", "vmgroup-system"
}

// frame has what all pages have in common.
type frame struct {
	Title   string
	Version string
	// Live makes the script keep the page up to date.
	Live     bool
	SignedIn bool
	// Section is the part of the site: "groups" or "docs".
	Section string
	Body    any
}

// policy makes the browser load and run only this package's own files, send forms only to this server, and turn no text into markup.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// send writes a page, or 304 if the browser shows exactly this page. Browsers cache no page, so a page can't be shown again after the user
// signed out.
func (p *Page) send(w http.ResponseWriter, r *http.Request, code int, layout string, f frame) {
	if wantsJSON(r) && code != http.StatusUnauthorized {
		p.sendStatus(w, code, f.Body)
		return
	}
	if code != http.StatusUnauthorized { // callers who haven't signed in don't see the version
		f.Version, f.SignedIn = p.cfg.Version, p.cfg.SignedIn(r)
	}
	var text bytes.Buffer
	if err := layouts[layout].Execute(&text, f); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError) // a bug: templates and data don't fit
		return
	}
	body := printable(text.String())
	protect(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if code == http.StatusOK && unchanged(w, r, body) {
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body))
}

// unchanged sets the ETag of a body, and answers with 304 if the browser has that body.
func unchanged(w http.ResponseWriter, r *http.Request, body string) bool {
	sum := sha256.Sum256([]byte(body))
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") != tag {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// printable escapes the unprintable characters in every line of a page. The templates contain none, so such a character comes from a name,
// where it could reverse the direction of the text around it.
func printable(page string) string {
	lines := strings.Split(page, "\n")
	for i := range lines {
		lines[i] = plan.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (p *Page) problem(w http.ResponseWriter, r *http.Request, code int, sentence string) {
	p.send(w, r, code, "problem", frame{Title: http.StatusText(code), Body: sentence})
}

// assets are the files of the page, by name.
var assets = readAssets()

type file struct{ kind, text string }

func readAssets() map[string]file {
	all := map[string]file{}
	for extension, kind := range map[string]string{"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"} {
		names, err := fs.Glob(files, "assets/*."+extension)
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			text, err := files.ReadFile(name)
			if err != nil {
				panic(err)
			}
			all[strings.TrimPrefix(name, "assets/")] = file{kind, string(text)}
		}
	}
	return all
}

// asset serves a file of the page. The files contain no secrets, and change only with the server. Unauthenticated callers can request them,
// so an answer must be cheap, and a missing file must reveal nothing.
func (p *Page) asset(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	f, known := assets[r.PathValue("file")]
	if !known {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "there is no such file\n")
		return
	}
	serve(w, r, f)
}

func serve(w http.ResponseWriter, r *http.Request, f file) {
	protect(w.Header())
	w.Header().Set("Content-Type", f.kind+"; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	if !unchanged(w, r, f.text) {
		w.Header().Set("Content-Length", strconv.Itoa(len(f.text)))
		_, _ = io.WriteString(w, f.text)
	}
}

// facts has what is known about all groups, shared by all requests within a second.
type facts struct {
	mu    sync.Mutex
	until time.Time
	seen
}

// seen is immutable.
type seen struct {
	groups []plan.Report
	known  bool
	slots  plan.Slots
	health plan.Health
	calls  plan.Calls
	recent []recentAction
	hosts  []lostHost
}

// freshFor is how long facts are reused: the server lists the groups at most once in that time, however many users look.
const freshFor = time.Second

func (p *Page) look() seen {
	f := &p.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.After(f.until) {
		f.groups, f.known = p.cfg.Source.Groups()
		f.slots, f.health, f.calls = p.cfg.Source.Slots(), p.cfg.Source.Health(), p.cfg.Source.Calls()
		f.recent, f.hosts = newest(f.groups), hostsOf(f.groups)
		f.until = time.Now().Add(freshFor)
	}
	return f.seen
}

// next returns the forecast of a group.
func (p *Page) next(group types.UID) plan.Outlook {
	p.forecasting.Lock()
	defer p.forecasting.Unlock()
	maps.DeleteFunc(p.forecasts, func(_ types.UID, f forecast) bool { return time.Since(f.at) > freshFor })
	f, known := p.forecasts[group]
	if !known {
		f = forecast{p.cfg.Next(group, nextAtOnce), time.Now()}
		p.forecasts[group] = f
	}
	return f.Outlook
}
