package planner

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// conditions returns, in the order of conditionKinds, Ready, VCenterReachable and MembersDiffer, which users wait for, and the others
// that are True. One that was True and that can't be judged is Unknown. A condition's time is carried over from the stored status
// unless its status changed. Reconciling or Stalled says what happens or what blocks; Ready and Progressing don't repeat it.
//
// kstatus considers a group failed if Stalled is True, in progress if Reconciling is True or Ready is not, and
// current otherwise. So exactly one of Ready, Reconciling and Stalled is True, or none while the group is paused.
func (v *report) conditions(phase v1alpha1.Phase, message string) []metav1.Condition {
	c := newConditions(v.Group.Status.Conditions, v.Group.Generation, v.Now)
	reason := v.reason(phase)
	switch {
	case phase == v1alpha1.PhaseRunning:
		c.Add(v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	case !v.sighted:
		c.Add(v1alpha1.ConditionReady, metav1.ConditionUnknown, reason, fmt.Sprintf("%d of %d members were ready", v.Group.Status.ReadyReplicas, v.want))
	default:
		c.Add(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, fmt.Sprintf("%d of %d members are ready", v.countReady(), v.want))
	}
	pending := phase == v1alpha1.PhasePending && !v.paused()
	if pending && v.blockedBy == nil && v.busy() {
		c.Add(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, "")
	}
	if pending {
		c.Add(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	}
	if phase == v1alpha1.PhaseError {
		c.Add(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, v.stalledText())
	}
	switch fault := v.State.Fault; {
	case v.contested():
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionUnknown, reason, "each install has a vCenter of its own")
	case v.State.Known:
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionTrue, plan.ReasonConnected, "the inventory is known and fresh")
	case fault != nil:
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionFalse, reason, fault.Message)
	default:
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionFalse, reason, "vCenter's inventory is being read")
	}
	v.exceptions(c)
	for _, kind := range append(c.Missing(), v1alpha1.ConditionMembersDiffer) {
		switch {
		case c.Has(kind):
		case !v.examined(kind):
			c.Add(kind, metav1.ConditionUnknown, reason, "")
		case kind == v1alpha1.ConditionMembersDiffer, kind == v1alpha1.ConditionVCenterChanged && len(v.Group.Finalizers) > 0: // see servedElsewhere
			c.Add(kind, metav1.ConditionFalse, plan.ReasonAsExpected, "")
		}
	}
	return c.Sorted()
}

// stalledText says what an operator has to do.
func (v *report) stalledText() string {
	if v.blockedBy != nil {
		return v.blockedText()
	}
	return strings.Join(faultTexts(slices.DeleteFunc(withHelp(v.faults), func(f named) bool { return !f.NeedsOperator }), v.nameOf), "; ")
}

// examined reports whether it is known that a condition that was not added is not true.
func (v *report) examined(kind string) bool {
	switch kind {
	case v1alpha1.ConditionProgressing, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionPaused:
		return true
	case v1alpha1.ConditionSpecInvalid:
		return v.invalid == nil
	case v1alpha1.ConditionVCenterChanged:
		return v.State.Known && !v.contested()
	}
	return v.blockedBy == nil && !v.Finalizing
}

// reason returns the reason, one word, for the group's phase.
func (v *report) reason(phase v1alpha1.Phase) string {
	switch {
	case v.blockedBy != nil:
		return v.blockedBy.Reason
	case phase == v1alpha1.PhaseRunning:
		return plan.ReasonReconciled
	case v.paused():
		return plan.ReasonPaused
	}
	for _, f := range faultsInOrder(v.faults) {
		if f.NeedsOperator || phase == v1alpha1.PhasePending {
			return f.Reason
		}
	}
	if v.Finalizing {
		return plan.ReasonFinalizing
	}
	switch {
	case len(v.unreachable()) > 0 && !v.busy():
		return plan.ReasonUnreachable
	case v.updating() > 0:
		return plan.ReasonUpdating
	case !v.busy() && v.countReady() < len(v.members):
		return plan.ReasonNotReady
	}
	return plan.ReasonReconciling
}

// exceptions adds the conditions for something unusual that are true.
func (v *report) exceptions(c *conditionList) {
	if v.blockedBy != nil {
		switch v.blockedBy.Reason {
		case plan.ReasonInvalidSpec:
			c.Add(v1alpha1.ConditionSpecInvalid, metav1.ConditionTrue, v.blockedBy.Reason, v.blockedBy.Message)
		case plan.ReasonVCenterChanged:
			c.Add(v1alpha1.ConditionVCenterChanged, metav1.ConditionTrue, v.blockedBy.Reason, v.blockedBy.Message)
		}
	}
	var taken []named
	for _, f := range v.faults {
		if f.Reason == plan.ReasonNameConflict {
			taken = append(taken, f)
		}
	}
	if len(taken) > 0 {
		c.Add(v1alpha1.ConditionNameConflict, metav1.ConditionTrue, plan.ReasonNameConflict, v.whom(taken))
	}
	if text := v.duplicatesText(); text != "" {
		c.Add(v1alpha1.ConditionDuplicateMember, metav1.ConditionTrue, plan.ReasonDuplicateMember, text)
	}
	if names := v.unreachable(); len(names) > 0 {
		c.Add(v1alpha1.ConditionMembersUnreachable, metav1.ConditionTrue, plan.ReasonUnreachable, plan.AtMost(names, 10))
	}
	if found := v.questions(); len(found) > 0 {
		c.Add(v1alpha1.ConditionQuestionPending, metav1.ConditionTrue, plan.ReasonQuestionPending, strings.Join(faultTexts(found, v.nameOf), "; "))
	}
	if found := v.failedCustomizations(true); len(found) > 0 {
		c.Add(v1alpha1.ConditionCustomizationFailed, metav1.ConditionTrue, plan.ReasonCustomizationFailed, strings.Join(faultTexts(found, v.nameOf), "; "))
	}
	if names := v.missingNames(); len(names) > 0 {
		c.Add(v1alpha1.ConditionMembersVanished, metav1.ConditionTrue, plan.ReasonMemberVanished, plan.AtMost(names, 10))
	}
	if shared := sharedAddresses(v.reports()); shared != "" {
		c.Add(v1alpha1.ConditionDuplicateAddress, metav1.ConditionTrue, plan.ReasonDuplicateAddress, shared)
	}
	if ignored := v.ignoredHolds(); len(ignored) > 0 {
		c.Add(v1alpha1.ConditionHoldIgnored, metav1.ConditionTrue, plan.ReasonHoldIgnored, plan.AtMost(ignored, 10))
	}
	if text := v.Related.Unrecognized; text != "" {
		c.Add(v1alpha1.ConditionUserDataUnrecognized, metav1.ConditionTrue, plan.ReasonUserDataUnrecognized, text)
	}
	v.cloneExceptions(c)
	if len(v.diskFaults) > 0 {
		c.Add(v1alpha1.ConditionDisksBlocked, metav1.ConditionTrue, faultsInOrder(v.diskFaults)[0].Reason, v.whom(v.diskFaults))
	}
	v.changeExceptions(c)
	if names := v.publisher().Conflicting(); len(names) > 0 {
		c.Add(v1alpha1.ConditionChildConflict, metav1.ConditionTrue, plan.ReasonForeignObject, children.ConflictText(names))
	}
}

// cloneExceptions adds what keeps missing members from being cloned.
func (v *report) cloneExceptions(c *conditionList) {
	found := slices.DeleteFunc(slices.Clone(v.cloneFaults), func(f named) bool { return f.Reason == plan.ReasonNameConflict }) // that has a condition of its own
	if len(found) > 0 {
		c.Add(v1alpha1.ConditionCloneBlocked, metav1.ConditionTrue, faultsInOrder(found)[0].Reason, cmp.Or(v.whom(found), "no member can be cloned"))
	}
}

// whom names the members that faults block; Stalled or Reconciling says what to do about them.
func (v *report) whom(faults []named) string {
	var names []string
	for _, f := range faultsInOrder(faults) {
		if f.Who != plan.FolderKey {
			names = append(names, v.nameOf(f.Who))
		}
	}
	return plan.AtMost(names, 10)
}

// changeExceptions adds the exceptions that concern changes.
func (v *report) changeExceptions(c *conditionList) {
	if v.paused() {
		c.Add(v1alpha1.ConditionPaused, metav1.ConditionTrue, plan.ReasonPaused, "spec.paused is true: nothing is changed in vCenter")
	}
	if v.blockedBy != nil || v.Finalizing {
		return
	}
	say := func(kind, reason, message string) {
		if message != "" {
			c.Add(kind, metav1.ConditionTrue, reason, message)
		}
	}
	if v.suppressed != nil {
		say(v1alpha1.ConditionProbesSuppressed, v.suppressed.Reason, v.suppressed.Message)
	}
	say(v1alpha1.ConditionMembersDiffer, plan.ReasonDiffers, plan.AtMost(v.differing(), 10))
	if v.stuck != nil {
		say(v1alpha1.ConditionUpdateHeld, v.stuck.Reason, v.stuck.Message)
	}
	say(v1alpha1.ConditionUpdateHeld, plan.ReasonUpdateHeld, v.heldText())
	say(v1alpha1.ConditionTemplateChanged, plan.ReasonTemplateChanged, v.changedTemplate())
	say(v1alpha1.ConditionHealingSuspended, plan.ReasonHealingSuspended, v.suspended)
	say(v1alpha1.ConditionAdoptionFailed, plan.ReasonAdoptionFailed, plan.AtMost(v.adoption, 10))
}

// reports yields the members that run, and which addresses their guests report.
func (v *report) reports() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for i := range v.members {
			m := &v.members[i]
			if m.Reachable && !m.duplicate && m.Power == plan.PoweredOn && m.HasReported() && !yield(m.name, m.IPs) {
				return
			}
		}
	}
}
