package test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

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

func adopting(v *vsphere.Config, l *loop.Config) {
	v.AdoptFrom = []inventory.AdoptRule{{Namespace: "default", Folder: legacy}}
}

func TestAdoptedVMsBecomeMembersWithoutARestartAndReturnToTheirFolders(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		r.legacyVMs("db-a", "web-7", "mine")
		find := func(name string) vcsim.VM {
			for _, vm := range r.VMs() {
				if vm.Name == name {
					return vm
				}
			}
			t.Fatalf("%s doesn't exist", name)
			return vcsim.VM{}
		}
		a, b := find("db-a"), find("web-7")
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
			now := find(was.Name)
			if now.Ref != was.Ref || !now.Boot.Equal(was.Boot) || now.ExtraConfig[stamp.Key] != "" {
				t.Errorf("got %+v, want %+v as before", now, was)
			}
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
