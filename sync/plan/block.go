package plan

// Block is why no action is possible for a group. A fault that the planner itself has found has no message: package tell says it in words, from what
// Block knows beside it.
type Block struct {
	Fault
	// VCenter is the one in which What, "members" or "persistent disks", were created. StaleMoRefs is the field of the spec that keeps the group from
	// moving to the present vCenter, because it has moRefs of the former one; empty if none does.
	VCenter, What, StaleMoRefs string
	// Newest is the highest generation in the group's stamps, or in an earlier hook call, and Called the one that this hook call counts as.
	Newest, Called int64
	// Removed is the member that another process destroyed with the server's account.
	Removed string
	// Home is where members were created, other than spec.placement says. Creating: they are being created there.
	Home     string
	Creating bool
	// Member has a disk that the spec would take from it, and Lost says which.
	Member, Lost string
	// Disks is how many persistent disks the group would have.
	Disks int
}
