package vcsim

import (
	"cmp"
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

// ReconfigureComputeResourceTask has a latency, checks rules and groups, and posts an event.
//
// A recorded 8.0.1 (EventManager.description) describes a ClusterReconfiguredEvent so: "The cluster configuration was changed", and "All DRS
// rules are also stored in the cluster configuration". The event here doesn't say what was changed.
func (c *cluster) ReconfigureComputeResourceTask(_ *simulator.Context, req *types.ReconfigureComputeResource_Task) soap.HasFault {
	ref := c.v.begin(c.call, work{kind: ReconfigureCluster, entity: c.ClusterComputeResource, name: c.Name,
		do: func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			if spec, is := req.Spec.(*types.ClusterConfigSpecEx); is {
				c.escapeGroups(spec)
				for _, change := range spec.RulesSpec {
					if fault := c.checkRule(change.Info); fault != nil {
						return nil, fault
					}
				}
				for _, change := range spec.GroupSpec {
					if fault := c.checkGroup(change); fault != nil {
						return nil, fault
					}
				}
			}
			result, fault := c.v.inner(ctx, c.Self, func() soap.HasFault { return c.ClusterComputeResource.ReconfigureComputeResourceTask(ctx, req) })
			if fault == nil {
				c.v.post(ctx, &types.ClusterReconfiguredEvent{ClusterEvent: types.ClusterEvent{Event: c.v.clusterEvent(c.Self)}})
			}
			return result, fault
		}})
	return &methods.ReconfigureComputeResource_TaskBody{Res: &types.ReconfigureComputeResource_TaskResponse{Returnval: ref}}
}

// escapeGroups escapes the names of DRS groups and rules, as vCenter escapes other names. No source shows whether vCenter escapes the names
// of groups and rules.
func (c *cluster) escapeGroups(spec *types.ClusterConfigSpecEx) {
	escape := func(name string) string {
		if c.group(name) != nil { // the name is escaped already
			return name
		}
		return escape(name)
	}
	for i := range spec.GroupSpec {
		change := &spec.GroupSpec[i]
		if name, is := change.RemoveKey.(string); is {
			change.RemoveKey = escape(name)
		}
		if change.Info != nil {
			g := change.Info.GetClusterGroupInfo()
			g.Name = escape(g.Name)
		}
	}
	for _, change := range spec.RulesSpec {
		if change.Info == nil {
			continue
		}
		rule := change.Info.GetClusterRuleInfo()
		rule.Name = escape(rule.Name)
		if r, is := change.Info.(*types.ClusterVmHostRuleInfo); is {
			r.VmGroupName, r.AffineHostGroupName = escape(r.VmGroupName), escape(r.AffineHostGroupName)
		}
	}
}

func rulesOf(c *simulator.ClusterComputeResource) []types.BaseClusterRuleInfo {
	return c.ConfigurationEx.(*types.ClusterConfigInfoEx).Rule
}

// ruleNameMax is the maximum length of a rule's name in characters, the same as of every name in vCenter. A longer name "is invalid or
// exceeds the maximum number of characters permitted" (cloudfoundry/bosh-vsphere-cpi-release#220, with 82).
const ruleNameMax = 80

// checkRule rejects an invalid affinity or anti-affinity rule. The caller holds the world lock.
//
// [doc] ClusterRuleInfo: "Hosts and virtual machines referenced in a DRS rule must be in the same cluster". vCenter's user interface
// requires at least two VMs. The documentation names no faults; these are InvalidArgument, as the simulator's are.
//
// A VM-host rule names groups that exist, and "at least one" host group "must contain one or more hosts" ([doc] ClusterVmHostRuleInfo).
func (c *cluster) checkRule(rule types.BaseClusterRuleInfo) types.BaseMethodFault {
	if rule == nil {
		return nil
	}
	if name := rule.GetClusterRuleInfo().Name; utf8.RuneCountInString(name) > ruleNameMax {
		return &types.InvalidName{Name: name}
	}
	if r, is := rule.(*types.ClusterVmHostRuleInfo); is {
		_, vms := c.group(r.VmGroupName).(*types.ClusterVmGroup)
		if hosts, is := c.group(r.AffineHostGroupName).(*types.ClusterHostGroup); !is || !vms || len(hosts.Host) == 0 {
			return &types.InvalidArgument{InvalidProperty: "spec.rulesSpec.info"}
		}
		return nil
	}
	vms := ruleVMs(rule)
	if vms == nil {
		return nil
	}
	if len(*vms) < 2 {
		return &types.InvalidArgument{InvalidProperty: "spec.rulesSpec.info.vm"}
	}
	return c.checkVMs(*vms, "spec.rulesSpec.info.vm")
}

// checkGroup rejects an invalid VM group, and the removal of one that a rule names. The caller holds the world lock.
//
// [doc] ClusterGroupInfo: "All virtual machines and hosts that are part of a group must be part of the same cluster". No source shows what
// happens to a rule whose group is removed: here, the removal is refused, so that tests find clients that rely on the removal.
func (c *cluster) checkGroup(change types.ClusterGroupSpec) types.BaseMethodFault {
	if change.Operation == types.ArrayUpdateOperationRemove {
		for _, rule := range rulesOf(c.ClusterComputeResource) {
			if r, is := rule.(*types.ClusterVmHostRuleInfo); is && (r.VmGroupName == change.RemoveKey || r.AffineHostGroupName == change.RemoveKey) {
				return &types.InvalidArgument{InvalidProperty: "spec.groupSpec.removeKey"}
			}
		}
		return nil
	}
	if name := change.Info.GetClusterGroupInfo().Name; utf8.RuneCountInString(name) > ruleNameMax {
		return &types.InvalidName{Name: name}
	}
	if g, is := change.Info.(*types.ClusterVmGroup); is {
		return c.checkVMs(g.Vm, "spec.groupSpec.info.vm")
	}
	return nil
}

// checkVMs rejects VMs that are not in the cluster, and a list that has a VM twice.
func (c *cluster) checkVMs(vms []types.ManagedObjectReference, property string) types.BaseMethodFault {
	in := make(map[types.ManagedObjectReference]bool)
	for _, ref := range vms {
		vm, ok := c.v.objects.Get(ref).(*simulator.VirtualMachine)
		if !ok {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
		if in[ref] || vm.ResourcePool == nil || !c.v.world.Below(*vm.ResourcePool, c.Self) {
			return &types.InvalidArgument{InvalidProperty: property}
		}
		in[ref] = true
	}
	return nil
}

// group returns the DRS group of that name; nil if there is none.
func (c *cluster) group(name string) types.BaseClusterGroupInfo {
	for _, g := range groupsOf(c.ClusterComputeResource) {
		if g.GetClusterGroupInfo().Name == name {
			return g
		}
	}
	return nil
}

func groupsOf(c *simulator.ClusterComputeResource) []types.BaseClusterGroupInfo {
	return c.ConfigurationEx.(*types.ClusterConfigInfoEx).Group
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

// RemoveObject implements simulator.RegisterObject. It removes VMs that leave the inventory from all rules and groups. The caller holds the
// world lock.
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
			if vms := ruleVMs(rule); vms != nil {
				b.v.leave(c, vms, ref)
			}
		}
		b.v.leaveGroups(c, ref)
	}
}

// leaveGroups removes a VM from the groups of a cluster that it leaves.
//
// [doc] ClusterVmGroup: "If a virtual machine is removed from the cluster, it loses its DRS group affiliation".
func (v *inventory) leaveGroups(c *simulator.ClusterComputeResource, ref types.ManagedObjectReference) {
	for _, group := range groupsOf(c) {
		if vms, is := group.(*types.ClusterVmGroup); is {
			v.leave(c, &vms.Vm, ref)
		}
	}
}

func (v *inventory) leave(c *simulator.ClusterComputeResource, vms *[]types.ManagedObjectReference, ref types.ManagedObjectReference) {
	if slices.Contains(*vms, ref) {
		*vms = slices.DeleteFunc(*vms, func(vm types.ManagedObjectReference) bool { return vm == ref })
		v.world.Mark(c.Self)
	}
}

// Rule is a DRS affinity or anti-affinity rule.
type Rule struct {
	Key                int32
	Name, UUID         string
	Enabled, Mandatory bool
	Separate           bool     // anti-affinity: the VMs run on different hosts
	VMs                []string // names, sorted
	VMGroup, HostGroup string   // of a VM-host rule, whose VMs are those of its group
}

// Rules lists the VM rules and VM-host rules of the cluster at a path, sorted by key.
func (v *inventory) Rules(clusterPath string) (rules []Rule, err error) {
	err = at(v, "rules of", clusterPath, func(c *simulator.ClusterComputeResource) types.BaseMethodFault {
		for _, rule := range rulesOf(c) {
			vms := ruleVMs(rule)
			info := rule.GetClusterRuleInfo()
			one := Rule{Key: info.Key, Name: info.Name, UUID: info.RuleUuid, Enabled: isTrue(info.Enabled), Mandatory: isTrue(info.Mandatory)}
			_, one.Separate = rule.(*types.ClusterAntiAffinityRuleSpec)
			if r, is := rule.(*types.ClusterVmHostRuleInfo); is {
				one.VMGroup, one.HostGroup = r.VmGroupName, r.AffineHostGroupName
				if g, is := (&cluster{ClusterComputeResource: c}).group(r.VmGroupName).(*types.ClusterVmGroup); is {
					vms = &g.Vm
				}
			}
			if vms != nil {
				one.VMs = v.namesOf(*vms)
				rules = append(rules, one)
			}
		}
		slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Key, b.Key) })
		return nil
	})
	return rules, err
}

// namesOf returns the names of VMs, sorted.
func (v *inventory) namesOf(vms []types.ManagedObjectReference) (names []string) {
	for _, ref := range vms {
		if vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine); ok {
			names = append(names, vm.Name)
		}
	}
	slices.Sort(names)
	return names
}

// VMGroups returns the DRS VM groups of the cluster at a path: the names of their VMs, sorted, by the group's name.
func (v *inventory) VMGroups(clusterPath string) (map[string][]string, error) {
	groups := map[string][]string{}
	return groups, at(v, "groups of", clusterPath, func(c *simulator.ClusterComputeResource) types.BaseMethodFault {
		for _, group := range groupsOf(c) {
			if g, is := group.(*types.ClusterVmGroup); is {
				groups[g.Name] = v.namesOf(g.Vm)
			}
		}
		return nil
	})
}
