package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	yamlnodes "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// manifests are the files with VmGroups that the user passes to a command.
type manifests struct {
	files     []string
	namespace string
	// none accepts a List without a VmGroup, which kubectl prints if there is none. An empty file isn't accepted: the command that was to
	// write it may have failed.
	none bool
	// emptyList reports whether a List without a VmGroup was read.
	emptyList bool
	// only reports whether the user set --namespace, so that objects of other namespaces are refused.
	only func() bool
}

func (m *manifests) flags(c *cobra.Command, usage string) {
	f := c.Flags()
	f.StringArrayVarP(&m.files, "file", "f", nil, usage+", in YAML or JSON, or directory of such files; - for standard input; repeat the flag for several")
	_ = c.MarkFlagFilename("file", "yaml", "yml", "json")
	f.StringVarP(&m.namespace, "namespace", "n", "default", "namespace for manifests without one; if you give it, a manifest of another is an error")
	m.only = func() bool { return f.Changed("namespace") }
	c.Args = func(_ *cobra.Command, files []string) error { // arguments are files, too
		for _, file := range files {
			if err := f.Set("file", file); err != nil {
				return err
			}
		}
		return nil
	}
}

// other is an object of another kind among the manifests.
type other struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	where           string
	text            []byte // in JSON
}

// holdsData reports whether spec.userData of a group can name the object.
func (o *other) holdsData() bool {
	return o.APIVersion == "v1" && (o.Kind == "Secret" || o.Kind == "ConfigMap")
}

// asStored returns the object as the API server stores it: with a Secret's stringData in its data, in base64.
func (o *other) asStored() (json.RawMessage, error) {
	var object struct {
		Data       map[string]json.RawMessage `json:"data,omitempty"`
		BinaryData map[string]json.RawMessage `json:"binaryData,omitempty"`
		StringData map[string]string          `json:"stringData,omitempty"`
	}
	if json.Unmarshal(o.text, &object) != nil { // the error could quote a value
		return nil, fmt.Errorf("%s: the data of %s %s must be text by key", o.where, o.Kind, o.Metadata.Name)
	}
	for key, text := range object.StringData {
		if object.Data == nil {
			object.Data = map[string]json.RawMessage{}
		}
		object.Data[key], _ = json.Marshal([]byte(text))
	}
	object.StringData = nil
	return json.Marshal(object)
}

// note reports that the object was skipped.
func (o *other) note() string {
	return fmt.Sprintf("%s: skipped a %s of %s: not a VmGroup", o.where, o.Kind, o.APIVersion)
}

// related returns what Metacontroller would send for a group if these objects were in the cluster: the object that spec.userData names, or
// nil if none of these is that object.
func (m *manifests) related(g *v1alpha1.VmGroup, objects []*other) (json.RawMessage, error) {
	ref, wanted := plan.UserDataOf(g)
	for _, o := range objects {
		if !wanted || o.Kind != ref.Kind || o.Metadata.Name != ref.Name || cmp.Or(o.Metadata.Namespace, m.namespace) != ref.Namespace {
			continue
		}
		stored, err := o.asStored()
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]map[string]json.RawMessage{ref.Kind + ".v1": {ref.Namespace + "/" + ref.Name: stored}})
	}
	return nil, nil
}

// read reads all files strictly: an unknown field is an error. It passes objects of other kinds to others, so that users can pass the files
// that they pass to `kubectl apply`.
func (m *manifests) read(in io.Reader, others func(*other)) (groups []*v1alpha1.VmGroup, err error) {
	for _, file := range m.files {
		some, err := m.readFile(file, in, others)
		if err != nil {
			return nil, err
		}
		if groups = append(groups, some...); len(groups) > mostGroups {
			return nil, fmt.Errorf("--file: more than %d groups: give fewer at once", mostGroups)
		}
	}
	if len(groups) == 0 && len(m.files) > 0 && (!m.none || !m.emptyList) {
		return nil, usageError{fmt.Errorf("--file %s contains no VmGroup", strings.Join(m.files, ", "))}
	}
	return groups, nil
}

func (m *manifests) readFile(file string, in io.Reader, others func(*other)) (groups []*v1alpha1.VmGroup, err error) {
	name := file
	if file == "-" {
		name = "standard input"
	} else {
		if inIt, err := manifestsIn(file); err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		} else if inIt != nil {
			for _, file := range inIt {
				some, err := m.readFile(file, nil, others)
				if err != nil {
					return nil, err
				}
				groups = append(groups, some...)
			}
			return groups, nil
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	whole, err := io.ReadAll(io.LimitReader(in, largestFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--file: %w", err)
	case len(whole) > largestFile:
		return nil, fmt.Errorf("%s: it is larger than %d MiB: give fewer objects at once", name, largestFile>>20)
	case bytes.HasPrefix(whole, []byte("\xff\xfe")), bytes.HasPrefix(whole, []byte("\xfe\xff")):
		return nil, fmt.Errorf("%s: it is in UTF-16, as Windows PowerShell writes it: save it in UTF-8", name)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(whole)))
	for n, begin := 1, 0; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return groups, nil
		} else if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		begin += max(0, bytes.Index(whole[begin:], text))
		where := fmt.Sprintf("%s, document %d", name, n)
		if n > mostDocuments {
			return nil, fmt.Errorf("%s has more than %d documents: give fewer at once", name, mostDocuments)
		} else if len(text) > largestDocument || expandsBeyond(text, largestDocument) {
			return nil, fmt.Errorf("%s: it is larger than %d MiB, with what its aliases (*name) stand for: give fewer objects at once", where, largestDocument>>20)
		}
		objects, err := objectsIn(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %s%s", where, inTheFile(err, whole, begin), ifTemplate(text))
		}
		begin += len(text)
		for _, object := range objects {
			some, err := m.groupsIn(where, object, others)
			if err != nil {
				return nil, fmt.Errorf("%w%s", err, ifTemplate(text))
			}
			groups = append(groups, some...)
		}
	}
}

// The bounds of a file of manifests, whose text a stranger may have written: some commands run in the server's container. The API server takes requests of
// 3 MiB.
const (
	// largestFile is in bytes, and so is largestDocument, also once aliases are replaced.
	largestFile     = 8 << 20
	largestDocument = 3 << 20
	// mostDocuments counts empty ones, too.
	mostDocuments = 10_000
	// mostGroups bounds the groups of a command's files.
	mostGroups = 5_000
)

// expandsBeyond reports whether a document in YAML has more bytes than that once its aliases are replaced by what they stand for.
func expandsBeyond(text []byte, most int) bool {
	if !bytes.ContainsRune(text, '&') || !bytes.ContainsRune(text, '*') {
		return false
	}
	var document yamlnodes.Node
	if yamlnodes.Unmarshal(text, &document) != nil { // the decoder says why
		return false
	}
	sizes := map[*yamlnodes.Node]int{}
	var size func(n *yamlnodes.Node) int
	size = func(n *yamlnodes.Node) int {
		if n.Kind == yamlnodes.AliasNode {
			n = n.Alias
		}
		if known, is := sizes[n]; is {
			return known
		}
		sizes[n] = most + 1 // an alias of what has it has no end
		sum := len(n.Value) + 1
		for _, c := range n.Content {
			sum = min(sum+size(c), most+1)
		}
		sizes[n] = sum
		return sum
	}
	return size(&document) > most
}

var yamlLine = regexp.MustCompile(`\bline (\d+)\b`)

// inTheFile returns an error about a document that begins at a place of a file, with the numbers of lines that the file has.
func inTheFile(err error, whole []byte, begin int) string {
	before := bytes.Count(whole[:begin], []byte("\n"))
	text := yamlLine.ReplaceAllStringFunc(err.Error(), func(line string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(line, "line "))
		return fmt.Sprintf("line %d", n+before)
	})
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		n, _ := strconv.Atoi(match[1])
		if lines := bytes.Split(whole, []byte("\n")); n <= len(lines) && bytes.ContainsRune(lines[n-1][:len(lines[n-1])-len(bytes.TrimLeft(lines[n-1], " \t"))], '\t') {
			text += " (the line begins with a tab: indent with spaces)"
		}
	}
	return text
}

// ifTemplate returns advice for an invalid manifest that may be a Helm template. (Templates in user data are valid.)
func ifTemplate(text []byte) string {
	if !bytes.Contains(text, []byte("{{")) {
		return ""
	}
	return " (if this is a Helm template, render it first: helm template CHART | vmgroup plan -f -)"
}

// ofNamespace refuses an object of another namespace than --namespace, as kubectl does.
func (m *manifests) ofNamespace(where, namespace string) error {
	if m.only == nil || !m.only() || namespace == "" || namespace == m.namespace {
		return nil
	}
	return usageError{fmt.Errorf("%s: its namespace %q is not the %q of --namespace: give --namespace %s, or leave it out", where, namespace, m.namespace, namespace)}
}

// manifestsIn returns the files of a directory that kubectl would read, in its order; nil if the path isn't a directory.
func manifestsIn(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return nil, nil // opening the file returns the reason
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if files == nil {
		return nil, fmt.Errorf("%s has no file that ends in .yaml, .yml or .json", path)
	}
	return files, nil
}

// objectsIn returns the objects of a document, in JSON. The document has several objects in JSON, one after the other, or one in YAML
// (which includes JSON).
func objectsIn(document []byte) (all [][]byte, err error) {
	for stream := json.NewDecoder(bytes.NewReader(document)); ; {
		var next json.RawMessage
		switch err := stream.Decode(&next); {
		case errors.Is(err, io.EOF) && len(all) > 0:
			return all, nil
		case err != nil:
			object, err := yaml.YAMLToJSONStrict(document)
			return [][]byte{object}, err
		}
		all = append(all, next)
	}
}

// groupsIn returns the groups of one document, which can be a List, as `kubectl get -o yaml` prints it.
func (m *manifests) groupsIn(where string, text []byte, others func(*other)) (groups []*v1alpha1.VmGroup, err error) {
	var object struct {
		metav1.TypeMeta `json:",inline"`
		Items           []runtime.RawExtension `json:"items"`
	}
	switch err := json.Unmarshal(text, &object); {
	case string(bytes.TrimSpace(text)) == "null":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: not a Kubernetes object: it needs fields such as apiVersion and kind", where)
	case object.Kind == "List" && object.APIVersion == "v1", object.Kind == v1alpha1.Kind+"List" && object.APIVersion == v1alpha1.GroupVersion.String():
		m.emptyList = m.emptyList || len(object.Items) == 0
		for i := range object.Items {
			some, err := m.groupsIn(fmt.Sprintf("%s, item %d", where, i+1), object.Items[i].Raw, others)
			if err != nil {
				return nil, err
			}
			groups = append(groups, some...)
		}
		return groups, nil
	case object.Kind == v1alpha1.Kind && object.APIVersion == v1alpha1.GroupVersion.String():
	case object.Kind == v1alpha1.Kind, strings.EqualFold(object.Kind, v1alpha1.Kind), object.Kind == "", object.APIVersion == "":
		return nil, fmt.Errorf("%s: found a %q of %q, not a VmGroup of %s: correct kind and apiVersion", where, object.Kind, object.APIVersion, v1alpha1.GroupVersion)
	default:
		o := &other{where: where, text: text}
		if err := json.Unmarshal(text, o); err != nil {
			return nil, inUserTerms(where, text, o, err)
		}
		if err := m.ofNamespace(where, o.Metadata.Namespace); err != nil {
			return nil, err
		}
		others(o)
		return nil, nil
	}
	g := &v1alpha1.VmGroup{}
	strict, err := kjson.UnmarshalStrict(text, g)
	for i := range strict {
		strict[i] = fmt.Errorf("%s: %w%s", where, strict[i], likeThatField(strict[i]))
	}
	if err != nil {
		strict = append(strict, inUserTerms(where, text, g, err))
	}
	if err := errors.Join(strict...); err != nil {
		return nil, err
	}
	if err := m.ofNamespace(where, g.Namespace); err != nil {
		return nil, err
	}
	plan.AsCreated(g, m.namespace)
	return []*v1alpha1.VmGroup{g}, nil
}

// elsewhere says where the spec has what other tools have in a field of that path.
var elsewhere = map[string]string{
	"placement.cluster":      "name the cluster in pool, by its path (/DC0/host/C1)",
	"placement.resourcePool": "it is called pool",
	"placement.host":         "name the host in pool, by its path, or a hostGroup",
	"numCPUs":                "it is called cpu",
	"memoryMB":               "memory is in GiB",
	"memoryGiB":              "it is called memory, in GiB",
	"count":                  "it is called replicas",
}

var unknownField = regexp.MustCompile(`^unknown field "(?:(.+)\.)?([^."]+)"$`)

// likeThatField suggests a field with a similar name for one that doesn't exist.
func likeThatField(err error) string {
	match := unknownField.FindStringSubmatch(err.Error())
	if match == nil {
		return ""
	}
	at := reflect.TypeFor[v1alpha1.VmGroup]()
	for name := range strings.FieldsFuncSeq(match[1], func(r rune) bool { return r == '.' }) {
		name, _, _ = strings.Cut(name, "[")
		if at = jsonFields(at)[name]; at == nil {
			return ""
		}
	}
	names := slices.Sorted(maps.Keys(jsonFields(at)))
	if said := elsewhere[strings.TrimPrefix(match[1]+".", "spec.")+match[2]]; said != "" {
		return ": " + said
	}
	return cmp.Or(didYouMean(match[2], "", names), fmt.Sprintf(": %s has the fields %s", match[1], strings.Join(names, ", ")))
}

// jsonFields returns the types of the fields of an object, or of the objects in a list, by name.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	fields := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

// inUserTerms describes which values of an object have the wrong type, each with its path and what the field accepts; it returns err if it
// finds none.
func inUserTerms(where string, text []byte, into any, err error) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	var wrong []error
	mistyped(value, reflect.TypeOf(into), "", func(path string, value any, accepts string) {
		if more := map[string]string{"spec.memory": "a whole number of GiB, such as 4, without a unit", "spec.cpu": "a whole number of virtual CPUs, such as 2"}[path]; more != "" {
			accepts = more
		}
		wrong = append(wrong, fmt.Errorf("%s: %s: %s is invalid: use %s", where, path, shown(value), accepts))
	})
	return cmp.Or(errors.Join(wrong...), fmt.Errorf("%s: %w", where, err))
}

// shown returns a value as written in a manifest, or its kind if the value is long.
func shown(value any) string {
	text, err := json.Marshal(value)
	if kind := reflect.ValueOf(value).Kind(); err != nil || len(text) > 100 {
		return map[reflect.Kind]string{reflect.Map: "an object", reflect.Slice: "a list"}[kind]
	}
	return string(text)
}

// mistyped finds the values in decoded JSON that don't fit a type, in order.
func mistyped(value any, t reflect.Type, path string, found func(path string, value any, accepts string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil {
		return
	}
	if _, own := reflect.New(t).Interface().(json.Unmarshaler); own { // a time or an int-or-string
		text, _ := json.Marshal(value)
		if json.Unmarshal(text, reflect.New(t).Interface()) != nil {
			found(path, value, map[bool]string{true: "a whole number or a percentage, such as 1 or \"25%\"", false: "a time, such as \"2026-01-31T12:00:00Z\""}[t.Name() == "IntOrString"])
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		object, is := value.(map[string]any)
		if !is {
			found(path, value, "an object, with fields of its own")
			return
		}
		fields := jsonFields(t)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if field := fields[name]; field != nil {
				mistyped(object[name], field, strings.TrimPrefix(path+"."+name, "."), found)
			}
		}
	case reflect.Map:
		object, is := value.(map[string]any)
		if !is {
			found(path, value, "an object, with fields of its own")
			return
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			mistyped(object[name], t.Elem(), fmt.Sprintf("%s[%s]", path, name), found)
		}
	case reflect.Slice:
		list, is := value.([]any)
		if !is {
			found(path, value, "a list")
			return
		}
		for i := range list {
			mistyped(list[i], t.Elem(), fmt.Sprintf("%s[%d]", path, i), found)
		}
	case reflect.String:
		if _, is := value.(string); !is {
			found(path, value, "a string (put it in quotation marks)")
		}
	case reflect.Bool:
		if _, is := value.(bool); !is {
			found(path, value, "true or false, without quotation marks")
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		number, is := value.(json.Number)
		if _, err := strconv.ParseInt(string(number), 10, t.Bits()); !is || err != nil {
			found(path, value, "a whole number")
		}
	}
}
