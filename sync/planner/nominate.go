package planner

// A nominator is a reason to replace members: it nominates those that it concerns. None takes a member down: selectForRemoval selects among the
// nominated members and those that are too many, since all share maxUnavailable, maxSurge and one order. order lists the members that can be removed,
// the first to go in front.
type nominator interface {
	nominate(d *decision, order []int)
}

// nominators lists all of them. A later one replaces the nomination of an earlier one:
//
//	reason                                              nominates with
//	--------------------------------------------------  --------------------------------------
//	update: the member differs from the spec, as by     MarkReasonUpdate, or MarkReasonResize
//	its revision, its template or its age
//	requested: spec.replace names the VM                MarkReasonReplace
//	healing: the member stays unready                   MarkReasonHealing, unless a restart comes first
//	fullHost: its host has no room, and it never ran    MarkReasonHealing
//
// A scale-in, a duplicate and a standby member need no nomination: these aren't replaced (selectForRemoval, duplicates.go, standby.go).
func (d *decision) nominators() []nominator {
	return []nominator{&d.update, requested{}, &d.healing, fullHost{}}
}
