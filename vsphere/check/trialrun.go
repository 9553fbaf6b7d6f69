package check

import (
	"context"
	"fmt"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// trialState is what is looked at of a trial's VM while it runs.
type trialState struct {
	power            types.VirtualMachinePowerState
	tools, address   string
	boot             *time.Time
	cpu              int32
	memory           int32
	limit, increment int64
}

func (t *trial) state(ctx context.Context) (x trialState, err error) {
	err = t.v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, t.vm, "runtime.powerState", "runtime.bootTime", "guest.toolsRunningStatus", "guest.ipAddress",
			"config.hardware.numCPU", "config.hardware.memoryMB", "config.hotPlugMemoryLimit", "config.hotPlugMemoryIncrementSize")
		x = trialState{
			power:     session.Prop[types.VirtualMachinePowerState](o, "runtime.powerState"),
			tools:     session.Prop[string](o, "guest.toolsRunningStatus"),
			address:   session.Prop[string](o, "guest.ipAddress"),
			cpu:       session.Prop[int32](o, "config.hardware.numCPU"),
			memory:    session.Prop[int32](o, "config.hardware.memoryMB"),
			limit:     session.Prop[int64](o, "config.hotPlugMemoryLimit"),
			increment: session.Prop[int64](o, "config.hotPlugMemoryIncrementSize"),
		}
		if boot, on := session.LookUp[time.Time](o, "runtime.bootTime"); on {
			x.boot = &boot
		}
		return err
	})
	return x, err
}

// powerOn powers the VM on: the rest needs it.
func (t *trial) powerOn(ctx context.Context) bool {
	const check = "deep: power-on"
	t.progress("powering %s on", trialName)
	err := t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOnVM_Task(ctx, s.Vim, &types.PowerOnVM_Task{This: t.vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil {
		t.failed(check, err)
		return true
	}
	x, err := t.state(ctx)
	switch {
	case err != nil:
		t.failed(check, err)
	case x.power != types.VirtualMachinePowerStatePoweredOn:
		t.add(check, Fail, fmt.Sprintf("it is %s at the end of the task", x.power), "look at its events")
	case x.boot == nil:
		t.add(check, Warn, "it is on, and has no bootTime", "a guest's shutdown is asked for by the bootTime: tell the project, with the vCenter's version")
	default:
		t.ok(check, "it is on, and has a bootTime")
	}
	return true
}

// hotAdd looks whether a running VM takes more CPUs and memory if, and only if, its flags say so.
func (t *trial) hotAdd(ctx context.Context) bool {
	x, err := t.state(ctx)
	if err != nil || x.power != types.VirtualMachinePowerStatePoweredOn {
		t.add("deep: hot-add", Skip, "the VM does not run", "")
		return true
	}
	more := x.cpu + max(1, t.draft.CoresPerSocket())
	t.hotAddOf("CPUs", t.template.nature.addCPU, fmt.Sprintf("%d instead of %d", more, x.cpu), types.VirtualMachineConfigSpec{NumCPUs: more})
	memory := int64(x.memory) + max(x.increment, 1024)
	if t.template.nature.addMem && x.limit > 0 && memory > x.limit {
		t.add("deep: hot-add of memory", Skip, fmt.Sprintf("the VM, powered on with %d MB, may have %d MB at most while it runs", x.memory, x.limit), "")
		return true
	}
	t.hotAddOf("memory", t.template.nature.addMem, fmt.Sprintf("%d MB instead of %d", memory, x.memory), types.VirtualMachineConfigSpec{MemoryMB: memory})
	return true
}

func (t *trial) hotAddOf(what string, flag bool, change string, spec types.VirtualMachineConfigSpec) {
	check := "deep: hot-add of " + what
	err := t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.Vim, &types.ReconfigVM_Task{This: t.vm, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	var refusal *vcfault.Error // as a resize of the server's would have it
	if err != nil {
		refusal = vcfault.Classify("", vsphere.SizeRefusal(plan.Action{Hot: true, CPU: spec.NumCPUs, MemoryMB: spec.MemoryMB}, err))
	}
	switch {
	case err == nil && flag:
		t.ok(check, "%s while it runs, as its flag says", change)
	case err != nil && !flag && refusal.Reason == vcfault.ReasonHotAddRefused:
		t.ok(check, "refused while it runs, as its flag says: it is changed by a power cycle")
	case err != nil && !flag:
		t.failed(check, err)
	case err == nil:
		t.add(check, Warn, change+" while it runs, although its flag says that it cannot", "nothing: the server takes a power cycle all the same")
	default:
		t.add(check, Warn, fmt.Sprintf("refused, although its flag says that it can: %s", refusal.Message), "nothing: the server then takes a power cycle")
	}
}

// shutDown asks the guest to shut down, once its VMware Tools run.
func (t *trial) shutDown(ctx context.Context) bool {
	const check = "deep: guest shutdown"
	t.progress("waiting for the guest's VMware Tools, up to %s", t.GuestPatience)
	var x trialState
	up := t.wait(ctx, func(ctx context.Context) (done bool, err error) {
		x, err = t.state(ctx)
		return err == nil && x.tools == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning), err
	})
	if ctx.Err() != nil {
		return true // which run tells
	}
	if !up {
		t.add(check, Skip, fmt.Sprintf("no VMware Tools run in the guest after %s", t.GuestPatience), "without them members are powered off without being asked; install open-vm-tools in the template (a guest that boots slowly: --guest-timeout)")
		return true
	}
	t.progress("asking the guest to shut down")
	err := t.v.Call(t.end, func(ctx context.Context, s *session.Session) error {
		_, err := methods.ShutdownGuest(ctx, s.Vim, &types.ShutdownGuest{This: t.vm})
		return err
	})
	if err != nil {
		t.failed(check, err)
		return true
	}
	began := t.now()
	off := t.wait(ctx, func(ctx context.Context) (bool, error) {
		now, err := t.state(ctx)
		return err == nil && now.power == types.VirtualMachinePowerStatePoweredOff, err
	})
	if !off {
		t.add(check, Warn, fmt.Sprintf("the guest was asked, and is not off after %s", t.GuestPatience), "see what keeps it; the server powers it off after shutdown.timeoutSeconds")
		return true
	}
	t.ok(check, "asked by its Tools, and off after %s", t.now().Sub(began).Round(100*time.Millisecond))
	return true
}

// wait looks now and then until something holds, no longer than a guest may take. It ends with ctx, too.
func (t *trial) wait(ctx context.Context, holds func(context.Context) (bool, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, t.GuestPatience)
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if done, err := holds(ctx); done {
			return true
		} else if err != nil && ctx.Err() != nil {
			return false
		}
		if !session.Sleep(ctx, pause) {
			return false
		}
	}
}
