package page

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// Every reason that the server reports links to its explanation.
func TestEveryReasonLinksToTheDocumentation(t *testing.T) {
	t.Parallel()
	constant := regexp.MustCompile(`(?m)^\s+[Rr]eason\w+ += "(\w+)"`)
	paths, err := filepath.Glob("../../vsphere/vcfault/*.go")
	more, err2 := filepath.Glob("../plan/reasons.go")
	if err != nil || err2 != nil {
		t.Fatalf("list the sources: %v, %v", err, err2)
	}
	seen := 0
	for _, path := range append(paths, more...) {
		text, err := os.ReadFile(path)
		must.Succeed(t, err)
		for _, found := range constant.FindAllStringSubmatch(string(text), -1) {
			seen++
			if theManual().reason(found[1]).Link == "" && !slices.Contains([]string{"Reconciled", "Reconciling", "Updating", "Finalizing", "Connected", "AsExpected"}, found[1]) {
				t.Errorf("%s: the reason %s has no link", path, found[1])
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d reasons were found", seen)
	}
	if r := theManual().reason("DatastoreFull"); r.Link != "/ui/docs/troubleshooting#datastorefull" || r.Todo != "Give vCenter what it lacks" {
		t.Errorf("got the reason %+v; want the link to #datastorefull, and what to do", r)
	}
	if r := theManual().reason("HostNotConnected"); r.Link != "/ui/docs/troubleshooting#hostnotconnected" {
		t.Errorf("got the reason %+v; want the link to #hostnotconnected", r)
	}
	if r := theManual().reason("NeverHeardOf"); r != (reason{Name: "NeverHeardOf"}) {
		t.Errorf("got the unknown reason %+v; want its name alone", r)
	}
}

// The links in the documents, and the links of pages that name a reason, must have targets.
func TestEveryLinkInTheDocumentationHasATarget(t *testing.T) {
	t.Parallel()
	ids, all := map[string]bool{}, map[string][]string{}
	p := New(Config{Source: &source{}})
	for name := range theManual().pages {
		code, body, _ := get(p, docsPath+name, "")
		root, err := html.Parse(strings.NewReader(body))
		if err != nil || code != 200 {
			t.Fatalf("the page %s: status %d, %v; want no error and 200", name, code, err)
		}
		if strings.Count(body, "<table>") != strings.Count(body, "</table>") || strings.Contains(textOf(t, body), "](") || strings.Contains(textOf(t, body), "<a ") {
			t.Errorf("%s is rendered wrong", name)
		}
		ids[docsPath+name] = true
		for n := range root.Descendants() {
			if id := attribute(n, "id"); id != "" {
				if ids[docsPath+name+"#"+id] {
					t.Errorf("%s has the id %s twice", name, id)
				}
				ids[docsPath+name+"#"+id] = true
			}
			if to := attribute(n, "href"); strings.HasPrefix(to, docsPath) {
				all[name] = append(all[name], to)
			}
		}
	}
	seen := 0
	for name, links := range all {
		for _, to := range links {
			if seen++; !ids[to] {
				t.Errorf("%s links to %s, which does not exist", name, to)
			}
		}
	}
	for name, r := range theManual().reasons {
		if !ids[r.Link] {
			t.Errorf("%s links to %s, which does not exist", name, r.Link)
		}
	}
	if seen < 50 {
		t.Errorf("only %d links were found", seen)
	}
}

func TestADocumentIsAPageWithItsOwnLinks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# A `b` &lt;c>":                     "<h1 id=\"a-b-ltc\">A <code>b</code> &lt;c&gt;</h1>\n",
		"```sh\na | <b>\n```":                "<pre tabindex=\"0\"><code>a | &lt;b&gt;\n</code></pre>\n",
		"[a](b.md#c) [d](#e) [f](../g.md#h)": "<p><a href=\"/ui/docs/b#c\">a</a> <a href=\"/ui/docs/page#e\">d</a> f (g.md#h)</p>\n",
		"[h](https://i/?j) https://l.m/n.":   "<p><a href=\"https://i/?j\" rel=\"noreferrer\">h</a> <a href=\"https://l.m/n\" rel=\"noreferrer\">https://l.m/n</a>.</p>\n",
		"| a | b |\n|---|---|\n| d \\| e | f |": "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead>\n<tr>\n<th scope=\"col\">a</th>\n<th scope=\"col\">b</th>\n</tr>\n</thead>\n<tbody>\n" +
			"<tr>\n<td>d | e</td>\n<td>f</td>\n</tr>\n</tbody>\n</table></div>\n",
	} {
		got, err := render("page", []byte(text))
		if err != nil || string(got.HTML) != want {
			t.Errorf("%q becomes\n%s, not\n%s (%v)", text, got.HTML, want, err)
		}
	}
}

func TestTheDocumentationHasAListOfItsPages(t *testing.T) {
	t.Parallel()
	p := New(Config{Source: &source{}})
	for _, path := range []string{"/ui/docs", "/ui/docs/"} {
		code, body, _ := get(p, path, "")
		if n := strings.Count(body, `<li><a href="/ui/docs/`); code != 200 || n != len(theManual().pages) || !strings.Contains(body, `<a href="/ui/docs/troubleshooting">Troubleshooting</a>`) {
			t.Errorf("%s: %d, %d pages: %s; want 200, %d and %q in the text", path, code, n, body, len(theManual().pages), `<a href="/ui/docs/troubleshooting">Troubleshooting</a>`)
		}
	}
}

// The manual must show the same picture as the README.
func TestTheDocumentationShowsHowItWorks(t *testing.T) {
	t.Parallel()
	p := New(Config{Source: &source{}})
	for _, path := range []string{"/", "/ui/docs/operations"} {
		if _, body, _ := get(p, path, ""); !strings.Contains(body, `<img src="/ui/docs/how-it-works.svg"`) {
			t.Errorf("%s has no picture", path)
		}
	}
	code, body, header := get(p, "/ui/docs/how-it-works.svg", "")
	if code != 200 || header.Get("Content-Type") != "image/svg+xml; charset=utf-8" || !strings.HasPrefix(body, "<svg ") {
		t.Errorf("%d %v", code, header)
	}
}
