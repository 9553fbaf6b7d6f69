package planner

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
	if r.facts.blockedBy != nil {
		return r.blockedText()
	}
	parts := r.faultTexts(withHelp(r.steps.faults))
	if r.facts.Finalizing {
		parts = append(parts, r.deletion()...)
		parts = append(parts, r.facts.otherFinalizers()...)
	}
	if r.facts.orphaned() {
		parts = append(parts, "deleted with --cascade=orphan: the VMs of members and the group's objects are kept")
	}
	for _, a := range activities {
		if n := a.of(r); n > 0 {
			parts = append(parts, a.text(r, n))
		}
	}
	parts = append(parts, r.waits()...)
	switch {
	case len(parts) > 0:
	case r.busy():
		parts = []string{"waiting for running vCenter tasks"}
	case r.sets.ordinals > r.facts.want:
		parts = []string{"keeping " + plan.Count(r.sets.ordinals-r.facts.want, "extra member") + " until all others are available"}
	case r.phase() != v1alpha1.PhaseRunning:
		parts = []string{r.readyText()}
	default:
		parts = []string{messageReconciled}
	}
	parts = append(parts, r.templatesKept()...)
	text := strings.Join(parts, "; ")
	if r.facts.paused() {
		if text == messageReconciled {
			return "paused (spec.paused); the group is as its spec says"
		}
		text = "paused (spec.paused); to be done: " + text
	}
	return text
}

// blockedText says why nothing can be done at all.
func (r *report) blockedText() string {
	text := strings.TrimSuffix(r.facts.blockedBy.WithHelp().Message, ".")
	if was := r.wasStalled(); was != nil {
		text = saidAsLastKnown(was) + "; " + text
	}
	if r.facts.Finalizing && r.facts.blockedBy.Reason != plan.ReasonSuperseded {
		text = "the deletion waits for vCenter: " + text
	}
	if !r.facts.vCenterKnown && len(r.facts.Group.Status.Members) > 0 {
		text += "; the last known figures are kept"
	}
	if r.facts.Finalizing && r.facts.blockedBy.Reason != plan.ReasonInventoryNotRead && r.facts.blockedBy.Reason != plan.ReasonSuperseded {
		text += "; " + abandonHint
	}
	return text
}

// activities are the parts of the message about what is in progress, in its order: for how many members, and the text.
var activities = []struct {
	of   func(*report) int
	text func(r *report, n int) string
}{
	{(*report).updatesNow, (*report).updatingText},
	{unlessDeleted(cloning), counted("cloning %s", "member")},
	{only(adopting), counted("adopting %s", "VM")},
	{only(returning), counted("bringing %s back from quarantine", "VM")},
	{only(resizing), counted("resizing %s", "member")},
	{only(starting), counted("powering on %s", "member")},
	{unlessDeleted(leaving), counted("removing %s", "member")},
	{(*report).waiting, (*report).waitingText},
	{(*report).rulesToSet, (*report).rulesText},
	{only(preparing), counted("preparing %s (tags, attributes, network)", "member")},
	{only(restamping), counted("recording what vCenter calls %s now", "VM")},
	{only(settingDisks), counted("changing the disks of %s", "member")},
	{unlessDeleted(standingBy), func(r *report, n int) string {
		return fmt.Sprintf("creating or updating %d of %s", n, plan.Count(int(r.facts.Group.Spec.Standby), "standby member"))
	}},
	{only(discarding), counted("removing %s", "standby member")},
	{unlessDeleted(tidying), counted("quarantining or removing %s", "VM")},
}

func only(what activity) func(*report) int {
	return func(r *report) int { return r.steps.doing(what) }
}

// unlessDeleted is only, for what the sentence about a deletion says already.
func unlessDeleted(what activity) func(*report) int {
	return func(r *report) int { return r.steps.doing(what) * int(oneIf(!r.facts.Finalizing)) }
}

func counted(format, noun string) func(*report, int) string {
	return func(_ *report, n int) string { return fmt.Sprintf(format, plan.Count(n, noun)) }
}

func (r *report) rulesToSet() int {
	return int(oneIf(r.facts.State.RulesOff && r.facts.Pending[plan.RulesKey].Fault.Reason == ""))
}

func (r *report) rulesText(int) string {
	if r.facts.Finalizing {
		return "removing the group's DRS rules"
	}
	return "setting the group's DRS rules"
}

// waiting counts the members that wait for preconditions with words of their own (precondition.says), and waitingText has the sentences.
func (r *report) waiting() (n int) {
	for i := range r.sets.members {
		n += int(oneIf(r.sets.members[i].waits != nil && r.sets.members[i].waits.says != ""))
	}
	return n
}

func (r *report) waitingText(int) string {
	var texts []string
	for _, g := range preconditions {
		n := 0
		for i := range r.sets.members {
			n += int(oneIf(r.sets.members[i].waits == g))
		}
		if g.says != "" && n > 0 {
			texts = append(texts, fmt.Sprintf(g.says, plan.Count(n, "member")))
		}
	}
	return strings.Join(texts, "; ")
}

// waits says what the group waits for, or leaves alone.
func (r *report) waits() (texts []string) {
	if r.steps.waitDisks {
		texts = append(texts, "waiting for Metacontroller's next call, after which status.disks lists the disks of the members to be removed")
	}
	if r.steps.waitCall {
		texts = append(texts, "waiting for Metacontroller's next call before creating or using the group's folder")
	}
	names := r.sets.unreachable()
	for _, q := range r.sets.notFoundQuarantined {
		names = append(names, q.Name+" (in quarantine, not seen)")
	}
	if len(names) > 0 {
		texts = append(texts, "skipped VMs that vCenter can't reach or show: "+plan.AtMost(names, 5))
	}
	if names := r.sets.unconfirmed(); len(names) > 0 {
		texts = append(texts, fmt.Sprintf("finding out what became of %s that vCenter does not show: %s", plan.Count(len(names), "member"), plan.AtMost(names, 5)))
	}
	if r.facts.Finalizing {
		return texts
	}
	if names := r.notReady(); len(names) > 0 && r.decision.healing.suspended == "" {
		texts = append(texts, "not ready yet: "+plan.AtMost(names, 5))
	}
	if names := r.withoutEndpoint(); len(names) > 0 {
		texts = append(texts, "ready, but not in the Service, because the guest reports no IP address: "+plan.AtMost(names, 5))
	}
	if r.facts.awaitsService() && !r.busy() {
		texts = append(texts, "waiting for the Service "+r.facts.Group.Name+" to exist")
	}
	for _, text := range []string{r.heldText(), r.duplicatesText(), r.sharedClaimsText(), r.facts.Related.Unrecognized} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// sharedClaimsText says which range of addresses another group has, too.
func (r *report) sharedClaimsText() string {
	if r.facts.SharedClaims == "" {
		return ""
	}
	return "addresses that are not unique: " + r.facts.SharedClaims
}

// notReady names the members that run but are not ready.
func (r *report) notReady() (names []string) {
	for i := range r.sets.members {
		if m := &r.sets.members[i]; m.runsUnready() && !m.leaves() {
			names = append(names, m.display())
		}
	}
	return names
}

// withoutEndpoint names the members that are ready and that the group's Service has no endpoint for, because their guests report no IP address.
// With readiness.check PoweredOn, VMware Tools need not run.
func (r *report) withoutEndpoint() (names []string) {
	if r.facts.Group.Spec.Service == nil {
		return nil
	}
	for i := range r.sets.members {
		if m := &r.sets.members[i]; m.ready && !m.leaves() && !plan.AskedAddress(m.IPs).IsValid() {
			names = append(names, m.display())
		}
	}
	return names
}

// busy reports whether something is running or to be done that needs no operator, other than for standby members.
func (r *report) busy() bool {
	if r.steps.missing()+len(r.decision.arriving)+r.steps.doing(starting, resizing, preparing, settingDisks, leaving)+r.steps.failing() > 0 || r.decision.isUpdating() || r.facts.Finalizing {
		return true
	}
	for name, p := range r.facts.Pending {
		if p.State == plan.Running && !r.concernsStandbyOnly(name) {
			return true
		}
	}
	return slices.ContainsFunc(r.steps.wanted, func(s step) bool { return s.starts && !r.concernsStandbyOnly(s.VM) })
}

// concernsStandbyOnly reports whether a step concerns a standby member alone. Such a step doesn't keep the group from being RUNNING.
func (r *report) concernsStandbyOnly(name string) bool {
	return slices.ContainsFunc(r.sets.standby, func(m member) bool { return m.name == name }) ||
		slices.ContainsFunc(r.decision.standbyComing, func(ordinal int32) bool { return plan.MemberName(r.facts.Group.Name, ordinal) == name })
}

// blocked reports whether an operator has to act before the group can reach its desired state.
func (r *report) blocked() bool {
	if r.facts.blockedBy != nil {
		return r.facts.blockedBy.NeedsOperator
	}
	for _, f := range r.steps.faults {
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
	case r.facts.blockedBy == nil && !r.busy() && r.sets.ordinals == r.facts.want && r.sets.countReady() == r.facts.want && len(r.steps.faults)+len(r.sets.notFound) == 0 && !r.facts.awaitsService():
		return v1alpha1.PhaseRunning
	}
	return v1alpha1.PhasePending
}
