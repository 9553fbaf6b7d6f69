package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// TestVMsMoveToAnotherVCenterAsTheDocumentSays follows "Move to another vCenter" of docs/upgrade.md: a vCenter that was built anew gets the hosts, one
// VM later than the others.
func TestVMsMoveToAnotherVCenterAsTheDocumentSays(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "moved-vcenter")
	manifest := strings.Replace(strings.Replace(webYAML, "template:", "disks: [{name: data, sizeGiB: 1, persistent: true}], template:", 1), "name: web", "name: db", 1)
	r.kubectlWith(t, manifest, "-n", namespace, "apply", "-f", "-")
	before := r.settled(t, namespace, "db", 3)
	former := r.vcenter
	const root = "/DC0/vm/vm-operator/"

	anew, err := vcsim.Start(vcenterConfig)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = anew.Close() })
	must.Succeed(t, r.server.Stop())
	discovered := "/DC0/vm/Discovered virtual machine"
	_, err = anew.MakeFolder(discovered)
	must.Succeed(t, err)
	take := func(name string) {
		must.Succeed(t, anew.Take(former, root+namespace+"/db/"+name, discovered, vcsim.ByHost))
	}
	take("db-0")
	take("db-1")
	r.vcenter = anew
	r.startServer(t)
	t.Cleanup(func() { // for the tests that follow
		r.vcenter = former
		_ = r.server.Stop()
		r.startServer(t)
	})
	g := r.until(t, namespace, "db", "VCenterChanged", func(g *v1alpha1.VmGroup) bool { return readyReason(g) == plan.ReasonVCenterChanged })
	t.Logf("before the operator says so: %s %s", g.Status.Phase, g.Status.LastMessage)

	said := time.Now()
	r.kubectl(t, "-n", namespace, "annotate", "vg", "--all", "vm.codeconnect.vmworld.com/moved-to-vcenter="+anew.InstanceUUID())
	ready := func(n int32) func(*v1alpha1.VmGroup) bool {
		return func(g *v1alpha1.VmGroup) bool { return g.Status.ReadyReplicas == n }
	}
	g = r.until(t, namespace, "db", "ready with those that came", ready(2))
	t.Logf("after %s: %s %s", time.Since(said).Round(time.Second), g.Status.Phase, g.Status.LastMessage)
	r.stays(t, namespace, "db", 45*time.Second)
	if len(r.vms(t, namespace, "db")) > 2 {
		t.Errorf("%d VMs, before the third one came; want two", len(r.vms(t, namespace, "db")))
	}
	take("db-2")
	came := time.Now()
	g = r.settled(t, namespace, "db", 3)
	t.Logf("all were back %s after the last one came", time.Since(came).Round(time.Second))
	ids := func(g *v1alpha1.VmGroup) (all []string) {
		for _, m := range g.Status.Members {
			all = append(all, m.Name+" "+m.InstanceUUID)
		}
		for _, d := range g.Status.Disks {
			all = append(all, fmt.Sprintf("%d %s %s", d.Ordinal, d.Name, d.ID))
		}
		return all
	}
	if is, was := ids(g), ids(before); !slices.Equal(is, was) {
		t.Errorf("the members and their disks are %v; want %v", is, was)
	}
	r.kubectl(t, "-n", namespace, "annotate", "vg", "--all", "vm.codeconnect.vmworld.com/moved-to-vcenter-")
	r.settled(t, namespace, "db", 3)
	r.kubectl(t, "-n", namespace, "delete", "vg", "db", "--timeout=2m")
	for _, vm := range anew.VMs() {
		if strings.HasPrefix(vm.Name, "db-") {
			t.Errorf("%s is left", vm.Path)
		}
	}
}
