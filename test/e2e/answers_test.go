package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// answers are the statuses and children with which the hooks answer in the stories and for the random observations of sync/planner,
// without those that telling leaves out.
var answers = sync.OnceValues(func() (a struct{ statuses, children []json.RawMessage }, err error) {
	dir, err := os.MkdirTemp("", "vmgroup-e2e-")
	if err != nil {
		return a, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "answers")
	c := exec.Command("go", "test", "-count=1", "-vet=off", "-run=^TestTheCorpusIsWritten$", "./sync/planner", "-corpus", file)
	c.Dir = repository
	if out, err := c.CombinedOutput(); err != nil {
		return a, fmt.Errorf("%s: %w\n%s", c, err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	seen := map[string]bool{}
	once := func(list *[]json.RawMessage, value json.RawMessage) {
		if !seen[string(value)] {
			seen[string(value)] = true
			*list = append(*list, value)
		}
	}
	for line := range bytes.Lines(text) {
		var answer struct {
			Status   json.RawMessage
			Children []json.RawMessage
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return a, err
		}
		once(&a.statuses, answer.Status)
		for _, child := range answer.Children {
			once(&a.children, child)
		}
	}
	a.statuses, a.children = telling(a.statuses, 10), telling(a.children, 50)
	return a, nil
})

// telling leaves out each value that adds nothing: enough of the kept values have each of its fields, with each of its words (a reason, a
// phase) in that field.
func telling(values []json.RawMessage, enough int) (kept []json.RawMessage) {
	count := map[string]int{}
	for _, text := range values {
		var value any
		_ = json.Unmarshal(text, &value) // the text is a part of a value that was decoded before, so it is valid
		parts := map[string]bool{}
		partsOf("", value, parts)
		rare := false
		for part := range parts {
			rare = rare || count[part] < enough
		}
		if !rare {
			continue
		}
		kept = append(kept, text)
		for part := range parts {
			count[part]++
		}
	}
	return kept
}

var word = regexp.MustCompile("^[A-Za-z]+$")

// partsOf collects the paths of a value's fields. If a field holds a word, its path ends with the word.
func partsOf(path string, value any, into map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		into[path+"{}"] = true
		for name, field := range v {
			partsOf(path+"."+name, field, into)
		}
	case []any:
		into[path+"[]"] = true
		for _, element := range v {
			partsOf(path+"[]", element, into)
		}
	case string:
		if word.MatchString(v) {
			path += "=" + v
		}
		into[path] = true
	default:
		into[path] = true
	}
}

// If the API server pruned, defaulted or rounded a status, it would differ from the answer, and Metacontroller would write the status
// again at every sync.
func TestEveryStatusIsStoredAsAnswered(t *testing.T) {
	k := api(t)
	a, err := answers()
	if err != nil || len(a.statuses) < 300 {
		t.Fatalf("got %d statuses, and the error %v; want at least 300", len(a.statuses), err)
	}
	ctx := context.Background()
	g, err := k.groups(k.namespace(t, "answers")).Create(ctx, group("web", nil), strictly)
	must.Succeed(t, err)
	k.warnings.take()
	groups, update := k.groups(g.GetNamespace()), metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}
	for i, text := range a.statuses {
		status := parse(t, text)
		g.Object["status"] = status
		stored, err := groups.UpdateStatus(ctx, g, update)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if got := stored.Object["status"]; !reflect.DeepEqual(got, any(status)) {
			t.Errorf("%s\nis stored as\n%v", text, got)
		}
		if i%20 == 0 { // a second write of the same status must change nothing
			again, err := groups.UpdateStatus(ctx, stored, update)
			if err != nil || again.GetResourceVersion() != stored.GetResourceVersion() {
				t.Errorf("the second write changes the status (%v): %s", err, text)
			}
		}
		g = stored
	}
	if said := k.warnings.take(); said != "" {
		t.Errorf("the API server warns: %s; want none", said)
	}
	t.Logf("%d statuses", len(a.statuses))
}

var childKinds = map[string]schema.GroupVersionResource{
	"ConfigMap":     {Version: "v1", Resource: "configmaps"},
	"Service":       {Version: "v1", Resource: "services"},
	"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

func TestEveryChildIsAcceptedAndASecondApplyChangesNothing(t *testing.T) {
	k := api(t)
	a, err := answers()
	if err != nil || len(a.children) < 100 {
		t.Fatalf("got %d children, and the error %v; want at least 100", len(a.children), err)
	}
	ctx := context.Background()
	namespace := k.namespace(t, "children")
	apply := metav1.PatchOptions{FieldManager: "metacontroller", FieldValidation: metav1.FieldValidationStrict}
	count := map[string]int{}
	k.warnings.take()
	for _, text := range a.children {
		child := unstructured.Unstructured{Object: parse(t, text)}
		kind, known := childKinds[child.GetKind()]
		if !known {
			t.Fatalf("a child of kind %s", child.GetKind())
		}
		count[child.GetKind()]++
		child.SetNamespace(namespace)
		raw, err := json.Marshal(child.Object)
		must.Succeed(t, err)
		objects := k.Resource(kind).Namespace(namespace)
		if err := objects.Delete(ctx, child.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err) // a change of a Service's type is another case than its creation
		}
		if _, err := objects.Create(ctx, &child, dryly); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		first, err := objects.Patch(ctx, child.GetName(), types.ApplyPatchType, raw, apply)
		if err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		// Metacontroller merges the answer into the stored object, and writes unless the result equals it.
		if missing := lacks("", first.Object, child.Object); len(missing) > 0 {
			t.Errorf("%s\nis stored without %v, or with another value", raw, missing)
		}
		second, err := objects.Patch(ctx, child.GetName(), types.ApplyPatchType, raw, apply)
		if err != nil || first.GetResourceVersion() != second.GetResourceVersion() {
			t.Errorf("a second apply changes the child (%v): %s", err, raw)
		}
	}
	if said := k.warnings.take(); said != "" {
		t.Errorf("the API server warns: %s; want none", said)
	}
	for kind := range childKinds {
		if count[kind] == 0 {
			t.Errorf("there was no %s", kind)
		}
	}
	t.Logf("children: %v", count)
}

// lacks lists the parts of the expected value that the stored value lacks or has with other contents. The stored value can have more
// fields, but its lists can't be longer.
func lacks(path string, stored, wanted any) (missing []string) {
	switch w := wanted.(type) {
	case map[string]any:
		s, _ := stored.(map[string]any)
		for name, value := range w {
			if _, there := s[name]; !there {
				missing = append(missing, path+"."+name)
				continue
			}
			missing = append(missing, lacks(path+"."+name, s[name], value)...)
		}
	case []any:
		s, _ := stored.([]any)
		if len(s) != len(w) {
			return []string{path}
		}
		for i := range w {
			missing = append(missing, lacks(path+"[]", s[i], w[i])...)
		}
	default:
		if !reflect.DeepEqual(stored, wanted) {
			missing = []string{path}
		}
	}
	return missing
}

// The CRD bounds the length of a group's name, and thereby the length of the children's names.
func TestAChildWithTheLongestNameIsAccepted(t *testing.T) {
	k := api(t)
	a, err := answers()
	must.Succeed(t, err)
	longest, done := strings.Repeat("a", 57), map[string]bool{}
	namespace := k.namespace(t, "longest")
	for _, text := range a.children {
		child := unstructured.Unstructured{Object: parse(t, []byte(strings.ReplaceAll(string(text), "web", longest)))}
		if done[child.GetKind()] {
			continue
		}
		done[child.GetKind()] = true
		child.SetNamespace(namespace)
		if _, err := k.Resource(childKinds[child.GetKind()]).Namespace(namespace).Create(context.Background(), &child, dryly); err != nil {
			t.Error(err)
		}
	}
}
