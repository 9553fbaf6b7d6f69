package planner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// children are the desired child objects, always all of them. They are those last applied while vCenter's facts are unknown or the spec
// is refused, and none while the group is finalized, unless its members are being drained or held, or the group is paused. Where the
// garbage collector looks after the children of a deleted group, they are left to it: those that it releases stay as they are, and one
// that it has deleted is not made again.
func (v *sets) children() []plan.Child {
	switch {
	case v.orphaned():
		return children.AsReceived(v.Children)
	case v.Finalizing && v.Cascade == metav1.DeletePropagationForeground:
		return nil
	case v.Finalizing && !v.drainsAll() && !v.holdsAny() && !v.paused():
		return nil
	case !v.sighted, v.invalid != nil:
		return v.publisher().LastApplied()
	}
	return v.publisher().All(v.published())
}

// published are the members by ordinal, including those that are not seen but not gone.
func (v *sets) published() []children.Member {
	all := make([]children.Member, 0, len(v.members)+len(v.notFound))
	for i := range v.members {
		m := &v.members[i]
		if m.duplicate {
			continue
		}
		all = append(all, children.Member{Name: m.name, VMName: m.renamed(), Ordinal: m.Ordinal, Power: string(m.Power), IPs: m.IPs,
			Ready: m.ready, Serving: m.ready && !v.halting(m), Terminating: v.terminating(m), Chosen: v.chosenSince(m)})
	}
	for i := range v.notFound {
		m := &v.notFound[i]
		all = append(all, children.Member{Name: m.Name, VMName: m.VMName, Ordinal: m.Ordinal, Power: m.PowerState, IPs: m.IPs, Terminating: v.Finalizing && !v.paused(), Chosen: v.chosenSince(&member{})})
	}
	return children.ByOrdinal(all)
}

// publisher makes the children of the group.
func (v *facts) publisher() children.Publisher {
	return children.Publisher{Observed: v.Observed, Sighted: v.sighted, Invalid: v.invalid}
}
