package vsphere

import (
	"context"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// mark writes into a member's stamp that it is chosen to go, or that it is not.
// changeVersion makes vCenter refuse it if anybody changed the VM since it was read: of two replicas, one
// sees the other.
func (v *VCenter) mark(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	stamp := m.stamp
	switch a.Op {
	case plan.Mark:
		if stamp.Marked = true; !m.stamp.Marked || m.stamp.Why == plan.WhyPowerCycle && a.Why != plan.WhyPowerCycle {
			stamp.MarkedAt = stampTime(time.Now())
		}
		if a.Why != "" || !m.stamp.Marked || m.stamp.Why == plan.WhyPowerCycle {
			stamp.Why = a.Why
		}
	case plan.Unmark:
		stamp.unmark()
		if !stamp.Shutdown.Boot.Equal(m.Boot) { // else its guest may still halt: nobody else goes on the strength of it
			stamp.Shutdown = plan.Shutdown{}
		}
	}
	stamp.Generation = max(stamp.Generation, a.Generation)
	done := stamp == m.stamp // as wanted, and published
	if done && a.Op == plan.Unmark {
		return v.awaitPower(ctx, vmRef(m.MoRef), poweringOff)
	}
	if done {
		return nil
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	if a.Op == plan.Unmark {
		if err := v.writeStamp(ctx, m.MoRef, m.ChangeVersion, stamp.Encode()); err != nil {
			return err
		}
		return v.awaitPower(ctx, vmRef(m.MoRef), poweringOff)
	}
	err = v.reconfigure(ctx, vmRef(m.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: StampKey, Value: stamp.Encode()}}})
	// Another replica may have marked another member meanwhile, and the stream may not have told yet. Both look
	// at all members after their own mark is written, so one of them at least sees both marks before it takes its member
	// down: else the two together would take down more than may be. A mark whose answer was lost may be there as well.
	v.reader.touch(v.inventory.memberRefs(ref.UID)...)
	if err != nil {
		return err
	}
	return v.reader.read(ctx, vmRef(m.MoRef))
}

// quarantine writes into a marked member's stamp that it is no member any more. It must be off, and another copy of the
// server, which has not heard of the mark, may be powering it on at this moment.
func (v *VCenter) quarantine(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if !m.stamp.Quarantined.IsZero() {
		return nil // as wanted, and published
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	vm := vmRef(a.MoRef)
	if err := v.awaitPower(ctx, vm, poweringOn); err != nil {
		return err
	}
	now, err := v.lookUnchanged(ctx, ref, a, m)
	switch {
	case err != nil:
		return err
	case now.power != types.VirtualMachinePowerStatePoweredOff:
		return notOff(now.power)
	}
	stamp := m.stamp
	stamp.Quarantined = stampTime(time.Now())
	if err := v.writeStamp(ctx, a.MoRef, m.ChangeVersion, stamp.Encode()); err != nil {
		return err
	}
	if late := v.inventory.member(a.MoRef); late != nil && late.Power == plan.PoweredOn {
		if err := v.restamp(ctx, late, func(s *Stamp) { s.Quarantined = time.Time{} }); err != nil {
			return err
		}
		return notOff(types.VirtualMachinePowerStatePoweredOn)
	}
	return nil
}

func notOff(power types.VirtualMachinePowerState) *Error {
	return faultf(ReasonInvalidPowerState, false, "The VM is %s, so it was not put into quarantine; its state is read anew.", power)
}

// unchanged reports whether a member's configuration is the one that an action was planned from.
func unchanged(m *member, a plan.Action) error {
	if m.ChangeVersion == "" || a.ChangeVersion != "" && a.ChangeVersion != m.ChangeVersion {
		return changedMeanwhile()
	}
	return nil
}

func changedMeanwhile() *Error {
	return faultf(ReasonConcurrentAccess, false, "Somebody else changed the VM in the meantime; it is read and tried again.")
}

// restamp writes into a member's stamp what the step that is under way did to it, or takes that back, if nobody changed
// the VM since it was read, and awaits the read of it. That is so whoever may act by now: no lease is asked for.
func (v *VCenter) restamp(ctx context.Context, m *member, change func(*Stamp)) error {
	stamp := m.stamp
	change(&stamp)
	return v.writeStamp(anyway(ctx), m.MoRef, m.ChangeVersion, stamp.Encode())
}

// writeStamp sets the text of a VM's stamp; "" takes it off.
func (v *VCenter) writeStamp(ctx context.Context, moRef, changeVersion, text string) error {
	return v.writeStampAnd(ctx, moRef, changeVersion, text, nil)
}

// writeStampAnd sets the text of a VM's stamp, and other entries of its extraConfig with it.
func (v *VCenter) writeStampAnd(ctx context.Context, moRef, changeVersion, text string, others []types.BaseOptionValue) error {
	err := v.reconfigure(ctx, vmRef(moRef), types.VirtualMachineConfigSpec{
		ChangeVersion: changeVersion,
		ExtraConfig:   append([]types.BaseOptionValue{&types.OptionValue{Key: StampKey, Value: text}}, others...),
	})
	if err != nil {
		return err
	}
	return v.reader.read(ctx, vmRef(moRef))
}

// release takes the stamp off a VM, and what its notes say of it; it is nobody's from then on. One that is gone is nobody's either.
func (v *VCenter) release(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if v.inventory.goneFor(a.MoRef) {
		return nil
	}
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	spec := types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: StampKey, Value: ""}}}
	if err = v.disown(ctx, ref, a, &spec); err == nil {
		err = v.reconfigure(ctx, vmRef(a.MoRef), spec)
	}
	if fault.Is(err, &types.NoPermission{}) && (spec.Annotation != "" || spec.ManagedBy != nil) {
		spec.Annotation, spec.ManagedBy = "", nil // no deletion waits for a note
		err = v.reconfigure(ctx, vmRef(a.MoRef), spec)
	}
	if err == nil {
		return v.reader.read(ctx, vmRef(a.MoRef))
	}
	if missingObject(err) == vmRef(a.MoRef) {
		return v.reader.read(ctx, vmRef(a.MoRef))
	}
	return err
}

// adopt writes a stamp into a VM that bears none, or that of a former incarnation of the group. All that Sight looked
// at is looked at again in a read that begins now.
func (v *VCenter) adopt(ctx context.Context, ref plan.Ref, a plan.Action) error {
	v.inventory.watchCandidate(ref, a.MoRef)
	if err := v.reader.read(ctx, vmRef(a.MoRef)); err != nil {
		return err
	}
	if m := v.inventory.member(a.MoRef); m != nil && m.stamp.UID == ref.UID {
		return nil // by an earlier try, or by another replica
	}
	m, err := v.inventory.adoptableNow(ref, a.MoRef)
	if err != nil {
		return err
	}
	if m.ChangeVersion == "" || m.ChangeVersion != a.ChangeVersion {
		return changedMeanwhile()
	}
	stamp := Stamp{
		Cluster: v.cfg.ClusterID, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
		Generation: a.Generation, Ordinal: a.Ordinal, Revision: a.Revision, RevisionAlgorithm: plan.RevisionAlgorithm,
		InstanceUUID: m.InstanceUUID, VCenter: v.inventory.from(), Created: stampTime(time.Now()), Fingerprint: a.Fingerprint,
		Former: plan.Former{Entry: a.Entry, Name: m.Name, Folder: m.Folder},
	}
	if a.Details != nil { // as a clone would have: so that adoption alone replaces nothing
		stamp.Home, stamp.Addresses = a.Details.Home, a.Details.AddressText
	}
	return v.writeStamp(ctx, a.MoRef, m.ChangeVersion, stamp.Encode())
}

func (v *VCenter) reconfigure(ctx context.Context, vm types.ManagedObjectReference, spec types.VirtualMachineConfigSpec) error {
	_, err := v.task(ctx, func(ctx context.Context, s *session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.vim, &types.ReconfigVM_Task{This: vm, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return err
}
