// This file has how a deletion becomes known to other replicas of the server before they could clone what it removes or releases.

package planner

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// leaseOver reports whether every lease of another replica has ended: none was renewed after finalizing began. A process that was started later
// learns from the status when that was, by the clock of the process that wrote the status.
func (f *facts) leaseOver() bool { return !f.Now.Before(f.leaseEnds()) }

// leaseEnds is when leaseOver becomes true.
func (f *facts) leaseEnds() time.Time {
	over := f.FinalizingSince.Add(f.Lease)
	if since := f.Group.Status.FinalizingSince; !since.IsZero() {
		if ends := since.Add(plan.ClockSkew + f.Lease); ends.Before(over) {
			return ends
		}
	}
	return over
}

// refused reports whether a step failed and can't be done, so that the deletion continues without it. A deletion never waits for a name that
// another VM has: if two members have each other's former names, neither becomes free.
func (f *facts) refused(m *member, op plan.Op) bool {
	p := f.Pending[m.name]
	return p.Op == op && p.State != plan.Running && p.Fault.Reason != "" && (!p.Fault.Transient || p.Fault.Reason == plan.ReasonNameHeld)
}

// lastToGo is the VM that gets the mark of the deletion and is released last: the first one that can be changed; nil if there is none.
func (s *sets) lastToGo() *member {
	for m := range s.all() {
		if m.Reachable && m.Question == "" {
			return m
		}
	}
	return nil
}

// isLastToGo reports whether a member is the one that gets the mark of the deletion.
func (s *sets) isLastToGo(m *member) bool {
	last := s.lastToGo()
	return last != nil && last.MoRef == m.MoRef
}

// isAnnounced reports whether the deletion may continue: members are to be removed, or one has the mark of the deletion, or none can be
// given it.
func (s *sets) isAnnounced() bool {
	m := s.lastToGo()
	if m == nil || !s.facts.policy.Retain {
		return true
	}
	return m.Marked && m.Generation >= s.facts.Group.Generation || s.facts.refused(m, plan.Mark)
}

// unannounced reports whether a member of a deleted group must be marked before it is off: a replica that doesn't know of the
// deletion would power it on again, while this one takes its persistent disks off. (Found by test/promises, seed 322267.)
func (s *steps) unannounced(m *member) bool {
	return s.facts.Finalizing && m.Generation < s.facts.Group.Generation && m.Quarantined.IsZero() && m.hasData() && !s.facts.refused(m, plan.Mark)
}

// announcement marks a member with the generation of the deletion.
func (s *steps) announcement(m *member) plan.Action {
	return s.facts.marking(m, "", "the group is deleted: other replicas of the server must know before its members are removed or released")
}
