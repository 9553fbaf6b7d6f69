package disks_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestADiskSaysWhoseItIsFromItsCreationOn(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		got, err := r.Retrieve(t.Context(), made.Ref)
		r.Must(err)
		want := made
		if got != want || got.Owner != data || got.Bound || !got.Keep || got.CapacityMB != 1024 || !strings.HasPrefix(got.File, "[LocalDS_0] ") {
			t.Errorf("created %+v, read %+v", made, got)
		}
		r.Must(r.Bind(t.Context(), made.Ref))
		r.Must(r.Bind(t.Context(), made.Ref))
		if got, err = r.Retrieve(t.Context(), made.Ref); err != nil || !got.Bound || got.Owner != data {
			t.Errorf("after the first binding: %+v, %v", got, err)
		}
		r.Must(r.Delete(t.Context(), made.Ref))
		_, err = r.Retrieve(t.Context(), made.Ref)
		refused(t, err, vcfault.ReasonDiskMissing)
	})
}

func TestTheNameOfADiskIsReadAsPeopleWriteIt(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.Call(t.Context(), func(ctx context.Context, s *session.Session) error {
			raw, err := methods.RetrieveVStorageObject(ctx, s.Vim, &types.RetrieveVStorageObject{This: *s.Vim.ServiceContent.VStorageObjectManager,
				Id: types.ID{Id: made.ID}, Datastore: types.ManagedObjectReference{Type: "Datastore", Value: made.Datastore}})
			if err == nil && raw.Returnval.Config.Name != "team%2fweb-0%2fdata" {
				t.Errorf("vCenter has the name %q", raw.Returnval.Config.Name)
			}
			return err
		}))
		got, err := r.Retrieve(t.Context(), made.Ref)
		r.Must(err)
		if made.Name != "team/web-0/data" || got.Name != made.Name {
			t.Errorf("created as %q, read as %q", made.Name, got.Name)
		}
	})
}

func TestOnlyAnOwnerInFullIsOne(t *testing.T) {
	t.Parallel()
	if got, is := disks.ParseOwner(data.String()); !is || got != data {
		t.Errorf("%q is parsed as %v, %t, want %v, true", data, got, is, data)
	}
	for _, text := range []string{"", "9a3c", "9a3c/0", "9a3c//data", "9a3c/x/data", "9a3c/-1/data", "9a3c/01/data", "/0/data", "9a3c/0/", "9a3c/0/data/x"} {
		if o, is := disks.ParseOwner(text); is {
			t.Errorf("%q is the owner %+v", text, o)
		}
	}
}

func TestADiskOfAnotherIsNotFound(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		for _, o := range []disks.Owner{{UID: "other", Disk: "data"}, {UID: data.UID, Ordinal: 1, Disk: "data"}, {UID: data.UID, Disk: "log"}} {
			_, err := r.Create(t.Context(), disks.Spec{Name: made.Name, Datastore: r.here[1], CapacityMB: 1, Owner: o})
			r.Must(err)
		}
		if ids, complete := r.found(); !complete || !slices.Equal(ids, []string{made.ID}) {
			t.Errorf("found %v of %s, complete: %t", ids, made.ID, complete)
		}
		before := r.Counted()["RetrieveVStorageObject"]
		r.found()
		if n := r.Counted()["RetrieveVStorageObject"] - before; n != 1 {
			t.Errorf("%d disks were read again; want 1", n)
		}
		time.Sleep(2 * time.Hour)
		before = r.Counted()["RetrieveVStorageObject"]
		r.found()
		if n := r.Counted()["RetrieveVStorageObject"] - before; n != 4 {
			t.Errorf("two hours later, %d disks were read; want 4", n)
		}
	})
}

func TestANewDiskIsListedLateAndCanBeReadAtOnce(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		r.Behave(func(b *vcsim.Behavior) { b.LagFirstClassDisks = time.Minute })
		made := r.made()
		if ids, complete := r.found(); len(ids) > 0 || !complete {
			t.Errorf("found %v at once, complete: %t", ids, complete)
		}
		_, err := r.Retrieve(t.Context(), made.Ref)
		r.Must(err)
		time.Sleep(time.Minute)
		if ids, _ := r.found(); !slices.Equal(ids, []string{made.ID}) {
			t.Errorf("found %v a minute later; want %v", ids, []string{made.ID})
		}
	})
}

func TestADiskWhoseCreationsReplyWasLostIsFoundByItsOwner(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		r.LoseReply("CreateDisk_Task", 1)
		_, err := r.Create(t.Context(), disks.Spec{Name: "team/web-0/data", Datastore: r.here[0], CapacityMB: 1024, Owner: data})
		if err == nil || vcfault.Refused(err) {
			t.Fatalf("got %v, want an error after which the disk may exist", err)
		}
		time.Sleep(time.Minute)
		f := r.FirstClass.Find(t.Context(), r.here, func(o disks.Owner) bool { return o == data })
		if len(f.Disks) != 1 || f.Disks[0].Bound {
			t.Errorf("found %+v", f)
		}
		r.FailTask(vcsim.CreateDisk, nil, new(types.InvalidState), 1)
		_, err = r.Create(t.Context(), disks.Spec{Name: "team/web-0/log", Datastore: r.here[0], CapacityMB: 1024, Owner: data})
		if err == nil || !vcfault.Refused(err) {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

func TestAnAnswerWithoutADatastoreIsIncomplete(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.CutDatastore(second, true))
		if ids, complete := r.found(); complete || !slices.Equal(ids, []string{made.ID}) {
			t.Errorf("found %v, complete: %t", ids, complete)
		}
		_, err := r.Create(t.Context(), disks.Spec{Name: "x", Datastore: r.here[1], CapacityMB: 1, Owner: data})
		refused(t, err, vcfault.ReasonDatastoreInaccessible)
		r.Must(r.CutDatastore(second, false))
		if _, complete := r.found(); !complete {
			t.Error("incomplete")
		}
	})
}

func TestADiskIsAttachedWhereItIsToGoAndOnlyToTheVMThatWasRead(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		vm, devices := r.vm("web-0")
		at := disks.Attachment{Disk: made, Place: r.place(devices)}
		r.Must(r.BumpChangeVersion("web-0"))
		isReason(t, r.Attach(t.Context(), vm, at), vcfault.ReasonConcurrentAccess)
		r.Must(r.attach("web-0", made))
		vm, devices = r.vm("web-0")
		device := disks.Attached(devices, made.ID)
		if device == nil || device.ControllerKey != at.Place.Controller || *device.UnitNumber != 1 || device.CapacityInBytes != 1<<30 {
			t.Fatalf("the device is %+v", device)
		}
		uses, err := r.Uses(t.Context(), made.Ref)
		r.Must(err)
		if u := uses[made.ID]; len(u) != 1 || !u[0].In(vm.MoRef, "", "") || u[0].Key != device.Key {
			t.Errorf("the disk is used by %+v; want the device %d of %s", u, device.Key, vm.MoRef)
		}
		isReason(t, r.Detach(t.Context(), disks.VM{MoRef: vm.MoRef, ChangeVersion: "0"}, devices, made.ID), vcfault.ReasonConcurrentAccess)
		r.Must(r.detach("web-0", made))
		if _, devices = r.vm("web-0"); disks.Attached(devices, made.ID) != nil {
			t.Error("the disk is still attached after Detach")
		}
		calls := r.Counted()["ReconfigVM_Task"]
		r.Must(r.detach("web-0", made))
		if n := r.Counted()["ReconfigVM_Task"]; n != calls {
			t.Error("a VM without the disk was reconfigured")
		}
		if uses, err = r.Uses(t.Context(), made.Ref); err != nil || uses[made.ID] == nil || len(uses[made.ID]) > 0 {
			t.Errorf("the disk is used by %+v, with the error %v; want an empty list", uses, err)
		}
		_, err = r.Uses(t.Context(), disks.Ref{ID: "none", Datastore: r.here[0]})
		refused(t, err, vcfault.ReasonDiskMissing)
	})
}

func TestASecondVMIsRefusedADisk(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.attach("web-0", made))
		refused(t, r.attach("web-1", made), vcfault.ReasonDiskInUse)
		refused(t, r.attach("web-0", made), vcfault.ReasonDiskInUse) // the VM has the disk already: the caller has to read its devices
		refused(t, r.Delete(t.Context(), made.Ref), vcfault.ReasonDiskHeldBySnapshot)
	})
}

func TestADiskThatTwoVMsHaveIsOpenedByOne(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Behave(func(b *vcsim.Behavior) { b.AllowSecondAttach = true })
		r.Must(r.attach("web-0", made))
		r.Must(r.attach("web-1", made))
		r.Must(r.PowerOn("web-1"))
		refused(t, disks.PowerOnRefused(r.PowerOn("web-0")), vcfault.ReasonDiskInUse)
		r.FailTask(vcsim.Reconfigure, nil, new(types.FileLocked), 1)
		refused(t, r.detach("web-0", made), vcfault.ReasonDiskInUse)
		r.FailTask(vcsim.Reconfigure, nil, new(types.NoDiskSpace), 1)
		isReason(t, disks.PowerOnRefused(r.detach("web-0", made)), vcfault.ReasonDatastoreFull)
		r.Must(r.PowerOff("web-1"))
		r.Must(r.PowerOn("web-0"))
	})
}

func TestAVMOutsideTheInventoryKeepsItsDiskOpen(t *testing.T) {
	inABubble(t, vcsim.Config{Hosts: 2}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.attach("web-0", made))
		r.Must(r.PowerOn("web-0"))
		r.Must(r.RemoveHost(vctest.Value(r.Details("web-0")).Host))
		if uses, err := r.Uses(t.Context(), made.Ref); err != nil || len(uses[made.ID]) > 0 {
			t.Errorf("vCenter knows of %+v, %v", uses, err)
		}
		vctest.Value(r.AddVM("/DC0/vm", "next"))
		r.Must(r.attach("next", made))
		refused(t, disks.PowerOnRefused(r.PowerOn("next")), vcfault.ReasonDiskInUse)
		if got := r.real(made.ID).VMs; len(got) != 2 {
			t.Errorf("the disk is in the VMs %v; want two, one of them outside the inventory", got)
		}
	})
}

// Storage vMotion moves a disk's files into the folder of its VM.
func TestADiskThatStorageVMotionMovedOutlivesItsVM(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.attach("web-0", made))
		_, devices := r.vm("web-0")
		r.Must(r.MoveDisk("web-0", disks.Attached(devices, made.ID).Key, first))
		r.Must(r.detach("web-0", made))
		r.Must(r.Destroy("web-0"))
		f := r.FirstClass.Find(t.Context(), r.here, func(o disks.Owner) bool { return o == data })
		if len(f.Disks) != 1 || !strings.HasPrefix(f.Disks[0].File, "[LocalDS_0] web-0/") {
			t.Fatalf("found %+v, want one disk, in the directory of web-0", f)
		}
		r.Must(r.attach("web-1", f.Disks[0]))
	})
}

func TestOnlyTheFlagKeepsADiskWhenItsVMIsDestroyed(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		kept, dropped := r.made(), r.made()
		r.Must(r.EditFirstClassDisk(dropped.ID, func(d *vcsim.DiskState) { d.Keep = false }))
		r.Must(r.attach("web-0", kept))
		r.Must(r.attach("web-1", dropped))
		r.Must(r.Destroy("web-0"))
		r.Must(r.Destroy("web-1"))
		if ids, _ := r.found(); !slices.Equal(ids, []string{kept.ID}) {
			t.Errorf("left: %v of %s and %s; want %v", ids, kept.ID, dropped.ID, []string{kept.ID})
		}
		r.Must(r.Delete(t.Context(), kept.Ref))
	})
}

func TestSnapshotsKeepADiskAsItIs(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.attach("web-0", made))
		_, err := r.AddSnapshot("web-0", "backup")
		r.Must(err)
		refused(t, r.detach("web-0", made), vcfault.ReasonDiskHeldBySnapshot)
		refused(t, r.Extend(t.Context(), made.Ref, 2048), vcfault.ReasonDiskExtendRefused)
		r.Must(r.RemoveSnapshots("web-0"))
		r.Must(r.detach("web-0", made))
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Snapshots = 1 }))
		refused(t, r.Delete(t.Context(), made.Ref), vcfault.ReasonDiskHeldBySnapshot)
		refused(t, r.Extend(t.Context(), made.Ref, 2048), vcfault.ReasonDiskExtendRefused)
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Snapshots = 0 }))
		r.Must(r.Delete(t.Context(), made.Ref))
	})
}

func TestADiskGrowsWhileItsVMIsOffAndOn(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.Extend(t.Context(), made.Ref, 2048))
		made, err := r.Retrieve(t.Context(), made.Ref)
		r.Must(err)
		r.Must(r.attach("web-0", made))
		r.Must(r.PowerOn("web-0"))
		r.Behave(func(b *vcsim.Behavior) { b.RefuseOnlineExtend = true })
		refused(t, r.Extend(t.Context(), made.Ref, 3072), vcfault.ReasonDiskExtendRefused)
		r.Behave(func(b *vcsim.Behavior) { b.RefuseOnlineExtend = false })
		r.Must(r.Extend(t.Context(), made.Ref, 3072))
		if _, devices := r.vm("web-0"); disks.Attached(devices, made.ID).CapacityInBytes != 3<<30 {
			t.Errorf("the device is %+v, want 3 GiB", disks.Attached(devices, made.ID))
		}
		if got, err := r.Retrieve(t.Context(), made.Ref); err != nil || got.CapacityMB != 3072 {
			t.Errorf("the disk is %+v, the error %v, want 3072 MB", got, err)
		}
		if err := r.Extend(t.Context(), made.Ref, 1024); err == nil {
			t.Error("Extend from 3072 to 1024 MB succeeded; want an error")
		}
	})
}

func TestADiskThatVCenterTakesForInUseIsNotAttached(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Held = true }))
		err := r.attach("web-0", made)
		refused(t, err, vcfault.ReasonDiskInUse)
		if !vctest.Mentions(err.Error(), "rescan the storage") {
			t.Error(err)
		}
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Held = false }))
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Tracked = true }))
		old := disks.AttachRefused(task.Error{LocalizedMethodFault: &types.LocalizedMethodFault{Fault: new(types.InvalidState)}}, "vmx-13", made)
		if refused(t, old, vcfault.ReasonDiskInUse); !vctest.Mentions(old.Error(), "hardware version, 13") {
			t.Errorf("got the error %v; want one that names the hardware version, 13", old)
		}
		tracked, err := r.Retrieve(t.Context(), made.Ref)
		r.Must(err)
		refused(t, r.attach("web-0", tracked), vcfault.ReasonDiskTracked)
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Tracked = false }))
		r.Must(r.attach("web-0", made))
	})
}

func TestADiskThatMovesIsNotTakenForGone(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.found() // so that the server knows to which disk the id belongs
		r.Must(r.MoveFirstClassDisk(made.ID, second, time.Minute))
		_, err := r.Retrieve(t.Context(), made.Ref)
		refused(t, err, vcfault.ReasonDiskMissing)
		refused(t, r.attach("web-0", made), vcfault.ReasonDiskMissing)
		time.Sleep(time.Minute)
		_, err = r.Retrieve(t.Context(), made.Ref)
		refused(t, err, vcfault.ReasonDiskMissing)
		f := r.FirstClass.Find(t.Context(), r.here, func(o disks.Owner) bool { return o == data })
		if len(f.Disks) != 1 || f.Disks[0].Datastore != r.here[1] || !f.Complete() {
			t.Fatalf("found %+v, want one disk, on %s, and a complete answer", f, r.here[1])
		}
		r.Must(r.attach("web-0", f.Disks[0]))
		r.Must(r.MoveFirstClassDisk(made.ID, first, 0))
		_, devices := r.vm("web-0")
		r.Must(r.MoveDisk("web-0", disks.Attached(devices, made.ID).Key, second))
		if at := r.real(made.ID); at.Datastore != second || !strings.HasPrefix(at.File, "[LocalDS_1] ") || len(at.VMs) != 1 {
			t.Errorf("the disk is %+v, want it on %s and in one VM", at, second)
		}
	})
}

func TestALostDiskIsListedAndKeepsItsVMFromBeingDestroyed(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.attach("web-0", made))
		if ids, complete := r.found(); len(ids) != 1 || !complete {
			t.Errorf("found %v, complete: %t, want one disk, true", ids, complete)
		}
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Lost = true }))
		if ids, complete := r.found(); len(ids) > 0 || complete {
			t.Errorf("a disk that was ours is lost: found %v, complete: %t", ids, complete)
		}
		another := disks.NewFirstClass(r)
		if f := another.Find(t.Context(), r.here, func(o disks.Owner) bool { return o == data }); !f.Complete() || len(f.Skipped) != 1 || f.Skipped[made.ID] == nil {
			t.Errorf("a process that never read the disk found %+v, want a complete answer that skips the disk", f)
		}
		if err := r.Destroy("web-0"); !vcfault.Has[*types.NotFound](err) {
			t.Error(err)
		}
		if err := r.PowerOn("web-0"); !vcfault.Has[*types.FileNotFound](err) {
			t.Error(err)
		}
		r.Must(r.detach("web-0", made))
		r.Must(r.Destroy("web-0"))
	})
}

func TestAStrangersDiskThatCannotBeReadHidesNoOther(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		volume, err := r.Create(t.Context(), disks.Spec{Name: "pvc-1", Datastore: r.here[0], CapacityMB: 1, Owner: disks.Owner{UID: "other", Disk: "data"}})
		r.Must(err)
		made := r.made()
		r.Must(r.EditFirstClassDisk(volume.ID, func(d *vcsim.DiskState) { d.Broken = new(types.InvalidArgument) }))
		f := r.FirstClass.Find(t.Context(), r.here, func(o disks.Owner) bool { return o == data })
		if len(f.Disks) != 1 || !f.Complete() || f.Skipped[volume.ID] == nil {
			t.Errorf("found %+v, want one disk, and a complete answer that skips the volume", f)
		}
		r.Must(r.EditFirstClassDisk(volume.ID, func(d *vcsim.DiskState) { d.Broken = nil }))
		r.Must(r.EditFirstClassDisk(made.ID, func(d *vcsim.DiskState) { d.Broken = new(types.InvalidArgument) }))
		if ids, complete := r.found(); len(ids) > 0 || complete {
			t.Errorf("a disk that was ours cannot be read: found %v, complete: %t", ids, complete)
		}
	})
}

func TestAFullDatastoreTakesNoDisk(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.FillDatastore(first, true))
		_, err := r.Create(t.Context(), disks.Spec{Name: "x", Datastore: r.here[0], CapacityMB: 1, Owner: data})
		refused(t, err, vcfault.ReasonDatastoreFull)
		refused(t, r.Extend(t.Context(), made.Ref, 2048), vcfault.ReasonDatastoreFull)
		if ids, _ := r.found(); len(ids) != 1 {
			t.Errorf("found %v, want one disk", ids)
		}
	})
}

func TestADiskOutOfAHostsReachIsNotAttached(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		r.Must(r.UnmountDatastore(first, "/DC0/host/DC0_C0"))
		refused(t, r.attach("web-0", made), vcfault.ReasonDiskOutOfReach)
	})
}

func TestAVMWithoutTheControllerTakesNoDisk(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		vm, devices := r.vm("web-0")
		refused(t, r.Attach(t.Context(), vm, disks.Attachment{Disk: made, Place: disks.Place{Controller: 1003}}), vcfault.ReasonTemplateUnfit)
		seven := r.place(devices)
		seven.Unit = 7
		refused(t, r.Attach(t.Context(), vm, disks.Attachment{Disk: made, Place: seven}), vcfault.ReasonTemplateUnfit)
	})
}

func TestTheFaultNamesThePrivilegeThatACallLacks(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		made := r.made()
		vm, devices := r.vm("web-0")
		const files = "Datastore.FileManagement"
		all := []string{files, "Datastore.AllocateSpace", "VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.RemoveDisk"}
		lacks := func(privilege string, call func() error) {
			t.Helper()
			r.Restrict(slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == privilege })...)
			err := call()
			refused(t, err, vcfault.ReasonMissingPrivilege)
			if err != nil && !strings.Contains(err.Error(), privilege) {
				t.Errorf("%v does not name %s", err, privilege)
			}
			r.Restrict(all...)
		}
		lacks(files, func() error {
			_, err := r.Create(t.Context(), disks.Spec{Name: "x", Datastore: r.here[0], CapacityMB: 1, Owner: data})
			return err
		})
		lacks(files, func() error { _, err := r.Retrieve(t.Context(), made.Ref); return err })
		lacks(files, func() error {
			return r.FirstClass.Find(t.Context(), r.here[:1], func(disks.Owner) bool { return true }).Unread[r.here[0]]
		})
		lacks(files, func() error { return r.Bind(t.Context(), made.Ref) })
		lacks(files, func() error { return r.Extend(t.Context(), made.Ref, 2048) })
		lacks(files, func() error { return r.Delete(t.Context(), made.Ref) })
		lacks("VirtualMachine.Config.AddExistingDisk", func() error {
			return r.Attach(t.Context(), vm, disks.Attachment{Disk: made, Place: r.place(devices)})
		})
		r.Must(r.attach("web-0", made))
		lacks("VirtualMachine.Config.RemoveDisk", func() error { return r.detach("web-0", made) })
		r.Must(r.detach("web-0", made))
	})
}

func TestAnOldVCenterHasNoPersistentDisks(t *testing.T) {
	inABubble(t, vcsim.Config{APIVersion: "6.7.3"}, func(t *testing.T, r *rig) {
		_, err := r.Create(t.Context(), disks.Spec{Name: "x", Datastore: r.here[0], CapacityMB: 1, Owner: data})
		refused(t, err, vcfault.ReasonDisksUnsupported)
		if n := r.Counted()["CreateDisk_Task"]; n != 0 {
			t.Errorf("%d calls; want 0", n)
		}
	})
}
