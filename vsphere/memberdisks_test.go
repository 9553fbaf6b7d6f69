package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// given returns a member, the stamp's records of its disks, and the devices of its VM.
func (p *process) given(name string) (all []plan.MemberDisk, devices []vim.BaseVirtualDevice, vm plan.VM) {
	p.t.Helper()
	for _, x := range p.state().VMs {
		if x.Name == name {
			vm = x
		}
	}
	now, err := p.ReadFresh(p.t.Context(), inventory.VMRef(vm.MoRef))
	p.world.must(err)
	s, _ := stamp.Read(now.Stamp, now.InstanceUUID, true)
	return plan.DisksIn(s.Given), now.Devices, vm
}

func withDisks(disks ...v1alpha1.Disk) v1alpha1.VmGroupSpec {
	return v1alpha1.VmGroupSpec{Disks: disks}
}

// sizes are those of a VM's disks in GiB, with their units, in the order of their units.
func sizes(devices []vim.BaseVirtualDevice) string {
	all := disks.In(devices)
	slices.SortFunc(all, func(a, b *vim.VirtualDisk) int { return int(*a.UnitNumber - *b.UnitNumber) })
	var text []string
	for _, d := range all {
		text = append(text, fmt.Sprintf("%d:%d", *d.UnitNumber, d.CapacityInBytes>>30))
	}
	return strings.Join(text, " ")
}

// preparedWith clones and prepares a member with that spec.
func (p *process) preparedWith(spec v1alpha1.VmGroupSpec) {
	p.t.Helper()
	a := p.shaped(0, spec)
	a.Details().Prepared = plan.PreparationOf(a.Details().Spec)
	p.do(a)
	_, _, vm := p.given("web-0")
	p.do(preparing(vm, *a.Details().Spec))
}

func (p *process) settingDisks(spec v1alpha1.VmGroupSpec) plan.Action {
	p.t.Helper()
	_, _, vm := p.given("web-0")
	a := guarded(plan.SetDisks, vm)
	spec.Template = "ubuntu"
	a.Args = &plan.Details{Spec: &spec}
	return a
}

func TestAMemberIsClonedWithItsDisksAndItsGuestFindsThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := placed(t, vcsim.Config{Datastores: 2}, func(c *Config) { c.Datastore = "LocalDS_0" })
		_, err := w.AddStoragePolicy("gold", "/DC0/datastore/LocalDS_1")
		w.must(err)
		spec := withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 5}, v1alpha1.Disk{Name: "log", SizeGiB: 2, Datastore: "LocalDS_1", Provisioning: v1alpha1.ProvisioningEagerZeroed},
			v1alpha1.Disk{Name: "fast", SizeGiB: 3, StoragePolicy: "gold"})
		spec.RootDisk = &v1alpha1.RootDisk{SizeGiB: 40}
		p.preparedWith(spec)
		given, devices, vm := p.given("web-0")
		if got := sizes(devices); got != "0:40 1:5 2:2 3:3" {
			t.Errorf("web-0 has the disks %s by unit and GiB; want 0:40 1:5 2:2 3:3", got)
		}
		if plan.DisksToChange(&spec, vm.Disks) != "" || plan.DisksLost(&spec, vm.Disks) != "" || plan.DisksOtherwise(&spec, vm.Disks) != "" {
			t.Errorf("web-0's stamp has the disks %s; want all disks of the spec, and none to change", vm.Disks)
		}
		for i, datastore := range []string{"LocalDS_0", "LocalDS_1", "LocalDS_1"} {
			disk := disks.In(devices)[slices.IndexFunc(disks.In(devices), func(d *vim.VirtualDisk) bool { return *d.UnitNumber == int32(i+1) })]
			if file := disks.File(disk); !strings.HasPrefix(file, "["+datastore+"] ") || !strings.HasSuffix(file, ".vmdk") || given[i+1].UUID != disks.UUID(disk) {
				t.Errorf("the disk %v is the file %s; want one on %s, and the UUID of the stamp", given[i+1], file, datastore)
			}
		}
		if w.Look("web-0").ExtraConfig["disk.EnableUUID"] != "TRUE" {
			t.Error("disk.EnableUUID is not TRUE, so the guest does not see UUIDs of disks")
		}
		path := "/dev/disk/by-id/wwn-0x" + strings.ToLower(strings.ReplaceAll(given[1].UUID, "-", ""))
		if metadata := vctest.Decoded(t, w.Look("web-0").ExtraConfig, "guestinfo.metadata"); !strings.Contains(metadata, `"disks":{"data":"`+path+`"`) {
			t.Errorf("the guest reads the metadata %s; want the disk data at %s", metadata, path)
		}
	})
}

func TestEachDiskHasItsOwnStoragePolicyOrThatOfTheGroup(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		gold, err := w.AddStoragePolicy("gold")
		w.must(err)
		silver, err := w.AddStoragePolicy("silver")
		w.must(err)
		spec := withDisks(v1alpha1.Disk{Name: "own", SizeGiB: 1, StoragePolicy: "gold"}, v1alpha1.Disk{Name: "groups", SizeGiB: 1})
		spec.Placement.StoragePolicy = "silver"
		p.preparedWith(spec)
		later := withDisks(append(spec.Disks, v1alpha1.Disk{Name: "later", SizeGiB: 1, StoragePolicy: "gold"},
			v1alpha1.Disk{Name: "kept", SizeGiB: 1, StoragePolicy: "gold", Persistent: true}, v1alpha1.Disk{Name: "kept-groups", SizeGiB: 1, Persistent: true})...)
		later.Placement.StoragePolicy = "silver"
		p.do(p.settingDisks(later))
		var got []string
		d, err := w.Details("web-0")
		w.must(err)
		for _, disk := range d.Disks[:4] {
			got = append(got, disk.Policies...)
		}
		for _, disk := range w.FirstClassDisks() {
			got = append(got, disk.Policies...)
		}
		if want := []string{silver, gold, silver, gold, gold, silver}; !slices.Equal(got, want) {
			t.Errorf("the policies of the template's disk, own, groups, later, kept and kept-groups are %q, want %q", got, want)
		}
	})
}

func TestAllDisksThatTheSpecGaveGoWithTheMember(t *testing.T) {
	t.Parallel()
	for _, prepared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, p := placed(t, vcsim.Config{Datastores: 2}, func(c *Config) { c.Datastore = "LocalDS_0" })
			spec := withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 5, Datastore: "LocalDS_1"})
			if prepared {
				p.preparedWith(spec)
			} else {
				p.made(0, spec)
			}
			_, _, vm := p.given("web-0")
			now, err := p.ReadFresh(t.Context(), inventory.VMRef(vm.MoRef))
			if foreign := now.ForeignDisks(); err != nil || len(foreign) > 0 {
				t.Errorf("got the error %v, and %d disks that a destruction would keep; want none", err, len(foreign))
			}
		})
	}
}

func TestDisksAreAddedAndGrowWhileTheMemberRuns(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		p.preparedWith(withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 5}))
		_, _, vm := p.given("web-0")
		p.do(guarded(plan.PowerOn, vm))
		spec := withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 7}, v1alpha1.Disk{Name: "log", SizeGiB: 1})
		spec.RootDisk = &v1alpha1.RootDisk{SizeGiB: 30}
		p.do(p.settingDisks(spec))
		_, devices, vm := p.given("web-0")
		if got := sizes(devices); got != "0:30 1:7 2:1" {
			t.Errorf("web-0 has the disks %s by unit and GiB; want 0:30 1:7 2:1", got)
		}
		if text := plan.DisksToChange(&spec, vm.Disks); !strings.Contains(text, "identified") {
			t.Errorf("the disks to change are %q; want those that are not identified yet", text)
		}
		p.do(p.settingDisks(spec))
		if _, _, vm = p.given("web-0"); plan.DisksToChange(&spec, vm.Disks) != "" || vm.Power != plan.PoweredOn {
			t.Errorf("web-0 is %s, and its stamp has the disks %s; want it on, and none to change", vm.Power, vm.Disks)
		}
		if metadata := vctest.Decoded(t, w.Look("web-0").ExtraConfig, "guestinfo.metadata"); !strings.Contains(metadata, `"log":"/dev/disk/by-id/wwn-0x`) {
			t.Errorf("the guest reads the metadata %s; want the path of the disk log", metadata)
		}
	})
}

func TestDisksDoNotGrowUnderASnapshot(t *testing.T) {
	inPlace(t, vcsim.Config{}, func(t *testing.T, w *world, p *process) {
		p.preparedWith(withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 5}))
		_, err := w.AddSnapshot("web-0", "backup")
		w.must(err)
		p.world.must(p.reader.Read(t.Context(), inventory.VMRef(p.state().VMs[0].MoRef)))
		e := vctest.AsError(p.Do(context.Background(), web, p.settingDisks(withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 7}))))
		if e == nil || e.Reason != vcfault.ReasonDiskHeldBySnapshot || !e.NeedsOperator {
			t.Errorf("got the error %v; want %s, for an operator", e, vcfault.ReasonDiskHeldBySnapshot)
		}
		p.do(p.settingDisks(withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 5}, v1alpha1.Disk{Name: "log", SizeGiB: 1})))
	})
}

func TestATemplateThatDoesNotFitTheDisksIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := placed(t, vcsim.Config{Datastores: 2}, func(c *Config) { c.Datastore = "LocalDS_0" })
		small := v1alpha1.VmGroupSpec{RootDisk: &v1alpha1.RootDisk{SizeGiB: 1}}
		p.refused(0, small, vcfault.ReasonTemplateUnfit, "rootDisk", "10 GiB")
		p.refused(0, withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 1, Datastore: "nowhere"}), vcfault.ReasonDatastoreNotFound, "spec.disks", "nowhere")
		p.refused(0, withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 1, StoragePolicy: "none"}), vcfault.ReasonStoragePolicyNotFound, "spec.disks", "none")
		var many []v1alpha1.Disk
		for i := range 15 {
			many = append(many, v1alpha1.Disk{Name: fmt.Sprintf("d%d", i), SizeGiB: 1})
		}
		p.refused(0, withDisks(many...), vcfault.ReasonTemplateUnfit, "14 free units", "15")
	})
}

func TestADiskThatAPersonRemovedIsReportedAndNotRecreated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p := placed(t, vcsim.Config{})
		p.preparedWith(withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 5}))
		given, devices, vm := p.given("web-0")
		disk := disks.In(devices)[slices.IndexFunc(disks.In(devices), func(d *vim.VirtualDisk) bool { return disks.UUID(d) == given[0].UUID })]
		p.world.must(p.reconfigure(t.Context(), inventory.VMRef(vm.MoRef), vim.VirtualMachineConfigSpec{DeviceChange: []vim.BaseVirtualDeviceConfigSpec{
			&vim.VirtualDeviceConfigSpec{Operation: vim.VirtualDeviceConfigSpecOperationRemove, Device: disk}}}))
		p.world.must(p.reader.Read(t.Context(), inventory.VMRef(vm.MoRef)))
		e := vctest.AsError(p.Do(context.Background(), web, p.settingDisks(withDisks(v1alpha1.Disk{Name: "data", SizeGiB: 7}))))
		if e == nil || e.Reason != vcfault.ReasonDiskMissing || !e.NeedsOperator {
			t.Errorf("got the error %v; want %s, for an operator", e, vcfault.ReasonDiskMissing)
		}
	})
}
