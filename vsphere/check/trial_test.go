package check

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// deepWorld returns a vCenter with one template.
func deepWorld(t testing.TB, change ...func(*vcsim.Config)) *world {
	t.Helper()
	c := vcsim.Config{Templates: []string{"ubuntu"}, Guest: vcsim.Guest{Tools: true}, Latency: vctest.Lifelike}
	for _, f := range change {
		f(&c)
	}
	return worldOf(t, vctest.Of(t, c))
}

var deepOptions = Options{Templates: []string{"ubuntu"}, Deep: true}

// inDeepWorld runs a test with a deepWorld in a bubble, in parallel with other tests.
func inDeepWorld(t *testing.T, test func(t *testing.T, w *world), change ...func(*vcsim.Config)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, deepWorld(t, change...)) })
}

// holds checks that vCenter has exactly these VMs and templates.
func (w *world) holds(names ...string) {
	w.t.Helper()
	if got := w.Names(); !slices.Equal(got, names) {
		w.t.Errorf("got %v, want %v", got, names)
	}
}

// clean checks that vCenter has only the template.
func (w *world) clean() {
	w.t.Helper()
	w.holds("ubuntu")
	if disks := w.FirstClassDisks(); len(disks) > 0 {
		w.t.Errorf("disks are left: %+v", disks)
	}
	if old := w.checked(nil, Options{}); strings.Contains(old.String(), "leftovers") {
		w.t.Errorf("left folder:\n%s", old)
	}
}

func TestDeepCheckSucceedsAndLeavesNothing(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.Restrict(roleIDs()...)
		r := w.checked(nil, deepOptions)
		r.only()
		for check, seen := range map[string]string{
			"deep: scratch folder": "/DC0/vm/vmgroup check ", "deep: one name, one VM": "DuplicateName for the other", "deep: running clone": "found among",
			"deep: stamp": "read by key", "deep: new VM in view": "reports vm-", "deep: power-on": "by PowerOnMultiVM_Task", "deep: guest shutdown": "off after", "deep: destroyed VM": "ManagedObjectNotFound", "deep: clean-up": "nothing is left",
		} {
			r.has(check, OK, seen, "")
		}
		for check, why := range map[string]string{"deep: copy": "VirtualMachine.Provisioning.Clone", "deep: folder that is not empty": "VirtualMachine.Inventory.Unregister"} {
			r.has(check, Skip, why, "grant it")
		}
		if outside := role.Outside(w.Calls()); len(outside) > 0 {
			t.Errorf("the check called %v, which is outside the role", outside)
		}
		w.clean()
	})
}

func TestDeepCheckWithoutToolsSkipsTheShutdownAndStillCleansUp(t *testing.T) {
	inDeepWorld(t, func(_ *testing.T, w *world) {
		r := w.checked(nil, deepOptions)
		r.only()
		r.has("deep: guest shutdown", Skip, "none running in the guest", "")
		r.has("deep: destroyed VM", OK, "", "")
		w.clean()
	}, func(c *vcsim.Config) { c.Guest.Tools = false })
}

func TestDeepCheckDoesNotStartIfItCouldNotCleanUp(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		for _, privilege := range []string{"Folder.Delete", "VirtualMachine.Inventory.Delete", "VirtualMachine.Interact.PowerOff"} {
			w.Restrict(roleIDs()...)
			w.Withdraw(privilege)
			w.checked(nil, deepOptions).has("deep", Skip, "nothing was created", "correct them")
		}
		w.Unrestrict()
		w.FailCall("FetchUserPrivilegeOnEntities", &types.NoPermission{PrivilegeId: "System.View"}, 1)
		w.checked(nil, deepOptions).has("deep", Fail, "nothing was created", "privileges")
		w.checked(nil, Options{Deep: true}).has("deep", Fail, "no template", "--template")
		if n := w.Calls()["CreateFolder"]; n > 0 {
			t.Errorf("%d folders were created", n)
		}
	})
}

func TestDeepCheckRemovesItsFolderAfterALostReply(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.Restrict(roleIDs()...)
		w.LoseReply("CreateFolder", 1) // the folder exists, but the reply is lost
		r := w.checked(nil, deepOptions)
		r.has("deep: scratch folder", Fail, "VCenterUnreachable", "")
		r.has("deep: clean-up", OK, "nothing is left", "")
		if n := w.Calls()["CloneVM_Task"]; n > 0 {
			t.Errorf("%d clones were created", n)
		}
		w.clean()
	})
}

func TestDeepCheckStoppedDuringTheCloneLeavesNothing(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		r := w.stoppedWhen("cloning", deepOptions)
		r.has("deep: clean-up", OK, "nothing is left", "")
		w.clean()
	})
}

func TestDeepCheckReportsAFailedCleanUpNowAndTheNextTime(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.FailTask(vcsim.Destroy, nil, new(types.GenericVmConfigFault), 0)
		r := w.checked(nil, deepOptions)
		r.has("deep: destroyed VM", Fail, "", "")
		r.has("deep: clean-up", Fail, "left in vCenter: /DC0/vm/vmgroup check ", "by hand")
		w.Heal()
		w.checked(nil, Options{}).has("leftovers", Warn, "/DC0/vm/vmgroup check ", "by hand")
	})
}

func TestDeepCheckKeepsForeignVMs(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		r := w.whileDeep("powering on", func(folder string) {
			_, err := w.AddVM(folder, "an-operators")
			w.Must(err)
		})
		r.has("deep: clean-up", Fail, "left in vCenter", "by hand")
		w.holds("an-operators", "ubuntu")
	})
}

func TestDeepCheckFailsForARunningCloneThatIsNotListed(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		var c *checker
		r := w.whileDeep("cloning", func(string) {
			c.s.User = "another user" // as if another user had started the task
		}, func(x *checker) { c = x })
		r.has("deep: running clone", Fail, "not found", "report this")
	})
}

func TestDeepCheckIgnoresAGroupOfAnotherTemplate(t *testing.T) {
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
