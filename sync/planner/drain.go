package planner

import (
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// A member is marked before it is removed, or power-cycled for its size. From then on its endpoints are terminating, and for
// spec.service.drainSeconds the server doesn't change it. A member that is not ready gets no traffic, so it needs no drain.
//
// The drain starts when the server observes an EndpointSlice that shows the endpoint as terminating: the mark is published only by the next
// hook call, and Metacontroller writes the slice some time later. The answer after that records the time in an annotation of the slice, so
// it survives a restart of the server, and other replicas know it. If no slice has the member, the drain starts with the mark.

// drained reports whether the drain of a member is over, so that it can be taken down; if not, again is when to look again.
func (f *facts) drained(m *member) (is bool, again time.Time) {
	drain := f.DrainTime()
	if drain == 0 || !m.ready || m.halting() {
		return true, time.Time{}
	}
	since, shown := f.terminatingSince(m)
	switch {
	case !shown: // the next hook call may bring it
		return false, f.Now.Add(time.Second)
	case since.IsZero(): // an older server marked it, and no slice leads to it
		return true, time.Time{}
	}
	over := since.Add(drain)
	return !f.Now.Before(over), over
}

// drainsAll reports whether the members of a deleted group are being drained: its children are kept until that is over. Retained members keep
// running, so they need no drain.
func (s *sets) drainsAll() bool {
	if !s.facts.Finalizing || s.facts.DrainTime() == 0 || s.facts.policy.Retain {
		return false
	}
	if !s.facts.vCenterKnown { // nothing is taken down until vCenter is known again; then the endpoints that still exist are drained
		for key := range s.facts.Children {
			if key.Kind == plan.KindEndpointSlice {
				return true
			}
		}
		return false
	}
	waits := false
	for i := range s.members {
		drained, again := s.facts.drained(&s.members[i])
		s.wake.note(again)
		waits = waits || !drained
	}
	return waits
}

// terminatingSince returns since when all endpoints of a member are known to be terminating; shown is false while one is not. If no slice has
// the member, since is when it was marked; zero if unknown.
func (f *facts) terminatingSince(m *member) (since time.Time, shown bool) {
	chosen := f.chosenSince(m)
	if since = chosen; f.invalid != nil { // nothing is made from such a spec, so nothing is shown
		return since, true
	}
	p := children.Member{Ordinal: m.Ordinal, IPs: m.IPs}
	for _, family := range children.Families {
		if p.Address(family.AddressType == "IPv4") == "" {
			continue
		}
		key := f.publisher().SliceKey(family.Name, m.Ordinal)
		e, is := f.Children[key].Endpoints[m.name]
		switch {
		case is && (!e.Terminating || !f.publisher().Recorded(e.Since, chosen)):
			return since, false
		case is && e.Since.After(since):
			since = e.Since
		case !is && !f.Finalizing && f.publisher().ServiceIsOurs() && !f.publisher().Misses(key): // it is about to be shown
			return since, false
		}
	}
	return since, true
}
