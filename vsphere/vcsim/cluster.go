package vcsim

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// cluster wraps a cluster for one call.
type cluster struct {
	*simulator.ClusterComputeResource
	*call
	v *inventory
}

// ReconfigureComputeResourceTask has a latency and checks the VMs of rules.
func (c *cluster) ReconfigureComputeResourceTask(_ *simulator.Context, req *types.ReconfigureComputeResource_Task) soap.HasFault {
	ref := c.v.begin(c.call, work{kind: ReconfigureCluster, entity: c.ClusterComputeResource, name: c.Name,
		do: func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			if spec, is := req.Spec.(*types.ClusterConfigSpecEx); is {
				for _, change := range spec.RulesSpec {
					if fault := c.checkRule(change.Info); fault != nil {
						return nil, fault
					}
				}
			}
			return c.v.inner(ctx, c.Self, func() soap.HasFault { return c.ClusterComputeResource.ReconfigureComputeResourceTask(ctx, req) })
		}})
	return &methods.ReconfigureComputeResource_TaskBody{Res: &types.ReconfigureComputeResource_TaskResponse{Returnval: ref}}
}

func rulesOf(c *simulator.ClusterComputeResource) []types.BaseClusterRuleInfo {
	return c.ConfigurationEx.(*types.ClusterConfigInfoEx).Rule
}

// ruleNameMax is the maximum length of a rule's name in characters, the same as of every name in vCenter. A longer one "is invalid or
// exceeds the maximum number of characters permitted" (cloudfoundry/bosh-vsphere-cpi-release#220, with 82).
const ruleNameMax = 80

// checkRule rejects an invalid affinity or anti-affinity rule. The caller holds the world lock.
//
// [doc] ClusterRuleInfo: "Hosts and virtual machines referenced in a DRS rule must be in the same cluster". vCenter's user interface
// requires at least two VMs. The documentation names no faults; these are InvalidArgument, as the simulator's are.
func (c *cluster) checkRule(rule types.BaseClusterRuleInfo) types.BaseMethodFault {
	vms := ruleVMs(rule)
	if vms == nil {
		return nil
	}
	if name := rule.GetClusterRuleInfo().Name; utf8.RuneCountInString(name) > ruleNameMax {
		return &types.InvalidName{Name: name}
	}
	wrong, in := &types.InvalidArgument{InvalidProperty: "spec.rulesSpec.info.vm"}, make(map[types.ManagedObjectReference]bool)
	for _, ref := range *vms {
		vm, ok := c.v.objects.Get(ref).(*simulator.VirtualMachine)
		if !ok {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
		if in[ref] || vm.ResourcePool == nil || !c.v.world.Below(*vm.ResourcePool, c.Self) {
			return wrong
		}
		in[ref] = true
	}
	if len(in) < 2 {
		return wrong
	}
	return nil
}

// ruleVMs returns the VM list of an affinity or anti-affinity rule; nil for any other.
func ruleVMs(rule types.BaseClusterRuleInfo) *[]types.ManagedObjectReference {
	switch r := rule.(type) {
	case *types.ClusterAffinityRuleSpec:
		return &r.Vm
	case *types.ClusterAntiAffinityRuleSpec:
		return &r.Vm
	}
	return nil
}

// RemoveObject implements simulator.RegisterObject. It removes VMs that leave the inventory from all rules. The caller holds the world lock.
//
// [doc] Broadcom KB 436954: "The deleted virtual machine is automatically removed from the rule's membership. The rule itself remains":
// with fewer than two VMs it has no effect.
func (b *listener) RemoveObject(ctx *simulator.Context, ref types.ManagedObjectReference) {
	b.TaskManager.RemoveObject(ctx, ref)
	if ref.Type != "VirtualMachine" {
		return
	}
	for _, e := range b.v.objects.All("ClusterComputeResource") {
		c := e.(*simulator.ClusterComputeResource)
		for _, rule := range rulesOf(c) {
			if vms := ruleVMs(rule); vms != nil && slices.Contains(*vms, ref) {
				*vms = slices.DeleteFunc(*vms, func(vm types.ManagedObjectReference) bool { return vm == ref })
				b.v.world.Mark(c.Self)
			}
		}
	}
}

// Rule is a DRS affinity or anti-affinity rule.
type Rule struct {
	Key                int32
	Name, UUID         string
	Enabled, Mandatory bool
	Separate           bool     // anti-affinity: the VMs run on different hosts
	VMs                []string // names, sorted
}

// Rules lists the VM rules of the cluster at a path, sorted by key.
func (v *inventory) Rules(clusterPath string) ([]Rule, error) {
	ref, err := v.Find(clusterPath)
	if err != nil {
		return nil, err
	}
	v.world.Lock()
	defer v.world.Unlock()
	c, ok := v.objects.Get(ref).(*simulator.ClusterComputeResource)
	if !ok {
		return nil, fmt.Errorf("rules of %s: not a cluster", clusterPath)
	}
	var rules []Rule
	for _, rule := range rulesOf(c) {
		vms := ruleVMs(rule)
		if vms == nil {
			continue
		}
		info := rule.GetClusterRuleInfo()
		one := Rule{Key: info.Key, Name: info.Name, UUID: info.RuleUuid, Enabled: isTrue(info.Enabled), Mandatory: isTrue(info.Mandatory)}
		_, one.Separate = rule.(*types.ClusterAntiAffinityRuleSpec)
		for _, ref := range *vms {
			if vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine); ok {
				one.VMs = append(one.VMs, vm.Name)
			}
		}
		slices.Sort(one.VMs)
		rules = append(rules, one)
	}
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Key, b.Key) })
	return rules, nil
}
