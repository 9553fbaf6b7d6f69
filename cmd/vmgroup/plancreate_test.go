package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestPlanTakesWhateverKubectlCreateTakes(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	vc := startVCenter(t, vcsim.Config{})
	p := serveReady(t, against(vc))
	const spec = `"spec":{"cpu":2,"memory":4,"replicas":1,"template":"vm-operator-template"}`
	group := func(metadata string) string {
		return `{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroup","metadata":{` + metadata + `},` + spec + `}`
	}
	const generate = `"generateName":"web-"`
	dir := t.TempDir()
	for name, text := range map[string]string{"a.json": group(`"name":"a"`), "b.yml": "---\n" + group(`"name":"b"`) + "\n", "c.yaml": group(`"name":"c"`), "README.md": "no manifest"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, c := range map[string]struct {
		manifest string
		args     []string
		want     []string
	}{
		"generateName":                   {group(generate), nil, []string{"default/web-xxxxx"}},
		"generateName in YAML":           {strings.NewReplacer("{name: web,", "{generateName: web-,").Replace(head) + "}\n", nil, []string{"shop/web-xxxxx"}},
		"several of one generateName":    {group(generate) + "\n---\n" + group(generate), nil, []string{"default/web-xxxxx", "default/web-xxxxx"}},
		"a name beside it":               {group(`"name":"db",` + generate), nil, []string{"default/db"}},
		"a namespace from the flags":     {group(`"name":"db"`), []string{"-n", "shop"}, []string{"shop/db"}},
		"generateName in that namespace": {group(generate), []string{"-n", "shop"}, []string{"shop/web-xxxxx"}},
		"no namespace":                   {group(`"name":"db"`), nil, []string{"default/db"}},
		"JSON, one after the other":      {group(`"name":"a"`) + "\n" + group(`"name":"b"`), nil, []string{"default/a", "default/b"}},
		"a List":                         {`{"apiVersion":"v1","kind":"List","items":[` + group(generate) + `,` + group(`"name":"b"`) + `]}`, nil, []string{"default/web-xxxxx", "default/b"}},
		"a VmGroupList":                  {`{"apiVersion":"vm.codeconnect.vmworld.com/v1alpha1","kind":"VmGroupList","metadata":{},"items":[` + group(`"name":"b"`) + `]}`, nil, []string{"default/b"}},
		"a directory":                    {"", []string{"-f", dir}, []string{"default/a", "default/b", "default/c"}},
	} {
		for _, server := range [][]string{{"--server", p.url}, {}} {
			out, errs, status := preview(t, against(vc), c.manifest, slices.Concat([]string{"-o", "json"}, server, c.args)...)
			var answers []hook.PlanAnswer
			if err := json.Unmarshal([]byte(out), &answers); err != nil || status != 2 {
				t.Errorf("%s, %v: exit status %d: %s%s", name, server, status, out, errs)
				continue
			}
			var got []string
			for _, a := range answers {
				got = append(got, a.Group)
				_, name, _ := strings.Cut(a.Group, "/")
				if len(a.Steps) == 0 || !slices.ContainsFunc(a.Steps, func(s hook.PlanStep) bool { return s.Op == "Clone" && s.VM == name+"-0" }) {
					t.Errorf("%s, %v: %+v", name, server, a)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %v: %v, want %v", name, server, got, c.want)
			}
		}
	}
	if out, errs, status := preview(t, against(vc), group(`"generateName":"`+strings.Repeat("a", 60)+`"`)); status != 1 || !strings.Contains(out, "metadata.name") {
		t.Errorf("a name that gets too long: exit status %d: %s%s; want 1 and %q in the text", status, out, errs, "metadata.name")
	}
}
