package plan_test

import (
	"maps"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestChildrenTakeOnlyLabelsThatAreAllowed(t *testing.T) {
	t.Parallel()
	keys, err := plan.ParseLabelKeys([]string{"team", " example.com/* ", "app.kubernetes.io/part-of", "k8s.example.com/cost"})
	if err != nil {
		t.Fatal(err)
	}
	child := map[string]string{"example.com/own": "kept"}
	keys.CopyTo(child, map[string]string{"team": "a", "example.com/cost": "7", "example.com/own": "replaced", "app.kubernetes.io/part-of": "shop", "k8s.example.com/cost": "8",
		"stage": "no", "sub.example.com/x": "no", "example.com": "no", "teams": "no"})
	if want := map[string]string{"example.com/own": "kept", "team": "a", "example.com/cost": "7", "app.kubernetes.io/part-of": "shop", "k8s.example.com/cost": "8"}; !maps.Equal(child, want) {
		t.Errorf("the child has %v; want %v", child, want)
	}
	// However a key got into the setting, no label is copied by which a deployer would take the child for its own.
	child = map[string]string{}
	acted := []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace", "helm.sh/chart",
		"cluster.x-k8s.io/cluster-name", "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by", "service.kubernetes.io/headless", "controller-uid", "metacontroller.io/x",
		"vm.codeconnect.vmworld.com/vcenter"}
	group := map[string]string{}
	for _, key := range acted {
		group[key] = "x"
		prefix, _, _ := strings.Cut(key, "/")
		plan.LabelKeys{key, prefix + "/*"}.CopyTo(child, group)
		if _, err := plan.ParseLabelKeys([]string{key}); err == nil || !strings.Contains(err.Error(), "other programs act on") {
			t.Errorf("%s: %v; want it refused, because other programs act on it", key, err)
		}
	}
	if len(child) > 0 {
		t.Errorf("the child has %v", child)
	}
	for _, wrong := range []string{"", "/team", "example.com/", "*", "te*", "*/team", "example.com/te*", "te am", "team=a"} {
		if _, err := plan.ParseLabelKeys([]string{wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
