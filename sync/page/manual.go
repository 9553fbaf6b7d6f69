package page

import (
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"codeconnect.vmworld.com/vmgroup/docs"
)

// manual is the documentation as pages, and where each reason is explained.
type manual struct {
	pages   map[string]document
	reasons map[string]reason // by name
}

// document is a page of the documentation.
type document struct {
	Title string
	HTML  template.HTML
}

// reason is why something is as it is: its name, where it is explained, and what to do about it.
type reason struct {
	Name, Link string
	Todo       template.HTML
}

const troubleshooting = "troubleshooting"

// theManual reads the documents once for all.
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
		md := newMarkdown(name)
		html := md.render(string(text))
		m.pages[name] = document{Title: md.title, HTML: template.HTML(html)}
		if name == troubleshooting {
			m.reasons = md.reasons
		}
	}
	return m
})

// reason says where a reason is explained, if it is.
func (m *manual) reason(name string) reason {
	if r, known := m.reasons[name]; known {
		return r
	}
	return reason{Name: name}
}

func (p *Page) document(w http.ResponseWriter, r *http.Request) {
	d, known := p.manual.pages[r.PathValue("name")]
	if !known {
		p.problem(w, r, http.StatusNotFound, "There is no such page of the documentation.")
		return
	}
	p.send(w, r, http.StatusOK, "document", frame{Title: d.Title, Section: "docs", Body: d})
}
