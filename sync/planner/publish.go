package planner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// children are all desired child objects. While vCenter's state is unknown or the spec is invalid, they are those last applied. While the group
// is finalized, there are none, unless its members are being drained or held, or the group is paused. If the garbage collector deletes the
// children (--cascade=foreground) or releases them (--cascade=orphan), the answer leaves them to it, and creates none again.
func (s *sets) children() []plan.Child {
	switch {
	case s.facts.Finalizing && s.facts.Older != nil:
		return children.AsReceived(s.facts.Older.Children)
	case s.facts.orphaned(), s.facts.Finalizing && s.facts.blockedBy != nil && s.facts.blockedBy.Reason == plan.ReasonSuperseded:
		return children.AsReceived(s.facts.Children)
	case s.facts.Finalizing && s.facts.Cascade == metav1.DeletePropagationForeground:
		return nil
	case s.facts.Finalizing && !s.draining && !s.holdsAny() && !s.facts.paused():
		return nil
	case !s.facts.vCenterKnown, s.facts.invalid != nil:
		return s.facts.publisher().LastApplied()
	}
	return s.facts.publisher().All(s.published())
}

// published are the members by ordinal, including those that vCenter doesn't show and that are not gone.
func (s *sets) published() []children.Member {
	all := make([]children.Member, 0, len(s.members)+len(s.notFound))
	for i := range s.members {
		m := &s.members[i]
		if m.duplicate {
			continue
		}
		all = append(all, children.Member{Name: m.name, VMName: m.renamed(), Ordinal: m.Ordinal, Power: string(m.Power), IPs: m.IPs,
			Ready: m.ready, Serving: m.ready && !m.halting(), Terminating: s.facts.terminating(m), Chosen: s.facts.chosenSince(m)})
	}
	for i := range s.notFound {
		m := &s.notFound[i]
		all = append(all, children.Member{Name: m.Name, VMName: m.VMName, Ordinal: m.Ordinal, Power: m.PowerState, IPs: m.IPs, Terminating: s.facts.Finalizing && !s.facts.paused(), Chosen: s.facts.chosenSince(&member{})})
	}
	return children.ByOrdinal(all)
}

// terminating reports whether a member's endpoints say so.
func (f *facts) terminating(m *member) bool { return m.Marked || f.Finalizing && !f.paused() }

// publisher makes the children of the group.
func (f *facts) publisher() children.Publisher {
	return children.Publisher{Observed: f.Observed, VCenterKnown: f.vCenterKnown, Invalid: f.invalid}
}

// awaitsService reports whether the group should have a Service, and has none yet.
func (f *facts) awaitsService() bool { return f.publisher().AwaitsService() }
