package page

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// rendered is a document as HTML.
type rendered struct {
	document
	// anchors are the ids that the document sets itself, such as <a id="datastorefull"></a>, each with what its row of the table says to do.
	anchors map[string]template.HTML
}

// render turns a document of this project, which can contain HTML, into a page.
func render(name string, source []byte) (r rendered, err error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Linkify),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(pageLinks(name), 1000))),
		goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(scrollable{}, 100))))
	root := md.Parser().Parse(text.NewReader(source))
	html := func(n ast.Node) template.HTML {
		var b bytes.Buffer
		if e := md.Renderer().Render(&b, source, n); e != nil {
			err = e
		}
		return template.HTML(b.String()) // #nosec G203 -- a document of this project, which is part of the program
	}
	r.anchors = map[string]template.HTML{}
	walk(root, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 && r.Title == "" {
				r.Title = plain(n, source)
			}
		case *ast.RawHTML:
			if _, id, is := strings.Cut(string(n.Segments.Value(source)), `<a id="`); is {
				r.anchors[strings.TrimSuffix(id, `">`)] = todo(n, source, html)
			}
		}
	})
	r.HTML = html(root)
	return r, err
}

// todo returns the last cell of the table row whose first cell has the anchor, if that cell says what to do.
func todo(anchor ast.Node, source []byte, html func(ast.Node) template.HTML) (said template.HTML) {
	cell := anchor.Parent()
	if cell.Kind() != extensionast.KindTableCell || plain(cell.Parent().Parent().FirstChild().LastChild(), source) != "what to do" {
		return ""
	}
	last := cell.Parent().LastChild()
	if link, is := last.FirstChild().(*ast.Link); is && link.NextSibling() == nil {
		_, id, _ := strings.Cut(string(link.Destination), "#") // as pageLinks left it
		for _, n := range sectionOf(last, id) {
			said += html(n)
		}
		if said != "" {
			return said
		}
	}
	for n := last.FirstChild(); n != nil; n = n.NextSibling() {
		said += html(n)
	}
	return said
}

// sectionOf returns the lists below the heading with that id, in the document of a node: they say what to do, the text between them only
// why.
func sectionOf(n ast.Node, id string) (section []ast.Node) {
	inside := false
	for n := n.OwnerDocument().FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() == ast.KindHeading {
			name, _ := n.AttributeString("id")
			text, _ := name.([]byte)
			inside = string(text) == id
		} else if inside && n.Kind() == ast.KindList {
			section = append(section, n)
		}
	}
	return section
}

// walk calls visit for a node and all its descendants.
func walk(root ast.Node, visit func(ast.Node)) {
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the error is the function's
		if entering {
			visit(n)
		}
		return ast.WalkContinue, nil
	})
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	walk(n, func(n ast.Node) {
		if t, is := n.(*ast.Text); is {
			b.Write(t.Value(source))
		}
	})
	return b.String()
}

// pageLinks is the name of a document. Its Transform makes relative links to other documents lead to the server's pages. The server doesn't serve
// other files of the repository, so a link to one becomes its path as text.
type pageLinks string

func (name pageLinks) Transform(root *ast.Document, _ text.Reader, _ parser.Context) {
	var elsewhere []ast.Node
	walk(root, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.AutoLink:
			n.SetAttributeString("rel", []byte("noreferrer"))
		case *ast.Link:
			path, fragment, _ := strings.Cut(string(n.Destination), "#")
			if fragment != "" {
				fragment = "#" + fragment
			}
			switch {
			case strings.HasPrefix(path, "https://"):
				n.SetAttributeString("rel", []byte("noreferrer"))
			case path == "": // an anchor of the same document, which can be shown on another page
				n.Destination = []byte(docsPath + string(name) + fragment)
			case strings.HasSuffix(path, ".md") && !strings.Contains(path, "/"):
				n.Destination = []byte(docsPath + strings.TrimSuffix(path, ".md") + fragment)
			default:
				elsewhere = append(elsewhere, n)
			}
		case *ast.Image:
			n.Destination = []byte(docsPath + string(n.Destination))
		case *extensionast.TableHeader:
			for cell := n.FirstChild(); cell != nil; cell = cell.NextSibling() {
				cell.SetAttributeString("scope", []byte("col"))
			}
		}
	})
	for _, n := range elsewhere {
		for n.HasChildren() {
			n.Parent().InsertBefore(n.Parent(), n, n.FirstChild())
		}
		path := strings.TrimPrefix(string(n.(*ast.Link).Destination), "../")
		n.Parent().InsertBefore(n.Parent(), n, ast.NewString([]byte(" ("+path+")")))
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// scrollable renders tables and code, which may be wider than the page, so that they scroll by themselves, also with the keyboard.
type scrollable struct{}

func (s scrollable) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(extensionast.KindTable, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "</table></div>\n"
		if entering {
			tag = "<div class=\"scroll\" tabindex=\"0\"><table>\n"
		}
		_, err := w.WriteString(tag)
		return ast.WalkContinue, err
	})
	r.Register(ast.KindCodeBlock, s.code)
	r.Register(ast.KindFencedCodeBlock, s.code)
}

func (scrollable) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	_, err := w.WriteString("<pre tabindex=\"0\"><code>" + template.HTMLEscapeString(string(n.Lines().Value(source))) + "</code></pre>\n")
	return ast.WalkSkipChildren, err
}
