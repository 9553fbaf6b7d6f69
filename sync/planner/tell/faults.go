// This file finds the faults that are reported beside those of steps.

package tell

import (
	"fmt"
	"maps"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// findFaults finds all faults, in a fixed order.
func (r *report) findFaults() {
	r.cloneFaults = slices.Clip(r.CloneFaults)
	switch {
	case r.BlockedBy != nil:
	case r.Finalizing:
		r.addMissing()
		r.addStrays()
		r.faults = append(r.faults, r.Faults...)
		r.addStalled()
	default:
		r.faults = slices.Clip(r.Faults)
		r.addNotReplaced()
		r.addOthers()
	}
}

// addNotReplaced says why no member is replaced, unless a wanted clone says that.
func (r *report) addNotReplaced() {
	waits := func(m Member) bool { return m.Nominated != "" && !m.Leaves }
	if len(r.cloneFaults) > 0 || !r.Update.Waits && !slices.ContainsFunc(r.Members, waits) && !slices.ContainsFunc(r.Standby, func(m Member) bool { return m.Unfit }) {
		return
	}
	s := &r.Successors
	switch {
	case s.Source != nil:
		r.addClone("", *s.Source)
	case len(s.Unfillable) > 0 && !s.Unfinished && !slices.ContainsFunc(r.Members, func(m Member) bool { return m.Leaves }):
		fault := r.heldFault("")
		if fault == nil {
			fault = r.inWords("", &plan.Fault{Reason: plan.ReasonAddressesExhausted, NeedsOperator: true})
		}
		r.addClone(slices.Min(s.Unfillable), *fault)
	case len(s.Blocked) > 0:
		r.addClone(s.Blocked[0], r.Pending[s.Blocked[0]].Fault)
	}
}

// addOthers adds the faults of members without a wanted step.
func (r *report) addOthers() {
	r.addQuarantinedOn()
	r.addStalled()
	r.faults = append(r.faults, r.failedCustomizations(false)...)
	for i := range r.Members {
		if m := &r.Members[i]; m.UntakenTooLong {
			r.add(m.Name, plan.Fault{Reason: plan.ReasonAddressNotTaken, NeedsOperator: true, Message: untakenFault(m.IPs, m.UnreportedAddresses)})
		}
	}
	if r.Related.Fault != nil && len(r.cloneFaults) == 0 { // reported before a member has to be recreated
		r.addClone("", *r.Related.Fault)
	}
	for _, ordinal := range slices.Concat(r.Arriving, r.StandbyComing) {
		name := plan.MemberName(r.Group.Name, ordinal)
		if f := r.Pending[name].Fault; f.Reason != "" && !slices.ContainsFunc(r.faults, func(n plan.FaultOf) bool { return n.Who == name }) {
			r.add(name, f)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(r.Pending)) { // each time, a change looks done until it is undone
		if r.Pending[who].Fault.Reason == plan.ReasonChangeUndone && !r.plans(who) {
			r.add(who, r.Pending[who].Fault)
		}
	}
	r.addMissing()
	r.addStrays()
	if r.Suppressed != nil {
		r.add("", *r.Suppressed)
	}
	if r.healingSuspended() != "" {
		r.add("", plan.Fault{Reason: plan.ReasonHealingSuspended, NeedsOperator: true, Message: "healing is suspended: " + r.healingSuspended()})
	}
	if len(r.MissingChildren) > 0 {
		r.add("", plan.Fault{Reason: plan.ReasonChildMissing, NeedsOperator: true, Message: children.MissingText(r.MissingChildren)})
	}
}

// addQuarantinedOn adds the VMs whose time in quarantine is over and that were powered on.
func (r *report) addQuarantinedOn() {
	for i := range r.Quarantined {
		if q := &r.Quarantined[i]; q.Becomes == plan.Wait {
			r.add(q.VM.Name, plan.Fault{Reason: plan.ReasonQuarantinedOn, NeedsOperator: true,
				Message: "its quarantine is over, but it was powered on, so it is kept: power it off to have it destroyed"})
		}
	}
}

// addStalled adds what is stalled: VMs with a pending question, and tasks without progress.
func (r *report) addStalled() {
	r.faults = append(r.faults, r.questions()...)
	for name, f := range r.State.Stalled {
		if p := r.Pending[name]; p.State == plan.Running && f.Reason != plan.ReasonQuestionPending {
			r.add(name, f)
		}
	}
}

// questions returns the pending questions.
func (r *report) questions() (all []plan.FaultOf) {
	for m := range r.vms() {
		if m.Question != "" {
			all = append(all, plan.FaultOf{Who: m.Key, Fault: plan.Fault{Reason: plan.ReasonQuestionPending, NeedsOperator: true, Message: questionFault(m.Question)}})
		}
	}
	return all
}

// failedCustomizations returns the members whose customization failed: all of them, or only those that it keeps unready.
func (r *report) failedCustomizations(all bool) (found []plan.FaultOf) {
	for i := range r.Members {
		if m := &r.Members[i]; m.CustomizationFailed && (all || m.Uncustomized == plan.CustomizationFailed) {
			found = append(found, plan.FaultOf{Who: m.Name, Fault: plan.Fault{Reason: plan.ReasonCustomizationFailed, NeedsOperator: true, Message: customizationFault(m.Customization)}})
		}
	}
	return found
}

// addMissing says what an operator has to do about missing members.
func (r *report) addMissing() {
	for i := range r.NotFound {
		if m := &r.NotFound[i]; m.Missing {
			r.add(plan.MemberName(r.Group.Name, m.Ordinal), plan.Fault{Reason: plan.ReasonMemberVanished,
				NeedsOperator: r.Policy.ReplaceMissing == 0 || r.Finalizing || plan.VCenterOf(m.MoRef) != "", Message: r.missingText(m)})
		}
	}
}

// missingText says what became of a member, and what to do. In a deletion, which needs no moRef, members with the same text share it in the
// message.
func (r *report) missingText(m *NotFound) string {
	vm := "its VM " + m.MoRef
	if r.Finalizing {
		vm = "the VM"
	}
	text, name := "vCenter does not have "+vm+" any more, and it may still run: "+m.Message+
		"; bring it back into vCenter (add its host, or register the VM)", "name it in spec.replace"
	if m.Replace == v1alpha1.ReplaceHeld {
		name = "remove its entry in spec.replace, which is from before it vanished and has no effect, and add it again"
	}
	switch {
	case r.Finalizing:
		return text + ", and the server removes it; or leave it behind: " + name + "; or, once the other VMs are removed, leave all VMs like this one behind with the annotation " + v1alpha1.AnnotationAbandon + "=true"
	case r.Policy.ReplaceMissing > 0 && plan.VCenterOf(m.MoRef) == "":
		return text + fmt.Sprintf(", or the server replaces it %d s after it vanished (spec.healing.replaceVanishedAfterSeconds)", int(r.Policy.ReplaceMissing.Seconds()))
	}
	return text + ", or, if it is permanently gone, " + name
}
