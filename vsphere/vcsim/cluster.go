package vcsim

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// cluster wraps a cluster for one call.
type cluster struct {
	*simulator.ClusterComputeResource
	*call
	v *inventory
}

// ReconfigureComputeResourceTask is atomic, has a latency and validates rules. The simulator looks up the rule to edit by name and loses
// its key.
func (c *cluster) ReconfigureComputeResourceTask(_ *simulator.Context, req *types.ReconfigureComputeResource_Task) soap.HasFault {
	ref := c.v.begin(c.call, work{kind: ReconfigureCluster, entity: c.ClusterComputeResource, name: c.Name,
		do: func(ctx *simulator.Context) (types.AnyType, types.BaseMethodFault) {
			spec, ok := req.Spec.(*types.ClusterConfigSpecEx)
			if !ok {
				return nil, &types.InvalidArgument{InvalidProperty: "spec"}
			}
			rules, fault := c.changed(spec.RulesSpec)
			if fault != nil {
				return nil, fault
			}
			rest := *spec
			rest.RulesSpec = nil
			_, fault = c.v.inner(ctx, c.Self, func() soap.HasFault {
				return c.ClusterComputeResource.ReconfigureComputeResourceTask(ctx, &types.ReconfigureComputeResource_Task{
					This: c.Self, Spec: &rest, Modify: req.Modify,
				})
			})
			if fault == nil && len(spec.RulesSpec) > 0 {
				c.v.setRules(ctx, c.ClusterComputeResource, rules)
			}
			return nil, fault
		}})
	return &methods.ReconfigureComputeResource_TaskBody{Res: &types.ReconfigureComputeResource_TaskResponse{Returnval: ref}}
}

func rulesOf(c *simulator.ClusterComputeResource) []types.BaseClusterRuleInfo {
	return c.ConfigurationEx.(*types.ClusterConfigInfoEx).Rule
}

// setRules replaces the rules in a new configuration, so that earlier reads of the old one stay unchanged.
func (v *inventory) setRules(ctx *simulator.Context, c *simulator.ClusterComputeResource, rules []types.BaseClusterRuleInfo) {
	config := *c.ConfigurationEx.(*types.ClusterConfigInfoEx)
	config.Rule = rules
	c.ConfigurationEx = &config
	v.world.Mark(c.Self)
}

// changed returns the rules with the changes of specs. The caller holds the world lock.
//
// [doc] ClusterRuleSpec (ArrayUpdateSpec): add, edit (by info.key), remove (by removeKey); ClusterRuleInfo.key and
// ruleUuid: "When adding a new rule, do not specify this property. The Server will assign the key". The
// documentation names no faults; these are InvalidArgument, as the simulator's are.
func (c *cluster) changed(specs []types.ClusterRuleSpec) ([]types.BaseClusterRuleInfo, types.BaseMethodFault) {
	rules := slices.Clone(rulesOf(c.ClusterComputeResource))
	find := func(key int32) int {
		return slices.IndexFunc(rules, func(r types.BaseClusterRuleInfo) bool { return r.GetClusterRuleInfo().Key == key })
	}
	for _, spec := range specs {
		switch spec.Operation {
		case types.ArrayUpdateOperationRemove:
			key, _ := spec.RemoveKey.(int32)
			i := find(key)
			if i < 0 {
				return nil, wrongRule("removeKey")
			}
			rules = slices.Delete(rules, i, i+1)
		case types.ArrayUpdateOperationAdd, types.ArrayUpdateOperationEdit:
			if spec.Info == nil {
				return nil, wrongRule("info")
			}
			info, i := spec.Info.GetClusterRuleInfo(), -1
			if spec.Operation == types.ArrayUpdateOperationEdit {
				if i = find(info.Key); i < 0 {
					return nil, wrongRule("info.key")
				}
				keep(info, rules[i].GetClusterRuleInfo())
			}
			if fault := c.checkRule(spec.Info, rules, i); fault != nil {
				return nil, fault
			}
			if i >= 0 {
				rules[i] = spec.Info
				continue
			}
			info.Key, info.RuleUuid = c.v.nextRuleKey(), uuid.NewString()
			info.UserCreated = types.NewBool(true)
			rules = append(rules, spec.Info)
		default:
			return nil, wrongRule("operation")
		}
	}
	return rules, nil
}

// keep copies the fields that an edit leaves unset from the old rule.
func keep(info, old *types.ClusterRuleInfo) {
	info.RuleUuid, info.UserCreated = old.RuleUuid, old.UserCreated
	info.Name = cmp.Or(info.Name, old.Name)
	if info.Enabled == nil {
		info.Enabled = old.Enabled
	}
	if info.Mandatory == nil {
		info.Mandatory = old.Mandatory
	}
}

func wrongRule(property string) types.BaseMethodFault {
	return &types.InvalidArgument{InvalidProperty: "spec.rulesSpec." + property}
}

// ruleNameMax is the maximum length of a rule's name in characters, the same as of every name in vCenter. A longer one "is invalid or
// exceeds the maximum number of characters permitted" (cloudfoundry/bosh-vsphere-cpi-release#220, with 82).
const ruleNameMax = 80

// checkRule rejects an invalid rule. The rule replaces the one at index self, or is new if self is -1.
//
// [doc] ClusterRuleInfo: "Hosts and virtual machines referenced in a DRS rule must be in the same cluster". vCenter's user interface
// requires at least two VMs.
func (c *cluster) checkRule(rule types.BaseClusterRuleInfo, rules []types.BaseClusterRuleInfo, self int) types.BaseMethodFault {
	name := rule.GetClusterRuleInfo().Name
	if name == "" {
		return wrongRule("info.name")
	}
	if utf8.RuneCountInString(name) > ruleNameMax {
		return &types.InvalidName{Name: name}
	}
	for i, other := range rules {
		if i != self && other.GetClusterRuleInfo().Name == name {
			return wrongRule("info.name")
		}
	}
	vms, ok := ruleVMs(rule)
	if !ok {
		return nil // a VM-host rule
	}
	seen := make(map[types.ManagedObjectReference]bool)
	for _, ref := range *vms {
		vm, ok := c.v.objects.Get(ref).(*simulator.VirtualMachine)
		if !ok {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
		if seen[ref] || vm.ResourcePool == nil || !c.v.world.Below(*vm.ResourcePool, c.Self) {
			return wrongRule("info.vm")
		}
		seen[ref] = true
	}
	if len(seen) < 2 {
		return wrongRule("info.vm")
	}
	return nil
}

// ruleVMs returns the VM list of an affinity or anti-affinity rule.
func ruleVMs(rule types.BaseClusterRuleInfo) (*[]types.ManagedObjectReference, bool) {
	switch r := rule.(type) {
	case *types.ClusterAffinityRuleSpec:
		return &r.Vm, true
	case *types.ClusterAntiAffinityRuleSpec:
		return &r.Vm, true
	}
	return nil, false
}

func (v *inventory) nextRuleKey() int32 {
	v.lastRule++
	return v.lastRule
}

// ruleCleaner removes VMs that leave the inventory from all rules.
//
// [doc] Broadcom KB 436954: "The deleted virtual machine is automatically removed from the rule's membership. The rule itself remains":
// with fewer than two VMs it has no effect.
type ruleCleaner struct{ v *inventory }

// Reference implements simulator.RegisterObject. It identifies the listener in the registry.
func (ruleCleaner) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VcsimRules", Value: "rules"}
}

// PutObject implements simulator.RegisterObject.
func (ruleCleaner) PutObject(*simulator.Context, mo.Reference) {}

// UpdateObject implements simulator.RegisterObject.
func (ruleCleaner) UpdateObject(*simulator.Context, mo.Reference, []types.PropertyChange) {}

// RemoveObject implements simulator.RegisterObject. The caller holds the world lock.
func (b ruleCleaner) RemoveObject(_ *simulator.Context, ref types.ManagedObjectReference) {
	if ref.Type != "VirtualMachine" {
		return
	}
	for _, e := range b.v.objects.All("ClusterComputeResource") {
		c := e.(*simulator.ClusterComputeResource)
		rules, changed := slices.Clone(rulesOf(c)), false
		for i, rule := range rules {
			vms, ok := ruleVMs(rule)
			if !ok || !slices.Contains(*vms, ref) {
				continue
			}
			left := slices.DeleteFunc(slices.Clone(*vms), func(r types.ManagedObjectReference) bool { return r == ref })
			rules[i], changed = withVMs(rule, left), true
		}
		if changed {
			b.v.setRules(b.v.world.Context(), c, rules)
		}
	}
}

func withVMs(rule types.BaseClusterRuleInfo, vms []types.ManagedObjectReference) types.BaseClusterRuleInfo {
	switch r := rule.(type) {
	case *types.ClusterAffinityRuleSpec:
		copied := *r
		copied.Vm = vms
		return &copied
	case *types.ClusterAntiAffinityRuleSpec:
		copied := *r
		copied.Vm = vms
		return &copied
	}
	return rule
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
		vms, ok := ruleVMs(rule)
		if !ok {
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
