package plan

// Relief counts the changes that vCenter has shown and that may end a refusal, by what the refusal depends on. Package inventory counts them
// while refusals last (Query.Lasting).
type Relief struct {
	// Pool counts hosts that can be used again, resource pools with another allocation of CPU or memory, and hosts, clusters and pools that are
	// new or have another name.
	Pool int
	// Storage counts datastores that have more free space, can be used again, are new or have another name. If the name of the group's datastore
	// is known, it counts that one only.
	Storage int
	// Networks counts networks that are new or have another name.
	Networks int
}

// Relievable are the parts of what a refusal depends on for which Relief counts changes.
const Relievable = OnPool | OnStorage | OnNetworks

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
