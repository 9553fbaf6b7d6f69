package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// trees are what a user can apply: the root, each overlay, each component on top of the root, and an install for another vCenter.
func trees(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"manifests": repository + "/manifests", "vcenter": another(t, "east")}
	for _, path := range glob(t, "manifests/overlays/*") {
		all["overlays/"+filepath.Base(path)] = path
	}
	for _, path := range glob(t, "manifests/components/*") {
		all["components/"+filepath.Base(path)] = overlay(t, "components/"+filepath.Base(path))
	}
	return all
}

// overlay writes an overlay of the root with these components, and returns its directory.
func overlay(t *testing.T, components ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	manifests, err := filepath.Abs(repository + "/manifests")
	must.Succeed(t, err)
	if manifests, err = filepath.Rel(dir, manifests); err != nil { // kustomize accepts no absolute path
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + manifests + "]\ncomponents:\n"
	for _, c := range components {
		text += "- " + manifests + "/" + c + "\n"
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	return dir
}

// foreign are the kinds of other projects: the Prometheus operator, cert-manager and, if its CRDs are not given, Metacontroller.
var foreign = []string{"CompositeController", "ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"}

func TestADryRunAcceptsEveryTreeOfManifests(t *testing.T) {
	k := api(t)
	k.systemNamespace(t) // a dry run of the namespace doesn't create it for the objects in it
	k.namespace(t, "vmgroup-east")
	here := k.kubectl(t, "api-resources", "--no-headers")
	for name, path := range trees(t) {
		t.Run(name, func(t *testing.T) {
			var known, skipped []string
			for _, text := range regexp.MustCompile(`(?m)^---\n`).Split(k.kubectl(t, "kustomize", path), -1) {
				var object struct {
					Kind     string
					Metadata struct{ Name string }
				}
				must.Succeed(t, yaml.Unmarshal([]byte(text), &object))
				if !regexp.MustCompile(`(?m)\s` + object.Kind + `$`).MatchString(here) {
					if !slices.Contains(foreign, object.Kind) {
						t.Errorf("unknown kind %s", object.Kind)
					}
					skipped = append(skipped, object.Kind+"/"+object.Metadata.Name)
					continue
				}
				known = append(known, text)
			}
			for _, how := range [][]string{{"--server-side"}, nil} {
				args := append([]string{"apply", "--dry-run=server", "--validate=strict", "-f", "-"}, how...)
				out := k.kubectlWith(t, strings.Join(known, "---\n"), args...)
				if n := strings.Count(out, "(server dry run)\n"); n != len(known) {
					t.Errorf("%d of %d objects were accepted:\n%s", n, len(known), out)
				}
			}
			t.Logf("%d objects accepted; skipped, because their kinds are unknown here: %v", len(known), skipped)
		})
	}
}

// kubectl stores the applied object in an annotation of at most 262,144 characters; the CRD is the largest object.
func TestApplyingTheManifestsAgainChangesNothing(t *testing.T) {
	if metacontrollerCRDs == "" {
		t.Skip("the tree has a CompositeController, but METACONTROLLER_CRDS is not set")
	}
	k := api(t)
	k.kubectl(t, "apply", "-k", repository+"/manifests")
	before := k.versions(t, "-k", repository+"/manifests")
	k.kubectl(t, "apply", "-k", repository+"/manifests")
	if after := k.versions(t, "-k", repository+"/manifests"); after != before {
		t.Errorf("versions before:\n%s\nnow:\n%s", before, after)
	}
}
