package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// A VM that was restored from a backup, a clone whose stamp was forged, and a member that was converted to a template: the group names each, goes on
// without it, and keeps it when it is deleted.
func TestVMsWithAGroupsStampThatAreNotItsMembersAreNamedAndKept(t *testing.T) {
	r := life(t)
	namespace := r.namespace(t, "strays")
	before := r.up(t, namespace, "web", 3)
	folder := "/DC0/vm/vm-operator/" + namespace + "/web/"
	of := func(name string) v1alpha1.Member {
		i := slices.IndexFunc(before.Status.Members, func(m v1alpha1.Member) bool { return m.Name == name })
		return before.Status.Members[i]
	}
	strays := func(n int) *v1alpha1.VmGroup {
		t.Helper()
		g := r.until(t, namespace, "web", fmt.Sprintf("it lists %d strays", n), func(g *v1alpha1.VmGroup) bool { return len(g.Status.Strays) == n })
		for _, s := range g.Status.Strays {
			t.Logf("%s (%s): %s", s.Name, s.MoRef, s.Message)
		}
		return g
	}

	saved, err := r.vcenter.Save(folder + "web-1")
	must.Succeed(t, err)
	r.destroy(t, of("web-1").MoRef)
	r.until(t, namespace, "web", "web-1 is replaced", func(g *v1alpha1.VmGroup) bool {
		return g.Status.ReadyReplicas == 3 && !slices.Contains(moRefs(g), of("web-1").MoRef)
	})
	healed := r.settled(t, namespace, "web", 3)
	restored := r.register(t, saved.Config.Name, func() (string, error) { return r.vcenter.PutFiles(saved, "restored-web-1") })
	keeps(t, healed, strays(1))

	member, err := r.vcenter.Details(folder + "web-0")
	must.Succeed(t, err)
	forged, err := stamp.Decode(member.ExtraConfig[stamp.Key])
	must.Succeed(t, err)
	must.Succeed(t, r.vcenter.CloneVM(folder+"web-0", "/DC0/vm", "mine"))
	copied, err := r.vcenter.Details("/DC0/vm/mine")
	must.Succeed(t, err)
	forged.InstanceUUID = copied.InstanceUUID
	must.Succeed(t, r.vcenter.SetExtraConfig("/DC0/vm/mine", stamp.Key, forged.Encode()))
	keeps(t, healed, strays(2))
	r.settled(t, namespace, "web", 3)

	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"paused":true}}`)
	r.until(t, namespace, "web", "it is paused", func(g *v1alpha1.VmGroup) bool { return g.Status.ObservedGeneration == g.Generation })
	must.Succeed(t, r.vcenter.PowerOff(folder+"web-2"))
	must.Succeed(t, r.vcenter.ToTemplate(folder+"web-2"))
	r.kubectl(t, "-n", namespace, "patch", "vg", "web", "--type=merge", "-p", `{"spec":{"paused":false}}`)
	r.until(t, namespace, "web", "it says that web-2 is a template", func(g *v1alpha1.VmGroup) bool {
		return strings.Contains(g.Status.LastMessage, "is a template now, and is kept")
	})
	all := strays(3)
	t.Logf("%s %d/%d: %s", all.Status.Phase, all.Status.ReadyReplicas, all.Status.DesiredReplicas, all.Status.LastMessage)
	eventually(t, func() string {
		if warnings := byReason(r.events(t, namespace, "web"))["StrayVM"]; len(warnings) == 0 {
			return "no Event StrayVM"
		}
		return ""
	})

	r.kubectl(t, "-n", namespace, "delete", "vg", "web", "--timeout=2m")
	var left []string
	for _, vm := range r.vcenter.VMs() {
		left = append(left, vm.Ref.Value)
	}
	for what, ref := range map[string]string{"the restored VM": restored, "the clone": copied.Ref.Value, "the template": of("web-2").MoRef} {
		if !slices.Contains(left, ref) {
			t.Errorf("%s (%s) went with the group", what, ref)
		}
	}
	if vms := r.vms(t, namespace, "web"); len(vms) != 1 {
		t.Errorf("%d VMs are in the group's folder, want only the template", len(vms))
	}
}

// register registers a VM of which the files are restored, and returns its moRef.
func (r *rig) register(t *testing.T, name string, restore func() (vmx string, err error)) string {
	t.Helper()
	vmx, err := restore()
	must.Succeed(t, err)
	client := r.vcenter.Admin().Client
	folder, err := r.vcenter.Find("/DC0/vm")
	must.Succeed(t, err)
	pool, err := r.vcenter.Find("/DC0/host/DC0_C0/Resources")
	must.Succeed(t, err)
	task, err := object.NewFolder(client, folder).RegisterVM(context.Background(), vmx, name, false, object.NewResourcePool(client, pool), nil)
	must.Succeed(t, err)
	info, err := task.WaitForResult(context.Background(), nil)
	must.Succeed(t, err)
	return info.Result.(types.ManagedObjectReference).Value
}
