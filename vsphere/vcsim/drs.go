package vcsim

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// The kinds of the tasks of PowerOnMultiVM_Task: the call's own task, whose entity is the datacenter (recorded by ManageIQ, 2022), and a task
// for each VM, whose entity is the VM and whose parent is the call's task (recorded by ManageIQ, 2015: ManageIQ/integration_tests). A VM's
// task otherwise behaves like PowerOn. [doc] TaskInfo.parentTaskKey: "Tasks can be created by another task. This shows key of the parent
// task."
const (
	PowerOnMulti Kind = "Datacenter.powerOnVm"
	PowerOnByDRS Kind = "Datacenter.ExecuteVmPowerOnLRO"
)

// DRS is how a cluster places VMs. The zero value is fully automated.
type DRS struct {
	// Off disables DRS: a clone that names no host is placed on the first one.
	Off bool
	// Unlicensed enables DRS without a license for it.
	Unlicensed bool
	// Level is the automation level; "" means fully automated.
	Level types.DrsBehavior
	// Levels override Level for single VMs, by moRef.
	Levels map[string]types.DrsBehavior
	// NoTasks omits the VMs' tasks from the result of PowerOnMultiVM_Task (govmomi#2584).
	NoTasks bool
	// HeedsRules makes DRS power no VM on where it would break an anti-affinity rule, mandatory or not; otherwise it avoids such hosts only while
	// it has others.
	HeedsRules bool
}

// SetDRS configures DRS in the cluster at a path.
func (v *inventory) SetDRS(clusterPath string, d DRS) error {
	return at(v, "DRS of", clusterPath, func(c *simulator.ClusterComputeResource) types.BaseMethodFault {
		config := *c.ConfigurationEx.(*types.ClusterConfigInfoEx)
		config.DrsConfig = types.ClusterDrsConfigInfo{Enabled: types.NewBool(!d.Off), EnableVmBehaviorOverrides: types.NewBool(true), DefaultVmBehavior: d.Level}
		config.DrsVmConfig = nil
		for moRef, level := range d.Levels {
			config.DrsVmConfig = append(config.DrsVmConfig, types.ClusterDrsVmConfigInfo{
				Key: types.ManagedObjectReference{Type: "VirtualMachine", Value: moRef}, Behavior: level})
		}
		c.ConfigurationEx = &config
		v.placement.drs[c.Self] = d
		v.world.Mark(c.Self)
		return nil
	})
}

// FillHost sets whether a host has no memory left for a power-on.
func (v *inventory) FillHost(hostPath string, full bool) error {
	return at(v, "fill", hostPath, func(host *simulator.HostSystem) types.BaseMethodFault { v.placement.full[host.Self] = full; return nil })
}

// SetHardwareVersion sets the newest hardware version that a host has, such as 17.
func (v *inventory) SetHardwareVersion(hostPath string, newest int) error {
	return at(v, "set the hardware version of", hostPath, func(host *simulator.HostSystem) types.BaseMethodFault {
		cluster := v.objects.Get(*host.Parent).(*simulator.ClusterComputeResource)
		browser := v.objects.Get(*cluster.EnvironmentBrowser).(*simulator.EnvironmentBrowser)
		for i := range browser.QueryConfigOptionDescriptorResponse.Returnval {
			d := &browser.QueryConfigOptionDescriptorResponse.Returnval[i]
			var version int
			if _, err := fmt.Sscanf(d.Key, "vmx-%d", &version); err == nil && version > newest {
				d.Host = slices.DeleteFunc(slices.Clone(d.Host), func(ref types.ManagedObjectReference) bool { return ref == host.Self })
			}
		}
		return nil
	})
}

// placement is the DRS settings of clusters, the hosts without memory, and the VMs that are being powered on. The world lock guards it.
type placement struct {
	drs      map[types.ManagedObjectReference]DRS
	full     map[types.ManagedObjectReference]bool
	starting map[types.ManagedObjectReference]bool
}

// firstWithoutDRS returns the host of a clone that names none, in a cluster without DRS: the first one, as reported of old vCenters
// (CAPV#586). nil in other clusters.
func (v *inventory) firstWithoutDRS(hosts []types.ManagedObjectReference) *types.ManagedObjectReference {
	if len(hosts) == 0 {
		return nil
	}
	c := v.clusterOf(&hosts[0])
	if c == nil || isTrue(c.ConfigurationEx.(*types.ClusterConfigInfoEx).DrsConfig.Enabled) && !v.placement.drs[c.Self].Unlicensed {
		return nil
	}
	return &hosts[0]
}

// clusterOf returns the cluster of a host, or nil. The caller holds the world lock.
func (v *inventory) clusterOf(host *types.ManagedObjectReference) *simulator.ClusterComputeResource {
	if host == nil {
		return nil
	}
	for at := range v.world.Up(*host) {
		if c, is := v.objects.Get(at).(*simulator.ClusterComputeResource); is {
			return c
		}
	}
	return nil
}

// levelOf returns the automation level that applies to a VM; "" if DRS does not manage it. The caller holds the world lock.
func (v *inventory) levelOf(vm *simulator.VirtualMachine) (level types.DrsBehavior, d DRS) {
	c := v.clusterOf(vm.Runtime.Host)
	if c == nil {
		return "", d
	}
	d = v.placement.drs[c.Self]
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

// toHost moves a VM to the first host of a cluster that fits; false if there is none. The caller holds the world lock.
func (v *inventory) toHost(ctx *simulator.Context, vm *simulator.VirtualMachine, c *simulator.ClusterComputeResource, fits func(types.ManagedObjectReference) bool) bool {
	i := slices.IndexFunc(c.Host, fits)
	if i < 0 {
		return false
	}
	was, now := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem), v.objects.Get(c.Host[i]).(*simulator.HostSystem)
	v.objects.RemoveReference(ctx, was, &was.Vm, vm.Self)
	v.objects.AddReference(ctx, now, &now.Vm, vm.Self)
	v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "runtime.host", Val: now.Self}, {Name: "summary.runtime.host", Val: now.Self}})
	return true
}

// placeAlone places a single VM, for PowerOnVM_Task.
//
// [doc] PowerOnVM_Task: "If the cluster is a DRS cluster, DRS will be invoked if the virtual machine can be automatically placed by
// DRS (see DrsBehavior)"; partiallyAutomated: "VirtualCenter automatically places virtual machines at power on".
func (v *inventory) placeAlone(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
	if level, d := v.levelOf(vm); level != "" && level != types.DrsBehaviorManual && !d.Unlicensed {
		if fault := v.place(ctx, vm); fault != nil && d.HeedsRules {
			return fault
		}
	}
	return v.fullHost(vm)
}

// fullHost rejects a power-on on a host without memory.
func (v *inventory) fullHost(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if vm.Runtime.Host != nil && v.placement.full[*vm.Runtime.Host] && vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
		return new(types.InsufficientMemoryResourcesFault)
	}
	return nil
}

// datacenter wraps a datacenter for one call.
type datacenter struct {
	*simulator.Datacenter
	*call
	v *inventory
}

// PowerOnMultiVMTask asks DRS to place each VM. The task ends when the VMs' own tasks have begun.
//
// [doc] ClusterPowerOnVmResult: attempted, "For a virtual machine not managed by DRS, a task ID is also returned" (vCenter returns one for
// other VMs, too); notAttempted, "virtual machines DRS can not find suitable hosts for"; recommendations "that need the client to approve
// manually". PowerOnMultiVM_Task: if one VM is managed manually, the call returns only recommendations. ClusterPowerOnVmOption:
// OverrideAutomationLevel has a DrsBehavior.
func (d *datacenter) PowerOnMultiVMTask(_ *simulator.Context, req *types.PowerOnMultiVM_Task) soap.HasFault {
	override := overrideIn(req.Option)
	var own types.ManagedObjectReference
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
			d.attempt(ctx, vm, own, &res)
		}
		return res, nil
	}
	own = d.v.begin(d.call, work{kind: PowerOnMulti, entity: d.Datacenter, name: d.Name, do: do}) // under the world lock, as do is called
	return &methods.PowerOnMultiVM_TaskBody{Res: &types.PowerOnMultiVM_TaskResponse{Returnval: own}}
}

// attempt begins a VM's own task, as a child of the call's, or records in res why the task does not begin. The caller holds the world lock.
func (d *datacenter) attempt(ctx *simulator.Context, vm *simulator.VirtualMachine, parent types.ManagedObjectReference, res *types.ClusterPowerOnVmResult) {
	level, drs := d.v.levelOf(vm)
	kind, fault := PowerOn, types.BaseMethodFault(nil)
	switch {
	case level == "":
	case drs.Unlicensed:
		fault = new(types.NotEnoughLicenses)
	default:
		kind, fault = PowerOnByDRS, d.v.place(ctx, vm)
	}
	if fault != nil {
		res.NotAttempted = append(res.NotAttempted, types.ClusterNotAttemptedVmInfo{Vm: vm.Self, Fault: types.LocalizedMethodFault{Fault: fault}})
		return
	}
	on := &machine{VirtualMachine: vm, call: &call{ctx, "PowerOnMultiVM_Task"}, v: d.v}
	task := on.powerOn(kind, parent.Value)
	info := types.ClusterAttemptedVmInfo{Vm: vm.Self, Task: &task}
	if drs.NoTasks {
		info.Task = nil
	}
	res.Attempted = append(res.Attempted, info)
}

// overrideIn returns the automation level in the options; "" if none.
func overrideIn(options []types.BaseOptionValue) (level types.DrsBehavior) {
	for _, o := range options {
		if option := o.GetOptionValue(); option.Key == string(types.ClusterPowerOnVmOptionOverrideAutomationLevel) {
			level = types.DrsBehavior(option.Value.(string))
		}
	}
	return level
}
