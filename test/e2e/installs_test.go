package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// install adds the install east: a second server, with a vCenter of its own, whose clones can take a while, and the CompositeController
// vmgroup-east. Both end with the test; no group must have its finalizer by then.
func (r *rig) install(t *testing.T, clone ...time.Duration) *rig {
	t.Helper()
	east := &rig{kube: r.kube}
	var err error
	config := vcsim.Config{Templates: []string{"vm-operator-template"}, Guest: vcsim.Guest{Tools: true}}
	if len(clone) > 0 {
		config.Latency.Clone = clone[0]
	}
	east.vcenter, err = vcsim.Start(config)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = east.vcenter.Close() })
	ports, err := cluster.FreePorts(2)
	must.Succeed(t, err)
	east.hooks, east.health = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	east.startServer(t)
	t.Cleanup(east.server.Kill)
	if _, err := r.Kubectl("get", "namespace", "vmgroup-east"); err != nil {
		r.namespace(t, "vmgroup-east")
		r.secrets(t, "vmgroup-east")
	}
	east.serve(t)
	t.Cleanup(func() { r.kubectl(t, "delete", "compositecontroller", "vmgroup-east") })
	return east
}

// serve applies the CompositeController of the install east.
func (r *rig) serve(t *testing.T) {
	t.Helper()
	r.applyController(t, another(t, "east"))
}

// statuses counts Metacontroller's writes of groups' statuses.
func (r *rig) statuses(t *testing.T, namespace string) (n int) {
	t.Helper()
	for _, w := range r.writes(t) {
		if w.Namespace == namespace && w.Resource == "vmgroups/status" {
			n++
		}
	}
	return n
}

// A team has two vCenters, and a label says which one a group belongs to. Changing the label of a group with VMs, where no policy
// forbids it, moves no VM. The user can undo the change, or delete the group.
func TestRelabelingAGroupForAnotherInstallMovesNothing(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "two-installs")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	two := r.install(t)
	const ours, theirs = "metacontroller.io/compositecontroller-vmgroup", "metacontroller.io/compositecontroller-vmgroup-east"
	finalizers := func(name string, want ...string) {
		t.Helper()
		eventually(t, func() string {
			has := r.group(t, namespace, name).Finalizers
			if slices.Sort(has); !slices.Equal(has, want) {
				return fmt.Sprintf("%s has the finalizers %v, want %v", name, has, want)
			}
			return ""
		})
	}
	label := func(name, value string) { k("label", "vg", name, vcenterLabel+value, "--overwrite") }
	// steady checks that nothing is written for a while: two servers that answer for one group could write in turns.
	steady := func() {
		t.Helper()
		r.quiet(t)
		was := r.versions(t, "-n", namespace, "vg,configmaps")
		time.Sleep(lease)
		if is := r.versions(t, "-n", namespace, "vg,configmaps"); is != was {
			t.Errorf("versions before:\n%s\nnow:\n%s", was, is)
		}
	}
	r.kubectlWith(t, strings.Replace(webYAML, "replicas: 3", "replicas: 2", 1), "-n", namespace, "apply", "-f", "-")
	g := r.settled(t, namespace, "web", 2)

	calls := r.calls(t)
	label("web", "=east")
	r.event(t, namespace, "web", calls)
	moved := r.until(t, namespace, "web", "held", func(g *v1alpha1.VmGroup) bool {
		return g.Status.Phase == v1alpha1.PhaseError && strings.Contains(g.Status.LastMessage, "were created in vCenter "+r.vcenter.InstanceUUID())
	})
	keeps(t, g, moved)
	finalizers("web", ours, theirs)
	steady()
	r.onePerOrdinal(t, namespace, "web", 2)
	two.onePerOrdinal(t, namespace, "web", 0)
	t.Logf("relabeled:\n%s\n%s", k("get", "vg"), k("get", "events"))

	label("web", "-")
	back := r.settled(t, namespace, "web", 2)
	keeps(t, g, back)
	finalizers("web", ours)
	steady()
	t.Logf("labeled back:\n%s", k("get", "vg"))

	label("web", "=east")
	finalizers("web", ours, theirs)
	k("delete", "vg", "web", "--timeout=3m")
	r.onePerOrdinal(t, namespace, "web", 0)

	r.kubectlWith(t, strings.NewReplacer("name: web", "name: empty", "replicas: 3", "replicas: 0").Replace(webYAML), "-n", namespace, "apply", "-f", "-")
	r.settled(t, namespace, "empty", 0)
	label("empty", "=east")
	k("scale", "vg/empty", "--replicas=1")
	r.settled(t, namespace, "empty", 1)
	finalizers("empty", theirs)
	r.onePerOrdinal(t, namespace, "empty", 0)
	two.onePerOrdinal(t, namespace, "empty", 1)
	k("delete", "vg", "empty", "--timeout=2m")
	two.onePerOrdinal(t, namespace, "empty", 0)
}

// Without the policies, two installs can select a new group, or its label can change while its first VM is cloned. Still, only one vCenter
// may have the group's VMs.
func TestTwoInstallsNeverMakeTheVMsOfOneGroup(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "two-selectors")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	east := r.install(t, 10*time.Second)
	r.kubectlWith(t, strings.Replace(labeled("moved", "east"), "replicas: 3", "replicas: 1", 1), "-n", namespace, "apply", "-f", "-")
	eventually(t, func() string {
		if fs := r.group(t, namespace, "moved").Finalizers; len(fs) == 0 {
			return "no finalizer"
		}
		return ""
	})
	eventually(t, func() string {
		if g := r.group(t, namespace, "moved"); g.Status.Phase == "" {
			return "no first status"
		}
		return ""
	})
	k("label", "vg", "moved", vcenterLabel+"-")
	moved := r.until(t, namespace, "moved", "held", func(g *v1alpha1.VmGroup) bool { return strings.Contains(g.Status.LastMessage, "another install") })
	t.Logf("relabeled while its VM is cloned: %s: %s", moved.Status.Phase, moved.Status.LastMessage)
	time.Sleep(lease)
	east.onePerOrdinal(t, namespace, "moved", 1)
	r.onePerOrdinal(t, namespace, "moved", 0)

	const ours = "        operator: DoesNotExist\n"
	r.applyController(t, overlay(t, "components/metacontroller-rights"), ours, "        operator: In\n        values: [east]\n")
	defer r.selecting(t)
	r.kubectlWith(t, labeled("raced", "east"), "-n", namespace, "apply", "-f", "-")
	time.Sleep(lease)
	here, there := len(r.vms(t, namespace, "raced")), len(east.vms(t, namespace, "raced"))
	if here > 0 && there > 0 {
		t.Errorf("both vCenters have VMs of the group: %d and %d", here, there)
	}
	g := r.group(t, namespace, "raced")
	t.Logf("two installs select it: %d and %d VMs, finalizers %v, %s: %s", here, there, g.Finalizers, g.Status.Phase, g.Status.LastMessage)
	k("delete", "vg", "--all", "--timeout=3m")

	t.Log("each of the two sees the other's finalizer")
	finalizers := []string{"metacontroller.io/compositecontroller-vmgroup", "metacontroller.io/compositecontroller-vmgroup-east"}
	r.kubectlWith(t, strings.Replace(labeled("both", "east"), "{name: both,", "{name: both, finalizers: ["+strings.Join(finalizers, ", ")+"],", 1), "-n", namespace, "apply", "-f", "-")
	r.until(t, namespace, "both", "held", func(g *v1alpha1.VmGroup) bool { return strings.Contains(g.Status.LastMessage, "another install") })
	r.quiet(t)
	settled := r.statuses(t, namespace)
	time.Sleep(lease)
	if n := r.statuses(t, namespace) - settled; n > 0 {
		t.Errorf("the status was written %d times in %s; want none", n, lease)
	}
	both := r.group(t, namespace, "both")
	for _, says := range append(finalizers, "correct its label or a labelSelector") {
		if both.Status.Phase != v1alpha1.PhasePending || !strings.Contains(both.Status.LastMessage, says) {
			t.Errorf("the group is %s, and its status does not say %q: %s", both.Status.Phase, says, both.Status.LastMessage)
		}
	}
	t.Logf("%s: %s", both.Status.Phase, both.Status.LastMessage)
	r.onePerOrdinal(t, namespace, "both", 0)
	east.onePerOrdinal(t, namespace, "both", 0)
	k("delete", "vg", "--all", "--timeout=3m")
}

// A second install begins to select a group that has VMs, because of a wrong selector that no policy forbids. The first install must serve
// the group as before, and the second one must make no VMs, nor overwrite the status that the first one writes.
func TestASecondInstallLeavesAGroupThatHasVMsToTheFirst(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "two-serve")
	k := func(args ...string) string { return r.kubectl(t, append([]string{"-n", namespace}, args...)...) }
	const ours = "        operator: DoesNotExist\n"
	r.applyController(t, overlay(t, "components/metacontroller-rights"), ours, "        operator: In\n        values: [east]\n")
	defer r.selecting(t)
	r.kubectlWith(t, strings.Replace(labeled("web", "east"), "replicas: 3", "replicas: 2", 1), "-n", namespace, "apply", "-f", "-")
	g := r.settled(t, namespace, "web", 2)

	east := r.install(t)
	eventually(t, func() string {
		if fs := r.group(t, namespace, "web").Finalizers; len(fs) != 2 {
			return fmt.Sprintf("the second install does not select the group: %v", fs)
		}
		return ""
	})
	began, before := time.Now(), r.statuses(t, namespace)
	eventually(t, func() string {
		out := k("get", "events", "--field-selector", "involvedObject.name=web,reason=SyncError", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
		if !strings.Contains(out, "another install of VmGroup serves") {
			return "no Event says that two installs select the group:\n" + out
		}
		return ""
	})
	r.quiet(t)
	first, settled := r.statuses(t, namespace)-before, r.statuses(t, namespace)
	time.Sleep(lease)
	if n := r.statuses(t, namespace) - settled; n > 0 {
		t.Errorf("the status was written %d times in %s, after %d times before; want none", n, lease, first)
	}
	g2 := r.settled(t, namespace, "web", 2)
	keeps(t, g, g2)
	r.onePerOrdinal(t, namespace, "web", 2)
	east.onePerOrdinal(t, namespace, "web", 0)
	t.Logf("%d writes of the status in %s:\n%s\n%s", r.statuses(t, namespace)-before, time.Since(began).Round(time.Second), k("get", "vg"), k("get", "events"))

	t.Log("the first one continues")
	k("scale", "vg/web", "--replicas=3")
	r.settled(t, namespace, "web", 3)
	east.onePerOrdinal(t, namespace, "web", 0)
	k("delete", "vg", "web", "--timeout=3m")
	r.onePerOrdinal(t, namespace, "web", 0)
}
