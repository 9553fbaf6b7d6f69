package vsphere

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// FreshVM is the state that is checked right before a VM is destroyed.
type FreshVM struct {
	stamp, instanceUUID, changeVersion, File string
	power                                    types.VirtualMachinePowerState
	Devices                                  []types.BaseVirtualDevice
	snapshots                                bool // it has some
	others                                   int  // how many of the members that must keep serving are unchanged
}

// ReadFresh reads a VM now, and the others in the same call.
func (v *VCenter) ReadFresh(ctx context.Context, vm types.ManagedObjectReference, others ...plan.Other) (*FreshVM, error) {
	specs := []types.PropertyFilterSpec{{
		ObjectSet: []types.ObjectSpec{{Obj: vm}},
		PropSet: []types.PropertySpec{{Type: vm.Type, PathSet: []string{stamp.Path, "config.instanceUuid",
			"config.changeVersion", "config.files.vmPathName", "config.hardware.device", "runtime.powerState", "rootSnapshot"}}},
	}}
	if len(others) > 0 {
		specs = append(specs, othersSpec(others))
	}
	var now FreshVM
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		objects, err := session.ReadObjects(ctx, s, specs...)
		now = FreshVM{}
		for _, o := range objects {
			if o.Ref == vm {
				now.take(o)
			} else {
				now.others += countUnchanged(others, o)
			}
		}
		return err
	})
	return &now, err
}

func (x *FreshVM) take(o session.Object) {
	x.instanceUUID = session.Prop[string](o, "config.instanceUuid")
	x.changeVersion = session.Prop[string](o, "config.changeVersion")
	x.File = session.Prop[string](o, "config.files.vmPathName")
	x.Devices = session.Prop[types.ArrayOfVirtualDevice](o, "config.hardware.device").VirtualDevice
	x.power = session.Prop[types.VirtualMachinePowerState](o, "runtime.powerState")
	x.snapshots = len(session.Prop[types.ArrayOfManagedObjectReference](o, "rootSnapshot").ManagedObjectReference) > 0
	x.stamp, _ = session.Only[types.OptionValue](o).Value.(string)
}

// ForeignDisks returns the disks that the VM's clone did not make.
func (x *FreshVM) ForeignDisks() []*types.VirtualDisk {
	has, _ := stamp.Read(x.stamp, x.instanceUUID, true)
	return disks.Foreign(x.Devices, x.File, has.Disks)
}

func othersSpec(others []plan.Other) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "VirtualMachine",
		PathSet: []string{"config.changeVersion", "runtime.powerState", "runtime.bootTime"}}}}
	for _, o := range others {
		spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: inventory.VMRef(o.MoRef)})
	}
	return spec
}

// countUnchanged returns 1 if a VM that was read is one of the others, and unchanged; otherwise 0.
func countUnchanged(others []plan.Other, read session.Object) int {
	version, boot := session.Prop[string](read, "config.changeVersion"), session.Prop[time.Time](read, "runtime.bootTime")
	on := session.Prop[types.VirtualMachinePowerState](read, "runtime.powerState") == types.VirtualMachinePowerStatePoweredOn
	if on && slices.ContainsFunc(others, func(o plan.Other) bool {
		return o.MoRef == read.Ref.Value && o.ChangeVersion == version && o.Boot.Equal(boot)
	}) {
		return 1
	}
	return 0
}

// lookUnchanged reads a member, whose configuration must not have changed since the plan.
func (v *VCenter) lookUnchanged(ctx context.Context, ref plan.Ref, a plan.Action, m *inventory.Member) (*FreshVM, error) {
	now, err := v.ReadFresh(ctx, inventory.VMRef(a.MoRef))
	if err == nil {
		err = now.check(ref, a)
	}
	if err == nil && now.changeVersion != m.ChangeVersion {
		err = changedMeanwhile()
	}
	return now, err
}

// check checks that the VM may be destroyed: it is the group's, has that ordinal, is no copy, and, unless the whole group
// goes, is still marked for it: another replica may have withdrawn the mark.
func (x *FreshVM) check(ref plan.Ref, a plan.Action) error {
	has, owner := stamp.Read(x.stamp, x.instanceUUID, x.instanceUUID != "" && x.File != "")
	switch {
	case owner == stamp.Unreadable:
		return vcfault.New(plan.ReasonUnreachable, false, "The configuration of %s cannot be read, so nothing was done to it.", a.VM)
	case owner != stamp.Ours || has.UID != ref.UID || has.Ordinal != a.Ordinal:
		return notOurs(a)
	case a.Marked && !(has.Marked && (fits(has.Why, a.Op) || !has.Quarantined.IsZero())):
		return wantedAfterAll(a)
	case a.Op == plan.PowerOn && has.Marked:
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "%s has been chosen to go meanwhile, so it was not powered on.", a.VM)
	}
	return nil
}

// fits reports whether a mark of that kind permits a step: a member that is only power-cycled must not be removed.
func fits(why plan.Why, op plan.Op) bool {
	return why != plan.WhyPowerCycle || op == plan.PowerOff || op == plan.ShutdownGuest
}

func wantedAfterAll(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The mark of %s was withdrawn, so it stays.", a.VM)
}

// lookAgain reads a member again that goes because it is marked, or is powered on because it is not: another replica may
// have just withdrawn or set the mark. In the same call it reads the members that must keep serving while this one is
// down: the stream may not have shown yet that they are marked, or down.
func (v *VCenter) lookAgain(ctx context.Context, ref plan.Ref, a plan.Action) error {
	now, err := v.ReadFresh(ctx, inventory.VMRef(a.MoRef), a.Others...)
	if err == nil {
		err = now.check(ref, a)
	}
	if gone := vcfault.MissingObject(err); err == nil && now.others < a.Least || gone.Value != "" && gone.Value != a.MoRef {
		return v.tooFew(a)
	}
	return err
}

// lookAtOthers reads those alone, where there were other calls between lookAgain and the one that takes the member down.
func (v *VCenter) lookAtOthers(ctx context.Context, a plan.Action) error {
	if len(a.Others) == 0 {
		return nil
	}
	others := 0
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		objects, err := session.ReadObjects(ctx, s, othersSpec(a.Others))
		others = 0
		for _, o := range objects {
			others += countUnchanged(a.Others, o)
		}
		return err
	})
	if err == nil && others < a.Least || vcfault.MissingObject(err).Value != "" {
		return v.tooFew(a)
	}
	return err
}

// tooFew refuses to take a member down because too few of the members that must keep serving are unchanged.
func (v *VCenter) tooFew(a plan.Action) *vcfault.Error {
	for _, o := range a.Others {
		v.reader.Touch(inventory.VMRef(o.MoRef))
	}
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Fewer of the other members serve than the plan assumed, so %s was not taken down; they are read again.", a.VM)
}
