package vsphere

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/vmware/govmomi/vim25/methods"
	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A DRS rule is of one cluster, so a group has one in each cluster in which it has two members or more. The UID at the
// end of its name tells whose it is; other rules are never touched.

// Why spec.placement.antiAffinity cannot be carried out.
const (
	// ReasonRuleIneffective means that DRS, which heeds such rules, is off where the members are, or that there is none.
	ReasonRuleIneffective = "RuleIneffective"
	// ReasonRuleConflict means that vCenter has switched the rule off.
	ReasonRuleConflict = "RuleConflict"
	// ReasonRuleViolation means that a member cannot run anywhere without breaking a rule.
	ReasonRuleViolation = "RuleViolation"
)

const (
	rulePrefix = "vmgroup "
	// ruleNameMost is how long a rule's name may be, as any name in vSphere, in characters.
	ruleNameMost = 80
)

// ruleName is "vmgroup <namespace>/<name> <uid>"; what is too long is cut out of its middle.
func ruleName(ref plan.Ref) string {
	group := ref.String()
	return rulePrefix + group[:min(len(group), max(0, ruleNameMost-len(rulePrefix)-1-len(ref.UID)))] + " " + string(ref.UID)
}

// ruleOwner is the UID of the group that a rule of that name is for; empty if it is not ours.
func ruleOwner(name string) types.UID {
	rest, ours := strings.CutPrefix(name, rulePrefix)
	if at := strings.LastIndexByte(rest, ' '); ours && at >= 0 {
		return types.UID(rest[at+1:])
	}
	return ""
}

func wantsRules(request v1alpha1.AntiAffinity) bool {
	return request == v1alpha1.AntiAffinityPreferred || request == v1alpha1.AntiAffinityRequired
}

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
func unkept(changes []ruleChange) *Error {
	for _, c := range changes {
		if c.set != nil && c.set.Key != 0 {
			return faultf(ReasonRuleConflict, true,
				"vCenter does not keep the rule %q as it was set: see in its cluster which other DRS rule conflicts with it, or set spec.placement.antiAffinity to None.", c.set.Name)
		}
	}
	return faultf(ReasonConcurrentAccess, false, "Somebody else changes the group's DRS rules; they are looked at again.")
}

func ruledVMs(changes []ruleChange) (refs []vim.ManagedObjectReference) {
	for _, c := range changes {
		if c.set != nil {
			refs = append(refs, vmRefs(c.set.VMs)...)
		}
	}
	return refs
}

func vmRefs(moRefs []string) []vim.ManagedObjectReference {
	refs := make([]vim.ManagedObjectReference, len(moRefs))
	for i, moRef := range moRefs {
		refs[i] = vmRef(moRef)
	}
	return refs
}

// ruleChanges are those that bring a group's rules in line with what is known now; lack is nil, or why they do not
// suffice.
func (n *Inventory) ruleChanges(uid types.UID, request v1alpha1.AntiAffinity) (changes []ruleChange, lack error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.clusters.known {
		return nil, faultf(plan.ReasonInventoryNotRead, false, "The clusters' DRS rules are being read.")
	}
	changes, flaw := n.clusters.compare(uid, n.groups[uid], request)
	if flaw != nil {
		return changes, flaw
	}
	return changes, nil
}

// changeRules changes each cluster by a task of its own; that one fails keeps none of the others from being changed.
func (v *VCenter) changeRules(ctx context.Context, ref plan.Ref, changes []ruleChange) error {
	var failed []error
	for _, c := range changes {
		_, err := v.task(ctx, func(ctx context.Context, s *session) (task vim.ManagedObjectReference, err error) {
			res, err := methods.ReconfigureComputeResource_Task(ctx, s.vim, &vim.ReconfigureComputeResource_Task{
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
