package linters

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// pardoned lists the accepted findings of kube-score, by object (or a part of its name) and check, each with its reason.
var pardoned = []struct{ object, check, reason string }{
	{"Deployment/apps/v1/vmgroup-system/vmgroup", "container-image-pull-policy", "the image has a unique tag or a digest; with Always, every restart would need the registry"},
	{"Deployment/apps/v1/vmgroup-system/vmgroup", "container-resources: CPU limit is not set", "a CPU limit would throttle the answers that Metacontroller waits for; memory is limited"},
	{"Deployment/apps/v1/vmgroup-system/vmgroup", "container-ephemeral-storage-request-and-limit", "the root file system is read-only, so the container stores nothing"},
	{"Deployment/apps/v1/vmgroup-system/vmgroup", "deployment-replicas", "one replica, like Metacontroller: VMs keep running while the pod is rescheduled"},
	{"Deployment/apps/v1/vmgroup-system/vmgroup", "deployment-strategy", "the new replica starts after the old one has ended; only Metacontroller waits for the hooks, and it retries"},
}

// scored returns kube-score's findings in a tree of manifests: "tree: object: check: message".
func scored(t *testing.T, tree string, objects []byte) (all []string) {
	t.Helper()
	var said bytes.Buffer
	c := exec.Command("go", "tool", "kube-score", "score", "-", "--output-format", "json")
	c.Stdin, c.Stderr = bytes.NewReader(objects), &said
	out, _ := c.Output() // kube-score exits with 1 if it finds something
	var found []struct {
		Object string `json:"object_name"`
		Checks []struct {
			Check    struct{ ID string }
			Grade    int
			Skipped  bool
			Comments []struct{ Summary string }
		}
	}
	if err := json.Unmarshal(out, &found); err != nil || len(found) == 0 {
		t.Fatalf("%s: kube-score failed: %v: %s", tree, err, said.String())
	}
	for _, o := range found {
		for _, c := range o.Checks {
			if !c.Skipped && c.Grade < 10 {
				for _, m := range c.Comments {
					all = append(all, tree+": "+o.Object+": "+c.Check.ID+": "+m.Summary)
				}
			}
		}
	}
	return all
}

// unpardoned returns the findings that are not excused, and notes the excuses used.
func unpardoned(findings []string, used map[string]bool) (left []string) {
	for _, f := range findings {
		is := false
		for _, p := range pardoned {
			if strings.Contains(f, p.object) && strings.Contains(f, ": "+p.check) {
				used[p.object+p.check], is = true, true
			}
		}
		if !is {
			left = append(left, f)
		}
	}
	return left
}

func TestKubeScoreFindsNothingInTheManifestsWithoutAnExcuse(t *testing.T) {
	t.Parallel()
	manifests, err := filepath.Abs(filepath.Join(repository, "manifests"))
	must(t, err)
	everything := t.TempDir()
	to, err := filepath.Rel(everything, manifests)
	must(t, err)
	components, err := os.ReadDir(filepath.Join(manifests, "components"))
	must(t, err)
	text := "resources: [" + to + "]\ncomponents:\n"
	for _, c := range components {
		text += "- " + to + "/components/" + c.Name() + "\n"
	}
	must(t, os.WriteFile(filepath.Join(everything, "kustomization.yaml"), []byte(text), 0o600))
	used := map[string]bool{}
	for tree, dir := range map[string]string{"root": manifests, "simulator": filepath.Join(manifests, "overlays/simulator"), "everything": everything} {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
		must(t, err)
		objects, err := built.AsYaml()
		must(t, err)
		for _, f := range unpardoned(scored(t, tree, objects), used) {
			t.Errorf("a finding without an excuse: %s", f)
		}
		if tree != "root" {
			continue
		}
		for what, plant := range map[string][2]string{
			"a writable file system": {"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"},
			"no memory limit":        {"memory: 256Mi", "other: 256Mi"},
		} {
			bent := strings.ReplaceAll(string(objects), plant[0], plant[1])
			if bent == string(objects) || len(unpardoned(scored(t, tree, []byte(bent)), map[string]bool{})) == 0 {
				t.Errorf("planted: %s: kube-score finds nothing", what)
			}
		}
	}
	for _, p := range pardoned {
		if !used[p.object+p.check] {
			t.Errorf("no finding needs the excuse %s of %s: remove it", p.check, p.object)
		}
	}
}
