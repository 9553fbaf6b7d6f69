package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// view is an observation, classified, and what the planner concludes from it.
type view struct {
	*plan.Observed
	policy Policy
	want   int
	// sighted: vCenter's facts are known, and from the right vCenter; otherwise the stored figures are kept.
	sighted bool
	// shortOutage: they were known until a moment ago, so the stored status stands.
	shortOutage bool
	// invalid is why the spec is refused; nil if it is valid.
	invalid *plan.Fault
	// blockedBy is why nothing can be done at all; nil if something can.
	blockedBy *plan.Fault
	// suppressed is why the members' answers are not believed; nil if they are.
	suppressed *plan.Fault
	// wake is when equal facts lead to another plan because time has passed; zero if never.
	wake time.Time

	members             []member               // the VMs that are members, by ordinal and moRef, without the standby ones
	standby             []member               // the standby members, likewise
	quarantined         []member               // the VMs that were, and are kept for a while
	free                []*member              // the ordinals that no VM has, and that are to have one
	asking              []*member              // the VMs, of both kinds, that wait for an operator's answer
	notFound            []notFoundMember       // recorded in the status, not seen, and not confirmed gone
	notFoundQuarantined []v1alpha1.Quarantined // the same of those in quarantine
	// notFoundStandby are the standby members that are recorded, not seen, and not confirmed gone; standbyComing are the ordinals of those
	// that are being made.
	notFoundStandby  []v1alpha1.StandbyMember
	standbyComing    []int32
	ordinals         int               // how many different ordinals members and notFound hold
	arriving         []int32           // ordinals that are about to be members: being cloned, adopted or brought back
	ordinalsNotFound int               // of these, those that only notFound members hold
	gone             []v1alpha1.Member // the recorded members that are gone for certain
	givenUp          []notFoundMember  // the missing members that were given up, and of which no other VM has the ordinal
	revision         string            // of a member cloned now; empty while its user data is unknown
	prepared         string            // what a member is to be prepared with; can be empty

	// What reconcile and finalize find.
	slack     int                      // how many more serving members can be taken down; negative while fewer serve than promised
	update    *v1alpha1.UpdateProgress // nil while no member differs from the spec, or those that do are held
	canary    *v1alpha1.CanaryProgress // what update.canary needs to know of the past
	stuck     *plan.Fault              // why an update has stopped
	closed    string                   // why an update begins nothing now: see outsideWindows
	suspended string                   // what was seen when healing was suspended
	steps     []step                   // the steps that are wanted, started or not
	stepOf    map[string]int           // their indices, by the key of the member
	later     bool                     // a folder came after the newest hook call: see hideLaterFolder
	waitCall  bool
	waitDisks bool // a member goes when the status lists its disks
	// withdrawing: some members have a mark that is to be withdrawn. Until it is, the choice of who stays is open, and no other
	// serving member is taken down: another replica may have withdrawn the mark, and prefer another victim.
	withdrawing bool
	adoption    []string // what keeps entries of spec.adopt from being carried out
	holds       memberHolds
	faults      []named // what blocks, by member
	// cloneFaults are those faults that keep members from being cloned until an operator acts.
	cloneFaults []named
	successors  successors
	diskFaults  []named // those that keep disks from being added or growing, likewise
	// disksNow are the persistent disks as the next status has them, disksListed those of the stored one; nil until somebody asks.
	disksNow, disksListed disksByOrdinal
}

// named is a fault and the member it blocks (empty: the group).
type named = blockingFault

func classify(o *plan.Observed) *view {
	v := &view{Observed: o, holds: holdsOf(o.Group), want: int(o.Group.Replicas()), prepared: plan.PreparationOf(&o.Group.Spec)}
	if errs := o.Group.Validate(); len(errs) > 0 {
		fields := make([]string, len(errs))
		for i, err := range errs {
			fields[i] = err.Error()
		}
		v.invalid = &plan.Fault{Reason: plan.ReasonInvalidSpec, NeedsOperator: true, Message: strings.Join(fields, "; ")}
	}
	if o.Related.Fault == nil {
		v.revision = plan.RevisionWith(&o.Group.Spec, o.Related.Digest)
	}
	v.forgetClones()
	v.policy = PolicyOf(&o.Group.Spec, v.want)
	v.policy.Retain = v.policy.Retain || v.orphaned()
	v.hideLaterFolder()
	v.sighted, v.blockedBy = v.findBlock()
	v.shortOutage = v.inShortOutage()
	if !v.sighted {
		return v
	}
	v.sortMembers()
	v.sortNotFound()
	v.ordinals, v.ordinalsNotFound = v.countOrdinals()
	v.judgeStandby()
	v.shadow()
	v.sortArriving()
	return v
}

// forgetClones drops failures of clones that no longer matter: the member exists by now, because another replica made it or the
// reply was lost; or the name that another object had is free, so the clone is tried again at once.
func (v *view) forgetClones() {
	var over []string
	for name, p := range v.Pending {
		if p.Op == plan.Clone && p.Fault.Reason != "" && (v.isMade(p.Ordinal) || p.Fault.Reason == plan.ReasonNameConflict && slices.Contains(v.State.Free, name)) {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return
	}
	v.Pending = maps.Clone(v.Pending)
	for _, name := range over {
		p := v.Pending[name]
		if p.Fault = (plan.Fault{}); p.State == plan.Running {
			v.Pending[name] = p
		} else {
			delete(v.Pending, name)
		}
	}
}

// isMade reports whether a member with that ordinal exists.
func (v *view) isMade(ordinal int32) bool {
	return v.State.Known && slices.ContainsFunc(v.State.VMs, func(vm plan.VM) bool { return vm.Ordinal == ordinal && vm.Quarantined.IsZero() })
}

// hideLaterFolder treats a folder that was created after the newest hook call as missing. This replica's lease may have outlived its
// group, and the folder may belong to another group of the same name, which must not get this one's clones. While the group
// exists, its next call shows that the folder is its own.
func (v *view) hideLaterFolder() {
	if folder := v.State.Folder; folder != "" && !v.Finalizing && !v.Owns(folder) {
		v.later = true
		v.State.Folder, v.State.Quarantine = "", ""
	}
}

// findBlock decides the columns left of the bar in Make's table.
func (v *view) findBlock() (sighted bool, blocked *plan.Fault) {
	s := &v.State
	if other := v.otherInstall(); other != nil {
		return false, other
	}
	switch {
	case !s.Known && s.Fault != nil:
		return false, s.Fault
	case !s.Known:
		return false, &plan.Fault{Reason: plan.ReasonInventoryNotRead, Message: "vCenter's inventory is being read"}
	}
	if was, what := v.madeIn(); was != "" && was != s.VCenter {
		return false, &plan.Fault{Reason: plan.ReasonVCenterChanged, NeedsOperator: true, Message: fmt.Sprintf(
			"the %s were made in vCenter %s, and %s answers now: point the server back, or recreate the group", what, was, s.VCenter)}
	}
	if v.Finalizing {
		return true, nil
	}
	if v.invalid != nil {
		return true, v.invalid
	}
	if s.Fault != nil {
		return true, s.Fault
	}
	if elsewhere := v.elsewhere(); elsewhere != nil && v.want+int(v.Group.Spec.Standby) > 0 { // members can be removed, wherever they are
		return true, elsewhere
	}
	if lost := v.disksLost(); lost != nil && v.want > 0 {
		return true, lost
	}
	if many := v.tooManyDisks(); many != nil && v.want > 0 {
		return true, many
	}
	newest := v.NewestStamp
	for i := range s.VMs {
		newest = max(newest, s.VMs[i].Generation)
	}
	if newest > v.Group.Generation && newest != v.Group.UndoneGeneration() {
		return true, &plan.Fault{Reason: plan.ReasonSuperseded, Message: fmt.Sprintf(
			"the members' stamps speak of generation %d of this group; this request is of generation %d, and waits for a newer one (docs/troubleshooting.md#superseded says how to undo one that nobody applied)",
			newest, v.Group.Generation)}
	}
	if name := v.removedElsewhere(); name != "" {
		return true, &plan.Fault{Reason: plan.ReasonSuperseded, Message: fmt.Sprintf(
			"%s was destroyed with the server's account, though not by this process; it waits for its next call", name)}
	}
	return true, nil
}

// removedElsewhere names a member that shows that another process of the server acts for the group, maybe by a newer spec: it was destroyed with
// the server's account, but not by this process, and the status of the last call has it. The stamp that had the newer generation went with
// it, so a replica whose lease still runs would make a member in its place that the spec does not ask for, and the scale-in that follows
// may choose one that was to stay. The next call has the newest spec and a status without it. (This also costs a call after a restart.)
func (v *view) removedElsewhere() string {
	for i := range v.Group.Status.Members {
		r := &v.Group.Status.Members[i]
		if by, gone := v.State.GoneAs(r.MoRef, r.InstanceUUID); gone && by.Ours && by.User != "" && !v.isBack(r) {
			return r.Name
		}
	}
	return ""
}

// elsewhere returns a fault if members were, or are being, cloned into another folder than spec.placement names now.
// One name in one folder is the lock that keeps two VMs from getting one ordinal: it must not split.
func (v *view) elsewhere() *plan.Fault {
	home := plan.HomeOf(&v.Group.Spec).String()
	for i := range v.State.VMs {
		if was := v.State.VMs[i].Home; was != home {
			return &plan.Fault{Reason: plan.ReasonPlacementImmutable, NeedsOperator: true, Message: fmt.Sprintf(
				"the members were made in %s, and spec.placement names %s now: change datacenter and folder back, or scale the group to 0 first",
				plan.HomeText(was), plan.HomeText(home))}
		}
	}
	for _, p := range v.Pending {
		if p.Op == plan.Clone && p.State == plan.Running && p.Home != home {
			return &plan.Fault{Reason: plan.ReasonPlacementImmutable, NeedsOperator: true, Message: fmt.Sprintf(
				"members are being made in %s, and spec.placement names %s now: change datacenter and folder back, or scale the group to 0 first",
				plan.HomeText(p.Home), plan.HomeText(home))}
		}
	}
	return nil
}

// madeIn returns the vCenter that the group's members, or the persistent disks that they left, were made in, according to the status and
// the stamps; it is empty for a group without members, with nothing in quarantine and without such disks. They hold no deletion back:
// the status lists those that outlive the group to its end, and an install of another vCenter has nothing to do with them.
func (v *view) madeIn() (vcenter, what string) {
	for i := range v.State.VMs {
		if was := v.State.VMs[i].VCenter; was != "" && was != v.State.VCenter {
			return was, "members"
		}
	}
	switch s := &v.Group.Status; {
	case len(s.Members)+len(s.Quarantined)+len(s.Standby) > 0:
		return s.VCenterUUID, "members"
	case !v.Finalizing && len(v.Group.DisksLeft()) > 0:
		return s.VCenterUUID, "persistent disks"
	}
	return "", ""
}

func (v *view) sortMembers() {
	v.members = make([]member, 0, len(v.State.VMs))
	for _, vm := range v.State.VMs {
		if m := (member{VM: vm, name: plan.MemberName(v.Group.Name, vm.Ordinal)}); vm.Quarantined.IsZero() {
			v.members = append(v.members, m)
		} else {
			v.quarantined = append(v.quarantined, m)
		}
	}
	inOrder := func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
	}
	slices.SortFunc(v.members, inOrder)
	slices.SortFunc(v.quarantined, inOrder)
	v.splitStandby()
	v.findDuplicates(v.members)
	v.findDuplicates(v.standby)
	v.sortAsking()
	for i := range v.members {
		v.judge(i)
	}
	v.findSuppressed()
}

func (v *view) sortArriving() {
	for _, p := range slices.SortedFunc(maps.Values(v.Pending), func(a, b plan.Pending) int { return cmp.Compare(a.Ordinal, b.Ordinal) }) {
		if (p.Op == plan.Clone || p.Op == plan.Adopt) && p.State == plan.Running && !v.has(p.Ordinal) && !v.isNotFound(p.Ordinal) && !v.isStandby(p.Ordinal) {
			m := v.vacancy("it is being made")
			v.assign(m, p.Ordinal)
			if m.Standby = p.Standby && !v.Finalizing; m.Standby {
				v.standbyComing = append(v.standbyComing, p.Ordinal)
				continue
			}
			v.arriving = append(v.arriving, p.Ordinal)
			if p.Op == plan.Clone && p.Fault.Reason == "" {
				m.begins(cloning, true)
			}
		}
	}
}

// has reports whether vCenter shows a member with that ordinal.
func (v *view) has(ordinal int32) bool {
	_, found := slices.BinarySearchFunc(v.members, ordinal, func(m member, o int32) int { return cmp.Compare(m.Ordinal, o) })
	return found
}

func (v *view) isNotFound(ordinal int32) bool {
	return slices.ContainsFunc(v.notFound, func(m notFoundMember) bool { return m.Ordinal == ordinal })
}

// taken reports whether no new member can have that ordinal: a member has it or is being made, or a VM on its way to
// quarantine still has the name.
func (v *view) taken(ordinal int32) bool {
	return v.has(ordinal) || v.isNotFound(ordinal) || v.isStandby(ordinal) || slices.Contains(v.arriving, ordinal) ||
		slices.ContainsFunc(v.quarantined, func(q member) bool { return q.Ordinal == ordinal && v.blocksName(&q) })
}

// wakeAt notes a time at which the plan must be made again even if nothing has changed.
func (v *view) wakeAt(t time.Time) {
	if t.After(v.Now) && (v.wake.IsZero() || t.Before(v.wake)) {
		v.wake = t
	}
}
