package vsphere

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// ReasonCloneUnderWay says that a clone runs whose VM cannot be seen yet.
const ReasonCloneUnderWay = "CloneUnderWay"

// order is a clone as it is put together.
type order struct {
	ref     plan.Ref
	action  plan.Action
	details *plan.Details // never nil, nor is its Spec
	// plain tells that the action has no details: nothing but the VM itself is wanted.
	plain bool
	// id is the instanceUuid of the VM to be.
	id    string
	site  *site
	realm realm
	// pod is the datastore cluster that it goes into; nil for none. compatible are the datastores that the storage policy
	// allows, by their moRefs; nil for all.
	pod        *thing
	compatible map[string]bool
	// from is what is cloned.
	from *original
	// spec is what the steps fill.
	spec types.VirtualMachineCloneSpec
}

// clone makes a member, powered off (a power-on within the clone would be a second task that nobody awaits), its
// stamp in the clone's own spec: at no moment is there a VM of ours without one. The name is the lock: of two
// clones of one ordinal vCenter refuses one, and that one finds the other's VM.
//
// All that is looked up before is read only, and remembered for other clones (finding.go). When the reply to
// CloneVM_Task is lost, the clone may run all the same. The error is returned, and the next try meets its VM, or its name.
func (v *VCenter) clone(ctx context.Context, ref plan.Ref, a plan.Action) error {
	o, err := v.newOrder(ref, a)
	if err != nil {
		return err
	}
	for _, fill := range []func(context.Context, *order) error{
		v.fillSource, v.fillSize, v.fillPool, v.fillStorage, v.fillAdapters, v.fillGuest, v.fillOwner, v.fillCustomization, v.checkTags, v.fillDatastore,
	} {
		if err := fill(ctx, o); err != nil {
			return v.cloneFailure(ctx, o, err)
		}
	}
	info, err := v.begin(ctx, o)
	for err != nil && o.unadorn(err) {
		info, err = v.begin(ctx, o)
	}
	var taken *types.DuplicateName
	if _, is := fault.As(err, &taken); is {
		return v.settleName(ctx, ref, a, taken.Object)
	}
	if err != nil {
		return v.cloneFailure(ctx, o, err)
	}
	vm, is := info.Result.(types.ManagedObjectReference)
	if !is {
		return v.settleName(ctx, ref, a, types.ManagedObjectReference{})
	}
	return v.reader.read(ctx, vm)
}

// begin clones, and awaits it.
func (v *VCenter) begin(ctx context.Context, o *order) (*types.TaskInfo, error) {
	a := o.action
	return v.task(ctx, func(ctx context.Context, s *session) (task types.ManagedObjectReference, err error) {
		spec, config := o.spec, *o.spec.Config
		config.ExtraConfig = append([]types.BaseOptionValue{&types.OptionValue{Key: StampKey, Value: o.stamp(v.cfg.ClusterID, s.uuid).Encode()}}, config.ExtraConfig...)
		spec.Config = &config
		res, err := methods.CloneVM_Task(ctx, s.vim, &types.CloneVM_Task{This: vmRef(a.Template), Folder: folderRef(a.Folder), Name: a.VM, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
}

func (v *VCenter) newOrder(ref plan.Ref, a plan.Action) (*order, error) {
	at, err := v.settings()
	if err != nil {
		return nil, err
	}
	o := &order{ref: ref, action: a, details: a.Details, id: uuid.NewString(), site: at}
	if o.plain = a.Details == nil || a.Details.Spec == nil; o.plain {
		o.details = &plan.Details{Spec: &v1alpha1.VmGroupSpec{}}
	}
	o.realm, err = v.realmOf(folderRef(a.Folder))
	return o, err
}

// stamp is that of the VM to be.
func (o *order) stamp(cluster, vcenter string) Stamp {
	return Stamp{
		Cluster: cluster, Namespace: o.ref.Namespace, Name: o.ref.Name, UID: o.ref.UID,
		Generation: o.action.Generation, Ordinal: o.action.Ordinal, Revision: o.action.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
		InstanceUUID: o.id, VCenter: vcenter, Created: stampTime(time.Now()), Fingerprint: o.action.Fingerprint,
		Home: o.details.Home, Addresses: o.details.AddressText, Prepared: o.unprepared(),
	}
}

// unprepared is what the stamp says of a member that may not be powered on before it is prepared.
func (o *order) unprepared() string {
	if o.details.Prepared == "" {
		return ""
	}
	return plan.Unprepared + o.details.Prepared
}

// fillSize gives the clone its CPUs and memory, and the instanceUuid that its stamp names.
func (v *VCenter) fillSize(_ context.Context, o *order) error {
	o.spec.Config = &types.VirtualMachineConfigSpec{
		NumCPUs: o.action.CPU, NumCoresPerSocket: o.from.cores(o.action.CPU), MemoryMB: o.action.MemoryMB, InstanceUuid: o.id,
	}
	return nil
}

// cloneFailure looks what a failure says of what was looked up before, and gives the error to tell.
func (v *VCenter) cloneFailure(ctx context.Context, o *order, err error) error {
	gone, at := missingObject(err), o.site
	if gone.Value != "" || hasFault[types.BaseInvalidArgument](err) || hasFault[*types.NotFound](err) {
		v.lookups.forget() // what was remembered may be wrong: the next try looks anew
	}
	if gone.Value != "" && (gone == at.pool || at.datastore != nil && gone == *at.datastore) {
		_, refitErr := v.refit(ctx) // the settings name another one now, or none: then their fault is the one to tell
		return errors.Join(refitErr, err)
	}
	return cloneRefusal(o, err)
}

// cloneRefusal tells what a NotSupported is about: it has no words of its own.
func cloneRefusal(o *order, err error) error {
	if o.spec.Snapshot == nil || !hasFault[types.BaseNotSupported](err) || classify("", err).Reason != ReasonInternal {
		return err
	}
	e := faultf(ReasonSnapshotUnusable, true, "vCenter cannot clone the template %q from that snapshot: set clone.mode: Full and leave spec.clone.snapshot out, or take another snapshot. %s",
		o.details.Spec.Template, classify("", err).Message)
	e.Err = err
	return e
}

// settleName looks at who has a new member's name: the member itself, by an earlier try or another copy of the
// server, or a stranger. It is read afresh, and published.
func (v *VCenter) settleName(ctx context.Context, ref plan.Ref, a plan.Action, holder types.ManagedObjectReference) error {
	if holder.Value == "" {
		var err error
		if holder, err = v.child(ctx, folderRef(a.Folder), a.VM); err != nil {
			return err
		}
	}
	underWay := faultf(ReasonCloneUnderWay, false, "A clone named %s is under way; it is looked at again.", a.VM)
	if holder.Value == "" {
		return underWay
	}
	if err := v.reader.read(ctx, holder); err != nil {
		return err
	}
	m, path, told := v.inventory.holder(holder.Value)
	switch {
	case m != nil && m.stamp.UID == ref.UID && !m.stamp.Quarantined.IsZero():
		return faultf(ReasonNameHeld, false, "A VM of the group that was taken away still has the name %s; it gets another one first.", a.VM)
	case m != nil && m.stamp.UID == ref.UID && m.stamp.Ordinal == a.Ordinal:
		return nil
	case !told:
		return underWay // it went, or is not finished enough to say whose it is
	}
	return faultf(ReasonNameConflict, true, "The name %s is taken by %s, which is not this member of the group: rename, move or remove it.", a.VM, path)
}

// child finds an object by its name in a folder; the zero reference if there is none.
func (v *VCenter) child(ctx context.Context, folder types.ManagedObjectReference, name string) (found types.ManagedObjectReference, err error) {
	err = v.call(ctx, func(ctx context.Context, s *session) error {
		res, err := methods.FindChild(ctx, s.vim, &types.FindChild{This: *s.vim.ServiceContent.SearchIndex, Entity: folder, Name: name})
		if err == nil && res.Returnval != nil {
			found = *res.Returnval
		}
		return err
	})
	return found, err
}

// settings are what the configuration names in vCenter, or why that cannot be used.
func (v *VCenter) settings() (*site, error) {
	at, unfit := v.inventory.where()
	switch {
	case unfit != nil:
		return nil, &Error{Fault: *unfit}
	case at == nil:
		return nil, faultf(plan.ReasonInventoryNotRead, false, "vCenter's inventory is being read.")
	}
	return at, nil
}
