package managed

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// The tasks of a power-on by Datacenter.PowerOnMultiVM_Task, as vCenter names them (govmomi's capture of a vCenter,
// simulator/vpx/task_manager.go). The second one is a VM's, and of kind PowerOn otherwise.
const (
	PowerOnMulti Kind = "Datacenter.ExecuteVmPowerOnLRO"
	PowerOnByDRS Kind = "Drm.ExecuteVmPowerOnLRO"
)

// DRS is how a cluster places VMs. The zero value is fully automated.
type DRS struct {
	// Off: no VM is placed; a clone without a host lands on the first one.
	Off bool
	// Unlicensed: it is on, and vCenter's licence does not allow it.
	Unlicensed bool
	// Level is the automation level; "" is fully automated.
	Level types.DrsBehavior
	// Levels are those of single VMs, by moRef, which override it.
	Levels map[string]types.DrsBehavior
	// NoTasks: PowerOnMultiVM_Task names no tasks of what it attempts (govmomi#2584).
	NoTasks bool
}

// SetDRS changes how the cluster at a path places VMs.
func (v *Objects) SetDRS(clusterPath string, d DRS) error {
	ref, err := v.Find(clusterPath)
	if err != nil {
		return err
	}
	v.world.Lock()
	defer v.world.Unlock()
	c, ok := v.objects.Get(ref).(*simulator.ClusterComputeResource)
	if !ok {
		return fmt.Errorf("DRS of %s: it is no cluster", clusterPath)
	}
	config := *c.ConfigurationEx.(*types.ClusterConfigInfoEx)
	config.DrsConfig = types.ClusterDrsConfigInfo{Enabled: types.NewBool(!d.Off), EnableVmBehaviorOverrides: types.NewBool(true), DefaultVmBehavior: d.Level}
	config.DrsVmConfig = nil
	for moRef, level := range d.Levels {
		config.DrsVmConfig = append(config.DrsVmConfig, types.ClusterDrsVmConfigInfo{
			Key: types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}, Behavior: level})
	}
	v.objects.WithLock(v.world.Context(), c.Self, func() { c.ConfigurationEx = &config })
	v.placing.drs[ref] = d
	v.world.Mark(ref)
	return nil
}

// FillHost says whether a host has no memory left for a power-on.
func (v *Objects) FillHost(hostPath string, full bool) error {
	ref, err := v.Find(hostPath)
	if err != nil {
		return err
	}
	v.world.Lock()
	defer v.world.Unlock()
	v.placing.full[ref] = full
	return nil
}

// placing is what is said of clusters and hosts. The world guards it.
type placing struct {
	drs  map[types.ManagedObjectReference]DRS
	full map[types.ManagedObjectReference]bool
}

// firstWithoutDRS is where a clone lands that names no host, in a cluster that does not place it: of old vCenters it is told that it
// always was the first (CAPV#586). nil elsewhere.
func (v *Objects) firstWithoutDRS(hosts []types.ManagedObjectReference) *types.ManagedObjectReference {
	if len(hosts) == 0 {
		return nil
	}
	host, _ := v.objects.Get(hosts[0]).(*simulator.HostSystem)
	if host == nil || host.Parent == nil {
		return nil
	}
	c, ok := v.objects.Get(*host.Parent).(*simulator.ClusterComputeResource)
	if !ok || isTrue(c.ConfigurationEx.(*types.ClusterConfigInfoEx).DrsConfig.Enabled) && !v.placing.drs[c.Self].Unlicensed {
		return nil
	}
	return &hosts[0]
}

// clusterOf is the cluster that a VM is in; nil if it is in none. The caller holds the world.
func (v *Objects) clusterOf(vm *simulator.VirtualMachine) *simulator.ClusterComputeResource {
	if vm.Runtime.Host == nil {
		return nil
	}
	host, ok := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem)
	if !ok || host.Parent == nil {
		return nil
	}
	c, _ := v.objects.Get(*host.Parent).(*simulator.ClusterComputeResource)
	return c
}

// levelOf is the automation level that is in force for a VM; "" if DRS does not manage it. The caller holds the world.
func (v *Objects) levelOf(vm *simulator.VirtualMachine) (level types.DrsBehavior, d DRS) {
	c := v.clusterOf(vm)
	if c == nil {
		return "", d
	}
	d = v.placing.drs[c.Self]
	if !isTrue(c.ConfigurationEx.(*types.ClusterConfigInfoEx).DrsConfig.Enabled) {
		return "", d
	}
	level = d.Level
	if own, is := d.Levels[vm.Self.Value]; is {
		level = own
	}
	if level == "" {
		level = types.DrsBehaviorFullyAutomated
	}
	return level, d
}

// place moves a VM that is off from a full host to one that is not, as DRS does at a power-on; false if there is none. The caller
// holds the world.
func (v *Objects) place(ctx *simulator.Context, vm *simulator.VirtualMachine) bool {
	c := v.clusterOf(vm)
	if c == nil || !v.placing.full[*vm.Runtime.Host] {
		return true
	}
	i := slices.IndexFunc(c.Host, func(ref types.ManagedObjectReference) bool { return !v.placing.full[ref] })
	if i < 0 {
		return false
	}
	was, now := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem), v.objects.Get(c.Host[i]).(*simulator.HostSystem)
	v.objects.RemoveReference(ctx, was, &was.Vm, vm.Self)
	v.objects.AddReference(ctx, now, &now.Vm, vm.Self)
	v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "runtime.host", Val: now.Self}, {Name: "summary.runtime.host", Val: now.Self}})
	return true
}

// placeAlone is what a power-on by PowerOnVM_Task does about the host.
//
// [doc] PowerOnVM_Task: "If the cluster is a DRS cluster, DRS will be invoked if the virtual machine can be automatically placed by
// DRS (see DrsBehavior)"; partiallyAutomated: "VirtualCenter automatically places virtual machines at power on".
func (v *Objects) placeAlone(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
	if level, d := v.levelOf(vm); level != "" && level != types.DrsBehaviorManual && !d.Unlicensed {
		v.place(ctx, vm)
	}
	return v.fullHost(vm)
}

// fullHost refuses to power a VM on where no memory is left.
func (v *Objects) fullHost(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if vm.Runtime.Host != nil && v.placing.full[*vm.Runtime.Host] && vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
		return new(types.InsufficientMemoryResourcesFault)
	}
	return nil
}

// datacenter is a datacenter during one call.
type datacenter struct {
	*simulator.Datacenter
	*world.Guard
	v *Objects
}

// PowerOnMultiVMTask asks DRS about each VM. The task ends when the VMs' own tasks have begun.
//
// [doc] ClusterPowerOnVmResult: attempted, "For a virtual machine not managed by DRS, a task ID is also returned" (vCenter returns
// one of others, too); notAttempted, "virtual machines DRS can not find suitable hosts for"; recommendations "that need the client to
// approve manually". PowerOnMultiVM_Task: with a manually managed VM among them, all that comes of a call are recommendations.
// ClusterPowerOnVmOption: OverrideAutomationLevel has a DrsBehavior.
func (d *datacenter) PowerOnMultiVMTask(_ *simulator.Context, req *types.PowerOnMultiVM_Task) soap.HasFault {
	override, fault := overrideIn(req.Option)
	if fault != nil {
		return &methods.PowerOnMultiVM_TaskBody{Fault_: simulator.Fault("", fault)}
	}
	do := func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
		var res types.ClusterPowerOnVmResult
		var vms []*simulator.VirtualMachine
		for _, ref := range req.Vm {
			vm, ok := d.v.objects.Get(ref).(*simulator.VirtualMachine)
			if !ok {
				return nil, &types.ManagedObjectNotFound{Obj: ref}
			}
			if level, _ := d.v.levelOf(vm); level == types.DrsBehaviorManual && override == "" {
				res.Recommendations = append(res.Recommendations, types.ClusterRecommendation{Key: ref.Value, Type: "V1", Target: &ref})
			}
			vms = append(vms, vm)
		}
		if len(res.Recommendations) > 0 {
			return res, nil
		}
		for _, vm := range vms {
			d.attempt(ctx, vm, &res)
		}
		return res, nil
	}
	return &methods.PowerOnMultiVM_TaskBody{Res: &types.PowerOnMultiVM_TaskResponse{
		Returnval: d.v.begin(d.Guard, work{kind: PowerOnMulti, entity: d.Datacenter, name: d.Name, do: do})}}
}

// attempt begins a VM's own task, or says why not. The caller holds the world.
func (d *datacenter) attempt(ctx *simulator.Context, vm *simulator.VirtualMachine, res *types.ClusterPowerOnVmResult) {
	level, drs := d.v.levelOf(vm)
	kind, fault := PowerOn, types.BaseMethodFault(nil)
	switch {
	case level == "":
	case drs.Unlicensed:
		fault = new(types.NotEnoughLicenses)
	default:
		if kind = PowerOnByDRS; !d.v.place(ctx, vm) {
			fault = &types.NoCompatibleHost{Error: []types.LocalizedMethodFault{{Fault: new(types.InsufficientMemoryResourcesFault)}}}
		}
	}
	if fault != nil {
		res.NotAttempted = append(res.NotAttempted, types.ClusterNotAttemptedVmInfo{Vm: vm.Self, Fault: types.LocalizedMethodFault{Fault: fault}})
		return
	}
	on := &machine{VirtualMachine: vm, Guard: d.v.world.Guard(ctx, "PowerOnMultiVM_Task"), v: d.v}
	var task types.ManagedObjectReference
	d.v.objects.WithLock(ctx, vm.Self, func() { task = on.powerOn(kind) })
	info := types.ClusterAttemptedVmInfo{Vm: vm.Self, Task: &task}
	if drs.NoTasks {
		info.Task = nil
	}
	res.Attempted = append(res.Attempted, info)
}

// overrideIn is the level that the options ask for; "" if none.
func overrideIn(options []types.BaseOptionValue) (level types.DrsBehavior, _ types.BaseMethodFault) {
	for _, o := range options {
		option := o.GetOptionValue()
		if option.Key != string(types.ClusterPowerOnVmOptionOverrideAutomationLevel) {
			continue
		}
		text, _ := option.Value.(string)
		if level = types.DrsBehavior(text); !slices.Contains(level.Values(), level) {
			return "", &types.InvalidArgument{InvalidProperty: "option"}
		}
	}
	return level, nil
}
