package fresh

import (
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// VM is the state that is checked right before a step changes a VM; zero if vCenter tells nothing of it.
type VM struct {
	Stamp, InstanceUUID, ChangeVersion, File string
	Power                                    types.VirtualMachinePowerState
	Devices                                  []types.BaseVirtualDevice
	// Snapshots reports whether it has some.
	Snapshots bool
	// Others is how many of the members that must keep serving are unchanged.
	Others int
}

func (x *VM) take(o session.Object) {
	x.InstanceUUID = session.Prop[string](o, "config.instanceUuid")
	x.ChangeVersion = session.Prop[string](o, "config.changeVersion")
	x.File = session.Prop[string](o, "config.files.vmPathName")
	x.Devices = session.Prop[types.ArrayOfVirtualDevice](o, "config.hardware.device").VirtualDevice
	x.Power = session.Prop[types.VirtualMachinePowerState](o, "runtime.powerState")
	x.Snapshots = len(session.Prop[types.ArrayOfManagedObjectReference](o, "rootSnapshot").ManagedObjectReference) > 0
	x.Stamp, _ = session.Only[types.OptionValue](o).Value.(string)
}

// ForeignDisks returns the disks that neither the VM's clone nor the spec gave it.
func (x *VM) ForeignDisks() []*types.VirtualDisk {
	has, _ := stamp.Read(x.Stamp, x.InstanceUUID, true)
	return disks.Foreign(x.Devices, x.File, disks.Own(has.Disks, plan.DisksIn(has.Given), x.Devices))
}

func othersSpec(others []plan.Other) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "VirtualMachine",
		PathSet: []string{"config.changeVersion", "runtime.powerState", "runtime.bootTime"}}}}
	for _, o := range others {
		spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: types.ManagedObjectReference{Type: "VirtualMachine", Value: o.MoRef}})
	}
	return spec
}

// countUnchanged returns 1 if a VM that was read is one of the others, and unchanged; otherwise 0.
func countUnchanged(others []plan.Other, read session.Object) int {
	version, boot := session.Prop[string](read, "config.changeVersion"), session.Prop[time.Time](read, "runtime.bootTime")
	on := session.Prop[types.VirtualMachinePowerState](read, "runtime.powerState") == types.VirtualMachinePowerStatePoweredOn
	if on && slices.ContainsFunc(others, func(o plan.Other) bool {
		return o.MoRef == read.Ref.Value && o.ChangeVersion == version && plan.SameBoot(o.Boot, boot)
	}) {
		return 1
	}
	return 0
}
