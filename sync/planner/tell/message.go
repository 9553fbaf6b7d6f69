package tell

import (
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// messageReconciled is the message for a group that needs nothing. It is the predecessor's, to the letter.
const messageReconciled = "successfully reconciled VmGroup"

// message says for people what blocks, then what is in progress, then what the group waits for or keeps. It is made of facts alone
// (no clock, no count of tries), so it changes only when something has happened.
func (r *report) message() string {
	if r.BlockedBy != nil {
		return r.blockedText()
	}
	parts := r.faultTexts(withHelp(r.faults))
	if r.Finalizing {
		parts = append(parts, r.deletion()...)
		parts = append(parts, r.otherFinalizers()...)
	}
	if r.Orphaned {
		parts = append(parts, "deleted with --cascade=orphan: the VMs of members and the group's objects are kept")
	}
	parts = append(parts, r.activities()...)
	parts = append(parts, r.waits()...)
	switch {
	case len(parts) > 0:
	case r.busy():
		parts = []string{"waiting for running vCenter tasks"}
	case r.Ordinals > r.Want:
		parts = []string{"keeping " + plan.Count(r.Ordinals-r.Want, "extra member") + " until all others are available"}
	case r.phase() != v1alpha1.PhaseRunning:
		parts = []string{r.readyText()}
	default:
		parts = []string{messageReconciled}
	}
	parts = append(parts, r.templatesKept()...)
	if names := r.silent(); len(names) > 0 && !r.Finalizing {
		parts = append(parts, "VMware Tools are silent in "+plan.AtMost(names, 5))
	}
	text := strings.Join(parts, "; ")
	if r.paused() {
		if text == messageReconciled {
			return "paused (spec.paused); the group is as its spec says"
		}
		text = "paused (spec.paused); to be done: " + text
	}
	return text
}

// readyText counts the members that are ready.
func (r *report) readyText() string {
	if n := r.countReady(); n > r.Want {
		return fmt.Sprintf("%d members are ready, and %d wanted", n, r.Want)
	}
	return fmt.Sprintf("%d of %d members are ready", r.countReady(), r.Want)
}

// blockedText says why nothing can be done at all.
func (r *report) blockedText() string {
	text := strings.TrimSuffix(r.BlockedBy.WithHelp().Message, ".")
	if r.Finalizing && r.BlockedBy.Reason != plan.ReasonSuperseded {
		text = "the deletion waits for vCenter: " + text
	}
	if was := r.wasStalled(); was != nil {
		text = saidAsLastKnown(was) + "; " + text
	}
	if !r.VCenterKnown && len(r.Group.Status.Members) > 0 {
		text += "; the last known figures are kept"
	}
	if r.Finalizing && r.BlockedBy.Reason != plan.ReasonInventoryNotRead && r.BlockedBy.Reason != plan.ReasonSuperseded {
		text += "; " + abandonHint
	}
	return text
}

// activities say what is in progress.
func (r *report) activities() (texts []string) {
	if r.updatesNow() {
		texts = append(texts, r.updatingText())
	}
	texts = append(texts, r.saying(r.Activities, false)...)
	texts = append(texts, r.saying(r.Waits, false)...)
	if r.State.RulesOff && r.Pending[plan.RulesKey].Fault.Reason == "" {
		texts = append(texts, r.rulesText())
	}
	return append(texts, r.saying(r.Activities, true)...)
}

// saying has the sentences of the activities that go on.
func (r *report) saying(all []Activity, background bool) (texts []string) {
	for i := range all {
		switch a := &all[i]; {
		case a.N == 0 || a.Background != background || a.ByDeletion && r.Finalizing:
		case a.OfStandby:
			texts = append(texts, fmt.Sprintf(a.Says, a.N, plan.Count(int(r.Group.Spec.Standby), a.Noun)))
		default:
			texts = append(texts, fmt.Sprintf(a.Says, plan.Count(a.N, a.Noun)))
		}
	}
	return texts
}

func (r *report) rulesText() string {
	if r.Finalizing {
		return "removing the group's DRS rules"
	}
	return "setting the group's DRS rules"
}

// waits says what the group waits for, or leaves alone.
func (r *report) waits() (texts []string) {
	if r.WaitsForDisks {
		texts = append(texts, "waiting for Metacontroller's next call, after which status.disks lists the disks of the members to be removed")
	}
	if r.WaitsForCall {
		texts = append(texts, "waiting for Metacontroller's next call before creating or using the group's folder")
	}
	names := slices.Clip(r.Unreachable)
	for _, q := range r.NotFoundQuarantined {
		names = append(names, q.Name+" (in quarantine, not seen)")
	}
	if len(names) > 0 {
		texts = append(texts, "skipped VMs that vCenter can't reach or show: "+plan.AtMost(names, 5))
	}
	if names := r.Unconfirmed; len(names) > 0 {
		texts = append(texts, fmt.Sprintf("finding out what became of %s that vCenter does not show: %s", plan.Count(len(names), "member"), plan.AtMost(names, 5)))
	}
	if r.Finalizing {
		return texts
	}
	if names := r.notReady(); len(names) > 0 && r.healingSuspended() == "" {
		texts = append(texts, "not ready yet: "+plan.AtMost(names, 5))
	}
	if names := r.withoutEndpoint(); len(names) > 0 {
		texts = append(texts, "ready, but not in the Service, because the guest reports no IP address: "+plan.AtMost(names, 5))
	}
	if r.AwaitsService && !r.busy() {
		texts = append(texts, "waiting for the Service "+r.Group.Name+" to exist")
	}
	for _, text := range []string{r.heldText(), r.duplicatesText(), r.sharedClaimsText(), r.Related.Unrecognized} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// sharedClaimsText says which range of addresses another group has, too.
func (r *report) sharedClaimsText() string {
	if r.SharedClaims == "" {
		return ""
	}
	return "addresses that are not unique: " + r.SharedClaims
}

// notReady names the members that run but are not ready.
func (r *report) notReady() (names []string) {
	for i := range r.Members {
		if m := &r.Members[i]; m.RunsUnready && !m.Leaves {
			names = append(names, m.display())
		}
	}
	return names
}

// withoutEndpoint names the members that are ready and that the group's Service has no endpoint for, because their guests report no IP address.
// With readiness.check PoweredOn, VMware Tools need not run.
func (r *report) withoutEndpoint() (names []string) {
	if r.Group.Spec.Service == nil {
		return nil
	}
	for i := range r.Members {
		if m := &r.Members[i]; m.Ready && !m.Leaves && !plan.AskedAddress(m.IPs).IsValid() {
			names = append(names, m.display())
		}
	}
	return names
}

// busy reports whether something is running or to be done that needs no operator, other than for standby members.
func (r *report) busy() bool {
	if r.ToClone+len(r.Arriving)+r.failing() > 0 || r.does(func(a *plan.Activity) bool { return a.Busy }) || r.Update.Changes || r.Finalizing {
		return true
	}
	for name, p := range r.Pending {
		if p.State == plan.Running && !r.concernsStandbyOnly(name) {
			return true
		}
	}
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Starts && !r.concernsStandbyOnly(s.Key) })
}

// concernsStandbyOnly reports whether a step concerns a standby member alone. Such a step doesn't keep the group from being RUNNING.
func (r *report) concernsStandbyOnly(name string) bool {
	return slices.ContainsFunc(r.Standby, func(m Member) bool { return m.Name == name }) ||
		slices.ContainsFunc(r.StandbyComing, func(ordinal int32) bool { return plan.MemberName(r.Group.Name, ordinal) == name })
}

// blocked reports whether an operator has to act before the group can reach its desired state.
func (r *report) blocked() bool {
	if r.BlockedBy != nil {
		return r.BlockedBy.NeedsOperator
	}
	for _, f := range r.faults {
		if f.NeedsOperator {
			return true
		}
	}
	return false
}

func (r *report) phase() v1alpha1.Phase {
	switch {
	case r.blocked(), r.wasStalled() != nil:
		return v1alpha1.PhaseError
	case r.BlockedBy == nil && !r.busy() && r.Ordinals == r.Want && r.countReady() == r.Want && len(r.faults)+len(r.NotFound) == 0 && !r.AwaitsService:
		return v1alpha1.PhaseRunning
	}
	return v1alpha1.PhasePending
}
