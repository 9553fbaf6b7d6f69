package vsphere

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// rules is a step that sets the DRS rules of a group.
type rules struct{ *step }

// A DRS rule belongs to one cluster. A group has an anti-affinity rule in each cluster with two or more of its members, and a VM group and a
// VM-host rule for each host group with members of its own. The UID at the end of a rule's name identifies the group. The server leaves all other
// rules alone.

// ruleTries bounds the changes by which the server brings rules in line while another replica, say, changes them. A rule for a host group takes two
// changes.
const ruleTries = 4

// setRules brings a group's rules in line with the spec, in all clusters. It succeeds if nothing is left to do.
func (r rules) setRules(ctx context.Context) error {
	request := r.wanted()
	if err := r.reader.ReadClusters(ctx); err != nil {
		return err
	}
	changes, lack := r.inventory.RuleChanges(r.ref, request)
	for try := 0; len(changes) > 0; try++ {
		if try == ruleTries {
			return errRulesNotKept(changes)
		}
		changed := r.changeRules(ctx, changes)
		if err := r.reader.ReadClusters(ctx); err != nil {
			return errors.Join(changed, err)
		}
		tried := changes
		if changes, lack = r.inventory.RuleChanges(r.ref, request); changed != nil && reflect.DeepEqual(changes, tried) {
			r.reader.Enqueue(ruledVMs(changes)...) // a VM may have left the cluster
			return changed
		} else if try > 0 && reflect.DeepEqual(changes, tried) { // vCenter reverted the change twice
			return errRulesNotKept(changes)
		}
	}
	r.noteBackInRule(ctx)
	return lack
}

// wanted returns the rules that the spec asks for.
func (r rules) wanted() plan.Rules {
	if r.action.Details() == nil || r.action.Details().Spec == nil {
		return plan.Rules{}
	}
	return plan.RulesOf(r.action.Details().Spec)
}

// errRulesNotKept returns the fault for rules that vCenter or another client changed back. What does that does it to all groups in the cluster. The deletion of
// a group ends in spite of it, if an operator must act (rulesGone in sync/planner).
func errRulesNotKept(changes []inventory.RuleChange) (err *vcfault.Error) {
	defer func() { err.Scope = plan.OnPool }()
	for _, c := range changes {
		for _, g := range append(slices.Clone(c.AddGroups), c.EditGroups...) {
			return vcfault.ForOperator(vcfault.ReasonRuleConflict,
				"vCenter does not keep the DRS VM group %q as it was set: see in its cluster's events what else changes its DRS groups, or remove spec.placement.hostGroup.", g.Name)
		}
		for _, rule := range c.Set {
			if rule.Key != 0 {
				without := "set spec.placement.antiAffinity to None"
				if rule.ForHosts {
					without = "remove spec.placement.hostGroup"
				}
				return vcfault.ForOperator(vcfault.ReasonRuleConflict,
					"vCenter does not keep the rule %q as it was set: see in its cluster which other DRS rule conflicts with it, or %s.", rule.Name, without)
			}
		}
	}
	kept := "a DRS rule of the group"
	for _, c := range changes {
		if len(c.Set) > 0 {
			return vcfault.ForRetry(vcfault.ReasonConcurrentAccess, "The group's DRS rules changed while the server set them; the server reads them again.")
		}
		for _, name := range c.RemoveGroups {
			kept = fmt.Sprintf("the DRS VM group %q", name)
		}
	}
	return vcfault.ForOperator(vcfault.ReasonRuleConflict, "vCenter still has %s, although it said that it removed it: see in its cluster's events what sets it again, and remove it.", kept)
}

func ruledVMs(changes []inventory.RuleChange) (refs []vim.ManagedObjectReference) {
	for _, c := range changes {
		for _, rule := range c.Set {
			refs = append(refs, inventory.VMRefs(rule.VMs)...)
		}
		for _, vms := range append(slices.Clone(c.AddGroups), c.EditGroups...) {
			refs = append(refs, inventory.VMRefs(vms.VMs)...)
		}
	}
	return refs
}

// changeRules changes each cluster in a task of its own, and continues after a failure.
func (r rules) changeRules(ctx context.Context, changes []inventory.RuleChange) error {
	var failed []error
	for _, c := range changes {
		_, err := r.Task(ctx, func(ctx context.Context, s *session.Session) (task vim.ManagedObjectReference, err error) {
			res, err := methods.ReconfigureComputeResource_Task(ctx, s.Vim, &vim.ReconfigureComputeResource_Task{
				This: vim.ManagedObjectReference{Type: "ClusterComputeResource", Value: c.Cluster},
				Spec: &vim.ClusterConfigSpecEx{RulesSpec: ruleSpecs(c), GroupSpec: groupSpecs(c)}, Modify: true,
			})
			if err == nil {
				task = res.Returnval
			}
			return task, err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("set the rules of %s: %w", c.Cluster, err))
		}
	}
	return errors.Join(failed...)
}

// ruleSpecs returns the rules of a change for a cluster's configuration.
func ruleSpecs(c inventory.RuleChange) (specs []vim.ClusterRuleSpec) {
	for _, key := range c.Remove {
		specs = append(specs, vim.ClusterRuleSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: vim.ArrayUpdateOperationRemove, RemoveKey: key}})
	}
	for _, rule := range c.Set {
		change := vim.ArrayUpdateOperationEdit
		if rule.Key == 0 {
			change = vim.ArrayUpdateOperationAdd
		}
		info := vim.ClusterRuleInfo{Key: rule.Key, RuleUuid: rule.UUID, Name: rule.Name, Enabled: vim.NewBool(rule.Enabled),
			Mandatory: vim.NewBool(rule.Mandatory), UserCreated: rule.UserCreated}
		spec := vim.ClusterRuleSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: change},
			Info: &vim.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: info, Vm: inventory.VMRefs(rule.VMs)}}
		if rule.ForHosts {
			spec.Info = &vim.ClusterVmHostRuleInfo{ClusterRuleInfo: info, VmGroupName: rule.VMGroup, AffineHostGroupName: rule.HostGroup}
		}
		specs = append(specs, spec)
	}
	return specs
}

// groupSpecs returns the VM groups of a change for a cluster's configuration.
func groupSpecs(c inventory.RuleChange) (specs []vim.ClusterGroupSpec) {
	for _, name := range c.RemoveGroups {
		specs = append(specs, vim.ClusterGroupSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: vim.ArrayUpdateOperationRemove, RemoveKey: name}})
	}
	set := func(change vim.ArrayUpdateOperation, all []inventory.VMGroup) {
		for _, g := range all {
			specs = append(specs, vim.ClusterGroupSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: change},
				Info: &vim.ClusterVmGroup{ClusterGroupInfo: vim.ClusterGroupInfo{Name: g.Name, UniqueID: g.UniqueID, UserCreated: g.UserCreated}, Vm: inventory.VMRefs(g.VMs)}})
		}
	}
	set(vim.ArrayUpdateOperationAdd, c.AddGroups)
	set(vim.ArrayUpdateOperationEdit, c.EditGroups)
	return specs
}
