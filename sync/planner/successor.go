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

func (v *decision) findSuccessors() {
	s := &v.successors
	s.here = v.ordinals - v.want
	for i := range v.standby {
		s.here += int(oneIf(v.fit(&v.standby[i])))
	}
	for i := range v.quarantined {
		q := &v.quarantined[i]
		s.here += int(oneIf(v.fitsAgain(q) && !v.has(q.Ordinal)))
	}
	for name, p := range v.Pending {
		if p.Fault.Reason != "" && (p.Op == plan.Clone || p.Unrehearsed()) {
			s.failing = append(s.failing, name)
			if p.Fault.NeedsOperator {
				s.blocked = append(s.blocked, name)
			}
		}
	}
	s.none = v.sourceFault() != nil || v.ordinals+len(v.arriving) < v.want && plan.AddressCount(&v.Group.Spec) < v.want
}

// isProven reports whether a member like the successor of this one was cloned lately. Adoption is no proof.
func (v *decision) isProven(m *member) bool {
	s, zones := &v.successors, max(1, len(v.Group.Spec.Placement.Zones))
	if s.newest == nil {
		s.newest = make([]time.Time, zones)
		for _, list := range [][]member{v.members, v.standby} {
			for i := range list {
				if x := &list[i]; x.outdated == "" && x.Former == (plan.Former{}) && x.Created.After(s.newest[int(x.Ordinal)%zones]) {
					s.newest[int(x.Ordinal)%zones] = x.Created
				}
			}
		}
	}
	until := s.newest[int(m.Ordinal)%zones].Add(provenFor)
	v.wakeAt(until)
	return v.Now.Before(until)
}

// another reports whether another member is in the list: what blocks a member's own mark is found out by trying it again.
func another(names []string, than *member) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name != than.name })
}

// stays reports whether a member is not replaced because no successor of it can be made until an operator acts.
func (v *decision) stays(m *member) bool { return m.retire != "" && v.cloneBlocked(m) }

// cloneBlocked reports whether an operator has to act before the successor of a member can be made.
func (v *decision) cloneBlocked(m *member) bool {
	return v.successors.none || another(v.successors.blocked, m)
}

// follows reports whether a member that is to be replaced can be marked, or be taken down if it is.
func (v *decision) follows(m *member) bool {
	left := v.successors.here - 1
	switch {
	case m.going():
		return true
	case another(v.successors.failing, m):
		return false
	case left >= 0 || v.isProven(m):
		return true
	case m.retire != plan.WhyHealing && v.extraComesFirst():
		return false
	}
	return left >= -1
}

// extraComesFirst reports whether an extra member can be made before another one goes.
func (v *sets) extraComesFirst() bool {
	if v.policy.Surge == 0 || v.dense() {
		return false
	}
	_, ok := v.nextPlace(v.pickOrdinals())
	return ok
}

// remakes reports whether a standby member can be removed so that it is made again, where so many are missing.
func (v *decision) remakes(m *member, missing int) bool {
	return !v.cloneBlocked(m) && (m.going() || !another(v.successors.failing, m) && (missing <= 0 || v.isProven(m)))
}

// replacing is marking, for a member that is replaced: the step looks first whether what its successor's clone needs is there.
func (v *facts) replacing(m *member, why plan.Why, reason string) plan.Action {
	details, _ := v.details(m.Ordinal)
	successor := v.cloneOf(m.name, m.Ordinal, details, false)
	a := v.marking(m, why, reason)
	a.Args = plan.MarkArgs{Why: why, Successor: &successor}
	return a
}

// tellUnrehearsed notes what keeps the successor of a member from being cloned, as the step found that was to mark the member.
func (v *steps) tellUnrehearsed(m *member) {
	if p := v.Pending[m.name]; p.Unrehearsed() && p.Fault.NeedsOperator {
		v.cloneFaults = append(v.cloneFaults, named{Who: m.name, Fault: p.Fault})
	}
}

// tellStaying reports why nobody is replaced, where no clone is wanted that would report it.
func (v *steps) tellStaying() {
	waits := func(m member) bool { return m.retire != "" && !m.leaves || m.yet }
	if len(v.cloneFaults) > 0 || !slices.ContainsFunc(v.members, waits) && !slices.ContainsFunc(v.standby, func(m member) bool { return v.unfit(&m) }) {
		return
	}
	if fault := v.sourceFault(); fault != nil {
		v.blockClone("", *fault)
	} else if slices.Sort(v.successors.blocked); len(v.successors.blocked) > 0 {
		name := v.successors.blocked[0]
		v.blockClone(name, v.Pending[name].Fault)
	}
}

// nextPlace picks the next free ordinal whose addresses, if it has static ones, no member holds; false if there is none.
func (v *facts) nextPlace(ordinals *zonePicker) (ordinal int32, ok bool) {
	var held heldAddresses
	for {
		ordinal = ordinals.Pick()
		given, ok := plan.AddressesOf(&v.Group.Spec, ordinal)
		if !ok || len(given) == 0 {
			return ordinal, ok
		}
		if held == nil {
			held = addressesHeldBy(v.State.VMs)
		}
		if !held.ByOther(ordinal, plan.AddressText(given)) {
			return ordinal, true
		}
	}
}
