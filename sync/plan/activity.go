package plan

// Activity is a kind of work in progress for VMs or ordinals, as the status message describes it.
type Activity struct {
	// Says is a sentence with a place for the number of VMs or ordinals, with Noun. OfStandby: the number has a place before that, and the one with Noun is
	// spec.standby.
	Says, Noun string
	OfStandby  bool
	// Background: it is said after what concerns the members that serve. ByDeletion: the sentence about a deletion says it already.
	Background, ByDeletion bool
	// Busy reports whether the group is busy during the activity. (Clones, adoptions and returns make it busy by their ordinals.) Updates reports whether
	// the activity can be part of an update, and Standby whether it concerns only standby members.
	Busy, Updates, Standby bool
}
