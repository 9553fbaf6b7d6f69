package planner

import (
	"cmp"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// activity is something that is being done for a VM, or for an ordinal that no VM has yet.
type activity int

const (
	cloning       activity = iota // it is made from the template
	adopting                      // it becomes a member
	returning                     // a VM in quarantine becomes a member again
	starting                      // it is powered on
	resizing                      // it gets another size in place
	preparing                     // it gets tags, attributes and its network configuration
	settingDisks                  // it gets disks, or larger ones
	leaving                       // a member is removed
	standingBy                    // a standby member is made, prepared or resized
	discarding                    // a standby member is removed
	tidying                       // a duplicate, or a VM in or for quarantine, is moved or removed
	allActivities = iota
)

// verdict is what becomes of a VM, or of an ordinal that no VM has yet. The status message counts the activities of all verdicts.
type verdict struct {
	becomes plan.Decision
	why     string
	// needs are what is to be done for it, in this order. keptBy says what keeps it as it is.
	needs  []need
	keptBy string
	// awaits is what it waits for before its next step; waits is the precondition for which it waits with its mark.
	awaits string
	waits  *precondition
	// does are the activities that concern it. Blocked ones are not counted: a fault says why they are blocked.
	does, blocked [allActivities]bool
}

// decide records the verdict about a VM that is no member, or about an ordinal.
func (m *member) decide(becomes plan.Decision, why string) { m.becomes, m.why = becomes, why }

// wants notes what is to be done for a VM or an ordinal.
func (m *member) wants(n what, why string) { m.needs = append(m.needs, need{n, why}) }

// begins notes an activity, and whether something blocks it.
func (m *member) begins(what activity, unblocked bool) {
	m.does[what], m.blocked[what] = true, !unblocked
}

// vacancy is a member that has no VM yet. Its ordinal may not be known either.
func vacancy(why string) *member {
	m := &member{}
	m.decide(plan.Create, why)
	return m
}

// assign gives a vacancy its ordinal.
func (m *member) assign(group string, ordinal int32) {
	m.Ordinal, m.name = ordinal, plan.MemberName(group, ordinal)
}

// verdicts returns the verdicts of all VMs and free ordinals, without VMs that are kept as they are and have nothing to report.
func (r *report) verdicts() (all []plan.Verdict) {
	say := func(d plan.Verdict) {
		d.Reason = strings.TrimPrefix(d.Reason, strings.ToLower(string(d.Is))+": ") // "update: ", beside the verdict Update
		if d.Reason, d.WaitsFor = plan.Printable(d.Reason), plan.Printable(d.WaitsFor); d.Is != plan.Keep || d.Reason+d.WaitsFor != "" {
			all = append(all, d)
		}
	}
	if !r.facts.vCenterKnown {
		for i := range r.facts.Group.Status.Members {
			m := &r.facts.Group.Status.Members[i]
			say(plan.Verdict{VM: m.Name, MoRef: m.MoRef, Is: plan.Wait, Reason: r.facts.blockedBy.Message})
		}
		return all
	}
	for m := range r.decision.allVMs() {
		if m.name == "" {
			continue
		}
		d := r.verdictOf(m)
		if r.facts.paused() && d.Is != plan.Keep && d.Is != plan.Wait {
			d.WaitsFor = "spec.paused"
		}
		say(d)
	}
	for i := range r.sets.notFound {
		m := &r.sets.notFound[i]
		d := plan.Verdict{VM: plan.MemberName(r.facts.Group.Name, m.Ordinal), MoRef: m.MoRef, Is: plan.Wait, Reason: "vCenter does not show it", WaitsFor: "vCenter's events to say what became of it"}
		switch {
		case m.missing:
			d.Reason, d.WaitsFor = "missing: "+m.Message, "its VM to return, or spec.replace to name it"
		case m.hidden():
			d.WaitsFor = "vCenter to show it, or to report it as gone"
		}
		say(d)
	}
	return all
}

// verdictOf says what becomes of a VM, or of an ordinal. The first row that applies:
//
//	what                                    verdict    why, and what it waits for
//	--------------------------------------  ---------  ---------------------------------------------------------------
//	any, while nothing can be done          Wait       what blocks the group
//	not reachable, or has a question        Wait       vCenter to reach it; an answer
//	any of a deleted group                  Remove     the deletion; its drain, or what blocks the step
//	a member                                as decided (conclude)
//	a standby member, one in quarantine     as decided (decideStandby, decideQuarantined)
//	an ordinal                              Create     why a VM is wanted (fill, decideStandby); what keeps it from being made
func (r *report) verdictOf(m *member) plan.Verdict {
	d := plan.Verdict{VM: m.name, MoRef: m.MoRef, Is: cmp.Or(m.becomes, plan.Keep), Reason: m.why, WaitsFor: r.waitsFor(m)}
	if !m.Quarantined.IsZero() {
		d.VM = plan.Printable(m.VM.Name)
	}
	switch {
	case r.facts.blockedBy != nil:
		d.Is, d.Reason, d.WaitsFor = plan.Wait, r.facts.blockedBy.Message, ""
	case m.MoRef != "" && !m.Reachable:
		d.Is, d.Reason, d.WaitsFor = plan.Wait, "the VM is "+m.Unreachable, "vCenter to reach it"
	case m.Question != "":
		d.Is, d.Reason, d.WaitsFor = plan.Wait, "the VM has a pending question", "an answer in vCenter"
	case r.facts.Finalizing:
		d.Is, d.Reason = plan.Remove, r.facts.deletionReason()
	}
	return d
}

// What a member can wait for.
const (
	otherMembers = "other members to be available"
	aSuccessor   = "its successor"
	anOperator   = "an operator: no successor can be created"
)

// waitsFor says what a VM or an ordinal waits for: what blocked the last try of its step, a precondition, or what was noted for it.
func (r *report) waitsFor(m *member) string {
	switch p := r.facts.Pending[r.facts.stepKey(m)]; {
	case m.keptBy != "":
		return m.keptBy
	case p.Fault.Reason != "":
		return p.Fault.WithHelp().Message
	case m.waits != nil:
		return m.waits.until
	}
	return m.awaits
}

// need is something that is to be done for a VM or an ordinal, and why. The next step follows from the need and the VM's current state
// (nextSteps).
type need struct {
	what
	why string
}

type what int

const (
	needsUnmark      what = iota // it has a mark, and is not to be taken down
	needsPromotion               // a standby member is to become a member, or an operator powered it on
	needsRemoval                 // it is to be removed
	needsAdoption                // it has its former folder or name
	needsReset                   // healing restarts it
	needsSize                    // it has another size
	needsData                    // it is off, and has to get its persistent disks first
	needsPreparation             // it is off, and was never prepared
	needsPower                   // it is off
	needsTags                    // it was prepared for another spec
	needsDisks                   // it has other disks
	needsDiscard                 // of a standby member: it is to be removed
	needsUpkeep                  // of a standby member: it differs from the spec in what changes in place
	needsReturn                  // of a VM in quarantine: it is to be a member again
	needsQuarantine              // of a VM in quarantine: it is not where it is to be kept
	needsDestruction             // of a VM in quarantine: its time is over
	needsAdopting                // of an ordinal: a VM that spec.adopt names gets it
	needsClone                   // of an ordinal: its VM is to be cloned
	allNeeds         = iota
)
