package recording

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// node is an element of an XML message.
type node struct {
	name     string // with the namespace's prefix
	attrs    []xml.Attr
	children []*node
	text     string
}

func (n *node) local() string { return localOf(n.name) }

func localOf(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

// parse parses an XML document.
func parse(text []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	root := &node{}
	for stack := []*node{root}; ; {
		token, err := d.RawToken()
		if err == io.EOF && len(stack) == 1 && len(root.children) == 1 {
			return root.children[0], nil
		}
		if err != nil {
			return nil, err
		}
		at := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			next := &node{name: token.Name.Local, attrs: slices.Clone(token.Attr)}
			if token.Name.Space != "" {
				next.name = token.Name.Space + ":" + next.name
			}
			at.children = append(at.children, next)
			stack = append(stack, next)
		case xml.EndElement:
			if len(stack) == 1 {
				return nil, fmt.Errorf("an end tag has no start tag")
			}
			stack = stack[:len(stack)-1]
		case xml.CharData:
			at.text += string(token)
		}
	}
}

// soap returns the body of a SOAP message without its envelope and private texts. body is govmomi's type of the request and the answer.
func (r *Recorder) soap(body reflect.Type, text []byte) string {
	switch {
	case len(text) == 0:
		return "(nothing)\n"
	case len(text) > bodyMost:
		return fmt.Sprintf("(more than %d MiB)\n", bodyMost>>20)
	}
	envelope, err := parse(text)
	if err != nil {
		return "(no XML)\n"
	}
	var out strings.Builder
	for _, part := range envelope.children {
		if part.local() != "Body" {
			continue // the header contains the session's key
		}
		for _, message := range part.children {
			kind := field(body, message.local()).kind
			if message.local() == "Fault" {
				message.name, kind = "soapenv:Fault", reflect.TypeFor[soap.Fault]()
			}
			r.print(&out, message, place{kind: kind}, "")
		}
	}
	return out.String()
}

// place describes a value: its type in govmomi, its field, and the property to which it belongs, if any.
type place struct {
	kind  reflect.Type
	field string // "TaskInfo.descriptionId"
	path  string // the path of a DynamicProperty or PropertyChange, such as "config.changeVersion", or the key of an OptionValue
}

// field returns the place of a struct's element, by its name in XML; the zero value if the struct has no such element.
func field(of reflect.Type, name string) place {
	for of != nil && (of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice) {
		of = of.Elem()
	}
	if of == nil || of.Kind() != reflect.Struct {
		return place{}
	}
	for f := range of.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("xml"), ",")
		if tag = tag[strings.LastIndexByte(tag, ' ')+1:]; f.Anonymous {
			if in := field(f.Type, name); in.field != "" {
				return in
			}
		} else if tag == name {
			return place{kind: elem(f.Type), field: of.Name() + "." + name}
		}
	}
	return place{}
}

// elem returns the element type of a pointer or a list, and other types unchanged.
func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		t = t.Elem()
	}
	return t
}

const xsi = "http://www.w3.org/2001/XMLSchema-instance"

const listMost = 20 // the maximum number of recorded elements of a list

// print writes an element without its private texts.
func (r *Recorder) print(out *strings.Builder, n *node, at place, indent string) {
	if named := xsiType(n); named != "" {
		at.kind = kindOf(named)
	}
	out.WriteString(indent + "<" + n.name)
	for _, a := range n.attrs {
		switch {
		case a.Name.Local == "type" && a.Name.Space != "" && word.MatchString(a.Value):
			fmt.Fprintf(out, " xsi:type=%q", a.Value) // the message may have another prefix
		case a.Name.Local == "type" && word.MatchString(a.Value):
			fmt.Fprintf(out, " type=%q", a.Value)
		case a.Name.Local == "xmlns" && space.MatchString(a.Value):
			fmt.Fprintf(out, " xmlns=%q", a.Value)
		case a.Name.Space == "xmlns" && a.Value != xsi && space.MatchString(a.Value):
			fmt.Fprintf(out, " xmlns:%s=%q", a.Name.Local, a.Value)
		}
	}
	if len(n.children) == 0 {
		out.WriteString(">")
		_ = xml.EscapeText(out, []byte(r.value(n, at)))
		out.WriteString("</" + n.name + ">\n")
		return
	}
	out.WriteString(">\n")
	for _, c := range n.children {
		if c.local() == "name" || c.local() == "key" {
			at.path = strings.TrimSpace(c.text)
			break
		}
	}
	left := map[string]int{}
	for _, c := range n.children {
		if left[c.name]++; left[c.name] > listMost {
			continue
		}
		next := field(at.kind, c.local())
		next.path = at.path
		r.print(out, c, next, indent+"  ")
	}
	for name, count := range left {
		if count > listMost {
			fmt.Fprintf(out, "%s  <!-- and %d more %s -->\n", indent, count-listMost, name)
		}
	}
	out.WriteString(indent + "</" + n.name + ">\n")
}

// xsiType returns the type in an element's attribute xsi:type. (A reference to a managed object has an attribute "type", which is another one.)
func xsiType(n *node) string {
	for _, a := range n.attrs {
		if a.Name.Local == "type" && a.Name.Space != "" {
			return a.Value
		}
	}
	return ""
}

// kindOf returns govmomi's type with a name; nil if govmomi has none.
func kindOf(name string) reflect.Type {
	if kind, is := basic[name]; is {
		return kind
	}
	known := types.TypeFunc()
	for _, try := range []string{localOf(name), "pbm:" + localOf(name)} {
		if kind, is := known(try); is {
			return kind
		}
	}
	return nil
}

var basic = map[string]reflect.Type{"xsd:boolean": reflect.TypeFor[bool](), "xsd:int": reflect.TypeFor[int32](), "xsd:long": reflect.TypeFor[int64](),
	"xsd:short": reflect.TypeFor[int16](), "xsd:byte": reflect.TypeFor[int8](), "xsd:dateTime": reflect.TypeFor[time.Time](), "xsd:string": reflect.TypeFor[string]()}

var (
	space  = regexp.MustCompile(`^urn:[a-z0-9]{1,20}$|^http://www\.w3\.org/[A-Za-z0-9/-]{1,40}$`)
	word   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_:]{0,79}$`)
	single = regexp.MustCompile(`^[A-Za-z]{1,40}$`) // such as propertyCollector
	object = regexp.MustCompile(`^[a-z]{1,20}-[a-z]{0,2}[0-9]{1,12}$`)
	ours   = regexp.MustCompile(`^vmgroup check [0-9a-f]{8}$`)
)

// value returns the text of an element without children, or its stand-in.
func (r *Recorder) value(n *node, at place) string {
	text := strings.TrimSpace(n.text)
	if text == "" || at.kind == nil {
		return r.texts.of(text)
	}
	keep := false
	switch kind := at.kind; {
	case kind == reflect.TypeFor[types.ManagedObjectReference]():
		keep = object.MatchString(text) || single.MatchString(text)
	case kind == reflect.TypeFor[time.Time]():
		_, err := time.Parse(time.RFC3339Nano, text)
		keep = err == nil
	case kind.Kind() == reflect.Bool:
		_, err := strconv.ParseBool(text)
		keep = err == nil
	case kind.Kind() >= reflect.Int && kind.Kind() <= reflect.Float64:
		_, err := strconv.ParseFloat(text, 64)
		keep = err == nil
	case kind.Kind() == reflect.String && kind != reflect.TypeFor[string](): // an enumeration
		keep = word.MatchString(text)
	default:
		keep = isAllowed(at, text) || ours.MatchString(text)
	}
	if keep {
		return text
	}
	return r.texts.of(text)
}

// json returns a message of the REST API without private texts.
func (r *Recorder) json(text []byte) string {
	if len(bytes.TrimSpace(text)) == 0 {
		return "(nothing)\n"
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if len(text) > bodyMost || d.Decode(&tree) != nil {
		return "(no JSON)\n"
	}
	out, err := json.MarshalIndent(r.clean("", tree), "", "  ")
	if err != nil {
		return "(no JSON)\n"
	}
	return string(out) + "\n"
}

// clean returns a JSON value without private texts. key is the value's field.
func (r *Recorder) clean(key string, tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, each := range v {
			if !restField.MatchString(name) {
				name = r.texts.of(name)
			}
			all[name] = r.clean(name, each)
		}
		return all
	case []any:
		all := make([]any, 0, len(v))
		for i, each := range v {
			if i == listMost {
				all = append(all, fmt.Sprintf("and %d more", len(v)-listMost))
				break
			}
			all = append(all, r.clean(key, each))
		}
		return all
	case string:
		if restAllowed[key] && word.MatchString(v) || restIDs[key] && object.MatchString(v) {
			return v
		}
		return r.texts.of(v)
	}
	return tree
}

// restField matches the names of fields of the vSphere Automation API.
var restField = regexp.MustCompile(`^[a-z][a-z_]{0,59}$`)
