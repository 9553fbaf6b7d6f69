package planner

import (
	"fmt"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// heldUntil returns until when a member is held that is to be taken down; zero if it is not.
func (f *facts) heldUntil(m *member) time.Time {
	if !f.holds.Any() || m.Power != plan.PoweredOn || m.halting() || f.Finalizing && (f.policy.Retain || f.paused()) {
		return time.Time{}
	}
	since := f.chosenSince(m)
	if m.Marked && since.IsZero() { // marked by an older server, without a time; or by a clock that is ahead, which makes the hold longer
		since = m.MarkedAt
	}
	return f.holds.Until(m.name, m.MoRef, since, f.Now)
}

// holdsAny reports whether a member of a deleted group is held: the children that still exist are kept until that is over.
func (s *sets) holdsAny() bool {
	for i := range s.members {
		if len(s.facts.Children) > 0 && !s.members[i].heldUntil.IsZero() {
			return true
		}
	}
	return !s.facts.vCenterKnown && len(s.facts.Children) > 0 && s.facts.holds.Any() && !s.facts.policy.Retain
}

func (r *report) ignoredHolds() []string {
	return r.facts.holds.Ignored(func(member, moRef string) string {
		is, named := !r.facts.vCenterKnown, false
		for i := range r.sets.members {
			m := &r.sets.members[i]
			is, named = is || m.name == member && m.MoRef == moRef, named || m.name == member
		}
		for i := range r.sets.notFound {
			is = is || r.sets.notFound[i].MoRef == moRef
		}
		switch {
		case is || !named && r.facts.Finalizing: // it was removed after its hold, and the annotation is left over
			return ""
		case !named:
			return fmt.Sprintf("the group has no member %s, or no longer has it: remove the annotation", member)
		}
		return fmt.Sprintf("%s is not the VM of %s", moRef, member)
	})
}

// holdEvents are the Events about holds that began or timed out since the stored status. A member whose hold timed out may be gone already.
func (r *report) holdEvents() (all []plan.Event) {
	for i := range r.sets.members {
		m := &r.sets.members[i]
		if was := r.facts.record(m.MoRef, i); !m.heldUntil.IsZero() && (was == nil || was.HeldUntil.IsZero()) {
			all = append(all, r.facts.holds.Begins(m.name, m.MoRef, m.heldUntil, r.facts.Now))
		}
	}
	for i := range r.facts.Group.Status.Members {
		was := &r.facts.Group.Status.Members[i]
		if n, over := r.facts.holds.TimedOut(plan.MemberName(r.facts.Group.Name, was.Ordinal), was.MoRef, was.HeldUntil.Time, r.facts.Now); over {
			all = append(all, n)
		}
	}
	return all
}
