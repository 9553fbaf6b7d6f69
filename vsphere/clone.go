package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// cloneBuilder builds a clone spec.
type cloneBuilder struct {
	ref     plan.Ref
	action  plan.Action
	details *plan.Details // never nil, nor is its Spec
	// plain reports whether the action has no details, so that only the VM itself is wanted.
	plain bool
	// id is the instanceUuid of the new VM.
	id         string
	settings   *inventory.Settings
	datacenter places.Datacenter
	// pod is the datastore cluster that it goes into; nil for none. compatible are the datastores that the storage policy
	// allows, by their moRefs; nil for all.
	pod        *places.Object
	compatible map[string]bool
	// source is the template, or its snapshot.
	source *source
	// backings connect the adapters with spec.networks; kept: adapters of the template are used for that.
	backings []types.BaseVirtualDeviceBackingInfo
	kept     bool
	// given are the records of spec.disks and spec.rootDisk.
	given []plan.MemberDisk
	// spec is what the steps fill.
	spec types.VirtualMachineCloneSpec
}

// clone makes a member, powered off (a power-on within the clone would be a second task that nothing waits for), with its
// stamp in the clone spec, so that a VM of ours never exists without one. The name is the lock: of two
// clones of one ordinal vCenter refuses one, which then finds the other's VM.
//
// The look-ups before only read, and their answers are kept for other clones (session.Cache). If the reply to
// CloneVM_Task is lost, the clone may run nevertheless: the error is returned, and the next try finds the VM, or its name.
func (v *VCenter) clone(ctx context.Context, ref plan.Ref, a plan.Action) error {
	b, err := v.newCloneBuilder(ref, a)
	if err != nil {
		return err
	}
	for _, step := range v.cloneSteps() {
		if err := step.fill(ctx, b); err != nil {
			return v.cloneFailure(ctx, b, err)
		}
	}
	info, err := v.begin(ctx, b)
	for err != nil && (b.unadorn(err) || b.keepAdapters(err) || b.unhost(err)) {
		info, err = v.begin(ctx, b)
	}
	var taken *types.DuplicateName
	if _, is := fault.As(err, &taken); is {
		return v.resolveNameConflict(ctx, ref, a, taken.Object)
	}
	if err != nil {
		return v.cloneFailure(ctx, b, err)
	}
	vm, is := info.Result.(types.ManagedObjectReference)
	if !is {
		return v.resolveNameConflict(ctx, ref, a, types.ManagedObjectReference{})
	}
	return v.reader.Read(ctx, vm)
}

// cloneStep is one step of building a clone.
type cloneStep struct {
	name string
	fill func(context.Context, *cloneBuilder) error
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

// cloneSteps returns the steps of building a clone, in order. The check takes them, too, as far as it can.
func (v *VCenter) cloneSteps() []cloneStep {
	return []cloneStep{
		{name: "template and snapshot", fill: v.fillSource, base: true},
		{name: "size", fill: v.fillSize, base: true},
		{name: "resource pool", fill: v.fillPool, base: true},
		{name: "storage", fill: v.fillStorage},
		{name: "networks", fill: v.fillAdapters},
		{name: "guest", fill: v.fillGuest, only: aClone},
		{name: "owner", fill: v.fillOwner, only: aMember},
		{name: "customization", fill: v.fillCustomization, only: aMember},
		{name: "tags", fill: v.checkTags, only: aMember},
		{name: "datastore", fill: v.fillDatastore, last: true},
		{name: "disks", fill: v.fillNewDisks, last: true},
		{name: "host", fill: v.fillHost, only: aClone},
	}
}

// begin starts the clone, and waits for it to end.
func (v *VCenter) begin(ctx context.Context, b *cloneBuilder) (*types.TaskInfo, error) {
	a := b.action
	return v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		spec, config := b.spec, *b.spec.Config
		config.ExtraConfig = append([]types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: b.stamp(v.cfg.ClusterID, s.UUID).Encode()}}, config.ExtraConfig...)
		spec.Config = &config
		if b.source.hasTPM() && s.Has(session.TPMPolicy) {
			spec.TpmProvisionPolicy = string(types.VirtualMachineCloneSpecTpmProvisionPolicyReplace)
		}
		res, err := methods.CloneVM_Task(ctx, s.Vim, &types.CloneVM_Task{This: inventory.VMRef(a.Template), Folder: inventory.FolderRef(a.Folder), Name: a.VM, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
}

func (v *VCenter) newCloneBuilder(ref plan.Ref, a plan.Action) (*cloneBuilder, error) {
	at, err := v.settings()
	if err != nil {
		return nil, err
	}
	b := &cloneBuilder{ref: ref, action: a, details: a.Details, id: uuid.NewString(), settings: at}
	if b.plain = a.Details == nil || a.Details.Spec == nil; b.plain {
		b.details = &plan.Details{Spec: &v1alpha1.VmGroupSpec{}}
	}
	b.datacenter, err = v.datacenterOf(inventory.FolderRef(a.Folder))
	return b, err
}

// stamp returns the stamp of the new VM.
func (b *cloneBuilder) stamp(cluster, vcenter string) stamp.Stamp {
	return stamp.Stamp{
		Cluster: cluster, Namespace: b.ref.Namespace, Name: b.ref.Name, UID: b.ref.UID,
		Generation: b.action.Generation, Ordinal: b.action.Ordinal, Revision: b.action.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
		InstanceUUID: b.id, VCenter: vcenter, Created: stamp.Time(time.Now()), Fingerprint: b.action.Fingerprint,
		Home: b.details.Home, Addresses: b.details.AddressText, Prepared: b.unprepared(),
		Disks: disks.Keys(b.source.devices), Given: plan.DiskText(b.given), Standby: b.action.Standby,
	}
}

// unprepared returns the stamp's text for a member that must be prepared before it is powered on.
func (b *cloneBuilder) unprepared() string {
	if b.details.Prepared == "" {
		return ""
	}
	return plan.Unprepared + b.details.Prepared
}

// fillSize gives the clone its CPUs and memory, and the instanceUuid that its stamp names.
func (v *VCenter) fillSize(_ context.Context, b *cloneBuilder) error {
	b.spec.Config = &types.VirtualMachineConfigSpec{
		NumCPUs: b.action.CPU, NumCoresPerSocket: b.source.cores(b.action.CPU), MemoryMB: b.action.MemoryMB, InstanceUuid: b.id,
	}
	return nil
}

// cloneFailure forgets the answers that a failure shows to be wrong, and returns the error to report.
func (v *VCenter) cloneFailure(ctx context.Context, b *cloneBuilder, err error) error {
	gone, at := vcfault.MissingObject(err), b.settings
	if gone.Value != "" || vcfault.Has[types.BaseInvalidArgument](err) || vcfault.Has[*types.NotFound](err) {
		v.lookups.forget() // kept answers may be wrong: the next try asks again
	}
	if gone.Value != "" && (gone == at.Pool || at.Datastore != nil && gone == *at.Datastore) {
		_, refitErr := v.refit(ctx) // the settings may name another one now, or none: then their fault is reported
		return errors.Join(refitErr, err)
	}
	return cloneRefusal(b, err)
}

// cloneRefusal tells what faults are about that have no words of their own, and what can be done about a boot order.
func cloneRefusal(b *cloneBuilder, err error) error {
	template, told := b.details.Spec.Template, vcfault.Classify("", err)
	var wrong types.BaseInvalidArgument
	_, argument := fault.As(err, &wrong)
	var e *vcfault.Error
	switch {
	case refusedForBootOrder(err):
		e = vcfault.New(vcfault.ReasonInvalidConfiguration, true, "The template %q boots from a network adapter that spec.networks leaves out: take network adapters out of its boot order, or give spec.networks an entry for each.", template)
	case vcfault.Has[types.BaseInvalidHostState](err):
		e = vcfault.New(vcfault.ReasonHostNotConnected, false, "The host of the template %q, or the one that is to run the VM, is in maintenance mode, in standby or disconnected; it is tried again.", template)
	case told.Reason == vcfault.ReasonInvalidConfiguration && argument:
		e = vcfault.New(vcfault.ReasonInvalidConfiguration, true, "vCenter refuses an argument of the clone (%s): see what in the template %q, or in the spec, does not fit it. %s",
			cmp.Or(wrong.GetInvalidArgument().InvalidProperty, "it does not say which"), template, told.Message)
	case told.Reason == vcfault.ReasonNotSupported && b.spec.Snapshot != nil:
		e = vcfault.New(vcfault.ReasonSnapshotUnusable, true, "vCenter cannot clone the template %q from that snapshot: set clone.mode: Full and leave spec.clone.snapshot out, or take another snapshot. %s", template, told.Message)
	default:
		return err
	}
	e.Err = err
	return e
}

// resolveNameConflict finds out which object has a new member's name: the member itself, from an earlier try or another replica of
// the server, or an unmanaged VM. It reads that object again, and publishes it.
func (v *VCenter) resolveNameConflict(ctx context.Context, ref plan.Ref, a plan.Action, holder types.ManagedObjectReference) error {
	if holder.Value == "" {
		var err error
		if holder, err = v.Child(ctx, inventory.FolderRef(a.Folder), a.VM); err != nil {
			return err
		}
	}
	underWay := vcfault.New(vcfault.ReasonCloneUnderWay, false, "A clone named %s is under way; the server looks again.", a.VM)
	if holder.Value == "" {
		return underWay
	}
	if err := v.reader.Read(ctx, holder); err != nil {
		return err
	}
	m, path, told := v.inventory.Holder(holder.Value)
	switch {
	case m != nil && m.Stamp.UID == ref.UID && !m.Stamp.Quarantined.IsZero():
		return vcfault.New(vcfault.ReasonNameHeld, false, "A removed VM of the group still has the name %s; it is renamed first.", a.VM)
	case m != nil && m.Stamp.UID == ref.UID && m.Stamp.Ordinal == a.Ordinal:
		return nil
	case !told:
		return underWay // it is gone, or too unfinished to have a stamp
	case m != nil && m.Stamp.Namespace == ref.Namespace && m.Stamp.Name == ref.Name && m.Stamp.UID != ref.UID:
		return v.formerConflict(ref, &m.Stamp, path)
	}
	return vcfault.New(vcfault.ReasonNameConflict, true, "The name is taken by %s, which is not this member: rename, move or remove it.", path)
}

// formerConflict says how to adopt a VM that a former group of the same namespace and name left behind, when the group was lost
// and applied again. The message is the same for all of its members.
func (v *VCenter) formerConflict(ref plan.Ref, s *stamp.Stamp, path string) error {
	folder := path[:strings.LastIndexByte(path, '/')]
	held := "The name is taken in " + folder + " by a VM of "
	adopt := fmt.Sprintf("list its path in spec.adopt, and start the server with --adopt-from %s=%s", ref.Namespace, folder)
	const otherwise = "Otherwise rename, move or remove the VM."
	switch {
	case s.Cluster != v.cfg.ClusterID:
		return vcfault.New(vcfault.ReasonNameConflict, true, "%s%s in the cluster %q (UID %s): give each cluster a --folder of its own, or rename, move or remove the VM.",
			held, ref, s.Cluster, s.UID)
	case s.Cluster == "":
		return vcfault.New(vcfault.ReasonNameConflict, true, "%sa former %s, or of one in another cluster (UID %s). To adopt the VM, remove the key %s from its configuration, %s (and with --cluster-id, so that the key can stay the next time). %s",
			held, ref, s.UID, stamp.Key, adopt, otherwise)
	}
	return vcfault.New(vcfault.ReasonNameConflict, true, "%sa former %s (UID %s). To adopt the VM, %s. %s", held, ref, s.UID, adopt, otherwise)
}

// Child finds an object by its name in a folder; the zero reference if there is none.
func (v *VCenter) Child(ctx context.Context, folder types.ManagedObjectReference, name string) (found types.ManagedObjectReference, err error) {
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		res, err := methods.FindChild(ctx, s.Vim, &types.FindChild{This: *s.Vim.ServiceContent.SearchIndex, Entity: folder, Name: name})
		if err == nil && res.Returnval != nil {
			found = *res.Returnval
		}
		return err
	})
	return found, err
}
