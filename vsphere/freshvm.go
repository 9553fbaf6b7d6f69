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

// FreshVM is the state of a VM that is checked right before a step changes it: the little that a step needs at that moment, in the types of vCenter that it sends
// back. (inventory.Machine is what the planner needs of all VMs, and source.Source what a clone is built from.) A field is zero if vCenter does not show the property.
type FreshVM struct {
	Stamp, InstanceUUID, ChangeVersion, File string
	Power                                    types.VirtualMachinePowerState
	Devices                                  []types.BaseVirtualDevice
	// Hardware is its virtual hardware version, "vmx-19".
	Hardware string
	// Tracks reports whether changed block tracking is on, Snapshots whether the VM has snapshots.
	Tracks, Snapshots bool
}

// properties are what a fresh read asks for.
func (x *FreshVM) properties() session.Properties {
	return session.Properties{
		session.Option(stamp.Key, &x.Stamp),
		session.To("config.instanceUuid", &x.InstanceUUID),
		session.To("config.changeVersion", &x.ChangeVersion),
		session.To("config.files.vmPathName", &x.File),
		session.To("config.version", &x.Hardware),
		session.To("config.changeTrackingEnabled", &x.Tracks),
		session.Devices(&x.Devices),
		session.To("runtime.powerState", &x.Power),
		session.Taking("rootSnapshot", func(v types.ArrayOfManagedObjectReference) { x.Snapshots = len(v.ManagedObjectReference) > 0 }),
	}
}

// ForeignDisks returns the disks that neither the clone of the VM nor the spec added.
func (x *FreshVM) ForeignDisks() []*types.VirtualDisk {
	has, _ := stamp.Read(x.Stamp, x.InstanceUUID, true)
	return disks.Foreign(x.Devices, x.File, disks.Own(has.Disks, plan.DisksIn(has.Given), x.Devices))
}

// freshReads batches the reads of steps. The shared read needs no lease; each step checks its own lease before and after it.
type freshReads = session.BatchedRead[types.ManagedObjectReference, freshAnswer]

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

func (x *freshFolder) properties() session.Properties {
	return session.Properties{
		session.To("name", &x.Name),
		session.Taking("parent", func(v types.ManagedObjectReference) { x.Parent = v.Value }),
		session.Refs("childEntity", &x.Children), // an empty list may be left out
	}
}

// freshSpec selects the properties that ReadFresh and freshFolder return, of refs.
func freshSpec(refs []types.ManagedObjectReference) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{
		PropSet: []types.PropertySpec{
			{Type: "Folder", PathSet: new(freshFolder).properties().Paths()},
			{Type: session.VMType, PathSet: new(FreshVM).properties().Paths()},
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
