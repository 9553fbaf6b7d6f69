package planner

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// finalize removes a group: every member, then its folder. The group itself ends once a fresh read of vCenter has confirmed
// that nothing is left and no clone is running, and Metacontroller shows no child any more. With deletion.policy Retain, and for
// a deletion with --cascade=orphan, the members are released, not removed. An invalid spec does not stop it; a paused group waits. The answer has no children,
// so Metacontroller deletes them; but while members are being drained, the children stay, terminating.
func finalize(s *sets) plan.Result {
	if s.abandoned() {
		return abandon(s)
	}
	v := &report{stepsToEnd(decide(s))}
	r := plan.Result{
		Children:  v.children(),
		Verdicts:  v.verdicts(),
		Actions:   v.actions(),
		Finalized: v.blockedBy == nil && v.empty() && v.Emptied && v.childless(),
		Wake:      v.untilWake(),
	}
	if v.paused() {
		r.Actions, r.Finalized = nil, false
	}
	v.setNextCall(&r)
	r.Status = v.status(v.message())
	r.Events = v.events(&r.Status)
	return r
}

// stepsToEnd finds the steps towards the end of a group.
func stepsToEnd(d *decision) *steps {
	v := &steps{decision: d}
	if v.blockedBy != nil {
		return v
	}
	v.removeAll()
	switch {
	case v.left() > 0 || !v.rulesGone():
	case v.State.FolderUnknown: // the folder may exist
		fault := plan.Fault{Reason: plan.ReasonInventoryNotRead, Message: "it is not known yet where the groups' folders are"}
		if v.State.Fault != nil {
			fault = *v.State.Fault
		}
		v.faults = append(v.faults, named{Fault: fault})
	default:
		v.removeFolder()
	}
	v.collectStalled()
	return v
}

// abandoned reports whether an operator has asked to end a deletion without vCenter.
func (v *facts) abandoned() bool {
	return v.Finalizing && v.Group.Annotations[v1alpha1.AnnotationAbandon] == "true"
}

// abandon ends a group without vCenter, because an operator asked for that, and reports what is left behind.
func abandon(s *sets) plan.Result {
	var left []string
	for _, vms := range [][]member{s.members, s.standby, s.quarantined} {
		for i := range vms {
			left = append(left, fmt.Sprintf("%s (%s)", vms[i].VM.Name, vms[i].MoRef))
		}
	}
	for i := range s.notFound {
		left = append(left, fmt.Sprintf("%s (%s)", s.notFound[i].NameInVCenter(), s.notFound[i].MoRef))
	}
	if !s.sighted {
		for _, m := range s.Group.Status.Members {
			left = append(left, fmt.Sprintf("%s (%s)", m.NameInVCenter(), m.MoRef))
		}
		for _, m := range s.Group.Status.Standby {
			left = append(left, fmt.Sprintf("%s (%s)", cmp.Or(m.VMName, m.Name), m.MoRef))
		}
		for _, q := range s.Group.Status.Quarantined {
			left = append(left, fmt.Sprintf("%s (%s)", q.Name, q.MoRef))
		}
	}
	message := "abandoned; no VM is known to be left behind"
	if len(left) > 0 {
		message = "abandoned; left behind in vCenter: " + plan.AtMost(left, 20)
	}
	s.blockedBy, s.shortOutage = &plan.Fault{Reason: plan.ReasonAbandoned, Message: message}, false
	v := &report{stepsToEnd(decide(s))}
	r := plan.Result{Status: v.status(message), Finalized: v.childless()}
	v.setNextCall(&r)
	if v.orphaned() {
		r.Children = v.children()
	}
	return r
}

// orphaned reports whether the group was deleted with --cascade=orphan: its VMs stay, and so do its children. The API server refuses such
// a deletion (charts/vmgroup/files/cluster/deletionguard.yaml), so this is about clusters without that policy.
func (v *facts) orphaned() bool {
	return v.Finalizing && v.Cascade == metav1.DeletePropagationOrphan
}

// childless reports whether the group can end as far as its children go: none is left, or they stay.
func (v *facts) childless() bool {
	return len(v.Children) == 0 || v.orphaned()
}

// left returns how many VMs of the group exist, or may exist.
func (v *sets) left() int {
	return v.exist() + len(v.arriving)
}

// exist returns how many VMs of the group exist.
func (v *sets) exist() int {
	return len(v.members) + len(v.standby) + len(v.quarantined) + len(v.notFound) + len(v.notFoundQuarantined) + len(v.notFoundStandby)
}

// removeAll removes, or releases, every VM with the group's stamp, duplicates included, one step at a time for each
// member's name. VMs in quarantine are removed in any case: the group
// gave them up before. Those that are there only because another VM is the member go like members.
//
// Another replica that knows nothing of the deletion may still hold a lease. Of removed members it learns by their stamps, which have the
// deletion's generation once a guest is asked to shut down, or by their removal (removedElsewhere). Released ones have no stamp, and
// the replica would clone them again. So before members are released, the last to go is marked with that generation.
func (v *steps) removeAll() {
	v.holdMissing()
	v.setRules()
	if !v.isAnnounced() {
		v.act(v.marking(v.lastToGo(), "", "the group is deleted: other replicas of the server must know before members are released"))
		return
	}
	if v.drainsAll() {
		for i := range v.members {
			if m := &v.members[i]; m.ready {
				m.waits = &draining
			}
		}
		return
	}
	on, reason := deleted, v.deletionReason()
	if v.policy.Retain {
		on = retained
	}
	for i := range v.quarantined {
		if q := &v.quarantined[i]; q.Why == plan.WhyDuplicate {
			v.remove(q, on, reason)
		} else {
			v.remove(q, deleted, "the group is deleted")
		}
	}
	for i := range v.members {
		v.remove(&v.members[i], on, reason)
	}
	for i := range v.standby { // none ever served, so there is nothing to retain
		v.remove(&v.standby[i], deleted, "the group is deleted")
	}
}

// deletionReason says why the members of a deleted group go.
func (v *facts) deletionReason() string {
	switch {
	case v.orphaned():
		return "the group is deleted with --cascade=orphan, and its VMs are retained"
	case v.policy.Retain:
		return "the group is deleted, and its VMs are retained (deletion.policy)"
	}
	return "the group is deleted"
}

// leaseOver reports whether every lease of another replica has ended: none was renewed since finalizing began.
func (v *facts) leaseOver() bool {
	over := v.FinalizingSince.Add(v.Lease)
	v.wakeAt(over)
	return !v.Now.Before(over)
}

// refused reports whether a step was tried and cannot be done: the deletion continues without it. A name that another VM has
// may become free, but not when two members have each other's: a deletion never waits for a name.
func (v *facts) refused(m *member, op plan.Op) bool {
	p := v.Pending[m.name]
	return p.Op == op && p.State != plan.Running && p.Fault.Reason != "" && (!p.Fault.Transient || p.Fault.Reason == plan.ReasonNameHeld)
}

// lastToGo is the first member that can be changed, or else standby member; nil if there is none.
func (v *sets) lastToGo() *member {
	for _, members := range [][]member{v.members, v.standby} {
		if i := slices.IndexFunc(members, func(m member) bool { return m.Reachable && m.Question == "" }); i >= 0 {
			return &members[i]
		}
	}
	return nil
}

// isLastToGo reports whether a member is the one that gets the mark of the deletion.
func (v *sets) isLastToGo(m *member) bool {
	last := v.lastToGo()
	return last != nil && last.MoRef == m.MoRef
}

// isAnnounced reports whether the deletion may continue: members are to be removed, or one has the mark of the deletion, or none can be
// given it.
func (v *sets) isAnnounced() bool {
	m := v.lastToGo()
	if m == nil || !v.policy.Retain {
		return true
	}
	return m.Marked && m.Generation >= v.Group.Generation || v.refused(m, plan.Mark)
}

func (v *steps) removeFolder() {
	for _, p := range v.Pending {
		if p.Op != plan.ConfirmGone && p.Op != plan.RemoveFolder && p.State == plan.Running {
			return // the result of a running step may still show up
		}
	}
	if v.folderLeft() {
		v.act(plan.Action{Op: plan.RemoveFolder, VM: plan.FolderKey, MoRef: v.State.Folder, Reason: "the group is deleted and its folder is empty"})
		if v.policy.Retain {
			v.faults = nil // retained VMs in the folder block nothing
		}
		return
	}
	if !v.Emptied {
		v.act(plan.Action{Op: plan.ConfirmGone, VM: plan.ConfirmKey, Reason: "a fresh read must show that nothing of the group is left"})
	}
}

// folderStays reports whether the folder is kept, because it holds other VMs or vCenter refuses to remove it, and one lease has
// passed since the deletion, so that no other replica of the server can still clone into it.
func (v *facts) folderStays() bool { return v.folderKept() && v.leaseOver() }

func (v *facts) folderKept() bool {
	reason := v.Pending[plan.FolderKey].Fault.Reason
	return reason == plan.ReasonFolderHoldsStranger || reason == plan.ReasonFolderStays
}

// empty reports whether vCenter shows nothing of the group any more.
func (v *sets) empty() bool {
	return v.left() == 0 && v.rulesGone() && !v.State.FolderUnknown && !v.folderLeft()
}

// folderLeft reports whether the group's own folder exists and is to be removed.
func (v *facts) folderLeft() bool {
	own := slices.Contains(v.OwnFolders, v.State.Folder) || len(v.OwnFolders) == 0 && !v.Emptied
	return v.State.Folder != "" && own && !v.folderStays()
}
