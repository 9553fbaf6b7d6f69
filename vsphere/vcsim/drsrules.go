// This file has the rules that keep VMs apart, as DRS heeds them.

package vcsim

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// place moves a powered-off VM to a host that has room and where no rule keeps it from another VM that is on, as DRS does at power-on. A VM
// stays on its host if that fits, and also if no host fits and DRS need not heed the rule. The result is why DRS finds no host. The caller holds the
// world lock.
//
// Sources disagree on rules that aren't mandatory. [doc] ClusterRuleInfo.mandatory: "An optional rule specifies a preference"; [doc] RuleViolation,
// without an exception for such rules: "VirtualCenter will never automatically move or power on a VM such that it triggers the violation". Reported
// of six VMs on five hosts: "DRS cannot find a host to power on or migrate the virtual machine" (cloudfoundry/bosh-vsphere-cpi-release#215, #223).
func (v *inventory) place(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
	c := v.clusterOf(vm.Runtime.Host)
	if c == nil {
		return nil
	}
	room := func(host types.ManagedObjectReference) bool {
		return v.hasRoom(host) && !v.boundElsewhere(c, vm.Self, host)
	}
	apart := func(host types.ManagedObjectReference) bool { return room(host) && v.brokenOn(c, vm.Self, host) == nil }
	here := *vm.Runtime.Host
	switch heeds := v.placement.drs[c.Self].HeedsRules; {
	case apart(here), v.toHost(ctx, vm, c, apart):
		return nil
	case !heeds && (room(here) || v.toHost(ctx, vm, c, room)):
		return nil
	}
	var reasons []types.LocalizedMethodFault
	rules := 0
	for _, host := range c.Host {
		reason := types.BaseMethodFault(new(types.InsufficientMemoryResourcesFault))
		switch rule := v.brokenOn(c, vm.Self, host); {
		case rule != nil && room(host):
			reason = &types.RuleViolation{Host: &host, Rule: rule}
			rules++
		case v.hasRoom(host) && !room(host):
			reason = &types.VmHostAffinityRuleViolation{VmName: vm.Name, HostName: v.objects.Get(host).(*simulator.HostSystem).Name}
		}
		reasons = append(reasons, types.LocalizedMethodFault{Fault: reason})
	}
	if rules == len(reasons) {
		return reasons[0].Fault
	}
	return &types.NoCompatibleHost{Error: reasons}
}

// hasRoom reports whether DRS can power a VM on on a host.
func (v *inventory) hasRoom(host types.ManagedObjectReference) bool {
	h, is := v.objects.Get(host).(*simulator.HostSystem)
	return is && !v.placement.full[host] && !h.Runtime.InMaintenanceMode
}

// brokenOn returns the rule that a VM would break on a host, because another VM of the rule is on there, or is being powered on; nil if there is none.
func (v *inventory) brokenOn(c *simulator.ClusterComputeResource, vm, host types.ManagedObjectReference) types.BaseClusterRuleInfo {
	for _, rule := range rulesOf(c) {
		apart, is := rule.(*types.ClusterAntiAffinityRuleSpec)
		if !is || !isTrue(apart.Enabled) || !slices.Contains(apart.Vm, vm) {
			continue
		}
		for _, ref := range apart.Vm {
			other, is := v.objects.Get(ref).(*simulator.VirtualMachine)
			if is && ref != vm && other.Runtime.Host != nil && *other.Runtime.Host == host &&
				(other.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn || v.placement.starting[ref]) {
				return rule
			}
		}
	}
	return nil
}

// boundElsewhere reports whether a mandatory rule keeps a VM on other hosts.
//
// vSphere Resource Management, Using VM-Host Affinity Rules: "DRS, vSphere HA, and vSphere DPM never take any action that results in the violation of
// required affinity rules".
func (v *inventory) boundElsewhere(c *simulator.ClusterComputeResource, vm, host types.ManagedObjectReference) bool {
	find := (&cluster{ClusterComputeResource: c, v: v}).group
	for _, rule := range rulesOf(c) {
		r, is := rule.(*types.ClusterVmHostRuleInfo)
		if !is || !isTrue(r.Enabled) || !isTrue(r.Mandatory) {
			continue
		}
		vms, isVMs := find(r.VmGroupName).(*types.ClusterVmGroup)
		hosts, isHosts := find(r.AffineHostGroupName).(*types.ClusterHostGroup)
		if isVMs && isHosts && slices.Contains(vms.Vm, vm) && !slices.Contains(hosts.Host, host) {
			return true
		}
	}
	return false
}

// RunDRS moves VMs that are on and that a rule keeps apart to hosts that have room, as DRS does every few minutes at the level Fully Automated.
func (v *inventory) RunDRS(clusterPath string) error {
	return at(v, "run DRS in", clusterPath, func(c *simulator.ClusterComputeResource) types.BaseMethodFault {
		for _, rule := range rulesOf(c) {
			apart, is := rule.(*types.ClusterAntiAffinityRuleSpec)
			if !is || !isTrue(apart.Enabled) {
				continue
			}
			for _, ref := range apart.Vm {
				vm, is := v.objects.Get(ref).(*simulator.VirtualMachine)
				if is && vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && v.brokenOn(c, ref, *vm.Runtime.Host) != nil {
					v.toHost(v.world.Context(), vm, c, func(host types.ManagedObjectReference) bool {
						return v.hasRoom(host) && !v.boundElsewhere(c, ref, host) && v.brokenOn(c, ref, host) == nil
					})
				}
			}
		}
		return nil
	})
}
