package tell

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// conditions returns, in the order of conditionKinds, Ready, VCenterReachable and MembersDiffer, which users wait for, and those of the others that
// are True. A condition that was True and can't be examined now is Unknown, except while vCenter's state is unknown (lastknown.go). Reconciling
// says what happens and Stalled what blocks; Ready and Progressing don't repeat that.
//
// kstatus considers a group failed if Stalled is True, in progress if Reconciling is True or Ready is not, and
// current otherwise. So exactly one of Ready, Reconciling and Stalled is True, or none while the group is paused.
func (r *report) conditions(phase v1alpha1.Phase, message string) []metav1.Condition {
	c := newConditions(r.Group.Status.Conditions, r.LastPlannedConditions(), r.Group.Generation, r.Now)
	reason := r.reason(phase)
	switch {
	case phase == v1alpha1.PhaseRunning:
		c.Add(v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	case !r.VCenterKnown:
		status := metav1.ConditionUnknown
		if r.lastKnown(v1alpha1.ConditionReady, metav1.ConditionFalse) != nil {
			status = metav1.ConditionFalse
		}
		c.Add(v1alpha1.ConditionReady, status, reason, fmt.Sprintf("%d of %d members were ready", r.Group.Status.ReadyReplicas, r.Want))
	default:
		text := r.readyText()
		if r.AwaitsService {
			text += ", and the Service does not exist"
		}
		c.Add(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, text)
	}
	pending := phase == v1alpha1.PhasePending && !r.paused()
	if pending && r.BlockedBy == nil && r.busy() {
		c.Add(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, "")
	}
	if pending {
		c.Add(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	}
	if phase == v1alpha1.PhaseError {
		c.Add(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, r.stalledText())
	}
	switch outage := r.State.Outage(); {
	case r.contested():
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionUnknown, reason, "several installs of VmGroup serve this group, and each can have another vCenter: correct the labelSelector of a CompositeController, or the group's label")
	case outage == nil:
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionTrue, plan.ReasonConnected, "the inventory is known and fresh")
	case r.Abandoned:
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionFalse, reason, outage.Message)
	default:
		c.Add(v1alpha1.ConditionVCenterReachable, metav1.ConditionFalse, outage.Reason, outage.Message)
	}
	r.exceptions(c)
	for _, kind := range append(c.Missing(), v1alpha1.ConditionMembersDiffer) {
		was := r.lastKnown(kind, metav1.ConditionTrue)
		switch {
		case c.Has(kind):
		case !r.examined(kind) && was != nil:
			c.Add(kind, metav1.ConditionTrue, was.Reason, saidAsLastKnown(was))
		case !r.examined(kind):
			c.Add(kind, metav1.ConditionUnknown, reason, "")
		case kind == v1alpha1.ConditionMembersDiffer, kind == v1alpha1.ConditionVCenterChanged && len(r.Group.Finalizers) > 0: // see servedElsewhere
			c.Add(kind, metav1.ConditionFalse, plan.ReasonAsExpected, "")
		}
	}
	return c.Sorted()
}

// stalledText says what an operator has to do.
func (r *report) stalledText() string {
	if was := r.wasStalled(); was != nil {
		return saidAsLastKnown(was)
	}
	if r.BlockedBy != nil {
		return r.blockedText()
	}
	return strings.Join(r.faultTexts(slices.DeleteFunc(withHelp(r.faults), func(f plan.FaultOf) bool { return !f.NeedsOperator })), "; ")
}

// examined reports whether it is known that a condition that was not added is not true.
func (r *report) examined(kind string) bool {
	switch kind {
	case v1alpha1.ConditionProgressing, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionPaused:
		return true
	case v1alpha1.ConditionSpecInvalid:
		return r.Invalid == nil
	case v1alpha1.ConditionVCenterChanged:
		return r.State.Known && !r.contested()
	}
	return r.BlockedBy == nil && !r.Finalizing
}

// reason returns the reason, one word, for the group's phase.
func (r *report) reason(phase v1alpha1.Phase) string {
	if was := r.wasStalled(); was != nil {
		return was.Reason
	}
	switch {
	case r.BlockedBy != nil:
		return r.BlockedBy.Reason
	case phase == v1alpha1.PhaseRunning:
		return plan.ReasonReconciled
	case r.paused():
		return plan.ReasonPaused
	}
	for _, f := range faultsInOrder(r.faults) {
		if f.NeedsOperator || phase == v1alpha1.PhasePending {
			return f.Reason
		}
	}
	if r.Finalizing {
		return plan.ReasonFinalizing
	}
	switch {
	case len(r.Unreachable) > 0 && !r.busy():
		return plan.ReasonUnreachable
	case r.Update.Changes:
		return plan.ReasonUpdating
	case !r.busy() && r.countReady() < len(r.Members):
		return plan.ReasonNotReady
	}
	return plan.ReasonReconciling
}

// exceptions adds the conditions for something unusual that are true.
func (r *report) exceptions(c *conditionList) {
	if r.BlockedBy != nil {
		switch r.BlockedBy.Reason {
		case plan.ReasonInvalidSpec:
			c.Add(v1alpha1.ConditionSpecInvalid, metav1.ConditionTrue, r.BlockedBy.Reason, r.BlockedBy.Message)
		case plan.ReasonVCenterChanged:
			c.Add(v1alpha1.ConditionVCenterChanged, metav1.ConditionTrue, r.BlockedBy.Reason, r.BlockedBy.Message)
		}
	}
	var taken []plan.FaultOf
	for _, f := range r.faults {
		if f.Reason == plan.ReasonNameConflict {
			taken = append(taken, f)
		}
	}
	if len(taken) > 0 {
		c.Add(v1alpha1.ConditionNameConflict, metav1.ConditionTrue, plan.ReasonNameConflict, r.whom(taken))
	}
	if text := r.duplicatesText(); text != "" {
		c.Add(v1alpha1.ConditionDuplicateMember, metav1.ConditionTrue, plan.ReasonDuplicateMember, text)
	}
	if text := r.straysText(); text != "" {
		c.Add(v1alpha1.ConditionStrayVMs, metav1.ConditionTrue, plan.ReasonStrayVM, text)
	}
	if names := r.Unreachable; len(names) > 0 {
		c.Add(v1alpha1.ConditionMembersUnreachable, metav1.ConditionTrue, plan.ReasonUnreachable, plan.AtMost(names, 10))
	}
	if names := r.silent(); len(names) > 0 {
		c.Add(v1alpha1.ConditionToolsSilent, metav1.ConditionTrue, plan.ReasonToolsSilent, plan.AtMost(names, 10))
	}
	if found := r.questions(); len(found) > 0 {
		c.Add(v1alpha1.ConditionQuestionPending, metav1.ConditionTrue, plan.ReasonQuestionPending, strings.Join(r.faultTexts(found), "; "))
	}
	if found := r.failedCustomizations(true); len(found) > 0 {
		c.Add(v1alpha1.ConditionCustomizationFailed, metav1.ConditionTrue, plan.ReasonCustomizationFailed, strings.Join(r.faultTexts(found), "; "))
	}
	if names := r.Missing; len(names) > 0 {
		c.Add(v1alpha1.ConditionMembersVanished, metav1.ConditionTrue, plan.ReasonMemberVanished, plan.AtMost(names, 10))
	}
	if shared := slices.DeleteFunc([]string{sharedAddresses(r.reports()), r.SharedClaims}, func(s string) bool { return s == "" }); len(shared) > 0 {
		c.Add(v1alpha1.ConditionDuplicateAddress, metav1.ConditionTrue, plan.ReasonDuplicateAddress, strings.Join(shared, "; "))
	}
	if together := r.together(); len(together) > 0 {
		c.Add(v1alpha1.ConditionMembersShareHost, metav1.ConditionTrue, plan.ReasonMembersShareHost, plan.AtMost(together, 10))
	}
	if ignored := r.ignoredHolds(); len(ignored) > 0 {
		c.Add(v1alpha1.ConditionHoldIgnored, metav1.ConditionTrue, plan.ReasonHoldIgnored, plan.AtMost(ignored, 10))
	}
	if text := r.Related.Unrecognized; text != "" {
		c.Add(v1alpha1.ConditionUserDataUnrecognized, metav1.ConditionTrue, plan.ReasonUserDataUnrecognized, text)
	}
	r.cloneExceptions(c)
	if len(r.DiskFaults) > 0 {
		c.Add(v1alpha1.ConditionDisksBlocked, metav1.ConditionTrue, faultsInOrder(r.DiskFaults)[0].Reason, r.whom(r.DiskFaults))
	}
	r.changeExceptions(c)
	if names := r.MissingChildren; len(names) > 0 {
		c.Add(v1alpha1.ConditionChildMissing, metav1.ConditionTrue, plan.ReasonChildMissing, children.MissingText(names))
	}
}

// cloneExceptions adds what keeps missing members from being cloned.
func (r *report) cloneExceptions(c *conditionList) {
	found := slices.DeleteFunc(slices.Clone(r.cloneFaults), func(f plan.FaultOf) bool { return f.Reason == plan.ReasonNameConflict }) // that has a condition of its own
	if len(found) > 0 {
		c.Add(v1alpha1.ConditionCloneBlocked, metav1.ConditionTrue, faultsInOrder(found)[0].Reason, cmp.Or(r.whom(found), "no member can be cloned"))
	}
}

// whom names the members that faults block; Stalled or Reconciling says what to do about them.
func (r *report) whom(faults []plan.FaultOf) string {
	var names []string
	for _, f := range faultsInOrder(faults) {
		if f.Who != plan.FolderKey {
			names = append(names, r.nameOf(f.Who))
		}
	}
	return plan.AtMost(names, 10)
}

// changeExceptions adds the exceptions that concern changes.
func (r *report) changeExceptions(c *conditionList) {
	if r.paused() {
		c.Add(v1alpha1.ConditionPaused, metav1.ConditionTrue, plan.ReasonPaused, "spec.paused is true: nothing is changed in vCenter")
	}
	if r.BlockedBy != nil || r.Finalizing {
		return
	}
	say := func(kind, reason, message string) {
		if message != "" {
			c.Add(kind, metav1.ConditionTrue, reason, message)
		}
	}
	if r.Suppressed != nil {
		say(v1alpha1.ConditionProbesSuppressed, r.Suppressed.Reason, r.Suppressed.Message)
	}
	say(v1alpha1.ConditionMembersDiffer, plan.ReasonDiffers, plan.AtMost(r.differing(), 10))
	if r.Update.Stuck != nil {
		say(v1alpha1.ConditionUpdateHeld, r.Update.Stuck.Reason, r.Update.Stuck.Message)
	}
	say(v1alpha1.ConditionUpdateHeld, plan.ReasonUpdateHeld, r.heldText())
	say(v1alpha1.ConditionTemplateChanged, plan.ReasonTemplateChanged, r.changedTemplate())
	say(v1alpha1.ConditionHealingSuspended, plan.ReasonHealingSuspended, r.healingSuspended())
	say(v1alpha1.ConditionAdoptionFailed, plan.ReasonAdoptionFailed, plan.AtMost(r.Adoption, 10))
}

// together names the members that run on one host although the spec asks to keep them apart.
func (r *report) together() (texts []string) {
	if !plan.RulesOf(&r.Group.Spec).KeepApart() {
		return nil
	}
	on := map[string][]string{}
	for i := range r.Members {
		if m := &r.Members[i]; m.Reachable && m.Power == plan.PoweredOn && m.Host != "" && !m.Duplicate {
			on[m.Host] = append(on[m.Host], m.Name)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(on)) {
		if names := on[host]; len(names) > 1 {
			texts = append(texts, fmt.Sprintf("%s (%s)", host, plan.AtMost(names, 5)))
		}
	}
	return texts
}

// reports yields the members that run, and which addresses their guests report.
func (r *report) reports() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for i := range r.Members {
			m := &r.Members[i]
			if m.Reachable && !m.Duplicate && m.Power == plan.PoweredOn && m.HasReported() && !yield(m.Name, m.IPs) {
				return
			}
		}
	}
}
