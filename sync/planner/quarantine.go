package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A VM in quarantine is no member: it is powered off, its stamp has the time, it has another name than a member, and it is in a separate
// folder. vCenter shows all of that, so the process can stop after any step:
//
//	name       folder          on its way out     wanted again
//	---------  --------------  -----------------  -----------------
//	web-2      the group's     Rename             Unmark
//	web-2-vm-7 the group's     Move               Rename
//	web-2-vm-7 quarantine      (kept)             Rename
//	web-2      quarantine      Rename             Move
//
// A duplicate (duplicates.go) is left in its folder until an operator deletes it, and is renamed only if it has a member's name.
//
// A VM that an operator renamed or moved is left there, and is destroyed when its time is over. A VM that an operator powered on is left on.
// But a PowerOn of the server that was delayed can reach vCenter after the VM was put into quarantine, and its guest would run beside the
// member that replaced it. So a VM that was powered on right after it was put into quarantine is powered off.

// toBringBack makes a VM in quarantine a member again. toQuarantine brings it where VMs in quarantine are kept. toDestroy destroys it when its time is
// over.
var (
	toBringBack  = &concern{next: (*steps).returnMember}
	toQuarantine = &concern{next: (*steps).quarantine}
	toDestroy    = &concern{next: (*steps).destroyQuarantined}
)

// returning: a VM in quarantine becomes a member again.
var returning = &plan.Activity{Says: "bringing %s back from quarantine", Noun: "VM", Updates: true}

// lateCalls is how long after a VM was put into quarantine a call of the server can power it on: the server gives a call up after 90 s, and
// vCenter may take as long again to carry it out.
const lateCalls = 3 * time.Minute

// bringBack decides which VMs that fit the spec are members again, up to count, each with its old ordinal, and returns how many.
func (d *decision) bringBack(count int) (back int) {
	for _, begun := range []bool{true, false} { // VMs on their way back come first
		for i := range d.sets.quarantined {
			q := &d.sets.quarantined[i]
			if back >= count {
				return back
			}
			if (q.VM.Name == q.name) != begun || !d.fitsAgain(q) || d.sets.mayReturn(q.Ordinal) || d.isClaimed(q.Ordinal) {
				continue
			}
			back++
			q.fate = withdrawn
			d.arriving = append(d.arriving, q.Ordinal)
			q.decide(plan.Create, "it is back from quarantine instead of a new clone")
			q.wants(toBringBack, q.why)
		}
	}
	return back
}

// mayReturn reports whether a missing VM of that ordinal was given up. If vCenter shows it again, the VM that was created last is the member
// (duplicates.go), and that must be the VM that serves.
func (s *sets) mayReturn(ordinal int32) bool {
	name := plan.MemberName(s.facts.Group.Name, ordinal)
	return slices.ContainsFunc(s.facts.Group.Status.GivenUp, func(g v1alpha1.GivenUp) bool { return g.Name == name }) ||
		slices.ContainsFunc(s.givenUp, func(m notFoundMember) bool { return m.Ordinal == ordinal })
}

// returnMember plans the next step that makes a VM in quarantine a member again.
func (s *steps) returnMember(q *member, why string) {
	a := plan.Action{Key: s.facts.stepKey(q), Ordinal: q.Ordinal, MoRef: q.MoRef, Reason: why}
	switch {
	case q.VM.Name != q.name:
		a.Op, a.ChangeVersion, a.Args = plan.Rename, q.ChangeVersion, plan.RenameArgs{Name: q.name}
	case q.VM.Folder == s.facts.State.Quarantine && s.facts.State.Quarantine != "":
		a.Op, a.Args = plan.Move, plan.MoveArgs{Folder: s.facts.State.Folder}
	default:
		a.Op, a.ChangeVersion, a.Generation = plan.Unmark, q.ChangeVersion, s.facts.Group.Generation
	}
	q.begins(returning, s.act(a))
}

// decideQuarantined decides what becomes of the VMs in quarantine. The first row that applies:
//
//	what                                       verdict  why, and what it waits for
//	-----------------------------------------  -------  ----------------------------------------------------
//	is to be a member again                    Create   a member is missing (bringBack)
//	not reachable                              -
//	its time is over, and it was powered on    Wait     that; an operator to power it off
//	its time is over                           Remove   that
//	any other                                  Keep     it is in quarantine
func (d *decision) decideQuarantined() {
	for i := range d.sets.quarantined {
		q := &d.sets.quarantined[i]
		if q.leaves() || !q.Reachable {
			continue
		}
		d.wake.note(q.Quarantined.Add(d.facts.policy.Quarantine))
		switch {
		case d.facts.due(q) && q.Power != plan.PoweredOff:
			q.decide(plan.Wait, "its quarantine is over, but it was powered on")
			q.awaits = "an operator to power it off"
		case d.facts.due(q):
			q.decide(plan.Remove, fmt.Sprintf("its %d s of quarantine are over (%s)", int(d.facts.policy.Quarantine.Seconds()), cmp.Or(q.MarkReason, "removed")))
			q.wants(toDestroy, q.why)
		default:
			q.decide(plan.Keep, fmt.Sprintf("in quarantine (%s)", cmp.Or(q.MarkReason, "removed")))
			q.wants(toQuarantine, "removed, and kept in quarantine")
		}
	}
}

// quarantine plans the next step that puts a VM where the VMs in quarantine are.
func (s *steps) quarantine(q *member, why string) {
	a := plan.Action{Key: s.facts.stepKey(q), Ordinal: q.Ordinal, MoRef: q.MoRef, Reason: why}
	switch {
	case q.Power == plan.PoweredOn && q.BootTime.Before(q.Quarantined.Add(lateCalls)) && !q.BootTime.IsZero():
		a.Op, a.Marked, a.Reason = plan.PowerOff, true, "it was powered on right after it went into quarantine, perhaps by a late call of the server, and its successor may run"
	case q.MarkReason == plan.MarkReasonDuplicate && !s.facts.blocksName(q):
		return
	case q.VM.Name == q.name:
		a.Op, a.ChangeVersion, a.Args = plan.Rename, q.ChangeVersion, plan.RenameArgs{Name: plan.QuarantineName(s.facts.Group.Name, q.Ordinal, q.MoRef)}
	case q.VM.Folder != s.facts.State.Folder || q.VM.Folder == "":
		return
	case s.facts.State.Quarantine == "":
		a = plan.Action{Op: plan.CreateQuarantine, Key: plan.FolderKey, Args: plan.MoveArgs{Folder: s.facts.State.Folder}, Reason: "removed members are kept in the quarantine folder"}
	default:
		a.Op, a.Args = plan.Move, plan.MoveArgs{Folder: s.facts.State.Quarantine}
	}
	q.begins(tidying, s.act(a))
}

// destroyQuarantined destroys a VM whose time in quarantine is over.
func (s *steps) destroyQuarantined(q *member, why string) {
	q.begins(tidying, true)
	s.remove(q, expired, why)
}
