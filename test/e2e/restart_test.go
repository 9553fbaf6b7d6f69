package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// up makes a group with this number of members, and waits until it is settled.
func (r *rig) up(t *testing.T, namespace, name string, members int32) *v1alpha1.VmGroup {
	t.Helper()
	text := strings.Replace(strings.Replace(webYAML, "name: web", "name: "+name, 1), "replicas: 3", fmt.Sprintf("replicas: %d", members), 1)
	r.kubectlWith(t, text, "-n", namespace, "apply", "-f", "-")
	return r.settled(t, namespace, name, members)
}

// keeps checks that all earlier members still exist.
func keeps(t *testing.T, before, after *v1alpha1.VmGroup) {
	t.Helper()
	for _, ref := range moRefs(before) {
		if !slices.Contains(moRefs(after), ref) {
			t.Errorf("%s is no longer a member", ref)
		}
	}
}

// onePerOrdinal checks that vCenter has exactly the members web-0 … of a group.
func (r *rig) onePerOrdinal(t *testing.T, namespace, name string, members int) {
	t.Helper()
	vms := r.vms(t, namespace, name)
	for i := range members {
		if _, there := vms[fmt.Sprintf("%s-%d", name, i)]; !there || len(vms) != members {
			t.Errorf("want %s-0 to %s-%d: %d VMs, ordinal %d exists: %t", name, name, members-1, len(vms), i, there)
		}
	}
}

func TestMetacontrollerCanRestartAtAnyMoment(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "restart-metacontroller")
	g := r.up(t, namespace, "web", 2)
	r.metacontroller.Kill()
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=4")
	r.startMetacontroller(t)
	r.until(t, namespace, "web", "it scales", func(g *v1alpha1.VmGroup) bool { return g.Status.DesiredReplicas == 4 })
	r.metacontroller.Kill() // before all changes of the scaling are done
	r.startMetacontroller(t)
	keeps(t, g, r.settled(t, namespace, "web", 4))
	r.onePerOrdinal(t, namespace, "web", 4)
	r.metacontroller.Kill()
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--wait=false")
	r.startMetacontroller(t)
	r.kubectl(t, "-n", namespace, "wait", "--for=delete", "vg/web", "--timeout=2m")
	r.onePerOrdinal(t, namespace, "web", 0)
}

func TestTheServerContinuesAfterItIsKilledDuringItsWork(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "restart-server")
	g := r.up(t, namespace, "web", 2)
	clones := r.vcenter.Calls()["CloneVM_Task"]
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=6")
	eventually(t, func() string {
		if r.vcenter.Calls()["CloneVM_Task"] == clones {
			return "nothing is cloned"
		}
		return ""
	})
	r.server.Kill()
	r.startServer(t)
	keeps(t, g, r.settled(t, namespace, "web", 6))
	r.onePerOrdinal(t, namespace, "web", 6)
	// A group is deleted while no server answers the hooks.
	r.server.Kill()
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--wait=false")
	eventually(t, func() string { // the Event says what a user must know
		out := r.kubectl(t, "-n", namespace, "describe", "vg", "web")
		if !strings.Contains(out, "SyncError") || !strings.Contains(out, "connection refused") {
			return "describe shows no failed call:\n" + out
		}
		return ""
	})
	r.startServer(t)
	r.kubectl(t, "-n", namespace, "wait", "--for=delete", "vg/web", "--timeout=2m")
	r.onePerOrdinal(t, namespace, "web", 0)
}

func TestARestartOfTheAPIServerChangesNoGroup(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "restart-api")
	g := r.up(t, namespace, "web", 3)
	r.quiet(t)
	r.KillAPIServer()
	changes := r.changesOfVCenter()
	// Metacontroller continues from its cache; a settled group needs no write.
	calls := r.calls(t)["/sync 200"]
	eventually(t, func() string {
		if r.calls(t)["/sync 200"] == calls {
			return "no hook is called while the API server is down"
		}
		return ""
	})
	must.Succeed(t, r.StartAPIServer())
	if n := r.changesOfVCenter(); n != changes || n == 0 {
		t.Errorf("%d changes in vCenter before, %d after", changes, n)
	}
	keeps(t, g, r.settled(t, namespace, "web", 3))
	r.kubectl(t, "-n", namespace, "scale", "vg/web", "--replicas=4")
	r.settled(t, namespace, "web", 4)
	r.onePerOrdinal(t, namespace, "web", 4)
	r.quiet(t)
	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
}

func TestANamespaceIsDeletedWithItsGroups(t *testing.T) {
	r := life(t)
	kept, doomed := r.namespace(t, "kept"), r.namespace(t, "doomed")
	g := r.up(t, kept, "web", 2)
	r.up(t, doomed, "web", 3)
	r.up(t, doomed, "db", 1)
	r.kubectl(t, "-n", doomed, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"service":{"ports":[{"port":80}]}}}`)
	r.settled(t, doomed, "web", 3)
	r.kubectl(t, "delete", "namespace", doomed, "--timeout=2m")
	for _, name := range []string{"web", "db"} {
		r.onePerOrdinal(t, doomed, name, 0)
	}
	keeps(t, g, r.settled(t, kept, "web", 2))
	r.onePerOrdinal(t, kept, "web", 2)
	r.kubectl(t, "-n", kept, "delete", "vg", "web", "--timeout=2m")
}
