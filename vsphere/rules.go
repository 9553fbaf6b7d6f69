package vsphere

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/vmware/govmomi/vim25/methods"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// A DRS rule is of one cluster, so a group has one in each cluster in which it has two members or more. The UID at the
// end of its name tells whose it is; other rules are never touched.

// ruleTries is how often rules are brought in line while others, such as another replica, change them.
const ruleTries = 3

// setRules brings a group's rules in line, in all clusters. What is already as wanted is success.
func (v *VCenter) setRules(ctx context.Context, ref plan.Ref, a plan.Action) error {
	request := v1alpha1.AntiAffinityNone
	if a.Details != nil && a.Details.Spec != nil {
		request = a.Details.Spec.Placement.AntiAffinity
	}
	if err := v.reader.readClusters(ctx); err != nil {
		return err
	}
	changes, lack := v.inventory.ruleChanges(ref.UID, request)
	for try := 0; len(changes) > 0; try++ {
		if try == ruleTries {
			return unkept(changes)
		}
		changed := v.changeRules(ctx, ref, changes)
		if err := v.reader.readClusters(ctx); err != nil {
			return errors.Join(changed, err)
		}
		tried := changes
		if changes, lack = v.inventory.ruleChanges(ref.UID, request); changed != nil && reflect.DeepEqual(changes, tried) {
			v.reader.touch(ruledVMs(changes)...) // one may have left the cluster
			return changed
		}
	}
	return lack
}

// unkept is for rules that did not stay as they were set.
func unkept(changes []ruleChange) *vcfault.Error {
	for _, c := range changes {
		if c.set != nil && c.set.Key != 0 {
			return vcfault.New(vcfault.ReasonRuleConflict, true,
				"vCenter does not keep the rule %q as it was set: see in its cluster which other DRS rule conflicts with it, or set spec.placement.antiAffinity to None.", c.set.Name)
		}
	}
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Somebody else changes the group's DRS rules; they are looked at again.")
}

func ruledVMs(changes []ruleChange) (refs []vim.ManagedObjectReference) {
	for _, c := range changes {
		if c.set != nil {
			refs = append(refs, vmRefs(c.set.VMs)...)
		}
	}
	return refs
}

// changeRules changes each cluster by a task of its own; that one fails keeps none of the others from being changed.
func (v *VCenter) changeRules(ctx context.Context, ref plan.Ref, changes []ruleChange) error {
	var failed []error
	for _, c := range changes {
		_, err := v.task(ctx, func(ctx context.Context, s *session.Session) (task vim.ManagedObjectReference, err error) {
			res, err := methods.ReconfigureComputeResource_Task(ctx, s.Vim, &vim.ReconfigureComputeResource_Task{
				This: vim.ManagedObjectReference{Type: "ClusterComputeResource", Value: c.cluster},
				Spec: &vim.ClusterConfigSpecEx{RulesSpec: c.spec(ref)}, Modify: true,
			})
			if err == nil {
				task = res.Returnval
			}
			return task, err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("set the rules of %s: %w", c.cluster, err))
		}
	}
	return errors.Join(failed...)
}

func (c ruleChange) spec(ref plan.Ref) (specs []vim.ClusterRuleSpec) {
	for _, key := range c.remove {
		specs = append(specs, vim.ClusterRuleSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: vim.ArrayUpdateOperationRemove, RemoveKey: key}})
	}
	if c.set == nil {
		return specs
	}
	info := vim.ClusterRuleInfo{Key: c.set.Key, RuleUuid: c.set.UUID, Name: c.set.Name, Enabled: vim.NewBool(c.set.Enabled),
		Mandatory: vim.NewBool(c.set.Mandatory), UserCreated: c.set.UserCreated}
	change := vim.ArrayUpdateOperationEdit
	if c.set.Key == 0 {
		info.Name, change = ruleName(ref), vim.ArrayUpdateOperationAdd
	}
	return append(specs, vim.ClusterRuleSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: change},
		Info: &vim.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: info, Vm: vmRefs(c.set.VMs)}})
}
