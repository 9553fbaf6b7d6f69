// This file powers VMs on and off, restarts them, and shuts their guests down.

package vsphere

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// power is a step that changes the power state of a member.
type power struct{ *step }

// powerOn powers a member on. If DRS places the member, powerOn calls Datacenter.PowerOnMultiVM_Task: PowerOnVM_Task asks DRS only "if the virtual
// machine can be automatically placed", moves no other VM and wakes no host, and is deprecated ([doc] PowerOnVM_Task). Without DRS or a
// datacenter, or if the account may not call that method, powerOn calls PowerOnVM_Task.
func (p power) powerOn(ctx context.Context, m *inventory.Member) error {
	level := p.inventory.Automation(m)
	dc, found := p.inventory.DatacenterAbove(m.Parent)
	if !found {
		level = ""
	}
	_, err := p.PowerOn(ctx, dc.Ref, inventory.VMRef(m.MoRef), level)
	if level != "" || !mayBeHostsState(err) {
		return err
	}
	if moved, fault := p.leaveHost(ctx, m); !moved {
		return cmp.Or(fault, err)
	}
	_, err = p.PowerOn(ctx, dc.Ref, inventory.VMRef(m.MoRef), level)
	return err
}

// PowerOn powers on any VM of a datacenter as powerOn does a member. level is the VM's automation level of DRS, "" for none. refused is the reason
// why DRS attempted nothing and the VM was powered on without DRS.
func (c calls) PowerOn(ctx context.Context, dc, vm types.ManagedObjectReference, level types.DrsBehavior) (refused, err error) {
	if level != "" {
		done, err := c.powerOnByDRS(ctx, dc, vm, level)
		if done {
			return nil, err
		}
		refused = err
	}
	_, err = c.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOnVM_Task(ctx, s.Vim, &types.PowerOnVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return refused, err
}

// powerOnByDRS makes a separate call for each VM: in a call for several, one VM that DRS does not place by itself turns all of them into
// recommendations. For such a VM, the call overrides the automation level (as vic PR 7652 and machine-api-operator PR 1047 do), because no
// operator waits to apply a recommendation. done is false if vCenter attempted nothing, for a reason that may not apply to PowerOnVM_Task.
func (c calls) powerOnByDRS(ctx context.Context, dc, vm types.ManagedObjectReference, level types.DrsBehavior) (done bool, err error) {
	var options []types.BaseOptionValue
	if level == types.DrsBehaviorManual {
		options = []types.BaseOptionValue{&types.OptionValue{Key: string(types.ClusterPowerOnVmOptionOverrideAutomationLevel),
			Value: string(types.DrsBehaviorFullyAutomated)}}
	}
	began := time.Now()
	info, err := c.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOnMultiVM_Task(ctx, s.Vim, &types.PowerOnMultiVM_Task{This: dc, Vm: []types.ManagedObjectReference{vm}, Option: options})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil {
		return !vcfault.Has[types.BaseNoPermission](err) && !vcfault.Has[types.BaseInvalidArgument](err), err
	}
	result, _ := info.Result.(types.ClusterPowerOnVmResult) // the task also succeeds if vCenter attempted nothing (vic#8254)
	for _, x := range result.NotAttempted {
		err := task.Error{LocalizedMethodFault: &x.Fault}
		return !vcfault.Has[types.BaseNotEnoughLicenses](err), err
	}
	for _, x := range result.Attempted {
		if x.Task == nil { // as vCenter 7.0 does (govmomi#2584)
			continue
		}
		queued, ran := tasks.Times(info) // the VM's task began at the end of this one, which was seen later
		_, err := c.await(ctx, *x.Task, began.Add(queued+ran))
		return true, err
	}
	if len(result.Attempted) == 0 && len(result.Recommendations) > 0 {
		c.reader.TouchClusters() // the automation level is not the one that the inventory has
		return true, vcfault.ForOperator(vcfault.ReasonDRSManual,
			"DRS leaves the choice of the host to an operator: apply the recommendation in vCenter (the cluster's Monitor, vSphere DRS, Recommendations), or set the cluster's or the VM's automation level to Partially Automated or more.")
	}
	return true, c.awaitOn(ctx, vm)
}

// onWithin bounds the power-on of a VM whose task vCenter does not name.
const onWithin = 2 * time.Minute

// stillOff are the pauses between reads of such a VM.
var stillOff = retry.Backoff{First: time.Second, Most: 10 * time.Second}

// awaitOn waits until a VM is on: for its tasks, if vCenter shows them, and then for the read that shows it on.
func (c calls) awaitOn(ctx context.Context, vm types.ManagedObjectReference) error {
	began := time.Now()
	for tries := 1; ; tries++ {
		if err := c.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
			return err
		}
		if err := c.reader.Read(ctx, vm); err != nil {
			return err
		}
		switch m := c.inventory.Member(vm.Value); {
		case m == nil || m.Power == plan.PoweredOn:
			return nil
		case m.Question == "" && time.Since(began) > onWithin:
			return vcfault.ForRetry(vcfault.ReasonTimeout, "vCenter did not power the VM on within %d minutes, and named no task; the server tries again.", int(onWithin.Minutes()))
		}
		if !session.Sleep(ctx, stillOff.After(tries)) {
			return ctx.Err()
		}
	}
}

// run powers a member on or off.
func (p power) run(ctx context.Context) error {
	m, err := p.own()
	if err != nil {
		return err
	}
	if plan.ArgsOf[plan.PowerOffArgs](p.action.Args).Unheeded && !p.unheeded(m) {
		if err := p.shutdownGuest(ctx); err == nil || vcfault.Classify("", err).Reason != vcfault.ReasonToolsUnavailable {
			return err
		}
	}
	if p.action.Standby() {
		if m, err = p.promote(ctx, m); err != nil || m.Power == plan.PoweredOn {
			return err
		}
	}
	if m, err = p.verify(ctx, m); err != nil {
		return vcfault.Untried(err)
	}
	var vcenter string
	wanted := types.VirtualMachinePowerStatePoweredOn
	if p.action.Op == plan.PowerOff {
		wanted = types.VirtualMachinePowerStatePoweredOff
		vcenter, err = p.powerOff(ctx)
	} else {
		err = p.powerOn(ctx, m)
		if len(plan.Persistent(m.Stamp.Given)) > 0 {
			err = disks.PowerOnRefused(err)
		}
	}
	switch {
	case err == nil || vcfault.AlreadyIn(err, wanted):
	case p.action.Op == plan.PowerOn && vcfault.Classify("", err).Reason == vcfault.ReasonResourceLimit && p.refusedByHost(ctx, m):
		return vcfault.ForOperator(plan.ReasonHostFull, "The host %s has too little CPU or memory left, and DRS does not place the VM; it never ran, and is cloned on another host (unless spec.healing.action is None).", m.Host)
	case p.isKeptOff(m, err):
		return p.leaveRule(ctx)
	case p.action.Op == plan.PowerOff && vcfault.AlreadyIn(err, types.VirtualMachinePowerStateSuspended): // as documented; some versions power off a suspended VM
		return vcfault.ForOperator(vcfault.ReasonInvalidPowerState, "The VM is suspended, and vCenter does not power off a suspended VM: resume it, or power it off, in vCenter.")
	default:
		return err
	}
	p.asked.Delete(p.action.MoRef)
	if plan.ArgsOf[plan.PowerOffArgs](p.action.Args).Deleted && err == nil && len(plan.Persistent(m.Stamp.Given)) == 0 { // with persistent disks, a reconfigure follows, which needs the VM's new changeVersion
		return p.reader.Report(ctx, inventory.Reading{VCenter: vcenter, Off: []string{p.action.MoRef}})
	}
	err = p.reader.Read(ctx, p.vm())
	if now := p.inventory.Member(p.action.MoRef); err == nil && now != nil && p.action.Op == plan.PowerOn {
		p.capacity.SetRan(p.action.MoRef, now.HostRef) // which may be another host than before
	}
	return err
}

// verify checks, right before the call, that a member to be powered on has no mark and all its disks, and that one to be powered off because of its
// mark still has the mark. It returns the member as last read.
func (p power) verify(ctx context.Context, m *inventory.Member) (_ *inventory.Member, err error) {
	if p.action.Marked {
		if err := p.recheckMark(ctx, m); err != nil {
			return nil, err
		}
	}
	if p.action.Op != plan.PowerOn {
		return m, nil
	}
	if m.Stamp.Marked { // the member was marked after the power-on was planned
		return nil, errMarked(p.action)
	}
	its := memberDisks(p)
	if m, err = its.identifyDisks(ctx, m); err != nil {
		return nil, err
	}
	return m, its.hasDisks(ctx, m)
}

// recheckMark checks that a member still has its mark, after this process has read all members since the mark.
func (p power) recheckMark(ctx context.Context, m *inventory.Member) error {
	if err := p.readSinceMark(ctx, m); err != nil {
		return err
	}
	_, err := p.readAgain(ctx)
	return err
}

// powerOff powers a member off, and returns the UUID of the vCenter that did.
func (p power) powerOff(ctx context.Context) (vcenter string, err error) {
	_, err = p.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		ctx, stop := unguarded(ctx)
		defer stop()
		vcenter = s.UUID
		res, err := methods.PowerOffVM_Task(ctx, s.Vim, &types.PowerOffVM_Task{This: p.vm()})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return vcenter, err
}

// promote records in a standby member's stamp that it is an ordinary member. The write is guarded by the changeVersion that the plan saw: of two
// replicas only one succeeds, and afterwards no replica removes the VM as a standby member. The generation in the stamp never decreases;
// otherwise a replica that knows only an older spec would consider the member surplus. (Found by the model checker.) promote returns the member
// as last read.
func (p power) promote(ctx context.Context, m *inventory.Member) (*inventory.Member, error) {
	if !m.Stamp.Standby {
		return m, nil // already promoted
	}
	if err := p.unchanged(m); err != nil {
		return nil, err
	}
	next := m.Stamp
	next.Standby, next.Generation = false, max(next.Generation, p.action.Generation)
	if err := p.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return nil, err
	}
	return p.own()
}

// shutdownGuest asks a member's guest to shut down, and records the time in its stamp. VirtualMachine.ShutdownGuest returns at once; the inventory
// shows later that the VM is off.
//
// shutdownGuest writes the stamp first, guarded by changeVersion: if another replica withdraws the mark at the same time, only one of the two
// succeeds. From then on all replicas treat the member as shutting down. The process that wrote the stamp may be killed before it asks the guest,
// so a replica that is to power the VM off after the guest's time, and has not asked the guest itself, asks first (unheeded).
func (p power) shutdownGuest(ctx context.Context) error {
	m, err := p.own()
	if err != nil {
		return vcfault.Untried(err)
	}
	vm := p.vm()
	switch {
	case m.Power != plan.PoweredOn:
		return p.reader.Read(ctx, vm)
	case !m.Tools:
		return vcfault.Untried(vcfault.ForRetry(vcfault.ReasonToolsUnavailable, "VMware Tools do not run in %s, so its guest cannot be asked to shut down.", p.action.Key))
	}
	if p.action.Marked {
		if err := p.recheckMark(ctx, m); err != nil {
			return vcfault.Untried(err)
		}
	}
	next := m.Stamp
	next.Generation = max(next.Generation, p.action.Generation)
	next.Shutdown = plan.Moment{At: stamp.Time(time.Now().Add(time.Second)), Boot: m.BootTime} // rounded up to whole seconds, so that the guest has its full time
	unasked := func(s *stamp.Stamp) {
		if s.Shutdown == next.Shutdown { // otherwise another replica has asked since
			s.Shutdown, s.Generation = m.Stamp.Shutdown, m.Stamp.Generation // this generation alone would look like another cluster's (undeletable, sync/planner/block.go)
		}
	}
	if err := p.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return vcfault.Untried(err)
	}
	if time.Since(next.Shutdown.At) > askWithin {
		err = vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "Writing the stamp of %s took too long, so its guest was not asked to shut down; the server plans the step again.", p.action.Key)
		p.revertStamp(ctx, "was asked to shut down", unasked)
		return vcfault.Untried(err)
	}
	err = p.Call(ctx, func(ctx context.Context, s *session.Session) error {
		ctx, stop := unguarded(ctx)
		defer stop()
		_, err := methods.ShutdownGuest(ctx, s.Vim, &types.ShutdownGuest{This: vm})
		return err
	})
	switch {
	case err == nil:
		p.asked.Store(p.action.MoRef, next.Shutdown.Boot)
		return nil
	case vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOff):
		return p.reader.Read(ctx, vm)
	}
	if vcfault.Refused(err) {
		p.revertStamp(ctx, "was asked to shut down", unasked)
	}
	return err
}

// askWithin is the maximum age of the time in the stamp when the guest is asked, because this process may have been suspended after it wrote the
// stamp. Other replicas treat the member as shutting down from the stamp's time on, for the guest's time in the spec and one minute more.
const askWithin = 30 * time.Second

// unheeded reports whether the server can power off a VM whose guest did not shut down in time: this process has asked the guest since the
// guest's last boot, or VMware Tools don't run, so that it can't ask.
func (p power) unheeded(m *inventory.Member) bool {
	boot, asked := p.asked.Load(m.MoRef)
	return !m.Tools || asked && plan.SameBoot(m.BootTime, boot.(time.Time))
}

// revertStamp removes from the stamp the record of a step that failed before it acted.
func (p power) revertStamp(ctx context.Context, what string, change func(*stamp.Stamp)) {
	stamped := p.inventory.Member(p.action.MoRef)
	if stamped == nil || ctx.Err() != nil {
		return
	}
	if err := p.restamp(ctx, stamped, change); err != nil {
		p.log.Warn().Err(err).Str("group", p.ref.String()).Str("vm", p.action.Key).Str("says", what).Msg("failed to correct the stamp of a VM")
	}
}

// reset restarts a member that stays unready. It does not ask the guest, which may not respond. It writes the stamp before the call, so that of two
// replicas only one succeeds, and none resets the VM again for the same reason. Before the write it reads the VM: if the VM is off by now, the
// stamp would record a restart that never happened.
func (p power) reset(ctx context.Context) error {
	m, err := p.own()
	if err != nil {
		return err
	}
	if err := p.unchanged(m); err != nil {
		return err
	}
	now, err := p.readUnchanged(ctx, m)
	switch {
	case err != nil:
		return err
	case m.Stamp.Marked:
		return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "%s has been marked to be taken down, so it was not restarted.", p.action.Key)
	case now.Power != types.VirtualMachinePowerStatePoweredOn:
		return vcfault.ForRetry(vcfault.ReasonInvalidPowerState, "The VM is %s, so it was not restarted; its state is read again.", now.Power)
	}
	if err := p.restamp(ctx, m, func(s *stamp.Stamp) { s.Restarted = stamp.Time(time.Now()) }); err != nil {
		return err
	}
	vm := p.vm()
	_, err = p.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		ctx, stop := unguarded(ctx)
		defer stop()
		res, err := methods.ResetVM_Task(ctx, s.Vim, &types.ResetVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err == nil {
		return p.reader.Read(ctx, vm)
	}
	// The VM was not restarted, so the stamp must not record a restart: the member would be replaced without one.
	p.revertStamp(ctx, "was restarted", func(s *stamp.Stamp) { s.Restarted = m.Stamp.Restarted })
	return err
}

// refusedByHost reports whether to clone a member again on another host: its host has refused it RefusedOften times, DRS does not place it, another
// host may have room, and vCenter's events show that it never ran, so it has no data.
func (p power) refusedByHost(ctx context.Context, m *inventory.Member) bool {
	others := p.inventory.OtherHosts(m.HostRef)
	if p.inventory.Automation(m) != "" || len(others) == 0 || p.capacity.CountRefusal(m.MoRef) < hosts.RefusedOften {
		return false
	}
	p.capacity.SetFull(m.HostRef)
	if m.Stamp.Former.Name != "" || !slices.ContainsFunc(others, func(host string) bool { return !p.capacity.IsFull(host) }) {
		return false
	}
	made, on, err := removalcause.Life(ctx, p, m.MoRef)
	return err == nil && made && !on
}
