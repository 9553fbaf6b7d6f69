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

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// shape is the tree of a page without its texts: elements and the names of their attributes, each in its place.
func shape(t *testing.T, body string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
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

// links are the addresses that a page leads to, or loads.
func links(t *testing.T, body string) (all []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" || a.Key == "action" {
				all = append(all, a.Val)
			}
		}
	}
	return all
}

// hostile is a source whose every text has that word, wherever a person in Kubernetes or vCenter could put it.
func hostile(word string) *source {
	g := report(word, word, v1alpha1.PhaseError, word)
	g.Faults[1].Condition, g.Faults[1].VM, g.Members[1].Reason, g.Actions[1].Result = word, word, "Why"+word, "Result"+word
	g.Pending[0].Op, g.Actions[0].Op = plan.Op("Op"+word), plan.Op("Op"+word)
	return &source{groups: []plan.Report{g}, health: plan.Health{Trouble: &plan.Fault{Reason: "Reason" + word, Message: word}}}
}

// FuzzNamesNeverBecomeMarkup shows pages with a word in every name and message, and the same with a plain one: they have the same
// elements with the same attributes, lead nowhere else than to this server, and have nothing that cannot be printed.
func FuzzNamesNeverBecomeMarkup(f *testing.F) {
	for _, word := range []string{"web", "<b>", "</td></table><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "javascript:alert(1)", "//evil.example/",
		"\u202egnp.exe", "a\u2066b\u2069", "\x00\x1b[31m", "-->", "<!--", "]]>", "&lt;", "&#x3c;script&#x3e;", "{{.}}", "`", "\\", "../..", "%2e%2e/", "a/b", "?q=x#y", "\xff\xfe", "\u2028", "</title>",
		"</textarea>", "<svg/onload=alert(1)>", "ﷺ", strings.Repeat("x", 3000), "web\nweb", "\u00a0", " ", "+", "=cmd()"} {
		f.Add(word, word)
	}
	f.Fuzz(func(t *testing.T, word, asked string) {
		if word == "" {
			return
		}
		check := func(path, plainPath string) {
			t.Helper()
			_, body, _ := get(New(Config{Source: hostile(word), Next: next(word)}), path, "")
			_, plain, _ := get(New(Config{Source: hostile("plain"), Next: next("plain")}), plainPath, "")
			if got, want := shape(t, body), shape(t, plain); got != want {
				t.Errorf("%s with %q has other elements:\n%s\n%s", path, word, got, want)
			}
			for _, to := range links(t, body) {
				if u, err := url.Parse(to); to != "#main" && (err != nil || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`) || u.Host != "") {
					t.Errorf("%s with %q leads to %q", path, word, to)
				}
			}
			for _, r := range body {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%s with %q has %U", path, word, r)
				}
			}
		}
		query := func(q string) string { return "/?" + url.Values{"q": {q}}.Encode() }
		check("/", "/")
		if strings.TrimSpace(word) != "" {
			check(query(word), query("plain"))
		}
		if strings.TrimSpace(asked) != "" && !strings.Contains(strings.ToLower(word+"/"+word), strings.ToLower(strings.TrimSpace(asked))) {
			check(query(asked), query("no such"))
		}
		if name := url.PathEscape(word); strings.Trim(word, ".") != "" {
			p := New(Config{Source: hostile(word), Next: next(word)})
			r := httptest.NewRequest("GET", "/", nil)
			r.URL = &url.URL{Path: groupPath + word + "/" + word, RawPath: groupPath + name + "/" + name}
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			if _, plain, _ := get(New(Config{Source: hostile("plain"), Next: next("plain")}), groupPath+"plain/plain", ""); w.Code == 200 && shape(t, w.Body.String()) != shape(t, plain) {
				t.Errorf("the page of the group %q has other elements", word)
			}
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.URL = &url.URL{Path: "/", RawQuery: asked}
		New(Config{Source: &source{}}).AskToken(w, r, false)
		plain := httptest.NewRecorder()
		New(Config{Source: &source{}}).AskToken(plain, httptest.NewRequest("GET", "/?plain", nil), false)
		if got, want := shape(t, w.Body.String()), shape(t, plain.Body.String()); got != want {
			t.Errorf("the form that was asked for with %q has other elements: %s", asked, got)
		}
	})
}

// No name of a group, whatever it is, makes the page of another one.
func TestTheLinkOfAGroupLeadsToIt(t *testing.T) {
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
			t.Errorf("%q: %s: %d %s", name, link, code, textOf(t, group))
		}
	}
}
