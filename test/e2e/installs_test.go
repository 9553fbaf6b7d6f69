package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/e2e/cluster"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// install adds the install east: a second server, with a vCenter of its own, and the CompositeController vmgroup-east. Both end with
// the test; no group may have its finalizer by then.
func (r *rig) install(t *testing.T) *rig {
	t.Helper()
	east := &rig{kube: r.kube}
	var err error
	east.vcenter, err = vcsim.Start(vcsim.Config{Templates: []string{"vm-operator-template"}, Guest: vcsim.Guest{Tools: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.vcenter.Close() })
	ports, err := cluster.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
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

// A team has two vCenters, and a label says which one a group belongs to. Changing the label of a group with VMs, where no policy
// forbids it, moves nothing, and there is a way back, and a way out.
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
		return g.Status.Phase == v1alpha1.PhaseError && strings.Contains(g.Status.LastMessage, "were made in vCenter "+r.vcenter.InstanceUUID())
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
