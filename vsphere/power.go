package vsphere

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// power powers a member on or off. PowerOnVM_Task will do for clusters too: DRS then places the VM by itself if it
// is fully automated, and else where it is; PowerOnMultiVM_Task would add the choice between recommendations,
// which nobody is here to make.
func (v *VCenter) power(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if a.Marked || a.Op == plan.PowerOn && time.Since(m.ReadAt) > fresh {
		if err := v.lookAgain(ctx, ref, a); err != nil {
			return vcfault.Untried(err)
		}
	}
	vm := inventory.VMRef(a.MoRef)
	wanted := types.VirtualMachinePowerStatePoweredOn
	start := func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOnVM_Task(ctx, s.Vim, &types.PowerOnVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	}
	if a.Op == plan.PowerOff {
		wanted = types.VirtualMachinePowerStatePoweredOff
		start = func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
			res, err := methods.PowerOffVM_Task(ctx, s.Vim, &types.PowerOffVM_Task{This: vm})
			if err == nil {
				task = res.Returnval
			}
			return task, err
		}
	}
	if _, err := v.task(ctx, start); err != nil && !vcfault.AlreadyIn(err, wanted) {
		return err
	}
	return v.reader.Read(ctx, vm)
}

// fresh is how old may be what is known of a member that is powered on: what a step of ours has just read. Else it is
// looked at before: another replica may have marked it, and take it for off from then on.
const fresh = 100 * time.Millisecond

// The tasks that are waited for, by their TaskDescription.methodInfo keys.
const (
	poweringOff = "VirtualMachine.powerOff"
	poweringOn  = "VirtualMachine.powerOn"
)

// shutdownGuest asks a member's guest to halt, and writes into its stamp when. VirtualMachine.ShutdownGuest returns
// at once; that the VM is off is seen later.
//
// It asks first and stamps afterwards: a crash in between asks once more, which harms nothing. The other way round, a
// guest that was never asked could have its plug pulled when the time is over.
func (v *VCenter) shutdownGuest(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if a.Marked {
		if err := v.lookAgain(ctx, ref, a); err != nil {
			return vcfault.Untried(err)
		}
	}
	vm := inventory.VMRef(a.MoRef)
	err = v.call(ctx, func(ctx context.Context, s *session.Session) error {
		_, err := methods.ShutdownGuest(ctx, s.Vim, &types.ShutdownGuest{This: vm})
		return err
	})
	if vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOff) {
		return v.reader.Read(ctx, vm)
	}
	if err != nil {
		return err
	}
	asked := plan.Moment{At: stamp.Time(time.Now().Add(time.Second)), Boot: m.Boot} // whole seconds, rounded up: the guest has all of its time
	for tries := 1; ; tries++ {                                                     // another replica may have written to the stamp since; that the guest halts must not be lost
		err = v.restamp(ctx, m, func(s *stamp.Stamp) { s.Shutdown = asked })
		if tries == 3 || !vcfault.Has[*types.ConcurrentAccess](err) {
			return err
		}
		if err := v.reader.Read(ctx, vm); err != nil {
			return err
		}
		if m, err = v.own(ref, a); err != nil {
			return err
		}
	}
}

// reset restarts a member that stays unready, as the reset button would: its guest is not well enough to be asked.
// The stamp says so first: of two replicas one has its way, and none resets it again for the same reason.
// So the VM is looked at before: what was powered off meanwhile would bear the word of a restart that never was.
func (v *VCenter) reset(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	now, err := v.lookUnchanged(ctx, ref, a, m)
	switch {
	case err != nil:
		return err
	case m.Stamp.Marked:
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "%s is chosen to go, so it was not restarted.", a.VM)
	case now.power != types.VirtualMachinePowerStatePoweredOn:
		return vcfault.New(vcfault.ReasonInvalidPowerState, false, "The VM is %s, so it was not restarted; its state is read anew.", now.power)
	}
	if err := v.restamp(ctx, m, func(s *stamp.Stamp) { s.Restarted = stamp.Time(time.Now()) }); err != nil {
		return err
	}
	vm := inventory.VMRef(a.MoRef)
	_, err = v.task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ResetVM_Task(ctx, s.Vim, &types.ResetVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err == nil {
		return v.reader.Read(ctx, vm)
	}
	// It was not restarted, so the stamp shall not say so: else the member would be replaced without having been.
	if stamped := v.inventory.Member(a.MoRef); stamped != nil && ctx.Err() == nil {
		if undo := v.restamp(ctx, stamped, func(s *stamp.Stamp) { s.Restarted = m.Stamp.Restarted }); undo != nil {
			v.log.Warn().Err(undo).Str("group", ref.String()).Str("vm", a.VM).Msg("the stamp still says that the VM was restarted")
		}
	}
	return err
}
