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
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// rules is a step that sets the DRS rules of a group.
type rules struct{ *step }

// A DRS rule belongs to one cluster, so a group has one in each cluster in which it has two members or more. The UID at the
// end of its name tells which group it belongs to; other rules are never touched.

// ruleTries is how often the server brings rules in line while others, such as another replica, change them.
const ruleTries = 3

// setRules brings a group's rules in line, in all clusters. If nothing is left to do, that is success.
func (r rules) setRules(ctx context.Context) error {
	request := v1alpha1.AntiAffinityNone
	if r.action.Details() != nil && r.action.Details().Spec != nil {
		request = r.action.Details().Spec.Placement.AntiAffinity
	}
	if err := r.reader.ReadClusters(ctx); err != nil {
		return err
	}
	changes, lack := r.inventory.RuleChanges(r.ref.UID, request)
	for try := 0; len(changes) > 0; try++ {
		if try == ruleTries {
			return unkept(changes)
		}
		changed := r.changeRules(ctx, changes)
		if err := r.reader.ReadClusters(ctx); err != nil {
			return errors.Join(changed, err)
		}
		tried := changes
		if changes, lack = r.inventory.RuleChanges(r.ref.UID, request); changed != nil && reflect.DeepEqual(changes, tried) {
			r.reader.Touch(ruledVMs(changes)...) // one may have left the cluster
			return changed
		}
	}
	return lack
}

// unkept returns the fault for rules that did not stay as they were set.
func unkept(changes []inventory.RuleChange) *vcfault.Error {
	for _, c := range changes {
		if c.Set != nil && c.Set.Key != 0 {
			return vcfault.New(vcfault.ReasonRuleConflict, true,
				"vCenter does not keep the rule %q as it was set: see in its cluster which other DRS rule conflicts with it, or set spec.placement.antiAffinity to None.", c.Set.Name)
		}
	}
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Somebody else is changing the group's DRS rules; they are read again.")
}

func ruledVMs(changes []inventory.RuleChange) (refs []vim.ManagedObjectReference) {
	for _, c := range changes {
		if c.Set != nil {
			refs = append(refs, inventory.VMRefs(c.Set.VMs)...)
		}
	}
	return refs
}

// changeRules changes each cluster in a separate task, and continues when one fails.
func (r rules) changeRules(ctx context.Context, changes []inventory.RuleChange) error {
	var failed []error
	for _, c := range changes {
		_, err := r.Task(ctx, func(ctx context.Context, s *session.Session) (task vim.ManagedObjectReference, err error) {
			res, err := methods.ReconfigureComputeResource_Task(ctx, s.Vim, &vim.ReconfigureComputeResource_Task{
				This: vim.ManagedObjectReference{Type: "ClusterComputeResource", Value: c.Cluster},
				Spec: &vim.ClusterConfigSpecEx{RulesSpec: ruleSpecs(c, r.ref)}, Modify: true,
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

// ruleSpecs returns a change for a cluster's configuration.
func ruleSpecs(c inventory.RuleChange, ref plan.Ref) (specs []vim.ClusterRuleSpec) {
	for _, key := range c.Remove {
		specs = append(specs, vim.ClusterRuleSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: vim.ArrayUpdateOperationRemove, RemoveKey: key}})
	}
	if c.Set == nil {
		return specs
	}
	info := vim.ClusterRuleInfo{Key: c.Set.Key, RuleUuid: c.Set.UUID, Name: c.Set.Name, Enabled: vim.NewBool(c.Set.Enabled),
		Mandatory: vim.NewBool(c.Set.Mandatory), UserCreated: c.Set.UserCreated}
	change := vim.ArrayUpdateOperationEdit
	if c.Set.Key == 0 {
		info.Name, change = stamp.RuleName(ref), vim.ArrayUpdateOperationAdd
	}
	return append(specs, vim.ClusterRuleSpec{ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: change},
		Info: &vim.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: info, Vm: inventory.VMRefs(c.Set.VMs)}})
}
