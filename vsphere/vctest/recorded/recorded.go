// Package recorded has answers of real vCenters, for tests: pieces of recordings that the maintainers of other projects published. The
// README.md of the pieces lists their sources, licenses and versions.
package recorded

import (
	"bytes"
	"embed"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	vimxml "github.com/vmware/govmomi/vim25/xml"
	"sigs.k8s.io/yaml"
)

//go:embed pieces
var pieces embed.FS

// Piece returns the content of a file below pieces.
func Piece(t testing.TB, name string) []byte {
	t.Helper()
	text, err := pieces.ReadFile("pieces/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TaskKinds returns all TaskInfo.descriptionId of a vCenter 8.0.1: the keys of its TaskManager.description.methodInfo.
func TaskKinds(t testing.TB) []string {
	t.Helper()
	return strings.Fields(string(Piece(t, "vcenter-8.0.1/methodInfo.txt")))
}

// Body decodes an answer of vCenter's SOAP API as govmomi does, for example into a *methods.RetrievePropertiesExBody.
func Body(t testing.TB, name string, into any) {
	t.Helper()
	if err := decoder(Piece(t, name)).Decode(&soap.Envelope{Body: into}); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Object decodes an object and its properties, as "govc object.save" writes them.
func Object(t testing.TB, name string) (o types.ObjectContent) {
	t.Helper()
	if err := decoder(Piece(t, name)).Decode(&o); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return o
}

// Event decodes an event that its recorder wrote as Ruby's YAML or as Go's JSON. kind is the event's type, for JSON, which lacks it.
func Event(t testing.TB, name, kind string) types.BaseEvent {
	t.Helper()
	text := Piece(t, name)
	text = rubyObject.ReplaceAll(text, []byte("\n$2:type: $1\n$2"))
	text = rubyTag.ReplaceAll(text, nil)
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var out bytes.Buffer
	out.WriteString("<r xmlns:xsi=\"" + xsi + "\">")
	write(&out, "value", kind, tree)
	out.WriteString("</r>")
	var into struct {
		//lint:ignore SA5008 the decoder is govmomi's, which knows this option
		Value types.AnyType `xml:"value,typeattr"`
	}
	if err := decoder(out.Bytes()).Decode(&into); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out.String())
	}
	pointer := reflect.New(reflect.TypeOf(into.Value))
	pointer.Elem().Set(reflect.ValueOf(into.Value))
	if event, is := pointer.Interface().(types.BaseEvent); is {
		return event
	}
	t.Fatalf("%s is no event: %T", name, into.Value)
	return nil
}

const xsi = "http://www.w3.org/2001/XMLSchema-instance"

var (
	// Ruby's YAML has the type of an object before its properties, on the line above.
	rubyObject = regexp.MustCompile(`!ruby/object:RbVmomi::VIM::(\w+)\n( *)`)
	rubyTag    = regexp.MustCompile(`!ruby/[\w:-]+`)
	rubyTime   = regexp.MustCompile(`^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(\.\d+)?) Z$`)
)

func decoder(text []byte) *vimxml.Decoder {
	d := vimxml.NewDecoder(bytes.NewReader(text))
	known := types.TypeFunc()
	d.TypeFunc = func(name string) (reflect.Type, bool) {
		if _, local, prefixed := strings.Cut(name, ":"); prefixed && !strings.HasPrefix(name, "xsd:") {
			name = local
		}
		return known(name)
	}
	return d
}

// write writes a tree of YAML or JSON as an element of vSphere's API.
func write(out *bytes.Buffer, name, kind string, tree any) {
	object, is := tree.(map[string]any)
	if !is {
		leaf(out, name, tree)
		return
	}
	if str, is := object["str"]; is { // VimString
		ref, _ := object["vimType"].(string)
		element(out, name, "type", strings.TrimPrefix(ref, ":"), func() { _ = xml.EscapeText(out, fmt.Append(nil, str)) })
		return
	}
	if ref, is := object["ref"]; is { // RbVmomi's managed object
		element(out, name, "type", fmt.Sprint(object[":type"]), func() { fmt.Fprint(out, ref) })
		return
	}
	if value, is := object["Value"]; is && object["Type"] != nil { // types.ManagedObjectReference
		element(out, name, "type", fmt.Sprint(object["Type"]), func() { fmt.Fprint(out, value) })
		return
	}
	if own, is := object[":type"].(string); is {
		kind = own
	}
	if ivars, is := object["ivars"].(map[string]any); is {
		kind = strings.TrimPrefix(fmt.Sprint(ivars[":@xsiType"]), ":")
	}
	for _, inner := range []string{"props", "elements"} {
		if properties, is := object[inner].(map[string]any); is {
			object = properties
		}
	}
	if name == "Reason" && object["UserName"] != nil {
		kind = "TaskReasonUser" // Go's JSON omits the type
	}
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	element(out, name, "xsi:type", kind, func() {
		for _, key := range keys {
			list, is := object[key].([]any)
			if !is {
				list = []any{object[key]}
			}
			for _, each := range list {
				if each != nil && each != "" && !strings.HasPrefix(key, ":type") {
					write(out, strings.TrimPrefix(key, ":"), "", each)
				}
			}
		}
	})
}

// leaf writes a text, number or bool.
func leaf(out *bytes.Buffer, name string, value any) {
	if number, is := value.(float64); is {
		value = int64(number)
	}
	text := rubyTime.ReplaceAllString(fmt.Sprint(value), "${1}T${2}Z")
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		text = at.Format(time.RFC3339Nano)
	}
	element(out, name, "", "", func() { _ = xml.EscapeText(out, []byte(text)) })
}

// element writes an element, with one attribute unless its value is "". The names of elements begin with a small letter in vSphere's API.
func element(out *bytes.Buffer, name, attribute, value string, content func()) {
	name = strings.ToLower(name[:1]) + name[1:]
	if out.WriteString("<" + name); value != "" {
		fmt.Fprintf(out, " %s=%q", attribute, value)
	}
	out.WriteString(">")
	content()
	out.WriteString("</" + name + ">")
}

// Serve starts a server that answers each call of vCenter's SOAP API with the next of the files for its method, and repeats the last one. It
// returns the server's address.
func Serve(t testing.TB, files map[string][]string) (address string) {
	t.Helper()
	var mu sync.Mutex
	left := map[string][]string{}
	for method, names := range files {
		for _, name := range names {
			Piece(t, name) // ends the test here if the file is missing, because a handler can't
		}
		left[method] = slices.Clone(names)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Body struct {
				Call struct {
					XMLName xml.Name
				} `xml:",any"`
			}
		}
		if err := xml.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		names := left[call.Body.Call.XMLName.Local]
		if len(names) == 0 {
			http.Error(w, "no recording of "+call.Body.Call.XMLName.Local, http.StatusNotImplemented)
			return
		}
		if len(names) > 1 {
			left[call.Body.Call.XMLName.Local] = names[1:]
		}
		text, _ := pieces.ReadFile("pieces/" + names[0])
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		http.SetCookie(w, &http.Cookie{Name: "vmware_soap_session", Value: "recorded"})
		if bytes.Contains(text, []byte(":Fault>")) {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "https://")
}
