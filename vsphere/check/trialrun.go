package check

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// trialState is what is looked at of a trial's VM while it runs.
type trialState struct {
	power                types.VirtualMachinePowerState
	tools, address, name string // of the guest
	nics                 []types.GuestNicInfo
	boot                 *time.Time
	host                 types.ManagedObjectReference
	version              string // config.changeVersion
	cpu                  int32
	memory               int32
	limit, increment     int64
}

func (t *trial) state(ctx context.Context) (x trialState, err error) {
	o, err := t.read(ctx, t.vm, "runtime.powerState", "runtime.bootTime", "runtime.host", "guest.toolsRunningStatus", "guest.ipAddress", "guest.hostName", "guest.net",
		"config.changeVersion", "config.hardware.numCPU", "config.hardware.memoryMB", "config.hotPlugMemoryLimit", "config.hotPlugMemoryIncrementSize")
	x = trialState{
		power:     session.Prop[types.VirtualMachinePowerState](o, "runtime.powerState"),
		tools:     session.Prop[string](o, "guest.toolsRunningStatus"),
		address:   session.Prop[string](o, "guest.ipAddress"),
		name:      session.Prop[string](o, "guest.hostName"),
		nics:      session.Prop[types.ArrayOfGuestNicInfo](o, "guest.net").GuestNicInfo,
		host:      session.Prop[types.ManagedObjectReference](o, "runtime.host"),
		version:   session.Prop[string](o, "config.changeVersion"),
		cpu:       session.Prop[int32](o, "config.hardware.numCPU"),
		memory:    session.Prop[int32](o, "config.hardware.memoryMB"),
		limit:     session.Prop[int64](o, "config.hotPlugMemoryLimit"),
		increment: session.Prop[int64](o, "config.hotPlugMemoryIncrementSize"),
	}
	if boot, on := session.LookUp[time.Time](o, "runtime.bootTime"); on {
		x.boot = &boot
	}
	return x, err
}

// running is what those lack who need a VM that runs.
func running(t *trial, ctx context.Context) string {
	if x, err := t.state(ctx); err != nil || x.power != types.VirtualMachinePowerStatePoweredOn {
		return "the VM does not run"
	}
	return ""
}

// clusterOf is the cluster of a host.
func (t *trial) clusterOf(host types.ManagedObjectReference) (found inventory.Cluster) {
	for _, c := range t.parts.Inventory.Clusters() {
		if slices.Contains(c.Hosts, host.Value) {
			return c
		}
	}
	return found
}

// powerOn powers the VM on as the server does: by DRS, where that places it. The rest needs it.
func (t *trial) powerOn(ctx context.Context) verdict {
	t.progress("powering %s on", trialName)
	before, err := t.state(ctx)
	if err != nil {
		return refused(err)
	}
	t.first = before.host
	cluster, level := t.clusterOf(before.host), types.DrsBehavior("")
	if !cluster.Standalone && !cluster.Unread && cluster.DRS {
		level = cluster.Level
	}
	began := t.now()
	drsRefused, err := t.v.PowerOn(t.end, t.at.Datacenter, t.vm, level)
	facts := Facts{"byDRS": yes(level != "" && drsRefused == nil), "level": word(level)}
	if drsRefused != nil {
		facts["noLicence"] = yes(vcfault.Has[types.BaseNotEnoughLicenses](drsRefused))
	}
	if err != nil {
		v := refused(err)
		return v.with(facts)
	}
	var x trialState
	t.within(t.end, time.Minute, func(ctx context.Context) (bool, error) { // a power-on may be told without a task to wait for
		x, err = t.state(ctx)
		return err != nil || x.power == types.VirtualMachinePowerStatePoweredOn, err
	})
	facts["tookMs"], facts["changesVersion"] = millis(t.now().Sub(began)), yes(x.version != before.version)
	seen := "it is on, and has a bootTime; by PowerOnVM_Task"
	if level != "" && drsRefused == nil {
		seen = fmt.Sprintf("it is on, and has a bootTime; by PowerOnMultiVM_Task, %s", level)
	}
	seen += map[bool]string{true: "; it changed changeVersion", false: "; it did not change changeVersion"}[x.version != before.version]
	switch {
	case err != nil:
		return refused(err)
	case x.power != types.VirtualMachinePowerStatePoweredOn:
		return verdict{result: Fail, seen: fmt.Sprintf("it is %s at the end of the task", x.power), advice: "look at its events"}.with(facts)
	case x.boot == nil:
		return broken("it is on, and has no bootTime", "a guest's shutdown is asked for by the bootTime").with(facts)
	case drsRefused != nil:
		return verdict{result: Warn, seen: fmt.Sprintf("%s, because DRS refused: %s", seen, vcfault.Classify("", drsRefused).Message),
			advice: "members stay on the hosts that their clones are put on: remove the reason, or turn DRS off"}.with(facts)
	}
	return held("%s", seen).with(facts)
}

// hosts tells which hosts the clone and the power-on chose.
func (t *trial) hosts(ctx context.Context) verdict {
	x, err := t.state(ctx)
	if err != nil {
		return refused(err)
	}
	names, err := t.names(ctx, []types.ManagedObjectReference{t.first, x.host})
	if err != nil {
		return refused(err)
	}
	cluster := t.clusterOf(x.host)
	facts := Facts{"hosts": count(len(cluster.Hosts)), "moved": yes(t.first != x.host), "named": yes(t.spec.Location.Host != nil)}
	return held("the clone was put on %s, and runs on %s, of %d", names[t.first], names[x.host], max(1, len(cluster.Hosts))).with(facts)
}

// bootTime reads it again and again, also after a reset: it stands for one run of the VM.
func (t *trial) bootTime(ctx context.Context) verdict {
	const consequence = "a guest that was asked to shut down would be asked again, or powered off before its time"
	var boots []time.Time
	for reads := range 3 {
		x, err := t.state(ctx)
		if err != nil || x.boot == nil {
			return refused(err)
		}
		boots = append(boots, *x.boot)
		if reads == 1 {
			err = t.task(func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
				res, err := methods.ResetVM_Task(ctx, s.Vim, &types.ResetVM_Task{This: t.vm})
				if err == nil {
					task = res.Returnval
				}
				return task, err
			})
			if err != nil {
				return refused(err)
			}
		}
	}
	facts := Facts{"readsDifferByMs": millis(boots[1].Sub(boots[0])), "resetChangesByMs": millis(boots[2].Sub(boots[1]))}
	switch {
	case !boots[1].Equal(boots[0]):
		return broken("two reads of it differ though the VM ran on", consequence).with(facts)
	case !boots[2].Equal(boots[1]):
		return broken("a reset changes it", consequence).with(facts)
	}
	return held("the same in each read, and after a reset").with(facts)
}

// hotAddCPUs looks whether a running VM takes more CPUs if, and only if, its flag says so.
func (t *trial) hotAddCPUs(ctx context.Context) verdict {
	x, err := t.state(ctx)
	if err != nil {
		return refused(err)
	}
	more := x.cpu + max(1, t.draft.CoresPerSocket())
	return t.hotAdd(t.template.nature.addCPU, fmt.Sprintf("%d instead of %d", more, x.cpu), types.VirtualMachineConfigSpec{NumCPUs: more})
}

// hotAddMemory is the same for memory.
func (t *trial) hotAddMemory(ctx context.Context) verdict {
	x, err := t.state(ctx)
	if err != nil {
		return refused(err)
	}
	memory := int64(x.memory) + max(x.increment, 1024)
	if t.template.nature.addMem && x.limit > 0 && memory > x.limit {
		return untold(fmt.Sprintf("the VM, powered on with %d MB, may have %d MB at most while it runs", x.memory, x.limit), "")
	}
	return t.hotAdd(t.template.nature.addMem, fmt.Sprintf("%d MB instead of %d", memory, x.memory), types.VirtualMachineConfigSpec{MemoryMB: memory})
}

func (t *trial) hotAdd(flag bool, change string, spec types.VirtualMachineConfigSpec) verdict {
	err := t.reconfigure(spec)
	var refusal *vcfault.Error // as a resize of the server's would have it
	if err != nil {
		refusal = vcfault.Classify("", vsphere.SizeRefusal(plan.Action{Hot: true, CPU: spec.NumCPUs, MemoryMB: spec.MemoryMB}, err))
	}
	facts := Facts{"flag": yes(flag), "done": yes(err == nil)}
	switch {
	case err == nil && flag:
		return held("%s while it runs, as its flag says", change).with(facts)
	case err != nil && !flag && refusal.Reason == vcfault.ReasonHotAddRefused:
		return held("refused while it runs, as its flag says: it is changed by a power cycle").with(facts)
	case err != nil && !flag:
		return refused(err)
	case err == nil:
		return verdict{result: Warn, seen: change + " while it runs, although its flag says that it cannot", advice: "nothing: the server takes a power cycle all the same"}.with(facts)
	}
	return verdict{result: Warn, seen: fmt.Sprintf("refused, although its flag says that it can: %s", refusal.Message), advice: "nothing: the server then takes a power cycle"}.with(facts)
}

// within looks now and then until something holds, for no longer than that. It ends with ctx, too.
func (t *trial) within(ctx context.Context, most time.Duration, holds func(context.Context) (bool, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
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
