// This file is what the steps of a clone (clone.go) work on.

package vsphere

import (
	"context"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
)

// cloneBuilder builds a clone spec, and clones the member. Its calls are those of the step, or of a preview.
type cloneBuilder struct {
	calls
	ref    plan.Ref
	action plan.Action
	// clone are the action's arguments; only the folder if the action is another one that needs some of a clone's steps.
	clone   plan.CloneArgs
	details *plan.Details // never nil, nor is its Spec
	// plain: the action has no details, so only the VM itself is wanted.
	plain bool
	// id is the instanceUuid of the new VM.
	id         string
	settings   *inventory.Settings
	datacenter places.Datacenter
	// pod is the datastore cluster that it goes into; nil for none. compatible are the datastores that the storage policy
	// allows, by their moRefs; nil for all.
	pod        *places.Object
	compatible map[string]bool
	// encrypt are the policies by which the clone is encrypted before its first power-on (plan.Preparation).
	encrypt map[string]string
	// source is the template, or its snapshot.
	source *source
	// upgrades are those of the member's cluster; nil if it needs none.
	upgrades *upgrades
	// backings connect the adapters with spec.networks; kept: the clone keeps adapters of the template for them.
	backings []types.BaseVirtualDeviceBackingInfo
	kept     bool
	// given are the records of spec.disks and spec.rootDisk.
	given []plan.MemberDisk
	// spec is the clone spec, which the steps fill.
	spec types.VirtualMachineCloneSpec
}

func (c calls) newCloneBuilder(ref plan.Ref, a plan.Action, folder string) (*cloneBuilder, error) {
	at, err := c.settings()
	if err != nil {
		return nil, err
	}
	b := &cloneBuilder{calls: c, ref: ref, action: a, clone: plan.ArgsOf[plan.CloneArgs](a.Args), details: a.Details(), id: uuid.NewString(), settings: at}
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
	// only says which VMs need it.
	only scopeOfStep
	// base: later steps need its result. last: it needs the results of all others.
	base, last bool
}

// scopeOfStep says which VMs need a step.
type scopeOfStep int

const (
	// anyVM: any VM of that source.
	anyVM scopeOfStep = iota
	// aMember: a member of a group; the group alone determines it.
	aMember
	// aClone: it needs data that only a clone has.
	aClone
)
