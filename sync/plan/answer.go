package plan

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Conclusion is the result of probing a member's service: empty until enough consecutive probes agreed.
type Conclusion string

// The conclusions. A conclusion holds until the opposite one.
const (
	Answering Conclusion = "Answering"
	Silent    Conclusion = "Silent"
)

// Answer is what one replica of the server concluded from probing a member.
type Answer struct {
	// Address is the address that is probed.
	Address netip.Addr
	// Refused reports whether --probe-networks doesn't allow the server to probe Address.
	Refused   bool
	Concluded Conclusion
	// Failure is why the probe that reached the threshold failed: one of a few texts of the server, and the HTTP status. It contains nothing
	// else that a guest sends. It is empty while probes succeed.
	Failure string
	// Down reports whether the member was seen down and has not answered since, so the readiness in a stored status is outdated.
	Down bool
}

// Answers are what one replica of the server concluded about a group's members, by moRef.
type Answers struct {
	Of map[string]Answer
	// Suppressed reports whether the server ignores failures of this group, because all members that answered before failed at once.
	Suppressed bool
	// NoneAllowed reports whether the server isn't allowed to probe any member of any group.
	NoneAllowed bool
}

// Ask says which members of a group to probe, and how.
type Ask struct {
	// Namespace is that of the group. Groups of one namespace are one tenant's.
	Namespace string
	Readiness v1alpha1.Readiness
	Members   []Asked
	// Down are the moRefs of members that are not probed because they don't run or report no address.
	Down []string
	// Suppressed reports whether the status says that the group's failures are ignored.
	Suppressed bool
}

// Asked is a member to probe. Ready reports whether the stored status says that the member is ready.
type Asked struct {
	MoRef   string
	Address netip.Addr
	Ready   bool
}

// AskedAddress returns the address at which a member is probed: the first that the guest reports. The group's EndpointSlice of that family has
// the same one. It is the zero Addr if there is none.
func AskedAddress(ips []string) netip.Addr {
	for _, ip := range ips {
		if a, ok := Usable(ip); ok {
			return a
		}
	}
	return netip.Addr{}
}

// Ask returns the members to probe, once vCenter's state is known: those that run and report an address, and none of a group that is being
// finalized or whose spec is refused.
func (o *Observed) Ask() (a Ask) {
	if a.Readiness = o.Group.Spec.Readiness; !a.Readiness.Probes() || o.Finalizing || len(o.Group.Validate()) > 0 {
		return Ask{}
	}
	a.Namespace = o.Group.Namespace
	stored := meta.FindStatusCondition(o.Group.Status.Conditions, v1alpha1.ConditionProbesSuppressed)
	a.Suppressed = stored != nil && stored.Status == metav1.ConditionTrue && stored.Reason == ReasonProbePathSuspected
	ready := make(map[string]bool, len(o.Group.Status.Members))
	for i := range o.Group.Status.Members {
		ready[o.Group.Status.Members[i].MoRef] = o.Group.Status.Members[i].Ready
	}
	for i := range o.State.VMs {
		vm := &o.State.VMs[i]
		address := AskedAddress(vm.ServiceAddresses())
		switch {
		case !vm.Quarantined.IsZero() || !vm.Reachable:
		case vm.Power == PoweredOn && address.IsValid():
			a.Members = append(a.Members, Asked{MoRef: vm.MoRef, Address: address, Ready: ready[vm.MoRef]})
		default:
			a.Down = append(a.Down, vm.MoRef)
		}
	}
	return a
}
