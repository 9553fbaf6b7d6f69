// This file finds what is known of a group before its VMs are examined, and what blocks the group.

package planner

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// facts are an observation, and what follows from it for the group as a whole. Nothing changes them once factsOf has returned. Each stage of
// a plan has the results of those before it as fields: facts, sets (sets.go), decision (decision.go), steps (steps.go), report
// (report.go). So no stage can call a later one.
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
	blockedBy *plan.Fault
	// later: the folder was created after the newest hook call (see hideLaterFolder).
	later    bool
	revision string // that a member cloned now has; empty while its user data is unknown
	prepared string // the tags, attributes and networks that a member is prepared with; can be empty
	// allocation are the reservations, limits and shares of a member; can be empty.
	allocation string
	holds      memberHolds
	// departed are the VMs that vCenter reported as removed. instances are the instanceUuids of the VMs that vCenter shows.
	departed  plan.Departed
	instances map[string]bool
	// disksNow are the persistent disks that the next status lists, disksListed those that the stored status lists.
	disksNow, disksListed disksByOrdinal
}

func factsOf(o *plan.Observed) *facts {
	f := &facts{Observed: o, holds: holdsOf(o.Group), want: int(o.Group.Replicas()), prepared: plan.PreparationOf(&o.Group.Spec),
		allocation: plan.AllocationOf(&o.Group.Spec), departed: o.State.Departed(), instances: make(map[string]bool, len(o.State.VMs))}
	for i := range o.State.VMs {
		f.instances[o.State.VMs[i].InstanceUUID] = true
	}
	if errs := o.Group.Validate(); len(errs) > 0 {
		fields := make([]string, len(errs))
		for i, err := range errs {
			fields[i] = err.Error()
		}
		f.invalid = &plan.Fault{Reason: plan.ReasonInvalidSpec, NeedsOperator: true, Message: plan.SentencesAtMost(fields, 10)}
	}
	if o.Related.Fault == nil {
		f.revision = plan.RevisionWith(&o.Group.Spec, o.Related.Digest)
	}
	f.forgetClones()
	f.policy = PolicyOf(&o.Group.Spec, f.want)
	f.policy.Retain = f.policy.Retain || f.orphaned()
	f.hideLaterFolder()
	f.disksListed = byOrdinal(o.Group.Status.Disks)
	if f.hasPersistentDisks() {
		f.disksNow = byOrdinal(plan.DiskStatuses(f.Group, f.State.VMs))
	}
	f.vCenterKnown, f.blockedBy = f.findBlock()
	f.shortOutage, f.shortOutageOver = f.inShortOutage()
	return f
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
	return f.Finalizing && f.Group.Annotations[v1alpha1.AnnotationAbandon] == "true"
}

// hasPersistentDisks reports whether members have persistent disks, so that the ordinals are 0 … n-1.
func (f *facts) hasPersistentDisks() bool { return f.Group.Spec.HasPersistentDisks() }

// noticedConditions are the conditions as this process planned them last.
func (f *facts) noticedConditions() []metav1.Condition {
	if f.Noticed == nil {
		return nil
	}
	return f.Noticed.Conditions
}

// isBack reports whether a recorded member is in vCenter, perhaps with another moRef.
func (f *facts) isBack(m *v1alpha1.Member) bool {
	return m.InstanceUUID != "" && f.instances[m.InstanceUUID]
}

// details returns the details of the member with that ordinal; false if the ranges have no address for it.
func (f *facts) details(ordinal int32) (*plan.Details, bool) {
	spec := &f.Group.Spec
	addresses, ok := plan.AddressesOf(spec, ordinal)
	return &plan.Details{Spec: spec, UserData: f.Related.UserData, Zone: plan.ZoneOf(spec, ordinal), Addresses: addresses,
		Home: plan.HomeOf(spec).String(), AddressText: plan.AddressText(addresses), Prepared: f.prepared, KnownDisks: f.knownDisks(ordinal), DisksOf: f.Group.TakesDisksOf()}, ok
}

// forgetClones drops failures of clones that no longer matter: the member exists, because another replica cloned it or vCenter's reply was
// lost; or the name that another object had is free, so the clone is tried again at once.
func (f *facts) forgetClones() {
	var over []string
	for name, p := range f.Pending {
		if p.Op == plan.Clone && p.Fault.Reason != "" && (f.isMade(p.Ordinal) || p.Fault.Reason == plan.ReasonNameConflict && slices.Contains(f.State.Free, name)) {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return
	}
	f.Pending = maps.Clone(f.Pending)
	for _, name := range over {
		p := f.Pending[name]
		if p.Fault = (plan.Fault{}); p.State == plan.Running {
			f.Pending[name] = p
		} else {
			delete(f.Pending, name)
		}
	}
}

// isMade reports whether a member with that ordinal exists.
func (f *facts) isMade(ordinal int32) bool {
	return f.State.Known && slices.ContainsFunc(f.State.VMs, func(vm plan.VM) bool { return vm.Ordinal == ordinal && vm.Quarantined.IsZero() })
}

// hideLaterFolder treats a folder that was created after the newest hook call as missing. The group may have been deleted since that call,
// and the folder may belong to a new group of the same name, which must not get this group's clones. If the group still exists, its next
// hook call shows that the folder is its own.
func (f *facts) hideLaterFolder() {
	if folder := f.State.Folder; folder != "" && !f.Finalizing && !f.Owns(folder) {
		f.later = true
		f.State.Folder, f.State.Quarantine = "", ""
	}
}

// findBlock decides the columns left of the bar in Make's table.
func (f *facts) findBlock() (vCenterKnown bool, blocked *plan.Fault) {
	s := &f.State
	if other := f.otherInstall(); other != nil {
		return false, other
	}
	switch {
	case !s.Known && !f.Finalizing && f.invalid != nil: // known without vCenter
		return false, f.invalid
	case !s.Known:
		return false, f.outage()
	}
	if was, what := f.madeIn(); was != "" && was != s.VCenter {
		return false, &plan.Fault{Reason: plan.ReasonVCenterChanged, NeedsOperator: true, Message: fmt.Sprintf(
			"the %s were created in vCenter %s, and the server is connected to vCenter %s now: connect it to the former again, or change the group's label back", what, was, s.VCenter)}
	}
	if f.Finalizing {
		return true, nil
	}
	if f.invalid != nil {
		return true, f.invalid
	}
	if s.Fault != nil {
		return true, s.Fault
	}
	if elsewhere := f.elsewhere(); elsewhere != nil && f.want+int(f.Group.Spec.Standby) > 0 { // members can be removed, wherever they are
		return true, elsewhere
	}
	if lost := f.disksLost(); lost != nil && f.want > 0 {
		return true, lost
	}
	if many := f.tooManyDisks(); many != nil && f.want > 0 {
		return true, many
	}
	newest := f.NewestStamp
	for i := range s.VMs {
		newest = max(newest, s.VMs[i].Generation)
	}
	if newest > f.Group.Generation && newest != f.Group.UndoneGeneration() {
		return true, &plan.Fault{Reason: plan.ReasonSuperseded, Message: fmt.Sprintf(
			"the members' stamps have generation %d of this group, and this hook call has generation %d: the server waits for a newer call; if etcd was restored from a backup, edit the spec until its generation is higher (docs/troubleshooting.md#superseded)",
			newest, f.Group.Generation)}
	}
	if name := f.removedElsewhere(); name != "" {
		return true, &plan.Fault{Reason: plan.ReasonSuperseded, Message: fmt.Sprintf(
			"%s was destroyed with the server's account, but not by this process: the server waits for the group's next hook call", name)}
	}
	return true, nil
}

// outage is why vCenter's state is unknown; nil while it is known.
func (f *facts) outage() *plan.Fault {
	switch {
	case f.State.Known:
		return nil
	case f.State.Fault != nil:
		return f.State.Fault
	}
	return &plan.Fault{Reason: plan.ReasonInventoryNotRead, Message: "vCenter's inventory is being read"}
}

// removedElsewhere names a member in the stored status that another process of the server destroyed: that process may have a newer spec. The
// member's stamp, which had the newer generation, is gone, too. So this process could create a member in its place that the newest spec
// doesn't ask for, and the scale-in that follows could remove a member that the newest spec keeps. The next hook call has the newest spec,
// and a status without the member. (After a restart, this costs one call as well.) A new member, which the stored status doesn't list yet,
// shows the same if it was destroyed after the newest call.
func (f *facts) removedElsewhere() string {
	for i := range f.Group.Status.Members {
		r := &f.Group.Status.Members[i]
		if by, gone := f.departed.As(r.MoRef, r.InstanceUUID); gone && by.Ours && by.User != "" && !f.isBack(r) {
			return r.Name
		}
	}
	if r := &f.State.LastRemoved; r.At.After(f.Called) {
		return r.Name
	}
	return ""
}

// elsewhere returns a fault if members were, or are being, cloned into another folder than spec.placement names now. A member's name in its
// folder is the lock that keeps two VMs from getting one ordinal, and in two folders there would be two locks.
func (f *facts) elsewhere() *plan.Fault {
	home := plan.HomeOf(&f.Group.Spec).String()
	for i := range f.State.VMs {
		if was := f.State.VMs[i].Home; was != home {
			return &plan.Fault{Reason: plan.ReasonPlacementImmutable, NeedsOperator: true, Message: fmt.Sprintf(
				"the members were created in %s, and spec.placement names %s now: change datacenter and folder back, or scale the group to 0 first, which removes its members",
				plan.HomeText(was), plan.HomeText(home))}
		}
	}
	for _, p := range f.Pending {
		if p.Op == plan.Clone && p.State == plan.Running && p.Home != home {
			return &plan.Fault{Reason: plan.ReasonPlacementImmutable, NeedsOperator: true, Message: fmt.Sprintf(
				"members are being created in %s, and spec.placement names %s now: change datacenter and folder back, or scale the group to 0 first, which removes its members",
				plan.HomeText(p.Home), plan.HomeText(home))}
		}
	}
	return nil
}

// disksLost returns a fault if the spec would take a disk from a member, or make one smaller: the CRD refuses that, so the spec has got
// around it.
func (f *facts) disksLost() *plan.Fault {
	for i := range f.State.VMs {
		vm := &f.State.VMs[i]
		if lost := plan.DisksLost(&f.Group.Spec, vm.Disks); lost != "" && vm.Quarantined.IsZero() {
			return &plan.Fault{Reason: plan.ReasonDisksImmutable, NeedsOperator: true, Message: plan.MemberName(f.Group.Name, vm.Ordinal) + ": " + lost +
				": correct the spec, or scale the group to 0 first, which removes its members"}
		}
	}
	return nil
}

// madeIn returns the vCenter in which the group's members or its persistent disks were created, by the status and the stamps; empty for a
// group without members, VMs in quarantine and persistent disks. Disks alone don't delay a deletion: the status lists them until the group
// ends, and an install for another vCenter can't do anything about them.
func (f *facts) madeIn() (vcenter, what string) {
	for i := range f.State.VMs {
		if was := f.State.VMs[i].VCenter; was != "" && was != f.State.VCenter {
			return was, "members"
		}
	}
	switch s := &f.Group.Status; {
	case len(s.Members)+len(s.Quarantined)+len(s.Standby) > 0:
		return s.VCenterUUID, "members"
	case !f.Finalizing && len(f.Group.DisksLeft()) > 0:
		return s.VCenterUUID, "persistent disks"
	}
	return "", ""
}
