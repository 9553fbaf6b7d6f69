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

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// whileDeep runs a deep check and calls do once its progress begins with this text; folder is the path of the scratch folder.
func (w *world) whileDeep(begins string, do func(folder string), change ...func(*checker)) results {
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
	r := w.checked(nil, o, change...)
	if !done {
		w.t.Errorf("no progress %q", begins)
	}
	return r
}

// stoppedWhen runs a deep check that is stopped when its progress begins with this text.
func (w *world) stoppedWhen(begins string, o Options) results {
	w.t.Helper()
	v, err := vsphere.New(w.config())
	w.Must(err)
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	o.Progress = func(text string) {
		if strings.HasPrefix(text, begins) {
			cancel()
		}
	}
	r := results{w.t, Run(ctx, v, o)}
	r.has("deep", Skip, "stopped", "")
	return r
}

func TestDeepCheckKeepsAnOperatorsCloneOfItsVM(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		r := w.whileDeep("destroying", func(folder string) {
			vm := object.NewVirtualMachine(w.Admin().Client, vctest.Value(w.Find(trialName)))
			w.Done(vm.Clone(t.Context(), object.NewFolder(w.Admin().Client, vctest.Value(w.Find(folder))), "a-copy", types.VirtualMachineCloneSpec{}))
			if w.Look("a-copy").ExtraConfig[trialKey] == "" {
				t.Error("the copy has no stamp, so this test is void")
			}
		})
		r.has("deep: clean-up", Fail, "left in vCenter", "by hand")
		w.holds("a-copy", "ubuntu")
	})
}

func TestDeepCheckKeepsAFolderThatAlreadyHadItsName(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		var taken types.ManagedObjectReference
		r := w.whileDeep("creating", func(folder string) {
			made, err := object.NewFolder(w.Admin().Client, vctest.Value(w.Find("/DC0/vm"))).CreateFolder(t.Context(), strings.TrimPrefix(folder, "/DC0/vm/"))
			w.Must(err)
			taken = made.Reference()
		})
		r.has("deep: scratch folder", Fail, "", "")
		if name, err := object.NewCommon(w.Admin().Client, taken).ObjectName(t.Context()); err != nil {
			t.Errorf("the folder %q does not exist: %v\n%s", name, err, r)
		}
	})
}

func TestDeepCheckRemovesItsRenamedFolderAndMovedVM(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.FailTask(vcsim.Destroy, nil, new(types.GenericVmConfigFault), 1) // so that the clean-up has to do it
		r := w.whileDeep("destroying", func(folder string) {
			w.Must(w.Move(trialName, "/DC0/vm"))
			f := object.NewFolder(w.Admin().Client, vctest.Value(w.Find(folder)))
			w.Done(f.Rename(t.Context(), "renamed"))
		})
		r.has("deep: clean-up", OK, "nothing is left", "")
		if ref, err := w.Find("/DC0/vm/renamed"); err == nil {
			t.Errorf("left: %s", ref)
		}
		w.clean()
	})
}

func TestDeepCheckKeepsAVMWithAForeignDisk(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		unmanaged := vctest.Value(w.AddVM("/DC0/vm", "unmanaged"))
		r := w.whileDeep("destroying", func(string) {
			devices, err := object.NewVirtualMachine(w.Admin().Client, unmanaged).Device(t.Context())
			w.Must(err)
			disk := devices.SelectByType((*types.VirtualDisk)(nil))[0].(*types.VirtualDisk)
			own, err := object.NewVirtualMachine(w.Admin().Client, vctest.Value(w.Find(trialName))).Device(t.Context())
			w.Must(err)
			unit := int32(9)
			disk.Key, disk.UnitNumber = -1, &unit
			disk.ControllerKey = own.SelectByType((*types.VirtualDisk)(nil))[0].GetVirtualDevice().ControllerKey
			w.Must(w.Reconfigure(trialName, types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
				&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: disk}}}))
		})
		r.has("deep: destroyed VM", Fail, "a foreign disk", "detach")
		r.has("deep: clean-up", Fail, "a foreign disk", "by hand")
		if names := w.Names(); !slices.Contains(names, trialName) || w.Calls()["Destroy_Task"] > 2 { // those of the copy and of the second VM
			t.Errorf("the VM was destroyed with the disk; left: %v", names)
		}
	})
}

func TestDeepCheckKeepsAnOperatorsFolder(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		r := w.whileDeep("destroying", func(folder string) { vctest.Value(w.MakeFolder(folder + "/an-operators")) })
		r.has("deep: clean-up", Fail, "left in vCenter", "by hand")
		w.holds("ubuntu")
	})
}

func TestDeepCheckNamesTheFilesOfAVMThatCannotBeRegistered(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.FailTask(vcsim.RegisterVM, nil, new(types.GenericVmConfigFault), 0)
		r := w.checked(nil, deepOptions)
		r.has("deep: folder that is not empty", Fail, "could not be registered again", "would be lost")
		r.has("deep: clean-up", Fail, "the files in [LocalDS_0] vmgroup-check-0", "by hand")
		if kept := w.Unregistered(); len(kept) != 1 || !strings.HasPrefix(kept[0].Path, "[LocalDS_0] vmgroup-check-0/") {
			t.Errorf("unregistered: %+v", kept)
		}
	})
}

func TestDeepCheckRemovesItsClonesAfterLostReplies(t *testing.T) {
	inDeepWorld(t, func(t *testing.T, w *world) {
		w.LoseReply("CloneVM_Task", 2) // one runs, but its task is unknown
		w.Hold(vcsim.Clone)
		r := w.whileDeep("waiting for all running clones", func(string) { time.AfterFunc(time.Minute, func() { w.Release(vcsim.Clone) }) })
		r.has("deep: one name, one VM", Fail, "VCenterUnreachable", "")
		r.has("deep: clean-up", OK, "nothing is left", "")
		w.clean()
	})
}

func TestDeepCheckStoppedReportsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, begins := range []string{"creating", "powering", "waiting"} {
			w := deepWorld(t)
			o := deepOptions
			o.GuestTimeout = vctest.Patience
			w.stoppedWhen(begins, o).only("certificate")
			w.clean()
		}
	})
}
