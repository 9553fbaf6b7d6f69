package plan

// Relief counts the changes that vCenter has shown and that may end a refusal, by what the refusal depends on. Package inventory counts them
// while refusals last (Query.Lasting).
type Relief struct {
	// Pool counts hosts that came back or were added, and resource pools that were added or have other limits.
	Pool int
	// Storage counts datastores that have more free space, can be used again, or were added; of the group's own, if its name is known.
	Storage int
	// Networks counts networks that were added.
	Networks int
}

// WatchedFor are the parts of what a refusal depends on for which Relief counts changes.
const WatchedFor = OnPool | OnStorage | OnNetworks

// Of returns the counts of what a refusal depends on, and zeros for the rest.
func (r Relief) Of(on Depends) (part Relief) {
	if on&OnPool != 0 {
		part.Pool = r.Pool
	}
	if on&OnStorage != 0 {
		part.Storage = r.Storage
	}
	if on&OnNetworks != 0 {
		part.Networks = r.Networks
	}
	return part
}
