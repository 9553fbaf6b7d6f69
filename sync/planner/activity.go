package planner

// activity is work in progress for a VM or an ordinal, as the status message describes it.
type activity struct {
	says, noun string
	// background: the message says it after what concerns the members that serve. byDeletion: the sentence about a deletion says it already.
	background, byDeletion bool
	// busy reports whether the group is busy during the activity. (Clones, adoptions and returns make it busy by their ordinals.) updates reports
	// whether the activity can be part of an update, and standby whether it concerns only standby members.
	busy, updates, standby bool
}

// The activities of several concerns. Those of one are in its file.
var (
	// starting: a member is powered on, or gets first what it needs for that.
	starting = &activity{says: "powering on %s", noun: "member", busy: true, updates: true}
	// leaving: a member is removed.
	leaving = &activity{says: "removing %s", noun: "member", byDeletion: true, busy: true, updates: true}
	// standingBy: a standby member is made, prepared or resized.
	standingBy = &activity{says: "creating or updating %d of %s", noun: "standby member", background: true, byDeletion: true, standby: true}
	// tidying: a duplicate, or a VM in or for quarantine, is moved or removed.
	tidying = &activity{says: "quarantining or removing %s", noun: "VM", background: true, byDeletion: true}
)
