package plan

import "time"

// A member that is to be removed, or power-cycled for its size, is marked first. From then on its endpoints say that it is
// terminating, and for spec.service.drainSeconds nothing is done to it. The time counts from the mark in its stamp, so a
// restart of the server begins nothing anew. A member that is not ready gets no traffic, and is not waited for.

func (v *view) drainTime() time.Duration {
	if v.Group.Spec.Service == nil {
		return 0
	}
	return seconds(&v.Group.Spec.Service.DrainSeconds, 0)
}

// drained reports whether a marked member may be taken down.
func (v *view) drained(m *member) bool {
	drain := v.drainTime()
	if drain == 0 || !m.ready || m.MarkedAt.IsZero() || v.halting(m) {
		return true
	}
	over := m.MarkedAt.Add(drain)
	v.wakeAt(over)
	return !v.Now.Before(over)
}

// drainsAll reports whether a group is deleted and its members are drained: its children stay until that is over. Members
// that are retained go on serving those who know their addresses.
func (v *view) drainsAll() bool {
	drain := v.drainTime()
	if !v.Finalizing || drain == 0 || v.policy.retain || v.sighted && v.countReady() == 0 {
		return false
	}
	since := v.FinalizingSince
	if v.Group.DeletionTimestamp != nil {
		since = v.Group.DeletionTimestamp.Time
	}
	over := since.Add(drain)
	v.wakeAt(over)
	return v.Now.Before(over)
}

// terminating reports whether a member's endpoints say so.
func (v *view) terminating(m *member) bool { return m.Marked || v.Finalizing && !v.paused() }
