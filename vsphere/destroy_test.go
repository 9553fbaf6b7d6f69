package vsphere

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// inTwoDatastores runs a test in a world where a disk can be moved.
func inTwoDatastores(t *testing.T, test func(t *testing.T, w *world, p *process)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Datastores: 2}, func(c *Config) { c.Datastore = "LocalDS_0" })
		test(t, w, p)
	})
}

// elsewhere is a datastore other than the members'.
const elsewhere = "/DC0/datastore/LocalDS_1"

// attach attaches the disk of an unmanaged VM to web-0.
func (w *world) attach(from string) {
	w.t.Helper()
	if _, err := w.Find(from); err != nil {
		_, err = w.AddVM("/DC0/vm", from)
		w.must(err)
	}
	_, err := w.AttachDisk(from, "web-0")
	w.must(err)
}

// ownDisk returns the disk that a member's clone made.
func (w *world) ownDisk(name string) vcsim.Disk {
	w.t.Helper()
	d, err := w.Details(name)
	w.must(err)
	return d.Disks[0]
}

// destroyed carries out a Destroy, and returns how often the VM was reconfigured before its destruction.
func (p *process) destroyed(vm plan.VM) int {
	p.t.Helper()
	before := p.world.Calls()["ReconfigVM_Task"]
	p.do(actionOn(plan.Destroy, vm))
	if names := p.world.Names(); slices.Contains(names, vm.Name) {
		p.t.Errorf("vCenter has the VMs %v; want %s destroyed", names, vm.Name)
	}
	return p.world.Calls()["ReconfigVM_Task"] - before
}

func TestAVMIsDestroyedWithoutTheDiskOfAnother(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.attach("unmanaged")
		if n := p.destroyed(vm); n != 1 {
			t.Errorf("web-0 was reconfigured %d times before its destruction; want once, to detach the unmanaged VM's disk", n)
		}
		if now, err := p.ReadFresh(context.Background(), w.Unmanaged); err != nil || len(now.Devices) == 0 {
			t.Errorf("got the unmanaged VM %+v and the error %v; want its devices", now, err)
		}
	})
}

func TestAMembersOwnDiskGoesWithItAfterStorageVMotion(t *testing.T) {
	inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
		p.do(preparing(p.unprepared(0), withAttributes("owner", "shop"))) // records the disk's uuid
		vm := p.named("web-0")
		_, err := w.AddSnapshot("web-0", "a backup")
		w.must(err)
		w.must(w.MoveDisk("web-0", w.ownDisk("web-0").Key, elsewhere))
		if n := p.destroyed(vm); n != 0 {
			t.Errorf("web-0 was reconfigured %d times before its destruction; want never, because the moved disk is its own", n)
		}
	})
}

// On vSAN, directories have UUIDs for names. A disk that was moved while the member had another name has that name in its path, and is kept.
func TestAPreparedMembersDisksAreKnownByTheirUUIDsAndNames(t *testing.T) {
	inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
		vm := p.unprepared(0)
		a := preparing(vm, withAttributes("owner", "shop"))
		w.must(p.Do(context.Background(), web, a))
		s, err := stamp.Decode(w.stampOf("web-0"))
		w.must(err)
		if key, uuid, _ := strings.Cut(s.Disks, "="); key == "" || len(uuid) != 36 {
			t.Errorf("web-0's stamp has the disks %q; want a key and a UUID", s.Disks)
		}
		w.Behave(func(b *vcsim.Behavior) { b.NameDirectoriesByID = true })
		kept := func() int {
			now, err := p.ReadFresh(t.Context(), inventory.VMRef(vm.MoRef))
			w.must(err)
			return len(now.ForeignDisks())
		}
		w.must(w.MoveDisk("web-0", w.ownDisk("web-0").Key, elsewhere))
		if n := kept(); n != 0 {
			t.Errorf("%d disks would be kept; want none, because the moved disk has the member's name in its path", n)
		}
		w.must(w.Rename("web-0", "another-name"))
		w.must(w.MoveDisk("another-name", w.ownDisk("another-name").Key, "/DC0/datastore/LocalDS_0"))
		w.must(w.Rename("another-name", "web-0"))
		if n := kept(); n != 1 {
			t.Errorf("%d disks would be kept; want the one that was moved while the member had another name", n)
		}
	})
}

// On vSAN directories have UUIDs for names, so the directory of a moved disk does not name its VM. Such a disk was detached and left behind.
func TestOnVSANTheDisksOfEveryMemberAreKnownByTheirUUIDsOnceItRan(t *testing.T) {
	inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
		w.Behave(func(b *vcsim.Behavior) { b.NameDirectoriesByID = true })
		vm := p.running(0, false)
		s, err := stamp.Decode(w.stampOf("web-0"))
		w.must(err)
		if key, uuid, _ := strings.Cut(s.Disks, "="); key == "" || len(uuid) != 36 {
			t.Errorf("web-0's stamp has the disks %q; want a key and a UUID", s.Disks)
		}
		w.must(w.MoveDisk("web-0", w.ownDisk("web-0").Key, elsewhere))
		p.do(actionOn(plan.PowerOff, vm))
		before := w.Calls()["ReconfigVM_Task"]
		p.do(actionOn(plan.PowerOn, vm)) // nothing is written again
		if n := w.Calls()["ReconfigVM_Task"] - before; n != 0 {
			t.Errorf("the second power-on reconfigured web-0 %d times; want never", n)
		}
		p.do(actionOn(plan.PowerOff, vm))
		if n := p.destroyed(p.vm(vm.MoRef)); n != 0 {
			t.Errorf("web-0 was reconfigured %d times before its destruction; want never, because the moved disk is its own", n)
		}
	})
}

// Where directories have the names of their VMs, the server makes no call for a member's disks before the power-on. So it can't tell a disk that was moved
// alone from one of another VM with that name, and keeps it.
func TestWhereDirectoriesNameTheirVMsAPowerOnCostsNoCallForDisks(t *testing.T) {
	inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		before, of := w.Calls(), w.stampOf("web-0")
		p.do(actionOn(plan.PowerOn, vm))
		after := w.Calls()
		for _, method := range []string{"ReconfigVM_Task", "CreateCollectorForEvents"} {
			if n := after[method] - before[method]; n != 0 {
				t.Errorf("the power-on made %d calls of %s; want none", n, method)
			}
		}
		if now := w.stampOf("web-0"); now != of {
			t.Errorf("the power-on changed web-0's stamp from %s to %s", of, now)
		}
		p.do(actionOn(plan.PowerOff, vm))
		w.must(w.MoveDisk("web-0", w.ownDisk("web-0").Key, elsewhere))
		if n := p.destroyed(p.vm(vm.MoRef)); n != 1 {
			t.Errorf("web-0 was reconfigured %d times before its destruction; want once, to detach the moved disk", n)
		}
	})
}

// A clone on a recorded vCenter 8.0.1 ended without an error and without disks, and its member was RUNNING.
func TestAMemberThatWasClonedWithoutItsDisksIsNotPoweredOn(t *testing.T) {
	t.Parallel()
	for what, made := range map[string]func(w *world, p *process) plan.Action{
		"powered on": func(_ *world, p *process) plan.Action { return actionOn(plan.PowerOn, p.member(0)) },
		"powered on, on vSAN": func(w *world, p *process) plan.Action {
			w.Behave(func(b *vcsim.Behavior) { b.NameDirectoriesByID = true })
			return actionOn(plan.PowerOn, p.member(0))
		},
		"prepared": func(_ *world, p *process) plan.Action {
			return preparing(p.unprepared(0), withAttributes("owner", "shop"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
				a := made(w, p)
				p.withoutDisk(a.MoRef)
				a.ChangeVersion = p.vm(a.MoRef).ChangeVersion
				err := p.Do(context.Background(), web, a)
				refusedAs(t, err, vcfault.ReasonDiskMissing)
				if err == nil || !strings.Contains(err.Error(), "cloned without disks") {
					t.Error(err)
				}
				if now := p.vm(a.MoRef); now.Power != plan.PoweredOff {
					t.Errorf("the member that was cloned without disks is %s; want %s", now.Power, plan.PoweredOff)
				}
			})
		})
	}
}

// withoutDisk removes the first disk of web-0, and waits until the inventory shows the removal.
func (p *process) withoutDisk(moRef string) {
	p.t.Helper()
	_, devices, _ := p.given("web-0")
	p.world.must(p.reconfigure(p.t.Context(), inventory.VMRef(moRef), vim.VirtualMachineConfigSpec{DeviceChange: []vim.BaseVirtualDeviceConfigSpec{
		&vim.VirtualDeviceConfigSpec{Operation: vim.VirtualDeviceConfigSpecOperationRemove, Device: disks.In(devices)[0]}}}))
	p.world.must(p.reader.Read(p.t.Context(), inventory.VMRef(moRef)))
}

// An operator who removes a disk from a member that has run may do so on purpose.
func TestAMemberThatRanIsPoweredOnWithoutADiskThatAPersonRemoved(t *testing.T) {
	inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
		vm := p.running(0, false)
		p.do(actionOn(plan.PowerOff, vm))
		p.withoutDisk(vm.MoRef)
		p.do(actionOn(plan.PowerOn, vm))
		if now := p.vm(vm.MoRef); now.Power != plan.PoweredOn {
			t.Errorf("the member whose disk was removed is %s; want %s", now.Power, plan.PoweredOn)
		}
	})
}

// A linked clone's disks have the uuids of its source's, so a disk of another member has the uuids that this member's stamp records.
func TestADiskOfAnotherMemberIsKeptWhateverItsUUIDAndAMembersOwnGoesWithIt(t *testing.T) {
	t.Parallel()
	moved := func(w *world, _ *process, name string) { w.must(w.MoveDisk(name, w.ownDisk(name).Key, elsewhere)) }
	for what, c := range map[string]struct {
		mode   v1alpha1.CloneMode
		onVSAN bool
		keeps  bool                       // web-0's disk, too, because it was moved alone and has a uuid that others have
		before func(w *world, p *process) // of the attachment
	}{
		"full":                       {mode: v1alpha1.CloneFull},
		"linked":                     {mode: v1alpha1.CloneLinked},
		"linked, on vSAN":            {mode: v1alpha1.CloneLinked, onVSAN: true},
		"full, moved":                {mode: v1alpha1.CloneFull, before: func(w *world, p *process) { moved(w, p, "web-0") }},
		"linked, moved":              {mode: v1alpha1.CloneLinked, keeps: true, before: func(w *world, p *process) { moved(w, p, "web-0") }},
		"linked, moved, on vSAN":     {mode: v1alpha1.CloneLinked, onVSAN: true, keeps: true, before: func(w *world, p *process) { moved(w, p, "web-0") }},
		"linked, the other's moved":  {mode: v1alpha1.CloneLinked, before: func(w *world, p *process) { moved(w, p, "web-1") }},
		"linked, instead of the own": {mode: v1alpha1.CloneLinked, before: func(_ *world, p *process) { p.withoutDisk(p.named("web-0").MoRef) }},
	} {
		t.Run(what, func(t *testing.T) {
			inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
				w.Behave(func(b *vcsim.Behavior) { b.NameDirectoriesByID = c.onVSAN })
				_, err := w.AddSnapshot("ubuntu", "base")
				w.must(err)
				spec := withAttributes("owner", "shop")
				spec.Clone.Mode = c.mode
				for ordinal := range int32(2) {
					a := p.shaped(ordinal, spec)
					a.Details().Prepared = plan.PreparationOf(a.Details().Spec)
					p.do(a)
					p.do(preparing(p.named(a.Key), spec))
				}
				if c.before != nil {
					c.before(w, p)
				}
				_, err = w.AttachDisk("web-1", "web-0")
				w.must(err)
				vm := p.named("web-0")
				now, err := p.ReadFresh(t.Context(), inventory.VMRef(vm.MoRef))
				w.must(err)
				var kept []string
				for _, disk := range now.ForeignDisks() {
					kept = append(kept, disks.File(disk))
				}
				want := []string{w.ownDisk("web-1").File}
				if c.keeps {
					want = append([]string{w.ownDisk("web-0").File}, want...)
				}
				if !slices.Equal(kept, want) {
					t.Errorf("the disks %q would be kept; want %q", kept, want)
				}
				if n := p.destroyed(vm); n != 1 {
					t.Errorf("web-0 was reconfigured %d times before its destruction; want once, to detach what is kept", n)
				}
			})
		})
	}
}

// A VM of the same name in another folder, also a linked clone of the template, has a disk with the same uuid and the same name of its file. A person detached
// the member's disk, and attached that one.
func TestTheDiskOfAVMOfTheSameNameIsKept(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		mode     v1alpha1.CloneMode
		prepared bool
		at       string
	}{
		"linked":                                 {mode: v1alpha1.CloneLinked, prepared: true},
		"linked, on another datastore":           {mode: v1alpha1.CloneLinked, prepared: true, at: elsewhere},
		"full, on another datastore, by its key": {mode: v1alpha1.CloneFull, at: elsewhere},
	} {
		t.Run(what, func(t *testing.T) {
			inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
				snapshot, err := w.AddSnapshot("ubuntu", "base")
				w.must(err)
				spec := v1alpha1.VmGroupSpec{}
				if c.prepared {
					spec = withAttributes("owner", "shop")
				}
				spec.Clone.Mode = c.mode
				a := p.shaped(0, spec)
				a.Details().Prepared = plan.PreparationOf(a.Details().Spec)
				p.do(a)
				if c.prepared {
					p.do(preparing(p.named("web-0"), spec))
				}
				p.withoutDisk(p.named("web-0").MoRef)
				member, err := w.Details("web-0")
				w.must(err)
				other := w.sameName(c.mode, c.at, snapshot)
				_, err = w.AttachDisk(other, member.Path)
				w.must(err)
				w.must(p.reader.Read(t.Context(), inventory.VMRef(member.Ref.Value)))
				now, err := p.ReadFresh(t.Context(), inventory.VMRef(member.Ref.Value))
				w.must(err)
				if n := len(now.ForeignDisks()); n != 1 {
					t.Errorf("%d disks would be kept of %+v, with the record in %s; want that of the other VM", n, w.ownDisk(member.Path), now.Stamp)
				}
			})
		})
	}
}

// sameName makes an unmanaged VM web-0 in another folder, from the template, and returns its path.
func (w *world) sameName(mode v1alpha1.CloneMode, datastore string, snapshot vim.ManagedObjectReference) string {
	w.t.Helper()
	const folder = "/DC0/vm/staging"
	in, err := w.MakeFolder(folder)
	w.must(err)
	pool, err := w.Find("/DC0/host/DC0_C0/Resources")
	w.must(err)
	spec := vim.VirtualMachineCloneSpec{Location: vim.VirtualMachineRelocateSpec{Pool: &pool}}
	if mode == v1alpha1.CloneLinked {
		spec.Snapshot, spec.Location.DiskMoveType = &snapshot, string(vim.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
	}
	if datastore != "" {
		ds, err := w.Find(datastore)
		w.must(err)
		spec.Location.Datastore = &ds
	}
	template, err := w.Find("/DC0/vm/ubuntu")
	w.must(err)
	task, err := object.NewVirtualMachine(w.Admin().Client, template).Clone(w.t.Context(), object.NewFolder(w.Admin().Client, in), "web-0", spec)
	w.must(err)
	w.must(task.Wait(w.t.Context()))
	return folder + "/web-0"
}

// named returns the member of that name from the inventory.
func (p *process) named(name string) plan.VM {
	p.t.Helper()
	all := p.state().VMs
	i := slices.IndexFunc(all, func(vm plan.VM) bool { return vm.Name == name })
	if i < 0 {
		p.t.Fatalf("the inventory has the members %+v; want one of the name %s", all, name)
	}
	return all[i]
}

func TestWithAnOlderServersStampTheDirectoryDecidesAboutDisksAndNothingIsWritten(t *testing.T) {
	inTwoDatastores(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		s, err := stamp.Decode(w.stampOf("web-0"))
		w.must(err)
		if s.Disks == "" {
			t.Error("a clone's stamp does not have its disks")
		}
		s.Disks = ""
		w.must(w.SetExtraConfig("web-0", stamp.Key, s.Encode()))
		w.must(w.MoveDisk("web-0", w.ownDisk("web-0").Key, elsewhere))
		if n := p.destroyed(vm); n != 1 {
			t.Errorf("web-0 was reconfigured %d times before its destruction; want once, to detach the moved disk", n)
		}
	})
}

func TestADiskFromElsewhereThatCameAfterTheSnapshotIsDetached(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		_, err := w.AddSnapshot("web-0", "a backup")
		w.must(err)
		w.attach("unmanaged")
		if n := p.destroyed(vm); n != 1 {
			t.Errorf("web-0 was reconfigured %d times before its destruction; want once, to detach the unmanaged VM's disk", n)
		}
	})
}
