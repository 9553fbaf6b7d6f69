package children

import (
	"cmp"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Member is a member as it is published. It is made of facts only, never of what this process has
// running, so that all replicas of the server answer the same.
type Member struct {
	Name    string
	VMName  string // of its VM, if that differs
	Ordinal int32
	Power   string
	IPs     []string // as the guest reports them
	Ready   bool     // as the status has it
	// Serving: ready, and its guest was not asked to shut down. Terminating: marked, or its group is deleted.
	Serving, Terminating bool
	// Chosen is when it was marked, or its group deleted, rounded up; zero if unknown.
	Chosen time.Time
}

// recordedMembers returns the members in the stored status.
func recordedMembers(members []v1alpha1.Member) []Member {
	all := make([]Member, 0, len(members))
	for i := range members {
		m := &members[i]
		if m.Reason == plan.ReasonDuplicateMember {
			continue
		}
		all = append(all, Member{Name: m.Name, VMName: m.VMName, Ordinal: m.Ordinal, Power: m.PowerState, IPs: m.IPs, Ready: m.Ready,
			Serving: m.Ready && m.Reason != "ShuttingDown", Terminating: m.Reason == plan.ReasonRemoving || m.Reason == plan.ReasonPowerCycling})
	}
	return ByOrdinal(all)
}

// ByOrdinal sorts members. Of several with one ordinal (one that is seen and one that is not), only the first counts.
func ByOrdinal(all []Member) []Member {
	slices.SortStableFunc(all, func(a, b Member) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return slices.CompactFunc(all, func(a, b Member) bool { return a.Ordinal == b.Ordinal })
}
