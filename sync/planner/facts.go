// This file finds what is known of a group before its VMs are examined.

package planner

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// facts are an observation, and what follows from it for the group as a whole. Nothing changes them once factsOf has returned. Each stage of
// a plan has the results of those before it as fields: facts, sets (sets.go), decision (decision.go), steps (steps.go).
// So no stage can call a later one.
type facts struct {
	*plan.Observed
	policy Policy
	want   int
	// vCenterKnown: vCenter's state is known, and it is the vCenter of the group. Otherwise the status keeps its figures.
	vCenterKnown bool
	// shortOutage: vCenter's state was known until a moment ago, so the stored status is returned unchanged until shortOutageOver.
	shortOutage     bool
	shortOutageOver time.Time
	// invalid is why the spec is refused; nil if it is valid.
	invalid *plan.Fault
	// blockedBy is why no action is possible; nil if actions are.
	blockedBy *plan.Block
	// later: the folder was created after the newest hook call (see hideLaterFolder).
	later    bool
	revision string // that a member cloned now has; empty while its user data is unknown
	prepared string // the tags, attributes and networks that a member is prepared with; can be empty
	// allocation are the reservations, limits and shares of a member; can be empty.
	allocation string
	holds      plan.Holds
	// departed are the VMs that vCenter reported as removed. instances are the instanceUuids of the VMs that vCenter shows.
	departed  plan.Departed
	instances map[string]bool
	// templates are the members that were converted to templates, by moRef.
	templates map[string]plan.VMID
	// staleMoRefs is the field of the spec with moRefs of the vCenter that had the group's VMs before the one that is connected; empty if there is none.
	staleMoRefs string
	// disksNow are the persistent disks that the next status lists, disksListed those that the stored status lists.
	disksNow, disksListed disksByOrdinal
}

// needsOperator is a fault that an operator has to act on. Package tell has its words (tell/faultwords.go).
func needsOperator(reason string) plan.Fault { return plan.Fault{Reason: reason, NeedsOperator: true} }

// disksByOrdinal are a group's persistent disks.
type disksByOrdinal map[int32][]v1alpha1.PersistentDisk

func byOrdinal(all []v1alpha1.PersistentDisk) disksByOrdinal {
	of := disksByOrdinal{}
	for _, d := range all {
		of[d.Ordinal] = append(of[d.Ordinal], d)
	}
	return of
}

// knownDisks are the detached disks that the next VM of the ordinal gets.
func (f *facts) knownDisks(ordinal int32) (known []v1alpha1.PersistentDisk) {
	for _, d := range f.disksNow[ordinal] {
		if d.State == v1alpha1.DiskDetached {
			known = append(known, d)
		}
	}
	return known
}

// wantAll is how many members and standby members the spec asks for.
func (f *facts) wantAll() int { return f.want + int(f.Group.Spec.Standby) }

// recorded is how many VMs the stored status lists.
func (f *facts) recorded() int {
	s := &f.Group.Status
	return len(s.Members) + len(s.Quarantined) + len(s.Standby)
}

// paused reports whether the spec asks that nothing be changed.
func (f *facts) paused() bool { return f.Group.Spec.Paused }

// orphaned reports whether the group was deleted with --cascade=orphan: its VMs and its children are kept. The API server refuses such
// a deletion if the cluster has the policy of charts/vmgroup/files/cluster/deletionguard.yaml.
func (f *facts) orphaned() bool {
	return f.Finalizing && f.Cascade == metav1.DeletePropagationOrphan
}

// abandoned reports whether an operator has asked to end a deletion without vCenter.
func (f *facts) abandoned() bool {
	return f.Finalizing && f.Older == nil && f.Group.Annotations[v1alpha1.AnnotationAbandon] == "true"
}

// hasPersistentDisks reports whether members have persistent disks, so that the ordinals are 0 … n-1.
func (f *facts) hasPersistentDisks() bool { return f.Group.Spec.HasPersistentDisks() }

// isBack reports whether a recorded member is in vCenter, perhaps with another moRef.
func (f *facts) isBack(m *v1alpha1.Member) bool {
	return m.InstanceUUID != "" && f.instances[m.InstanceUUID]
}

// details returns the details of the member with that ordinal; false if the ranges have no address for it.
func (f *facts) details(ordinal int32) (*plan.Details, bool) {
	spec := &f.Group.Spec
	addresses, ok := plan.AddressesOf(spec, ordinal)
	return &plan.Details{Spec: spec, UserData: f.Related.UserData, Zone: plan.ZoneOf(spec, ordinal), Addresses: addresses,
		Home: plan.HomeOf(spec).String(), AddressText: plan.AddressText(addresses), Prepared: f.prepared, Asked: plan.TryAgainOf(f.Group), KnownDisks: f.knownDisks(ordinal), DisksOf: f.Group.TakesDisksOf()}, ok
}
