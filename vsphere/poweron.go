package vsphere

import (
	"context"
	"time"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// powerOn powers a member on; where DRS places it, by Datacenter.PowerOnMultiVM_Task: PowerOnVM_Task asks DRS only "if the virtual
// machine can be automatically placed", moves no VM and wakes no host for it, and is deprecated ([doc] PowerOnVM_Task). It is still
// used without DRS or a datacenter, and where the other method is not allowed.
func (v *VCenter) powerOn(ctx context.Context, m *inventory.Member) error {
	level := v.inventory.Automation(m)
	dc, found := v.inventory.DatacenterAbove(m.Parent)
	if !found {
		level = ""
	}
	_, err := v.PowerOn(ctx, dc.Ref, inventory.VMRef(m.MoRef), level)
	return err
}

// PowerOn powers a VM of a datacenter on as members are, with the automation level of DRS that is in force for it, "" for none. refused
// says why DRS was asked and did not even try, so that the VM was powered on without it.
func (v *VCenter) PowerOn(ctx context.Context, dc, vm types.ManagedObjectReference, level types.DrsBehavior) (refused, err error) {
	if level != "" {
		done, err := v.powerOnByDRS(ctx, dc, vm, level)
		if done {
			return nil, err
		}
		refused = err
	}
	_, err = v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOnVM_Task(ctx, s.Vim, &types.PowerOnVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return refused, err
}

// powerOnByDRS makes a call for one VM alone: one that DRS does not place by itself would turn all into recommendations. Where that
// level is in force, the call overrides it (as vic PR 7652 and machine-api-operator PR 1047 do), because nobody is there to choose. done
// is false if vCenter did not even try, for a reason that may not apply to PowerOnVM_Task.
func (v *VCenter) powerOnByDRS(ctx context.Context, dc, vm types.ManagedObjectReference, level types.DrsBehavior) (done bool, err error) {
	var options []types.BaseOptionValue
	if level == types.DrsBehaviorManual {
		options = []types.BaseOptionValue{&types.OptionValue{Key: string(types.ClusterPowerOnVmOptionOverrideAutomationLevel),
			Value: string(types.DrsBehaviorFullyAutomated)}}
	}
	info, err := v.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOnMultiVM_Task(ctx, s.Vim, &types.PowerOnMultiVM_Task{This: dc, Vm: []types.ManagedObjectReference{vm}, Option: options})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil {
		return !vcfault.Has[types.BaseNoPermission](err) && !vcfault.Has[types.BaseInvalidArgument](err), err
	}
	result, _ := info.Result.(types.ClusterPowerOnVmResult) // the task succeeds also where nothing was attempted (vic#8254)
	for _, x := range result.NotAttempted {
		err := task.Error{LocalizedMethodFault: &x.Fault}
		return !vcfault.Has[types.BaseNotEnoughLicenses](err), err
	}
	for _, x := range result.Attempted {
		if x.Task == nil { // as vCenter 7.0 does (govmomi#2584)
			continue
		}
		_, err := v.await(ctx, *x.Task)
		return true, err
	}
	if len(result.Attempted) == 0 && len(result.Recommendations) > 0 {
		v.reader.TouchClusters() // the level differs from the one known
		return true, vcfault.New(vcfault.ReasonDRSManual, true,
			"DRS leaves the choice of the host to an operator: apply the recommendation in vCenter (the cluster's Monitor, vSphere DRS, Recommendations), or set the cluster's or the VM's automation level to Partially Automated or more.")
	}
	return true, v.awaitOn(ctx, vm)
}

// onWithin is how long the power-on of a VM may take when vCenter does not name its task.
const onWithin = 2 * time.Minute

// awaitOn waits until a VM is on, by its tasks if vCenter shows them.
func (v *VCenter) awaitOn(ctx context.Context, vm types.ManagedObjectReference) error {
	began := time.Now()
	for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
		if err := v.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
			return err
		}
		if err := v.reader.Read(ctx, vm); err != nil {
			return err
		}
		switch m := v.inventory.Member(vm.Value); {
		case m == nil || m.Power == plan.PoweredOn:
			return nil
		case m.Question == "" && time.Since(began) > onWithin:
			return vcfault.New(vcfault.ReasonTimeout, false, "vCenter did not power the VM on within %d minutes, and named no task; the server tries again.", int(onWithin.Minutes()))
		}
		if !session.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}
