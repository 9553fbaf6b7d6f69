package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

const deletionGuard = repository + "/charts/vmgroup/files/cluster/deletionguard.yaml"

// eachWay returns the options with which a client can ask the API server to keep dependents, by name.
func eachWay() map[string]metav1.DeleteOptions {
	orphan, yes := metav1.DeletePropagationOrphan, true
	return map[string]metav1.DeleteOptions{"propagationPolicy": {PropagationPolicy: &orphan}, "orphanDependents": {OrphanDependents: &yes}}
}

func TestTheAPIServerRefusesADeletionThatOrphans(t *testing.T) {
	k := api(t)
	namespace := k.namespace(t, "orphans")
	named := func(name, metadata string) string {
		return strings.Replace(webYAML, "{name: web}", "{name: "+name+metadata+"}", 1)
	}
	of := []string{"-n", namespace}
	k.kubectlWith(t, named("before", ", finalizers: [orphan]"), append(of, "create", "-f", "-")...)
	k.kubectl(t, "apply", "-f", deletionGuard)
	defer k.kubectl(t, "delete", "-f", deletionGuard)
	k.kubectlWith(t, webYAML, append(of, "create", "-f", "-")...)

	says := []string{"--cascade=orphan", "spec.deletion.policy to Retain", "docs/day-to-day.md"}
	k.refuses(t, "kubectl delete", "", append(of, "delete", "vg", "web", "--cascade=orphan"), append(says, namespace+"/web")...)
	k.refuses(t, "kubectl delete --all", "", append(of, "delete", "vg", "--all", "--cascade=orphan"), says...)
	groups := k.Resource(vmgroups).Namespace(namespace)
	ctx := context.Background()
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "Retain") {
			t.Errorf("%s: %v; want an error and %q in the text", what, err, "Retain")
		}
	}
	for way, options := range eachWay() {
		refused(way, groups.Delete(ctx, "web", options))
		refused(way+" of a collection", groups.DeleteCollection(ctx, options, metav1.ListOptions{}))
	}
	refused("the finalizer that it has, without options", groups.Delete(ctx, "before", metav1.DeleteOptions{}))
	k.refuses(t, "a new group with the finalizer", named("new", ", finalizers: [orphan]"), append(of, "create", "-f", "-"), "the finalizer orphan")
	k.refuses(t, "the finalizer", "", append(of, "patch", "vg", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["orphan"]}}`), "the finalizer orphan")
	if out := k.kubectl(t, append(of, "get", "vg", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}")...); out != "" {
		t.Errorf("a group is being deleted since %s; want none", out)
	}

	t.Log("everything else passes")
	k.kubectl(t, append(of, "label", "vg", "before", "team=a")...) // this group already has the finalizer orphan
	k.kubectl(t, append(of, "delete", "vg", "before", "--timeout=1m")...)
	k.passes(t, "foreground", "", append(of, "delete", "vg", "web", "--cascade=foreground")...)
	k.kubectl(t, append(of, "delete", "vg", "web", "--timeout=1m")...)
}

// vmsAre lists the VMs of a group with their moRefs and power states.
func (r *rig) vmsAre(t *testing.T, namespace, name string) (all []string) {
	t.Helper()
	for vm, properties := range r.vms(t, namespace, name) {
		all = append(all, fmt.Sprintf("%s %s %s", vm, properties.Self.Value, properties.Runtime.PowerState))
	}
	slices.Sort(all)
	return all
}

func TestEachKindOfDeletionDoesWhatItsUserMeans(t *testing.T) {
	r := life(t)
	const served = "  readiness: {check: GuestIP}\n  service: {ports: [{port: 80}], drainSeconds: 5}\n"
	two := func(namespace, name, more string) {
		t.Helper()
		text := "apiVersion: vm.codeconnect.vmworld.com/v1alpha1\nkind: VmGroup\nmetadata: {name: " + name + "}\nspec:\n  cpu: 1\n  memory: 1\n  replicas: 2\n  template: vm-operator-template\n" + served + more
		r.kubectlWith(t, text, "-n", namespace, "apply", "-f", "-")
		r.settled(t, namespace, name, 2)
		eventually(t, func() string {
			if n := len(strings.Fields(r.kubectl(t, "-n", namespace, "get", "services,configmaps,endpointslices", "-o", "name", "-l", v1alpha1.LabelGroup+"="+name))); n != 3 {
				return fmt.Sprintf("%s has %d children", name, n)
			}
			return ""
		})
	}
	namespace := r.namespace(t, "cascades")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	for name, how := range map[string][]string{
		"background": {"--cascade=background"}, "foreground": {"--cascade=foreground"}, "force": {"--force", "--grace-period=0"},
	} {
		two(namespace, name, "")
		k(append([]string{"delete", "vg", name, "--timeout=2m"}, how...)...)
		if left := r.vmsAre(t, namespace, name); len(left) > 0 {
			t.Errorf("%s: %v are left; want none", name, left)
		}
		eventually(t, func() string {
			return k("get", "services,configmaps,endpointslices", "-o", "name", "-l", v1alpha1.LabelGroup+"="+name)
		})
	}

	t.Log("with orphan: refused, and nothing changes")
	two(namespace, "web", "")
	was := r.vmsAre(t, namespace, "web")
	r.kubectl(t, "apply", "-f", deletionGuard)
	r.refuses(t, "orphan", "", []string{"-n", namespace, "delete", "vg", "web", "--cascade=orphan"}, "Retain")
	if _, err := r.Kubectl("-n", namespace, "delete", "vg", "web", "--cascade=orphan"); err == nil {
		t.Error("the group is deleted with orphan")
	}
	r.settled(t, namespace, "web", 2)
	if now := r.vmsAre(t, namespace, "web"); !slices.Equal(now, was) {
		t.Errorf("the VMs are %v, and were %v", now, was)
	}
	t.Log("as the refusal says")
	k("patch", "vg", "web", "--type=merge", "-p", `{"spec":{"deletion":{"policy":"Retain"}}}`)
	k("delete", "vg", "web", "--timeout=3m")
	if now := r.vmsAre(t, namespace, "web"); !slices.Equal(now, was) {
		t.Errorf("retained are %v, of %v", now, was)
	}

	t.Log("a namespace")
	gone := r.namespace(t, "cascades-gone")
	two(gone, "web", "")
	two(gone, "kept", "  deletion: {policy: Retain}\n")
	was = r.vmsAre(t, gone, "kept")
	r.kubectl(t, "delete", "namespace", gone, "--timeout=3m")
	if left := r.vmsAre(t, gone, "web"); len(left) > 0 {
		t.Errorf("after its namespace was deleted, %v are left; want none", left)
	}
	if now := r.vmsAre(t, gone, "kept"); !slices.Equal(now, was) {
		t.Errorf("after their namespace was deleted, %v are retained, of %v", now, was)
	}

	t.Log("with orphan, where no policy refuses it: if the server hears of it, the VMs stay")
	r.kubectl(t, "delete", "-f", deletionGuard)
	two(namespace, "let", "")
	was = r.vmsAre(t, namespace, "let")
	eventually(t, func() string { // the API server enforces a deleted policy for a moment longer
		if _, err := r.Kubectl("-n", namespace, "patch", "vg", "let", "--type=merge", "-p", `{"metadata":{"finalizers":["metacontroller.io/compositecontroller-vmgroup","orphan"]}}`); err != nil {
			return err.Error()
		}
		return ""
	})
	r.StopControllers() // the garbage collector must not act before the server was called
	k("delete", "vg", "let", "--cascade=orphan", "--wait=false")
	eventually(t, func() string {
		if k("get", "vg", "let", "-o", "jsonpath={.status.orphaned}") != "true" {
			return "its status doesn't say that it was deleted with orphan"
		}
		return ""
	})
	must.Succeed(t, r.StartControllers())
	k("wait", "--for=delete", "vg/let", "--timeout=3m")
	if now := r.vmsAre(t, namespace, "let"); !slices.Equal(now, was) {
		t.Errorf("after orphan, %v are left, of %v", now, was)
	}
	if n := len(strings.Fields(k("get", "services,configmaps,endpointslices", "-o", "name", "-l", v1alpha1.LabelGroup+"=let"))); n != 3 {
		t.Errorf("after orphan, %d children are left; want 3", n)
	}
}
