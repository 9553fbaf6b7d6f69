package page

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// shape is the tree of a page without its text: elements and the names of their attributes, in order.
func shape(t testing.TB, body string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	must.Succeed(t, err)
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			b.WriteString("<" + n.Data)
			for _, a := range n.Attr {
				b.WriteString(" " + a.Key)
			}
			b.WriteString(">")
		} else if n.Type == html.CommentNode {
			b.WriteString("<!---->")
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
	}
	walk(root)
	return b.String()
}

// links are the addresses that a page links to, or loads.
func links(t *testing.T, body string) (all []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	must.Succeed(t, err)
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" || a.Key == "action" {
				all = append(all, a.Val)
			}
		}
	}
	return all
}

// hostile is a source with that word in every text that a user of Kubernetes or vCenter can set.
func hostile(word string) *source {
	g := report(word, word, v1alpha1.PhaseError, word)
	g.Faults[1].Condition, g.Faults[1].VM, g.Members[1].Reason, g.Actions[1].Result = word, word, "Why"+word, "Result"+word
	g.Since, g.Spec = began, &plan.SpecReport{Template: word, CPU: 1, MemoryMB: 1000, Strategy: word, QuarantineSeconds: 60}
	g.Update, g.FormerTemplates = &v1alpha1.UpdateProgress{Target: word, LastProgressTime: metav1.NewTime(began)}, []string{word, "b" + word}
	g.Quarantined = []v1alpha1.Quarantined{{Name: word, MoRef: "vm-9" + word, Reason: "Why" + word, Since: metav1.NewTime(began)}}
	g.Pending[0].Op, g.Actions[0].Op = plan.Op("Op"+word), plan.Op("Op"+word)
	g.Finalizing, g.DesiredReplicas = false, 3
	return &source{groups: []plan.Report{g}, health: plan.Health{VCenter: word, UnknownSince: began, Fault: &plan.Fault{Reason: "Reason" + word, Message: word}}}
}

// FuzzNamesNeverBecomeMarkup renders pages with a word in every name and message, and again with a plain one: both have the same
// elements and attributes, link only to this server, and contain only printable characters. A word that makes a reason known to the
// documentation, such as "s" after "Reason", rightly adds a link, and is left out.
func FuzzNamesNeverBecomeMarkup(f *testing.F) {
	for _, word := range []string{"web", "<b>", "</td></table><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "javascript:alert(1)", "//evil.example/",
		"\u202egnp.exe", "a\u2066b\u2069", "\x00\x1b[31m", "-->", "<!--", "]]>", "&lt;", "&#x3c;script&#x3e;", "{{.}}", "`", "\\", "../..", "%2e%2e/", "a/b", "?q=x#y", "\xff\xfe", "\u2028", "</title>",
		"</textarea>", "<svg/onload=alert(1)>", "ﷺ", strings.Repeat("x", 3000), "web\nweb", "\u00a0", " ", "+", "=cmd()", "s", "Nothing"} {
		f.Add(word, word)
	}
	const plain = "plain"
	shapes := map[string]string{} // of pages with a plain word
	for _, path := range []string{"/", "/?q=plain", "/?q=no+such", groupPath + "plain/plain"} {
		_, body, _ := get(New(Config{Source: hostile(plain), Next: next(plain), VCenter: plain}), path, "")
		shapes[path] = shape(f, body)
	}
	form := func(query string) string {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: query}
		New(Config{Source: &source{}}).AskToken(w, r, false)
		return w.Body.String()
	}
	shapes["form"] = shape(f, form(plain))
	f.Fuzz(func(t *testing.T, word, asked string) {
		if strings.TrimSpace(word) == "" || len(word) > 4000 {
			return
		}
		p := New(Config{Source: hostile(word), Next: next(word), VCenter: word})
		for _, prefix := range []string{"", "Reason", "Own", "Why", "Result"} {
			if p.manual.reason(prefix+word).Link != "" {
				return
			}
		}
		check := func(u *url.URL, as string) {
			t.Helper()
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			r.URL = u
			p.ServeHTTP(w, r)
			body := w.Body.String()
			if got := shape(t, body); got != shapes[as] {
				t.Errorf("%s with %q has different elements:\n%s\n%s", u, word, got, shapes[as])
			}
			for _, to := range links(t, body) {
				if u, err := url.Parse(to); to != "#main" && (err != nil || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) || u.Host != "") {
					t.Errorf("%s with %q links to %q", u, word, to)
				}
			}
			for _, r := range body {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%s with %q has %U", u, word, r)
				}
			}
		}
		query := func(q string) *url.URL { return &url.URL{Path: "/", RawQuery: url.Values{"q": {q}}.Encode()} }
		check(&url.URL{Path: "/"}, "/")
		check(query(word), "/?q=plain")
		if asked = strings.TrimSpace(asked); asked != "" && !strings.Contains(strings.ToLower(word+"/"+word), strings.ToLower(asked)) {
			check(query(asked), "/?q=no+such")
		}
		if !strings.ContainsAny(word, "/.") { // the router redirects such paths to clean ones
			check(&url.URL{Path: groupPath + word + "/" + word}, groupPath+"plain/plain")
		}
		if got := shape(t, form(asked)); got != shapes["form"] {
			t.Errorf("the form shown for %q has different elements: %s; want %s", asked, got, shapes["form"])
		}
	})
}

// A group's link never opens the page of another group, whatever the names are.
func TestAGroupsLinkOpensItsPage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"web", "a/b", "a b", "%2e%2e", "ü", "a?b#c", "<b>"} {
		_, body, _ := get(New(Config{Source: hostile(name)}), "/", "")
		link := ""
		for _, to := range links(t, body) {
			if strings.HasPrefix(to, groupPath) {
				link = cmp.Or(link, to)
			}
		}
		code, group, _ := get(New(Config{Source: hostile(name)}), link, "")
		if code != 200 || !strings.Contains(textOf(t, group), fmt.Sprintf("/ %s %s Error", name, name)) {
			t.Errorf("%q: %s: %d %s; want 200 and %q in the text", name, link, code, textOf(t, group), fmt.Sprintf("/ %s %s Error", name, name))
		}
	}
}
