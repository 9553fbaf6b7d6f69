package planner

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A member that is replaced has a successor: another member of the group has its place once it is gone. No member is marked to be
// replaced, for whatever reason, unless its successor exists or can be made, and right before the mark is written the step looks up what
// that clone needs (Action.Successor). A mark is withdrawn if it turns out that no member can be made.
//
//	what is known                                                      | who is replaced
//	-------------------------------------------------------------------+---------------------------------------------------------
//	no member can be made until an operator acts                       | nobody: see stays
//	the last clone failed, and is tried again                          | only who is marked
//	the successor is here: an extra member, a fit standby member,      | it goes
//	or a VM in quarantine that fits the spec                           |
//	a member of the same zone was cloned from this spec within an hour | it goes
//	none was, and an extra member can come first (maxSurge)            | nobody before that one is here, but for healing
//	none was, and none can come first                                  | one at a time: what only the clone itself shows, such as a
//	                                                                   | missing privilege, costs one member at most
type successors struct {
	// here is how many more members there are than the group needs, when those that go are gone.
	here int
	// newest is when the newest member of each zone was cloned that is as the spec says; nil until it is asked for.
	newest []time.Time
	// blocked are the members whose clone, or whose successor's, an operator has to make possible; failing are those for which the last
	// try failed, for whatever reason. none: no member at all can be made until an operator acts.
	blocked, failing []string
	none             bool
}

// provenFor is how long a clone shows that others like it can be made.
const provenFor = time.Hour

func (d *decision) findSuccessors() {
	s := &d.successors
	s.here = d.ordinals - d.want
	for i := range d.standby {
		s.here += int(oneIf(d.fit(&d.standby[i])))
	}
	for i := range d.quarantined {
		q := &d.quarantined[i]
		s.here += int(oneIf(d.fitsAgain(q) && !d.has(q.Ordinal)))
	}
	for name, p := range d.Pending {
		if p.Fault.Reason != "" && (p.Op == plan.Clone || p.Unrehearsed()) {
			s.failing = append(s.failing, name)
			if p.Fault.NeedsOperator {
				s.blocked = append(s.blocked, name)
			}
		}
	}
	s.none = d.sourceFault() != nil || d.ordinals+len(d.arriving) < d.want && plan.AddressCount(&d.Group.Spec) < d.want
}

// isProven reports whether a member like the successor of this one was cloned lately. Adoption is no proof.
func (d *decision) isProven(m *member) bool {
	s, zones := &d.successors, max(1, len(d.Group.Spec.Placement.Zones))
	if s.newest == nil {
		s.newest = make([]time.Time, zones)
		for _, list := range [][]member{d.members, d.standby} {
			for i := range list {
				if x := &list[i]; x.outdated == "" && x.Former == (plan.Former{}) && x.Created.After(s.newest[int(x.Ordinal)%zones]) {
					s.newest[int(x.Ordinal)%zones] = x.Created
				}
			}
		}
	}
	until := s.newest[int(m.Ordinal)%zones].Add(provenFor)
	d.wakeAt(until)
	return d.Now.Before(until)
}

// another reports whether another member is in the list: what blocks a member's own mark is found out by trying it again.
func another(names []string, than *member) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name != than.name })
}

// stays reports whether a member is not replaced because no successor of it can be made until an operator acts.
func (d *decision) stays(m *member) bool { return m.retire != "" && d.cloneBlocked(m) }

// cloneBlocked reports whether an operator has to act before the successor of a member can be made.
func (d *decision) cloneBlocked(m *member) bool {
	return d.successors.none || another(d.successors.blocked, m)
}

// follows reports whether a member that is to be replaced can be marked, or be taken down if it is.
func (d *decision) follows(m *member) bool {
	left := d.successors.here - 1
	switch {
	case m.going():
		return true
	case another(d.successors.failing, m):
		return false
	case left >= 0 || d.isProven(m):
		return true
	case m.retire != plan.WhyHealing && d.extraComesFirst():
		return false
	}
	return left >= -1
}

// extraComesFirst reports whether an extra member can be made before another one goes.
func (s *sets) extraComesFirst() bool {
	if s.policy.Surge == 0 || s.dense() {
		return false
	}
	_, ok := s.nextPlace(s.pickOrdinals())
	return ok
}

// remakes reports whether a standby member can be removed so that it is made again, where so many are missing.
func (d *decision) remakes(m *member, missing int) bool {
	return !d.cloneBlocked(m) && (m.going() || !another(d.successors.failing, m) && (missing <= 0 || d.isProven(m)))
}

// replacing is marking, for a member that is replaced: the step looks first whether what its successor's clone needs is there.
func (f *facts) replacing(m *member, why plan.Why, reason string) plan.Action {
	details, _ := f.details(m.Ordinal)
	successor := f.cloneOf(m.name, m.Ordinal, details, false)
	a := f.marking(m, why, reason)
	a.Args = plan.MarkArgs{Why: why, Successor: &successor}
	return a
}

// tellUnrehearsed notes what keeps the successor of a member from being cloned, as the step found that was to mark the member.
func (s *steps) tellUnrehearsed(m *member) {
	if p := s.Pending[m.name]; p.Unrehearsed() && p.Fault.NeedsOperator {
		s.cloneFaults = append(s.cloneFaults, named{Who: m.name, Fault: p.Fault})
	}
}

// tellStaying reports why nobody is replaced, where no clone is wanted that would report it.
func (s *steps) tellStaying() {
	waits := func(m member) bool { return m.retire != "" && !m.leaves || m.yet }
	if len(s.cloneFaults) > 0 || !slices.ContainsFunc(s.members, waits) && !slices.ContainsFunc(s.standby, func(m member) bool { return s.unfit(&m) }) {
		return
	}
	if fault := s.sourceFault(); fault != nil {
		s.blockClone("", *fault)
	} else if slices.Sort(s.successors.blocked); len(s.successors.blocked) > 0 {
		name := s.successors.blocked[0]
		s.blockClone(name, s.Pending[name].Fault)
	}
}

// nextPlace picks the next free ordinal whose addresses, if it has static ones, no member has; false if there is none.
func (f *facts) nextPlace(ordinals *zonePicker) (ordinal int32, ok bool) {
	var taken takenAddresses
	for {
		ordinal = ordinals.Pick()
		given, ok := plan.AddressesOf(&f.Group.Spec, ordinal)
		if !ok || len(given) == 0 {
			return ordinal, ok
		}
		if taken == nil {
			taken = takenAddressesOf(f.State.VMs)
		}
		if !taken.ByOther(ordinal, plan.AddressText(given)) {
			return ordinal, true
		}
	}
}
