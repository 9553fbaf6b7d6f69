package plan

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Conclusion is what follows from asking a member whether its service answers; empty while nothing does.
type Conclusion string

// The conclusions. A member that was concluded to answer does so until the opposite is concluded.
const (
	Answering Conclusion = "Answering"
	Silent    Conclusion = "Silent"
)

// Answer is what one replica of the server concluded from asking a member.
type Answer struct {
	// Address is the one that is asked.
	Address netip.Addr
	// Refused reports whether the server is not allowed to ask it.
	Refused   bool
	Concluded Conclusion
	// Failure is why tries fail, as of the one that reached the threshold: one of a few texts of the server, and the HTTP status. Nothing
	// else of what a guest sends gets in here. It is empty while none fail.
	Failure string
	// Down reports whether the member was seen down, and has not answered since, so what a status said of it before is outdated.
	Down bool
}

// Answers are those of a group's members, by moRef.
type Answers struct {
	Of map[string]Answer
	// Suppressed reports whether failures of this group are not believed, because all who answered before failed at once.
	Suppressed bool
	// Nobody reports whether the server is allowed to ask no member of any group.
	Nobody bool
}

// Ask is whom to ask for a group, and how.
type Ask struct {
	Readiness v1alpha1.Readiness
	Members   []Asked
	// Down are those, by moRef, that are not asked because they don't run, or report no address.
	Down []string
	// Suppressed reports whether the status says that their failures are not believed.
	Suppressed bool
}

// Asked is a member that is asked. Ready reports whether its status says that it is ready.
type Asked struct {
	MoRef   string
	Address netip.Addr
	Ready   bool
}

// AskedAddress is the address by which a member is asked: the first that it reports, which is also the one in the group's EndpointSlices of its
// family. It is the zero one if there is none.
func AskedAddress(ips []string) netip.Addr {
	for _, ip := range ips {
		if a, ok := Usable(ip); ok {
			return a
		}
	}
	return netip.Addr{}
}

// Ask is whom to ask, now that vCenter's state is known: members that run and report an address, and none of a group that is finalized, or
// whose spec is refused.
func (o *Observed) Ask() (a Ask) {
	if a.Readiness = o.Group.Spec.Readiness; !a.Readiness.Probes() || o.Finalizing || len(o.Group.Validate()) > 0 {
		return Ask{}
	}
	stored := meta.FindStatusCondition(o.Group.Status.Conditions, v1alpha1.ConditionProbesSuppressed)
	a.Suppressed = stored != nil && stored.Status == metav1.ConditionTrue && stored.Reason == ReasonProbePathSuspected
	ready := make(map[string]bool, len(o.Group.Status.Members))
	for i := range o.Group.Status.Members {
		ready[o.Group.Status.Members[i].MoRef] = o.Group.Status.Members[i].Ready
	}
	for i := range o.State.VMs {
		vm := &o.State.VMs[i]
		address := AskedAddress(vm.Reached())
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
