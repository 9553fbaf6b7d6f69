package test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/mo"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const legacy = "/DC0/vm/legacy"

// legacyVMs makes unmanaged VMs that are powered on.
func (r *rig) legacyVMs(names ...string) {
	r.t.Helper()
	if _, err := r.MakeFolder(legacy); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range names {
		r.must(r.CloneVM("/DC0/vm/vm-operator-template", legacy, name))
		r.must(r.PowerOn(legacy + "/" + name))
	}
}

func (r *rig) named(name string) vcsim.VM {
	r.t.Helper()
	all := r.VMs()
	i := slices.IndexFunc(all, func(vm vcsim.VM) bool { return vm.Name == name })
	if i < 0 {
		r.t.Fatalf("%s doesn't exist", name)
	}
	return all[i]
}

func adopting(v *vsphere.Config, l *loop.Config) {
	v.AdoptFrom = []inventory.AdoptRule{{Namespace: "default", Folder: legacy}}
}

func TestAdoptedVMsBecomeMembersWithoutARestartAndReturnToTheirFolders(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.legacyVMs("db-a", "web-7", "mine")
		a, b := r.named("db-a"), r.named("web-7")
		g := r.serve(adopting).group("web", 3)
		g.Spec.CPU, g.Spec.Memory = a.CPUs, max(1, a.MemoryMB/1024)
		g.Spec.Adopt = []string{legacy + "/db-a", b.Ref.Value}
		g.Spec.Update.Strategy = v1alpha1.UpdateOnDelete // so that no update replaces the adopted VMs because of their size
		g.Spec.Deletion.Policy = v1alpha1.DeletionRetain
		status := up(t, g).Status
		if len(status.Adopted) != 2 {
			t.Errorf("adopted: %v; want 2 of them", status.Adopted)
		}
		equal(t, r.names(web), []string{"web-0+", "web-1+", "web-7+"})
		is := refs(r.members())
		if is["web-0"] != a.Ref.Value || is["web-7"] != b.Ref.Value {
			t.Errorf("members: %v; db-a is %s, web-7 is %s", is, a.Ref.Value, b.Ref.Value)
		}
		if n := r.Calls()["CloneVM_Task"]; n != 1 {
			t.Errorf("%d clones, want 1", n)
		}
		remove(t, g)
		equal(t, r.names(legacy), []string{"db-a+", "mine+", "web-7+"})
		equal(t, r.names(web), []string{"web-1+"})
		for _, was := range []vcsim.VM{a, b} {
			now := r.named(was.Name)
			if now.Ref != was.Ref || !now.Boot.Equal(was.Boot) || now.ExtraConfig[stamp.Key] != "" {
				t.Errorf("got %+v, want %+v as before", now, was)
			}
		}
	})
}

// Whatever the group's spec.hardware says.
func TestAnAdoptedVMKeepsItsHardware(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.legacyVMs("db-a")
		r.must(r.PowerOff(legacy + "/db-a"))
		r.must(r.SetHotAdd(legacy+"/db-a", true, false))
		r.must(r.PowerOn(legacy + "/db-a"))
		config := func(path string) string {
			var vm mo.VirtualMachine
			r.must(r.vm(path).Properties(within(t), r.vm(path).Reference(), []string{"config"}, &vm))
			c := vm.Config
			text, err := json.Marshal([]any{c.Version, c.Firmware, c.BootOptions, c.Hardware.NumCoresPerSocket, c.CpuHotAddEnabled, c.MemoryHotAddEnabled, len(c.Hardware.Device)})
			r.must(err)
			return string(text)
		}
		was, a := config(legacy+"/db-a"), r.named("db-a")
		g := r.serve(adopting).group("web", 1)
		g.Spec.CPU, g.Spec.Memory, g.Spec.Adopt = a.CPUs, max(1, a.MemoryMB/1024), []string{legacy + "/db-a"}
		g.Spec.Hardware = v1alpha1.Hardware{Version: 21, CoresPerSocket: 1, CPUHotAdd: new(false), MemoryHotAdd: new(true), SecureBoot: new(true), VTPM: true, BootDelaySeconds: 9}
		up(t, g)
		r.steady(g, 10*time.Minute, "CloneVM_Task", "Destroy_Task", "PowerOffVM_Task", "UpgradeVM_Task")
		if is := config(web + "/web-0"); is != was || refs(r.members())["web-0"] != a.Ref.Value {
			t.Errorf("the members are %v, and the hardware is %s; want db-a with %s", refs(r.members()), is, was)
		}
	})
}

func TestAVMInAForbiddenFolderIsNeitherAdoptedNorCloned(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		r.legacyVMs("db-a")
		g := r.serve().group("web", 1)
		g.Spec.Adopt = []string{legacy + "/db-a"}
		a := says(t, g, v1alpha1.PhaseError, "--adopt-from")
		if condition(a, v1alpha1.ConditionAdoptionFailed).Status != "True" {
			t.Errorf("AdoptionFailed is not True: %+v", a.Status.Conditions)
		}
		if calls := r.Calls(); calls["CloneVM_Task"]+calls["ReconfigVM_Task"] > 0 {
			t.Errorf("the server cloned or reconfigured a VM: %v", calls)
		}
		equal(t, r.names(legacy), []string{"db-a+"})
		g.Edit(func(s *spec) { s.Adopt = nil })
		up(t, g)
		equal(t, r.names(web), running(1))
		if _, err := r.find.VirtualMachine(context.Background(), legacy+"/db-a"); err != nil || strings.Contains(a.Status.LastMessage, "password") {
			t.Error(err)
		}
	})
}

func TestAReappliedGroupsStatusSaysHowToAdoptItsFormerVMs(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		s := r.serve(func(v *vsphere.Config, _ *loop.Config) {
			v.ClusterID, v.AdoptFrom = "prod", []inventory.AdoptRule{{Namespace: "default", Folder: web}}
		})
		up(t, s.group("web", 2))
		was := refs(r.members())
		time.Sleep(2 * time.Minute) // until the server's lease for the lost group has ended
		again := s.groupOf("default", "web", "uid-new", 2)
		a := says(t, again, v1alpha1.PhaseError, "2 members (web-0, web-1): ")
		for _, text := range []string{"a VM of a former default/web (UID uid-web). To adopt the VM, list its path in spec.adopt", "--adopt-from default=/DC0/vm/vm-operator/default/web."} {
			if !strings.Contains(a.Status.LastMessage, text) {
				t.Errorf("%q lacks %q", a.Status.LastMessage, text)
			}
		}
		again.Edit(func(s *spec) { s.Adopt = []string{web + "/web-0", web + "/web-1"} })
		up(t, again)
		if now := refs(r.members()); !maps.Equal(was, now) {
			t.Errorf("members: %v before, %v now", was, now)
		}
	})
}
