// This file is what a fresh read returns (freshreads.go).

package vsphere

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// FreshVM is the state of a VM that is checked right before a step changes it. A field is zero if vCenter does not show the property.
type FreshVM struct {
	Stamp, InstanceUUID, ChangeVersion, File string
	Power                                    types.VirtualMachinePowerState
	Devices                                  []types.BaseVirtualDevice
	// Hardware is its virtual hardware version, "vmx-19".
	Hardware string
	// Tracks reports whether changed block tracking is on, Snapshots whether the VM has snapshots.
	Tracks, Snapshots bool
}

func (x *FreshVM) take(o session.Object) {
	x.InstanceUUID = session.Prop[string](o, "config.instanceUuid")
	x.ChangeVersion = session.Prop[string](o, "config.changeVersion")
	x.File = session.Prop[string](o, "config.files.vmPathName")
	x.Hardware = session.Prop[string](o, "config.version")
	x.Tracks = session.Prop[bool](o, "config.changeTrackingEnabled")
	x.Devices = session.Devices(o)
	x.Power = session.Prop[types.VirtualMachinePowerState](o, "runtime.powerState")
	x.Snapshots = len(session.Prop[types.ArrayOfManagedObjectReference](o, "rootSnapshot").ManagedObjectReference) > 0
	x.Stamp, _ = session.Only[types.OptionValue](o).Value.(string)
}

// ForeignDisks returns the disks that neither the clone of the VM nor the spec added.
func (x *FreshVM) ForeignDisks() []*types.VirtualDisk {
	has, _ := stamp.Read(x.Stamp, x.InstanceUUID, true)
	return disks.Foreign(x.Devices, x.File, disks.Own(has.Disks, plan.DisksIn(has.Given), x.Devices))
}

// freshReads batches the reads of steps. The shared read needs no lease; each step checks its own lease before and after it.
type freshReads = batchedRead[types.ManagedObjectReference, freshAnswer]

// freshAnswer is the answer of one read: VMs and folders, and running clones if recentTasks was asked for.
type freshAnswer struct {
	objects []session.Object
	clones  []string // the queued and running clone tasks of the server's account
}

// recentTasks asks for vCenter's recent tasks, where other questions are moRefs.
var recentTasks = types.ManagedObjectReference{Type: "TaskManager"}

// freshFolder is a folder: its name, the moRef of its parent, and its children.
type freshFolder struct {
	Name, Parent string
	Children     []types.ManagedObjectReference
	// Seen is false if the server's account cannot see all of these.
	Seen bool
}

// freshSpec selects the properties that ReadFresh and freshFolder return, of refs.
func freshSpec(refs []types.ManagedObjectReference) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{
		PropSet: []types.PropertySpec{
			{Type: "Folder", PathSet: []string{"name", "parent", "childEntity"}},
			{Type: "VirtualMachine", PathSet: []string{stamp.Path, "config.instanceUuid", "config.changeVersion", "config.files.vmPathName",
				"config.version", "config.changeTrackingEnabled", "config.hardware.device", "runtime.powerState", "rootSnapshot"}},
		},
		ReportMissingObjectsInResults: types.NewBool(len(refs) > 1),
	}
	for i, ref := range refs {
		if ref != recentTasks && !slices.Contains(refs[:i], ref) {
			spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
		}
	}
	return spec
}
