// This file says how the verdicts are reported.

package tell

import (
	"cmp"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// verdicts returns the verdicts of all VMs and free ordinals, without VMs that are kept as they are and have nothing to report.
func (r *report) verdicts() (all []plan.Verdict) {
	say := func(d plan.Verdict) {
		d.Reason = strings.TrimPrefix(d.Reason, strings.ToLower(string(d.Is))+": ") // "update: ", beside the verdict Update
		if d.Reason, d.WaitsFor = plan.Printable(d.Reason), plan.Printable(d.WaitsFor); d.Is != plan.Keep || d.Reason+d.WaitsFor != "" {
			all = append(all, d)
		}
	}
	if !r.VCenterKnown {
		for i := range r.Group.Status.Members {
			m := &r.Group.Status.Members[i]
			say(plan.Verdict{VM: m.Name, MoRef: m.MoRef, Is: plan.Wait, Reason: r.BlockedBy.Message})
		}
		return all
	}
	for m := range r.allVMs() {
		if m.Name == "" {
			continue
		}
		d := r.verdictOf(m)
		if r.paused() && d.Is != plan.Keep && d.Is != plan.Wait {
			d.WaitsFor = "spec.paused"
		}
		say(d)
	}
	for i := range r.NotFound {
		m := &r.NotFound[i]
		d := plan.Verdict{VM: plan.MemberName(r.Group.Name, m.Ordinal), MoRef: m.MoRef, Is: plan.Wait, Reason: "vCenter does not show it", WaitsFor: "vCenter's events to say what became of it"}
		switch {
		case m.Missing:
			d.Reason, d.WaitsFor = "missing: "+m.Message, "its VM to return, or spec.replace to name it"
		case m.Hidden:
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
func (r *report) verdictOf(m *Member) plan.Verdict {
	d := plan.Verdict{VM: m.Name, MoRef: m.MoRef, Is: cmp.Or(m.Becomes, plan.Keep), Reason: m.Reason, WaitsFor: r.waitsFor(m)}
	if !m.VM.Quarantined.IsZero() {
		d.VM = plan.Printable(m.VM.Name)
	}
	switch {
	case r.BlockedBy != nil:
		d.Is, d.Reason, d.WaitsFor = plan.Wait, r.BlockedBy.Message, ""
	case m.MoRef != "" && !m.Reachable:
		d.Is, d.Reason, d.WaitsFor = plan.Wait, "the VM is "+m.Unreachable, "vCenter to reach it"
	case m.Question != "":
		d.Is, d.Reason, d.WaitsFor = plan.Wait, "the VM has a pending question", "an answer in vCenter"
	case r.Finalizing:
		d.Is, d.Reason = plan.Remove, r.Deletion.Reason
	}
	return d
}

// waitsFor says what a VM or an ordinal waits for: what blocked the last try of its step, a precondition, or what was noted for it.
func (r *report) waitsFor(m *Member) string {
	switch p := r.Pending[m.Key]; {
	case m.Kept && r.whatHolds() != "":
		return r.whatHolds()
	case m.KeptBy != "":
		return m.KeptBy
	case p.Fault.Reason != "":
		return p.Fault.WithHelp().Message
	case m.MarkWaits != "":
		return m.MarkWaits
	case m.AwaitsSource:
		return r.Successors.Source.Message
	}
	return m.Awaits
}
