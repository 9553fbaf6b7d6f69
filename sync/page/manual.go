package page

import (
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"codeconnect.vmworld.com/vmgroup/docs"
)

// manual is the documentation as pages.
type manual struct {
	pages map[string]document
	// reasons says where each reason is explained, by its name in lower case, and what to do about it.
	reasons map[string]reason
}

// document is a page of the documentation.
type document struct {
	Title string
	HTML  template.HTML
}

// reason is the reason of a condition or fault: its name, where it is explained, and what to do about it.
type reason struct {
	Name, Link string
	Todo       template.HTML
}

// troubleshooting is the document with an anchor for each reason.
const troubleshooting = "troubleshooting"

// theManual reads the documents once, for all pages.
var theManual = sync.OnceValue(func() *manual {
	names, err := fs.Glob(docs.Pages, "*.md")
	if err != nil {
		panic(err) // a bug: the pattern is wrong
	}
	m := &manual{pages: map[string]document{}, reasons: map[string]reason{}}
	for _, file := range names {
		text, err := docs.Pages.ReadFile(file)
		if err != nil {
			panic(err) // a bug: it was listed
		}
		name := strings.TrimSuffix(file, ".md")
		page, err := render(name, text)
		if err != nil {
			panic(err) // a bug: a buffer takes all
		}
		m.pages[name] = page.document
		if name == troubleshooting {
			for anchor, todo := range page.anchors {
				m.reasons[anchor] = reason{Link: docsPath + name + "#" + anchor, Todo: todo}
			}
		}
	}
	return m
})

// reason says where a reason is explained, if it is.
func (m *manual) reason(name string) reason {
	r := m.reasons[strings.ToLower(name)]
	r.Name = name
	return r
}

// reasonOf says where a reason is explained. What to do differs for a group that is being deleted.
func (m *manual) reasonOf(name string, deleted bool) reason {
	if r, has := m.reasons[strings.ToLower(name)+"-deleted"]; has && deleted {
		r.Name = name
		return r
	}
	return m.reason(name)
}

// contents lists all documents.
func (p *Page) contents(w http.ResponseWriter, r *http.Request) {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.manual.pages)) {
		fmt.Fprintf(&list, "<li><a href=\"%s%s\">%s</a></li>\n", docsPath, name, template.HTMLEscapeString(p.manual.pages[name].Title))
	}
	d := document{Title: "Documentation", HTML: template.HTML("<h1>Documentation</h1>\n<ul>\n" + list.String() + "</ul>\n")} // #nosec G203 -- of the program
	p.send(w, r, http.StatusOK, "document", frame{Title: d.Title, Section: "docs", Body: d})
}

func (p *Page) document(w http.ResponseWriter, r *http.Request) {
	if picture, err := docs.Pages.ReadFile(r.PathValue("name")); err == nil && strings.HasSuffix(r.PathValue("name"), ".svg") {
		serve(w, r, file{"image/svg+xml", string(picture)})
		return
	}
	d, known := p.manual.pages[r.PathValue("name")]
	if !known {
		p.problem(w, r, http.StatusNotFound, "There is no such page of the documentation.")
		return
	}
	p.send(w, r, http.StatusOK, "document", frame{Title: d.Title, Section: "docs", Body: d})
}
