// This file has the state that the steps of a clone (clone.go) share.

package vsphere

import (
	"context"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/source"
)

// cloneBuilder builds a clone spec, and clones the member. It makes calls for a step, or for a preview.
type cloneBuilder struct {
	calls
	ref    plan.Ref
	action plan.Action
	// clone are the action's arguments. If the action is no Clone but needs some of a clone's steps, clone has only the folder.
	clone   plan.CloneArgs
	details *plan.Details // neither details nor its Spec is nil
	// plain reports that the action has no details, so that the clone gets no guest data and no owner.
	plain bool
	// id is the instanceUuid of the new VM.
	id         string
	settings   *inventory.Settings
	datacenter places.Datacenter
	// pod is the target datastore cluster; nil for none. compatible has the datastores that the storage policy allows, by moRef; nil allows
	// all.
	pod        *places.Object
	compatible map[string]bool
	// encrypt has the policies that encrypt the VM before its first power-on (plan.Preparation).
	encrypt map[string]string
	// source is the template, or its snapshot.
	source *source.Source
	// upgrades are the hardware versions of the member's cluster; nil if the member needs no upgrade.
	upgrades *hardware.Upgrades
	// backings connect the adapters to spec.networks. kept reports that the clone keeps adapters of the template for them.
	backings []types.BaseVirtualDeviceBackingInfo
	kept     bool
	// given has the stamp's records of spec.disks and spec.rootDisk.
	given []plan.MemberDisk
	// meant is what the names of the spec meant so far, and what the steps found.
	meant *naming.Meant
	// spec is the clone spec, which the steps fill.
	spec types.VirtualMachineCloneSpec
}

func (c calls) newCloneBuilder(ref plan.Ref, a plan.Action, folder string) (*cloneBuilder, error) {
	at, err := c.settings()
	if err != nil {
		return nil, err
	}
	b := &cloneBuilder{calls: c, ref: ref, action: a, clone: plan.ArgsOf[plan.CloneArgs](a.Args), details: a.Details(), id: uuid.NewString(), settings: at, meant: naming.NewMeant(c.inventory.Meanings.Of(ref.UID))}
	b.clone.Folder = folder
	if b.plain = a.Details() == nil || a.Details().Spec == nil; b.plain {
		b.details = &plan.Details{Spec: &v1alpha1.VmGroupSpec{}}
	}
	b.datacenter, err = c.datacenterOf(inventory.FolderRef(folder))
	return b, err
}

// cloneStep is one step of building a clone.
type cloneStep struct {
	name string
	fill func(context.Context) error
	// only says which VMs need the step.
	only scopeOfStep
	// base: later steps need the result of this one. last: this step needs the results of all others.
	base, last bool
}

// scopeOfStep says which VMs need a step.
type scopeOfStep int

const (
	// anyVM: the step applies to any VM that is cloned from the source.
	anyVM scopeOfStep = iota
	// aMember: the step applies to members of a group, and depends on the group alone.
	aMember
	// aClone: the step needs data that only a real clone has.
	aClone
)
