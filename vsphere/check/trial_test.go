package check

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// deepWorld is a vCenter whose clones are quick: the check looks for them many times a second.
func deepWorld(t testing.TB, change ...func(*vcsim.Config)) *world {
	t.Helper()
	c := vcsim.Config{Templates: []string{"ubuntu"}, Guest: vcsim.Guest{Tools: true},
		Latency: vcsim.Latency{Clone: 2 * time.Second, Power: vctest.Lifelike.Power, Reconfigure: vctest.Lifelike.Reconfigure, Other: vctest.Lifelike.Other}}
	for _, f := range change {
		f(&c)
	}
	return worldOf(t, vctest.Of(t, c))
}

var deepOptions = Options{Templates: []string{"ubuntu"}, Deep: true}

// inDeepWorld runs a test with one in a bubble, in parallel with others.
func inDeepWorld(t *testing.T, test func(t *testing.T, w *world), change ...func(*vcsim.Config)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, deepWorld(t, change...)) })
}

// holds wants these VMs and templates in vCenter, and no others.
func (w *world) holds(names ...string) {
	w.t.Helper()
	if got := w.Names(); !slices.Equal(got, names) {
		w.t.Errorf("there are %v, want %v", got, names)
	}
}

// clean wants nothing in vCenter but the template.
func (w *world) clean() {
	w.t.Helper()
	w.holds("ubuntu")
	if old := w.checked(nil, Options{}); strings.Contains(old.String(), "leftovers") {
		w.t.Errorf("a folder is left:\n%s", old)
	}
}

func TestADeepCheckShowsWhatSafetyRestsOnAndLeavesNothing(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.Restrict(roleIDs()...)
		r := w.checked(nil, deepOptions)
		r.only()
		for check, seen := range map[string]string{
			"deep: scratch folder": "/DC0/vm/vmgroup check ", "deep: one name, one VM": "DuplicateName for the others", "deep: running clone": "found among",
			"deep: stamp": "read by their key", "deep: new VM in view": "tells of vm-", "deep: power-on": "by PowerOnMultiVM_Task", "deep: hot-add of CPUs": "refused while it runs",
			"deep: hot-add of memory": "refused while it runs", "deep: guest shutdown": "off after", "deep: destroyed VM": "ManagedObjectNotFound", "deep: clean-up": "nothing is left",
		} {
			r.has(check, OK, seen, "")
		}
		for check, why := range map[string]string{"deep: copy": "VirtualMachine.Provisioning.Clone", "deep: folder that is not empty": "VirtualMachine.Inventory.Unregister"} {
			r.has(check, Skip, why, "grant it")
		}
		if outside := role.Outside(w.Calls()); len(outside) > 0 {
			t.Errorf("it called %v, which is outside the role", outside)
		}
		w.clean()
	})
}

func TestADeepCheckTriesHotAddWhereTheFlagsAllowIt(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		yes := types.NewBool(true)
		w.reconfigured("ubuntu", types.VirtualMachineConfigSpec{CpuHotAddEnabled: yes, MemoryHotAddEnabled: yes})
		r := w.checked(nil, deepOptions)
		r.only()
		r.has("hot-add", OK, "more CPUs while it runs, more memory while it runs", "")
		r.has("deep: hot-add of CPUs", OK, "2 instead of 1 while it runs", "")
		r.has("deep: hot-add of memory", OK, "2048 MB instead of 1024 while it runs", "")
		w.clean()
	})
}

// reconfigured changes a template by hand.
func (w *world) reconfigured(name string, spec types.VirtualMachineConfigSpec) {
	w.t.Helper()
	vm := object.NewVirtualMachine(w.Admin().Client, vctest.Value(w.Find(name)))
	w.Must(vm.MarkAsVirtualMachine(w.t.Context(), *object.NewResourcePool(w.Admin().Client, vctest.Value(w.Find("/DC0/host/DC0_C0/Resources"))), nil))
	task, err := vm.Reconfigure(w.t.Context(), spec)
	w.Must(err)
	w.Must(task.Wait(w.t.Context()))
	w.Must(vm.MarkAsTemplate(w.t.Context()))
}

func TestADeepCheckWithoutToolsSkipsTheShutdownAndStillCleansUp(t *testing.T) {
	inDeepWorld(t, func(_ *testing.T, w *world) {
		r := w.checked(nil, deepOptions)
		r.only()
		r.has("deep: guest shutdown", Skip, "none run in the guest", "")
		r.has("deep: destroyed VM", OK, "", "")
		w.clean()
	}, func(c *vcsim.Config) { c.Guest.Tools = false })
}

func TestADeepCheckDoesNotBeginWhereItCouldNotCleanUp(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		for _, privilege := range []string{"Folder.Delete", "VirtualMachine.Inventory.Delete", "VirtualMachine.Interact.PowerOff"} {
			w.Restrict(roleIDs()...)
			w.Withdraw(privilege)
			w.checked(nil, deepOptions).has("deep", Skip, "nothing was made", "correct them")
		}
		w.Unrestrict()
		w.FailCall("FetchUserPrivilegeOnEntities", &types.NoPermission{PrivilegeId: "System.View"}, 1)
		w.checked(nil, deepOptions).has("deep", Fail, "nothing was made", "privileges")
		w.checked(nil, Options{Deep: true}).has("deep", Fail, "no template", "--template")
		if n := w.Calls()["CreateFolder"]; n > 0 {
			t.Errorf("%d folders were made", n)
		}
	})
}

func TestADeepCheckThatLosesTheReplyRemovesItsFolder(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.Restrict(roleIDs()...)
		w.LoseReply("CreateFolder", 1) // the folder is there, and nobody was told of it
		r := w.checked(nil, deepOptions)
		r.has("deep: scratch folder", Fail, "VCenterUnreachable", "")
		r.has("deep: clean-up", OK, "nothing is left", "")
		if n := w.Calls()["CloneVM_Task"]; n > 0 {
			t.Errorf("%d clones were made", n)
		}
		w.clean()
	})
}

func TestADeepCheckThatIsStoppedDuringTheCloneLeavesNothing(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		r := w.stoppedWhen("cloning", deepOptions)
		r.has("deep: clean-up", OK, "nothing is left", "")
		w.clean()
	})
}

func TestADeepCheckThatCannotCleanUpReportsWhatIsLeftAndSoDoesTheNext(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.FailTask(vcsim.Destroy, nil, new(types.GenericVmConfigFault), 0)
		r := w.checked(nil, deepOptions)
		r.has("deep: destroyed VM", Fail, "", "")
		r.has("deep: clean-up", Fail, "left in vCenter: /DC0/vm/vmgroup check ", "by hand")
		w.Heal()
		w.checked(nil, Options{}).has("leftovers", Warn, "/DC0/vm/vmgroup check ", "by hand")
	})
}

func TestADeepCheckLeavesWhatIsNotItsOwn(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		r := w.whileDeep("powering", func(folder string) {
			_, err := w.AddVM(folder, "a-person's")
			w.Must(err)
		})
		r.has("deep: clean-up", Fail, "left in vCenter", "by hand")
		w.holds("a-person's", "ubuntu")
	})
}

func TestADeepCheckMissesARunningCloneThatIsNotAmongTheTasks(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		var c *checker
		r := w.whileDeep("cloning", func(string) {
			c.s.User = "somebody else" // as if the task were another's
		}, func(x *checker) { c = x })
		r.has("deep: running clone", Fail, "not found", "tell the project")
	})
}

func TestADeepCheckTakesNothingFromAGroupOfAnotherTemplate(t *testing.T) {
	inDeepWorld(t, func(_ *testing.T, w *world) {
		_, err := w.AddSnapshot("/DC0/vm/debian", "base")
		w.Must(err)
		g := &v1alpha1.VmGroup{}
		g.Namespace, g.Name = "shop", "web"
		g.Spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "debian", Clone: v1alpha1.Clone{Mode: v1alpha1.CloneLinked, Snapshot: "base"}}
		o := deepOptions
		o.Groups = []*v1alpha1.VmGroup{g}
		r := w.checked(nil, o)
		r.only()
		r.has("deep: clean-up", OK, "nothing is left", "")
	}, func(c *vcsim.Config) { c.Templates = []string{"ubuntu", "debian"} })
}
