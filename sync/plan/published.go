package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// published is a member as it is shown to those who look for it. It is made of facts only, never of what this process has
// under way, so that all replicas of the server answer alike.
type published struct {
	name    string // of its VM
	ordinal int32
	power   string
	ips     []string // as the guest reports them
	ready   bool     // as the status has it
	// serving: ready, and its guest was not asked to halt. terminating: chosen to go.
	serving, terminating bool
	// chosen is when it was, not earlier than it was; zero if that is not known.
	chosen time.Time
	// twin: another VM claims to be this member, so nobody is led to either.
	twin bool
}

// published are the members by ordinal, those included that are not seen but not gone.
func (v *view) published() []published {
	all := make([]published, 0, len(v.members)+len(v.unseen))
	for i := range v.members {
		m := &v.members[i]
		all = append(all, published{name: m.VM.Name, ordinal: m.Ordinal, power: string(m.Power), ips: m.IPs,
			ready: m.ready, serving: m.ready && !v.halting(m), terminating: v.terminating(m), chosen: v.chosenSince(m), twin: m.duplicate})
	}
	for i := range v.unseen {
		m := &v.unseen[i]
		all = append(all, published{name: m.Name, ordinal: m.Ordinal, power: m.PowerState, ips: m.IPs, terminating: v.Finalizing && !v.paused(), chosen: v.chosenSince(&member{})})
	}
	return byOrdinal(all)
}

// recordedMembers are the members as the stored status has them.
func recordedMembers(members []v1alpha1.Member) []published {
	all := make([]published, 0, len(members))
	for i := range members {
		m := &members[i]
		all = append(all, published{name: m.Name, ordinal: m.Ordinal, power: m.PowerState, ips: m.IPs, ready: m.Ready,
			serving: m.Ready && m.Reason != "ShuttingDown", terminating: m.Reason == ReasonRemoving || m.Reason == ReasonPowerCycling, twin: m.Reason == ReasonDuplicateMember})
	}
	return byOrdinal(all)
}

// byOrdinal sorts members. Of several with one ordinal (one that is seen and one that is not), the first counts.
func byOrdinal(all []published) []published {
	slices.SortStableFunc(all, func(a, b published) int { return cmp.Compare(a.ordinal, b.ordinal) })
	for i := 1; i < len(all); i++ {
		if all[i].ordinal == all[i-1].ordinal {
			all[i].twin = true
		}
	}
	return all
}

// usable reads an address that a guest reports, if one can be led to it: the API server refuses an EndpointSlice with any
// other (unspecified, loopback, link-local, with a zone), and one guest must not block its group. A text that is no
// address at all goes no further.
func usable(ip string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(ip)
	a = a.Unmap()
	return a, err == nil && a.Zone() == "" && a.IsGlobalUnicast()
}
