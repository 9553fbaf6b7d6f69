package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// line is how a file names its schema to yaml-language-server.
const line = "# yaml-language-server: $schema="

func compiled(t *testing.T, path string) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(path)
	succeed(t, err)
	return schema
}

func check(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	succeed(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	succeed(t, err)
	return schema.Validate(value)
}

func TestEachSampleNamesItsSchemaAndIsValidToIt(t *testing.T) {
	paths, err := filepath.Glob("../../manifests/samples/vmgroup*.yaml")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%v %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		succeed(t, err)
		first, _, _ := strings.Cut(string(text), "\n")
		name, named := strings.CutPrefix(first, line)
		if !named {
			t.Errorf("%s begins with %q, not with %s", path, first, line)
			continue
		}
		if err := check(t, compiled(t, filepath.Join(filepath.Dir(path), name)), text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAnEditorSeesWhatTheAPIServerWouldRefuse(t *testing.T) {
	schema := compiled(t, "../../manifests/vmgroup.schema.json")
	const group = `{apiVersion: vm.codeconnect.vmworld.com/v1alpha1, kind: VmGroup, metadata: {name: web}, spec: {cpu: 2, memory: 4, template: t, update: {maxSurge: 25%}}}`
	succeed(t, check(t, schema, []byte(group)))
	for _, c := range []struct{ old, new, says string }{
		{"cpu: 2", "cpus: 2", "additional properties 'cpus' not allowed"},
		{"cpu: 2", `cpu: "2"`, "want integer"},
		{"cpu: 2", "cpu: 0", "/spec/cpu"},
		{"memory: 4, ", "", "missing property 'memory'"},
		{"maxSurge: 25%", "maxSurge: [1]", "/spec/update/maxSurge"},
		{"kind: VmGroup", "kind: VMGroup", "/kind"},
		{"v1alpha1", "v1", "/apiVersion"},
	} {
		if err := check(t, schema, []byte(strings.Replace(group, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want an error and %q in the text", c.new, err, c.says)
		}
	}
}

// succeed ends the test if err is not nil.
func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
