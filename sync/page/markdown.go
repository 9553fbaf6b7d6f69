package page

import (
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// markdown turns a document of this project into HTML: headings, paragraphs, lists, tables, code, links and bold text, as
// docs/*.md use them. Everything else is text.
type markdown struct {
	name    string // of the document, without its ending
	title   string
	anchors map[string]int
	section string // the anchor of the last heading
	// reasons are the words that may be a reason, and where each is explained: in a heading or a table's row of its own, else in the section
	// that names it first.
	reasons map[string]reason
	named   map[string]reason
	out     strings.Builder
}

func newMarkdown(name string) *markdown {
	return &markdown{name: name, anchors: map[string]int{}, reasons: map[string]reason{}, named: map[string]reason{}}
}

func (m *markdown) render(text string) string {
	m.blocks(strings.Split(strings.TrimRight(text, "\n"), "\n"))
	for name, r := range m.named {
		if _, known := m.reasons[name]; !known {
			m.reasons[name] = r
		}
	}
	return m.out.String()
}

var (
	heading = regexp.MustCompile(`^(#{1,6}) +(.*)$`)
	item    = regexp.MustCompile(`^(- |\d+\. +)(.*)$`)
	mark    = regexp.MustCompile(`<a id="([a-z]+)"></a>`) // a place to lead to that is no heading
	inline  = regexp.MustCompile("<a id=\"[a-z]+\"></a>|`[^`]+`|\\[(?:[^\\]`]|`[^`]*`)*\\]\\([^)\\s]+\\)|\\*\\*[^*]+\\*\\*|https://[^\\s<>)]*[\\w/]")
	link    = regexp.MustCompile(`(?s)^\[(.*)\]\(([^)]*)\)$`)
	camel   = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)
)

func (m *markdown) blocks(lines []string) {
	for len(lines) > 0 {
		line := lines[0]
		switch h := heading.FindStringSubmatch(line); {
		case strings.TrimSpace(line) == "":
			lines = lines[1:]
		case h != nil:
			m.heading(len(h[1]), h[2])
			lines = lines[1:]
		case strings.HasPrefix(line, "```"):
			end := slices.IndexFunc(lines[1:], func(l string) bool { return strings.HasPrefix(l, "```") })
			if end < 0 {
				end = len(lines) - 1
			}
			m.code(lines[1 : end+1])
			lines = lines[min(end+2, len(lines)):]
		case strings.HasPrefix(line, "    "):
			n := run(lines, func(l string) bool { return l == "" || strings.HasPrefix(l, "    ") })
			m.code(dedent(lines[:n]))
			lines = lines[n:]
		case strings.HasPrefix(line, "|"):
			n := run(lines, func(l string) bool { return strings.HasPrefix(l, "|") })
			m.table(lines[:n])
			lines = lines[n:]
		case item.MatchString(line):
			lines = m.list(lines)
		default:
			n := 1 + run(lines[1:], func(l string) bool {
				return strings.TrimSpace(l) != "" && !item.MatchString(l) && !strings.HasPrefix(l, "|") && !strings.HasPrefix(l, "```") && !heading.MatchString(l)
			})
			m.paragraph(strings.Join(lines[:n], "\n"))
			lines = lines[n:]
		}
	}
}

// run counts the lines at the beginning that belong to a block.
func run(lines []string, belongs func(string) bool) int {
	if n := slices.IndexFunc(lines, func(l string) bool { return !belongs(l) }); n >= 0 {
		return n
	}
	return len(lines)
}

// dedent takes the indentation of the first line off all.
func dedent(lines []string) []string {
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	out := make([]string, len(lines))
	for i := range lines {
		out[i] = strings.TrimPrefix(lines[i], indent)
	}
	return out
}

func (m *markdown) heading(level int, text string) {
	plain := mark.ReplaceAllString(text, "")
	anchor := slug(plain)
	m.anchors[anchor]++
	if n := m.anchors[anchor]; n > 1 {
		anchor = fmt.Sprintf("%s-%d", anchor, n-1)
	}
	if level == 1 && m.title == "" {
		m.title = strings.ReplaceAll(plain, "`", "")
	}
	m.section = anchor
	if name := strings.Trim(plain, "`"); camel.FindString(name) == name { // a reason with a heading of its own
		m.learn(name, anchor, "")
	}
	fmt.Fprintf(&m.out, "<h%d id=\"%s\">%s</h%d>\n", level, template.HTMLEscapeString(anchor), m.inline(text), level)
}

// slug is a heading's anchor, as on GitHub.
func slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func (m *markdown) paragraph(text string) {
	m.note(text)
	m.out.WriteString("<p>" + m.inline(text) + "</p>\n")
}

// note keeps which words the section has.
func (m *markdown) note(text string) {
	for _, name := range camel.FindAllString(text, -1) {
		if _, known := m.named[name]; !known && m.section != "" {
			m.named[name] = reason{Name: name, Link: docsPath + m.name + "#" + m.section}
		}
	}
}

func (m *markdown) code(lines []string) {
	text := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	m.out.WriteString("<pre tabindex=\"0\"><code>" + template.HTMLEscapeString(text) + "</code></pre>\n")
}

// list writes a list, and returns the lines after it.
func (m *markdown) list(lines []string) []string {
	kind := "ul"
	if !strings.HasPrefix(lines[0], "- ") {
		kind = "ol"
	}
	m.out.WriteString("<" + kind + ">\n")
	for len(lines) > 0 && item.MatchString(lines[0]) {
		text := item.FindStringSubmatch(lines[0])[2]
		n := run(lines[1:], func(l string) bool { return l == "" || strings.HasPrefix(l, "  ") })
		rest := lines[1 : 1+n]
		for len(rest) > 0 && rest[len(rest)-1] == "" {
			rest = rest[:len(rest)-1]
		}
		head := run(rest, func(l string) bool { return l != "" && !strings.HasPrefix(strings.TrimLeft(l, " "), "```") })
		for _, l := range rest[:head] {
			text += "\n" + strings.TrimLeft(l, " ")
		}
		m.note(text)
		m.out.WriteString("<li>" + m.inline(text))
		for rest = rest[head:]; len(rest) > 0 && rest[0] == ""; {
			rest = rest[1:]
		}
		if len(rest) > 0 {
			m.out.WriteByte('\n')
			m.blocks(dedent(rest))
		}
		m.out.WriteString("</li>\n")
		lines = lines[1+n:]
	}
	m.out.WriteString("</" + kind + ">\n")
	return lines
}

// table writes a table. The first cell of a row of the troubleshooting page names reasons, which become anchors, and the last one says
// what to do.
func (m *markdown) table(lines []string) {
	head := cells(lines[0])
	m.out.WriteString("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>")
	for _, c := range head {
		m.out.WriteString("<th scope=\"col\">" + m.inline(c) + "</th>")
	}
	m.out.WriteString("</tr></thead>\n<tbody>\n")
	for _, line := range lines[min(2, len(lines)):] {
		row := cells(line)
		m.note(strings.Join(row, " "))
		m.out.WriteString("<tr>")
		for i, c := range row {
			m.out.WriteString("<td>")
			if i == 0 && m.name == troubleshooting {
				todo := template.HTML("")
				if head[len(head)-1] == "what to do" {
					todo = template.HTML(m.inline(row[len(row)-1]))
				}
				for _, name := range camel.FindAllString(withoutCode(c), -1) {
					if m.learn(name, name, todo) {
						m.out.WriteString("<span id=\"" + name + "\"></span>")
					}
				}
			}
			m.out.WriteString(m.inline(c) + "</td>")
		}
		m.out.WriteString("</tr>\n")
	}
	m.out.WriteString("</tbody></table></div>\n")
}

// learn notes where a reason is explained, unless that is known. A word of a sentence is no reason: "Nothing" is taken for one, and
// no harm done.
func (m *markdown) learn(name, anchor string, todo template.HTML) bool {
	if _, known := m.reasons[name]; known {
		return false
	}
	m.reasons[name] = reason{Name: name, Link: docsPath + m.name + "#" + anchor, Todo: todo}
	return true
}

func withoutCode(text string) string { return regexp.MustCompile("`[^`]*`").ReplaceAllString(text, "") }

// cells are those of a table's row; a bar in code or after a backslash does not separate.
func cells(line string) (all []string) {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	cell, code := strings.Builder{}, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line) && line[i+1] == '|':
			cell.WriteByte('|')
			i++
		case c == '|' && !code:
			all = append(all, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			if c == '`' {
				code = !code
			}
			cell.WriteByte(c)
		}
	}
	return append(all, strings.TrimSpace(cell.String()))
}

// inline turns code, links and bold text into HTML, and escapes all else.
func (m *markdown) inline(text string) string {
	var b strings.Builder
	for at := inline.FindStringIndex(text); at != nil; at = inline.FindStringIndex(text) {
		b.WriteString(template.HTMLEscapeString(text[:at[0]]))
		found := text[at[0]:at[1]]
		switch found[0] {
		case '<':
			b.WriteString(mark.ReplaceAllString(found, `<span id="$1"></span>`))
		case '`':
			b.WriteString("<code>" + template.HTMLEscapeString(strings.Trim(found, "`")) + "</code>")
		case '*':
			b.WriteString("<strong>" + m.inline(strings.Trim(found, "*")) + "</strong>")
		case '[':
			part := link.FindStringSubmatch(found)
			b.WriteString(m.anchor(part[2], m.inline(part[1])))
		default:
			b.WriteString(m.anchor(found, template.HTMLEscapeString(found)))
		}
		text = text[at[1]:]
	}
	b.WriteString(template.HTMLEscapeString(text))
	return b.String()
}

// anchor is a link of a document: to another page of the documentation, or elsewhere by https. What else there is in the repository
// is not served, so it is only named.
func (m *markdown) anchor(to, text string) string {
	path, fragment, _ := strings.Cut(to, "#")
	if fragment != "" {
		fragment = "#" + fragment
	}
	switch {
	case strings.HasPrefix(to, "https://"):
		return `<a href="` + template.HTMLEscapeString(to) + `" rel="noreferrer">` + text + "</a>"
	case path == "": // of the same page, which may also be told of on another
		return `<a href="` + template.HTMLEscapeString(docsPath+m.name+fragment) + `">` + text + "</a>"
	case strings.HasSuffix(path, ".md") && !strings.Contains(path, "/"):
		return `<a href="` + template.HTMLEscapeString(docsPath+strings.TrimSuffix(path, ".md")+fragment) + `">` + text + "</a>"
	}
	return text
}
