package manifests_test

import (
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

// A generated Secret has a hash in its name, so that a change of its text is a change of the group.
func TestGroupsNameWhatKustomizeRenames(t *testing.T) {
	const names = "components: [../manifests/components/name-references]\n"
	const groups = `apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata: {name: web}
spec: {cpu: 1, memory: 1, template: ubuntu, userData: {secretKeyRef: {name: web-user-data}}}
---
apiVersion: vm.codeconnect.vmworld.com/v1alpha1
kind: VmGroup
metadata: {name: core}
spec: {cpu: 1, memory: 1, template: flatcar, userData: {configMapKeyRef: {name: core-user-data, key: ignition}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: vm.codeconnect.vmworld.com/v1alpha1, kind: VmGroup, name: web}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: core}
spec:
  scaleTargetRef: {apiVersion: vm.codeconnect.vmworld.com/v1alpha1, kind: VmGroup, name: core}
`
	const kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: shop\nnamePrefix: eu-\nnameSuffix: -blue\nresources: [groups.yaml]\n" +
		"secretGenerator:\n- {name: web-user-data, literals: ['user-data=#cloud-config']}\nconfigMapGenerator:\n- {name: core-user-data, literals: ['ignition={}']}\n"
	built := func(kustomization string) string {
		fsys := checkout(t)
		must.Succeed(t, fsys.WriteFile("/shop/groups.yaml", []byte(groups)))
		must.Succeed(t, fsys.WriteFile("/shop/kustomization.yaml", []byte(kustomization)))
		all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fsys, "/shop")
		must.Succeed(t, err)
		text, err := all.AsYaml()
		must.Succeed(t, err)
		return string(text)
	}
	for _, reference := range []string{
		`secretKeyRef:\n +name: eu-web-user-data-blue-[a-z0-9]{10}\n`, `configMapKeyRef:\n +key: ignition\n +name: eu-core-user-data-blue-[a-z0-9]{10}\n`,
		`scaleTargetRef:\n.*\n +kind: VmGroup\n +name: eu-web-blue\n`, `scaleTargetRef:\n.*\n +kind: VmGroup\n +name: eu-core-blue\n`,
	} {
		if with := built(kustomization + names); !regexp.MustCompile(reference).MatchString(with) {
			t.Errorf("no %s in\n%s", reference, with)
		}
		if without := built(kustomization); regexp.MustCompile(reference).MatchString(without) {
			t.Errorf("kustomize finds %s without the component, which can go", strings.ReplaceAll(reference, "\n", " "))
		}
	}
}
