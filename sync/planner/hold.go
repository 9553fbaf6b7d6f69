package planner

import (
	"fmt"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// released reports whether nothing holds a marked member any more: see holdannotations.go. Where members may be held, a replica of the server
// takes none down before it was called after the mark: another one may know of a hold that this one does not.
func (v *facts) released(m *member) bool {
	if v.holds.Timeout > 0 && m.Marked && m.Power == plan.PoweredOn && !v.halting(m) && v.Called.Before(m.MarkedAt) && !m.MarkedAt.After(v.Now.Add(plan.ClockSkew)) {
		v.wakeAt(v.Now.Add(time.Second))
		return false
	}
	return m.heldUntil.IsZero()
}

// heldUntil returns until when a member is held that is to be taken down; zero if it is not.
func (v *facts) heldUntil(m *member) time.Time {
	if !v.holds.Any() || m.Power != plan.PoweredOn || v.halting(m) || v.Finalizing && (v.policy.Retain || v.paused()) {
		return time.Time{}
	}
	since := v.chosenSince(m)
	if m.Marked && since.IsZero() { // by an older server: the time is not known; or by a clock that is ahead, which makes the hold longer
		since = m.MarkedAt
	}
	until := v.holds.Until(m.name, m.MoRef, since, v.Now)
	v.wakeAt(until)
	return until
}

func (v *report) heldMessage(m *member) string { return v.holds.Text(m.name, m.MoRef, m.heldUntil) }

// holdsAny reports whether a member of a deleted group is held: the children that still exist stay until that is over.
func (v *sets) holdsAny() bool {
	for i := range v.members {
		if len(v.Children) > 0 && !v.members[i].heldUntil.IsZero() {
			return true
		}
	}
	return !v.sighted && len(v.Children) > 0 && v.holds.Any() && !v.policy.Retain
}

// holdEnded reports whether a hold is over that the stored status knows.
func (v *sets) holdEnded() bool {
	for i := range v.Group.Status.Members {
		r := &v.Group.Status.Members[i]
		over := !r.HeldUntil.IsZero()
		for j := range v.members {
			if m := &v.members[j]; over && m.MoRef == r.MoRef {
				over = m.heldUntil.IsZero()
			}
		}
		if over {
			return true
		}
	}
	return false
}

func (v *report) ignoredHolds() []string {
	return v.holds.Ignored(func(member, moRef string) string {
		is, named := !v.sighted, false
		for i := range v.members {
			m := &v.members[i]
			is, named = is || m.name == member && m.MoRef == moRef, named || m.name == member
		}
		for i := range v.notFound {
			is = is || v.notFound[i].MoRef == moRef
		}
		switch {
		case is || !named && v.Finalizing: // it was removed after its hold ended or timed out: the annotation outlives it
			return ""
		case !named:
			return fmt.Sprintf("there is no member %s, or no longer", member)
		}
		return fmt.Sprintf("%s is not the VM of %s", moRef, member)
	})
}

// holdEvents tell who is held now and was not in the stored status, and whose time is over since; such a member may be gone already.
func (v *report) holdEvents() (all []plan.Event) {
	for i := range v.members {
		m := &v.members[i]
		if r := v.record(m.MoRef, i); !m.heldUntil.IsZero() && (r == nil || r.HeldUntil.IsZero()) {
			all = append(all, v.holds.Begins(m.name, m.MoRef, m.heldUntil, v.Now))
		}
	}
	for i := range v.Group.Status.Members {
		r := &v.Group.Status.Members[i]
		if n, over := v.holds.TimedOut(plan.MemberName(v.Group.Name, r.Ordinal), r.MoRef, r.HeldUntil.Time, v.Now); over {
			all = append(all, n)
		}
	}
	return all
}
