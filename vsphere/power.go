package vsphere

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// power powers a member on or off.
func (v *VCenter) power(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if a.Unheeded && !v.unheeded(m) {
		if err := v.shutdownGuest(ctx, ref, a); err == nil || vcfault.Classify("", err).Reason != vcfault.ReasonToolsUnavailable {
			return err
		}
	}
	if a.Standby {
		if m, err = v.promote(ctx, ref, a, m); err != nil || m.Power == plan.PoweredOn {
			return err
		}
	}
	if a.Op == plan.PowerOn && m.Stamp.Marked { // seen since this was planned
		return vcfault.Untried(chosenMeanwhile(a))
	}
	var now *FreshVM
	if a.Marked || a.Op == plan.PowerOn && time.Since(m.ReadAt) > readLately {
		if now, err = v.lookAgain(ctx, ref, a); err != nil {
			return vcfault.Untried(err)
		}
	}
	if a.Op == plan.PowerOn {
		if m, err = v.identifyDisks(ctx, ref, m, a, now); err == nil {
			err = v.hasDisks(ctx, ref, m, a)
		}
		if err != nil {
			return vcfault.Untried(err)
		}
	}
	var vcenter string
	vm, wanted := inventory.VMRef(a.MoRef), types.VirtualMachinePowerStatePoweredOn
	if a.Op == plan.PowerOff {
		wanted = types.VirtualMachinePowerStatePoweredOff
		_, err = v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
			ctx, stop := unfenced(ctx)
			defer stop()
			vcenter = s.UUID
			res, err := methods.PowerOffVM_Task(ctx, s.Vim, &types.PowerOffVM_Task{This: vm})
			if err == nil {
				task = res.Returnval
			}
			return task, err
		})
	} else {
		err = v.powerOn(ctx, m)
		if len(plan.Persistent(m.Stamp.Given)) > 0 {
			err = disks.PowerOnRefused(err)
		}
	}
	switch {
	case err == nil || vcfault.AlreadyIn(err, wanted):
	case a.Op == plan.PowerOn && vcfault.Classify("", err).Reason == vcfault.ReasonResourceLimit && v.crowdedOut(ctx, m):
		return vcfault.New(plan.ReasonHostFull, true, "The host %s has too little CPU or memory left, and DRS does not place the VM; it never ran, and is cloned on another host (unless spec.healing.action is None).", m.Host)
	case a.Op == plan.PowerOff && vcfault.AlreadyIn(err, types.VirtualMachinePowerStateSuspended): // as the reference has it; some versions power it off
		return vcfault.New(vcfault.ReasonInvalidPowerState, true, "The VM is suspended, and vCenter does not power it off like that: resume it, or power it off, in vCenter.")
	default:
		return err
	}
	v.asked.Delete(a.MoRef)
	if a.Op == plan.PowerOn {
		v.capacity.Ran(a.MoRef, m.HostRef)
	}
	if a.Deleted && err == nil && len(plan.Persistent(m.Stamp.Given)) == 0 { // persistent disks go by a reconfigure, which needs its changeVersion
		return v.reader.Told(ctx, inventory.Reading{VCenter: vcenter, Off: []string{a.MoRef}})
	}
	return v.reader.Read(ctx, vm)
}

// readLately is the maximum age of what is known of a member that is to be powered on: a step of ours has just read it. Otherwise the
// server reads it first: another replica may have marked it, and rely on its being off.
const readLately = 100 * time.Millisecond

// shutdownGuest asks a member's guest to shut down, and records the time in its stamp. VirtualMachine.ShutdownGuest returns
// at once; the inventory shows later that the VM is off.
//
// The stamp comes first, guarded by changeVersion: of this and a withdrawal of the mark by another replica only one succeeds,
// and from then on all replicas treat the member as halting. A replica that powers the VM off when the time is over, but has not
// asked the guest itself, first asks again (unheeded): the process that wrote the stamp may have been killed before it asked.
func (v *VCenter) shutdownGuest(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return vcfault.Untried(err)
	}
	vm := inventory.VMRef(a.MoRef)
	switch {
	case m.Power != plan.PoweredOn:
		return v.reader.Read(ctx, vm)
	case !m.Tools:
		return vcfault.Untried(vcfault.New(vcfault.ReasonToolsUnavailable, false, "VMware Tools do not run in %s, so its guest cannot be asked to shut down.", a.VM))
	}
	if a.Marked {
		if _, err := v.lookAgain(ctx, ref, a); err != nil {
			return vcfault.Untried(err)
		}
	}
	next := m.Stamp
	next.Shutdown = plan.Moment{At: stamp.Time(time.Now().Add(time.Second)), Boot: m.Boot} // whole seconds, rounded up: the guest has all of its time
	if err := v.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return vcfault.Untried(err)
	}
	if time.Since(next.Shutdown.At) > askWithin {
		err = vcfault.New(vcfault.ReasonConcurrentAccess, false, "Writing the stamp of %s took too long, so its guest was not asked to shut down; it is planned again.", a.VM)
		v.undoStamp(ctx, ref, a, "was asked to shut down", func(s *stamp.Stamp) { s.Shutdown = m.Stamp.Shutdown })
		return vcfault.Untried(err)
	}
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		ctx, stop := unfenced(ctx)
		defer stop()
		_, err := methods.ShutdownGuest(ctx, s.Vim, &types.ShutdownGuest{This: vm})
		return err
	})
	switch {
	case err == nil:
		v.asked.Store(a.MoRef, next.Shutdown.Boot)
		return nil
	case vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOff):
		return v.reader.Read(ctx, vm)
	}
	if vcfault.Refused(err) {
		v.undoStamp(ctx, ref, a, "was asked to shut down", func(s *stamp.Stamp) { s.Shutdown = m.Stamp.Shutdown })
	}
	return err
}

// askWithin is the maximum age of the stamp when the guest is asked: other replicas treat the member as halting from its time on, for
// the time that the spec gives the guest, and a minute. This process may have stood still in between.
const askWithin = 30 * time.Second

// unheeded reports whether a step may power off a VM whose guest did not shut down in time: this process has asked the guest in this
// boot, or cannot ask it.
func (v *VCenter) unheeded(m *inventory.Member) bool {
	boot, asked := v.asked.Load(m.MoRef)
	return !m.Tools || asked && plan.SameBoot(m.Boot, boot.(time.Time))
}

// undoStamp reverts what a stamp says about a step that was not carried out after all.
func (v *VCenter) undoStamp(ctx context.Context, ref plan.Ref, a plan.Action, what string, change func(*stamp.Stamp)) {
	stamped := v.inventory.Member(a.MoRef)
	if stamped == nil || ctx.Err() != nil {
		return
	}
	if err := v.restamp(ctx, stamped, change); err != nil {
		v.log.Warn().Err(err).Str("group", ref.String()).Str("vm", a.VM).Msg("the stamp still says that the VM " + what)
	}
}

// reset restarts a member that stays unready, without asking its guest, which may not respond.
// It writes the stamp first: of two replicas one succeeds, and none resets the VM again for the same reason.
// Before that it reads the VM: the stamp of one that was powered off meanwhile would record a restart that never happened.
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
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "%s has been chosen to go, so it was not restarted.", a.VM)
	case now.Power != types.VirtualMachinePowerStatePoweredOn:
		return vcfault.New(vcfault.ReasonInvalidPowerState, false, "The VM is %s, so it was not restarted; its state is read again.", now.Power)
	}
	if err := v.restamp(ctx, m, func(s *stamp.Stamp) { s.Restarted = stamp.Time(time.Now()) }); err != nil {
		return err
	}
	vm := inventory.VMRef(a.MoRef)
	_, err = v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		ctx, stop := unfenced(ctx)
		defer stop()
		res, err := methods.ResetVM_Task(ctx, s.Vim, &types.ResetVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err == nil {
		return v.reader.Read(ctx, vm)
	}
	// It was not restarted, so the stamp must not say so: the member would be replaced without a restart.
	v.undoStamp(ctx, ref, a, "was restarted", func(s *stamp.Stamp) { s.Restarted = m.Stamp.Restarted })
	return err
}
