package check

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

var deepOptions = Options{Templates: []string{"ubuntu"}, Deep: true}

// inDeepWorld runs a test in a bubble, in parallel with other tests, with a vCenter that has one template.
func inDeepWorld(t *testing.T, test func(t *testing.T, w *world), change ...func(*vcsim.Config)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := vcsim.Config{Templates: []string{"ubuntu"}, Guest: vcsim.Guest{Tools: true}, Latency: vctest.Lifelike}
		for _, f := range change {
			f(&c)
		}
		test(t, worldOf(t, vctest.Of(t, c)))
	})
}

// holds checks that vCenter has exactly these VMs and templates.
func (w *world) holds(names ...string) {
	w.t.Helper()
	if got := w.Names(); !slices.Equal(got, names) {
		w.t.Errorf("got %v, want %v", got, names)
	}
}

// clean checks that vCenter has these objects, and nothing else, as before a deep check.
func (w *world) clean(names ...string) {
	w.t.Helper()
	w.Rewrite(nil)
	w.ChangeReads(nil)
	w.holds(names...)
	folder := object.NewFolder(w.Admin().Client, vctest.Value(w.Find("/DC0/vm")))
	if children, err := folder.Children(w.t.Context()); err != nil || len(children) != len(names) {
		w.t.Errorf("left in the folder: %v, %v", children, err)
	}
	if kept := w.OutsideInventory(); len(kept) > 0 {
		w.t.Errorf("left files: %+v; want none", kept)
	}
	if left := w.FirstClassDisks(); len(left) > 0 {
		w.t.Errorf("left disks: %+v; want none", left)
	}
	cluster := object.NewClusterComputeResource(w.Admin().Client, vctest.Value(w.Find("/DC0/host/DC0_C0")))
	if c, err := cluster.Configuration(w.t.Context()); err != nil || len(c.Group) > 0 {
		w.t.Errorf("left DRS groups: %+v, %v", c.Group, err)
	}
	if n := w.Sessions(); n > 0 {
		w.t.Errorf("vCenter has %d sessions left; want none", n)
	}
}

// whileDeep runs a deep check and calls do once its progress begins with this text; folder is the path of the scratch folder.
func (w *world) whileDeep(begins string, do func(folder string)) results {
	w.t.Helper()
	o, folder, done := deepOptions, "", false
	o.Progress = func(text string) {
		if at := strings.Index(text, `"/DC0`); at >= 0 {
			folder = strings.Split(text[at+1:], `"`)[0]
		}
		if strings.HasPrefix(text, begins) && !done {
			done = true
			do(folder)
		}
	}
	r := w.checked(nil, o)
	if !done {
		w.t.Errorf("the check reported no progress that begins with %q", begins)
	}
	return r
}

func TestDeepCheckWithTheLeastRoleSucceedsAndLeavesNothing(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.Restrict(roleIDs()...)
		r := w.checked(nil, deepOptions)
		r.only()
		for check, why := range map[string]string{"deep: copy": "VirtualMachine.Provisioning.Clone", "deep: folder that is not empty": "VirtualMachine.Inventory.Unregister"} {
			r.has(check, Skip, why, "the server does not need it")
		}
		if outside := role.Outside(w.Calls()); len(outside) > 0 {
			t.Errorf("the check called %v, which is outside the role; want none", outside)
		}
		w.clean("ubuntu")
	})
}

// lacking are vCenters and options with which the trial skips an experiment, or has another result than on a complete vCenter.
var lacking = []struct {
	check  string
	result Result
	seen   string
	change func(w *world, o *Options)
	config func(c *vcsim.Config)
}{
	{"deep: guest shutdown", Skip, "none running in the guest", nil, func(c *vcsim.Config) { c.Guest.Tools = false }},
	{"deep: disk that records its owner", Skip, "7.0 U2", nil, func(c *vcsim.Config) { c.APIVersion = "7.0.1.0" }},
	{"deep: disk that records its owner", Skip, "needs Datastore.FileManagement on the VM's datastore", func(w *world, _ *Options) { w.Withdraw("Datastore.FileManagement") }, nil},
	{"deep: disk that records its owner", Skip, "needs VirtualMachine.Config.AddExistingDisk", func(w *world, _ *Options) { w.Withdraw("VirtualMachine.Config.AddExistingDisk") }, nil},
	{"deep: disk in one VM", OK, "refused when it was to be powered on", func(w *world, _ *Options) { w.Behave(func(b *vcsim.Behavior) { b.AllowSecondAttach = true }) }, nil},
	{"deep: power-on", OK, "by PowerOnMultiVM_Task, manual", func(w *world, _ *Options) { w.drs(vcsim.DRS{Level: types.DrsBehaviorManual}) }, nil},
	{"deep: power-on", OK, "by PowerOnMultiVM_Task, fullyAutomated", func(w *world, _ *Options) { w.drs(vcsim.DRS{NoTasks: true}) }, nil},
	{"deep: power-on", OK, "by PowerOnVM_Task; the changeVersion changed", func(w *world, _ *Options) { w.drs(vcsim.DRS{Off: true}) }, nil},
	{"deep: power-on", Warn, "by PowerOnVM_Task; the changeVersion changed, because DRS failed", func(w *world, _ *Options) { w.drs(vcsim.DRS{Unlicensed: true}) }, nil},
	{"deep: optional rule", OK, "yes: DRS powers a VM on although", withRules(vcsim.DRS{}), nil},
	{"deep: optional rule", OK, "no: DRS refuses", withRules(vcsim.DRS{HeedsRules: true}), nil},
	{"deep: optional rule", OK, "no: DRS refuses", withRules(vcsim.DRS{HeedsRules: true, Level: types.DrsBehaviorManual}), nil},
	{"deep: optional rule", Skip, "DRS is off", withRules(vcsim.DRS{Off: true}), nil},
	{"deep: optional rule", Skip, "needs --drs", nil, nil},
	{"deep: order of adapters", Skip, "two different networks", func(_ *world, o *Options) { // another template, which the snapshot does not belong to
		o.Groups = []*v1alpha1.VmGroup{groupOf(func(s *v1alpha1.VmGroupSpec) {
			s.Template, s.Networks = "debian", []v1alpha1.Network{{Network: "DC0_DVPG0"}, {Network: "DC0_DVPG1"}}
		})}
	}, func(c *vcsim.Config) { c.Templates, c.Portgroups = []string{"ubuntu", "debian"}, 2 }},
}

// withRules lets the check change a cluster with that DRS, and copy the VM.
func withRules(d vcsim.DRS) func(*world, *Options) {
	return func(w *world, o *Options) {
		o.DRS = true
		w.Restrict(append(roleIDs(), "VirtualMachine.Provisioning.Clone")...)
		w.drs(d)
	}
}

func TestDeepCheckSaysWhatItCouldNotTryOrSawOtherwise(t *testing.T) {
	t.Parallel()
	for i, x := range lacking {
		if thin.Out(i, thinning) {
			continue
		}
		t.Run(x.check+": "+x.seen, func(t *testing.T) {
			config, templates := x.config, []string{"ubuntu"}
			if config == nil {
				config = func(*vcsim.Config) {}
			}
			inDeepWorld(t, func(_ *testing.T, w *world) {
				o := deepOptions
				if w.Restrict(roleIDs()...); x.change != nil {
					x.change(w, &o)
				}
				if o.Groups != nil {
					templates = []string{"debian", "ubuntu"}
				}
				r := w.checked(nil, o)
				r.has(x.check, x.result, x.seen, "")
				r.has("deep: clean-up", OK, "nothing is left", "")
				w.clean(templates...)
			}, config)
		})
	}
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
			t.Errorf("%d folders were created; want none", n)
		}
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

// operators are actions of an operator in the scratch folder before the trial destroys its VM, each with the VMs that the trial must keep.
var operators = map[string]struct {
	do   func(w *world, folder string)
	stay []string
}{
	"a VM":     {func(w *world, folder string) { vctest.Value(w.AddVM(folder, "an-operators")) }, []string{"an-operators", "ubuntu"}},
	"a folder": {func(w *world, folder string) { vctest.Value(w.MakeFolder(folder + "/an-operators")) }, []string{"ubuntu"}},
	"a clone of the VM": {func(w *world, folder string) {
		vm := object.NewVirtualMachine(w.Admin().Client, vctest.Value(w.Find(trialName)))
		w.Done(vm.Clone(w.t.Context(), object.NewFolder(w.Admin().Client, vctest.Value(w.Find(folder))), "a-copy", types.VirtualMachineCloneSpec{}))
		if w.Look("a-copy").ExtraConfig[trialKey] == "" {
			w.t.Error("the copy has no stamp, so this test is void")
		}
	}, []string{"a-copy", "ubuntu"}},
	"a disk of another VM": {func(w *world, _ string) {
		devices, err := object.NewVirtualMachine(w.Admin().Client, vctest.Value(w.AddVM("/DC0/vm", "another"))).Device(w.t.Context())
		w.Must(err)
		own, err := object.NewVirtualMachine(w.Admin().Client, vctest.Value(w.Find(trialName))).Device(w.t.Context())
		w.Must(err)
		disk, unit := devices.SelectByType((*types.VirtualDisk)(nil))[0].(*types.VirtualDisk), int32(9)
		disk.Key, disk.UnitNumber, disk.ControllerKey = -1, &unit, own.SelectByType((*types.VirtualDisk)(nil))[0].GetVirtualDevice().ControllerKey
		w.Must(w.Reconfigure(trialName, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: disk}}}))
	}, []string{"another", "ubuntu", trialName}},
}

func TestDeepCheckKeepsWhatAnOperatorPutsIntoItsFolder(t *testing.T) {
	t.Parallel()
	for what, x := range operators {
		t.Run(what, func(t *testing.T) {
			inDeepWorld(t, func(t *testing.T, w *world) {
				r := w.whileDeep("destroying", func(folder string) { x.do(w, folder) })
				r.has("deep: clean-up", Fail, "left in vCenter", "by hand")
				w.holds(x.stay...)
			})
		})
	}
}

func TestDeepCheckKeepsAFolderThatAlreadyHadItsName(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		var path string
		r := w.whileDeep("creating", func(folder string) { path = folder; vctest.Value(w.MakeFolder(folder)) })
		r.has("deep: scratch folder", Fail, "", "")
		if _, err := w.Find(path); err != nil {
			t.Errorf("%v\n%s", err, r)
		}
	})
}

func TestDeepCheckRemovesItsRenamedFolderAndMovedVM(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.FailTask(vcsim.Destroy, nil, new(types.GenericVmConfigFault), 1) // so that the clean-up has to destroy the VM
		r := w.whileDeep("destroying", func(folder string) {
			w.Must(w.Move(trialName, "/DC0/vm"))
			f := object.NewFolder(w.Admin().Client, vctest.Value(w.Find(folder)))
			w.Done(f.Rename(t.Context(), "renamed"))
		})
		r.has("deep: clean-up", OK, "nothing is left", "")
		w.clean("ubuntu")
	})
}

func TestDeepCheckNamesTheFilesOfAVMThatCannotBeRegistered(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.FailTask(vcsim.RegisterVM, nil, new(types.GenericVmConfigFault), 0)
		r := w.checked(nil, deepOptions)
		r.has("deep: folder that is not empty", Fail, "could not be registered again", "would be lost")
		r.has("deep: clean-up", Fail, "the files in [LocalDS_0] vmgroup-check-0", "by hand")
		if kept := w.OutsideInventory(); len(kept) != 1 || !strings.HasPrefix(kept[0].Path, "[LocalDS_0] vmgroup-check-0/") {
			t.Errorf("unregistered: %+v", kept)
		}
	})
}

func TestDeepCheckRemovesItsClonesAfterLostReplies(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.LoseReply("CloneVM_Task", 2) // a clone runs, but the server does not know its task
		w.Hold(vcsim.Clone)
		r := w.whileDeep("waiting for all running clones", func(string) { time.AfterFunc(time.Minute, func() { w.Release(vcsim.Clone) }) })
		r.has("deep: one name, one VM", Fail, "VCenterUnreachable", "")
		r.has("deep: clean-up", OK, "nothing is left", "")
		w.clean("ubuntu")
	})
}

func TestDeepCheckStoppedReportsNoFailure(t *testing.T) {
	for _, begins := range []string{"creating", "cloning", "powering", "waiting"} {
		t.Run(begins, func(t *testing.T) {
			inDeepWorld(t, func(t *testing.T, w *world) {
				v, err := vsphere.New(w.config())
				w.Must(err)
				ctx, cancel := context.WithCancel(t.Context())
				o := deepOptions
				o.Progress = func(text string) {
					if strings.HasPrefix(text, begins) {
						cancel()
					}
				}
				r := results{t, Run(ctx, v, o)}
				r.has("deep", Skip, "stopped", "")
				r.only("certificate")
				w.clean("ubuntu")
			})
		})
	}
}

// On a busy machine, a clone begins late, or the check learns late that vCenter refused the clone. nameHeld must judge such clones by
// vCenter's times.
func TestABusyMachineRefutesNoNameHeldByAClone(t *testing.T) {
	t.Parallel()
	began := time.Now()
	task := func(queued, completed time.Duration) *ended {
		at := began.Add(completed)
		return &ended{info: &types.TaskInfo{QueueTime: began.Add(queued), StartTime: &began, CompleteTime: &at}}
	}
	for name, x := range map[string]struct {
		queued, completed time.Duration
		want              Result
	}{
		"at once":              {0, 0, OK},
		"begun first":          {-time.Second, 0, OK},
		"late, but before":     {time.Second, 2 * time.Second, OK},
		"at the end":           {0, 10 * time.Second, Fail},
		"after the end":        {time.Second, 11 * time.Second, Fail},
		"begun at the end":     {9 * time.Second, 10 * time.Second, Skip},
		"begun after the end":  {11 * time.Second, 11 * time.Second, Skip},
		"begun shortly before": {9900 * time.Millisecond, 10100 * time.Millisecond, Skip},
	} {
		v := (&trial{race: race{winner: task(0, 10*time.Second), loser: task(x.queued, x.completed)}}).nameHeld(t.Context())
		if v.result != x.want {
			t.Errorf("%s: %s (%s), want %s", name, v.result, v.seen, x.want)
		}
	}
	if v := (&trial{race: race{winner: task(0, time.Second), loser: &ended{}}}).nameHeld(t.Context()); v.result != Skip {
		t.Errorf("a task that was lost: %+v", v)
	}
}
