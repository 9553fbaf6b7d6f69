package planner

import (
	"cmp"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// concerns are all that the planner may do to VMs and ordinals, in their order. A member never has two steps: of several concerns, only the first that has a
// step now gets it. Concerns don't call each other: what several of them need is a fact, a set, or a step in change.go or remove.go.
//
// To add a concern, write a file that says why a member has it, what its next step is, and how the status describes it meanwhile. Then add a line here.
var concerns = [...]*concern{
	toRestamp,        // its stamp has another vCenter, or another instanceUuid than vCenter now: Restamp
	toSettle,         // a duplicate: Mark, then as toRemove; Destroy, if it was never on
	toUnmark,         // it has a mark, and isn't to be taken down: Unmark
	toPromote,        // a standby member is to become a member: PowerOn
	toRemove,         // a member is to go: Mark; then ShutdownGuest, PowerOff, DeleteDisks; then Quarantine or Destroy
	toFinishAdoption, // it has its former folder or name: Move, Rename
	toReset,          // healing restarts it: Reset
	toResize,         // it has another size: Reconfigure; if it must be off for that: Mark, ShutdownGuest, PowerOff first
	toGiveData,       // it is off, and lacks its persistent disks: SetDisks
	toPrepare,        // it is off, and was never prepared: Prepare
	toPowerOn,        // it is off: PowerOn
	toSetTags,        // it was prepared for another spec: Prepare
	toSetDisks,       // it has other disks: SetDisks
	toDiscard,        // a standby member is to go: Mark, Destroy
	toKeepUp,         // a standby member differs in what changes in place: Prepare, SetDisks, Reconfigure
	toBringBack,      // a VM in quarantine is to be a member again: Rename, Move, Unmark
	toQuarantine,     // a VM in quarantine isn't where it is to be kept: Rename, CreateQuarantine, Move; PowerOff, if a late call powered it on
	toDestroy,        // a VM's time in quarantine is over: Destroy
	toAdopt,          // a VM that spec.adopt names gets an ordinal: CreateFolder, Adopt
	toClone,          // an ordinal gets a new VM: CreateFolder, Clone
}

// spoken is the order in which the message says the activities. Others come last.
var spoken = [...]*plan.Activity{cloning, adopting, returning, resizing, starting, leaving, preparing, restamping, settingDisks, standingBy, discarding, tidying}

// concernsOf returns the concerns of a member.
func (d *decision) concernsOf(m *member) (all []need) {
	for _, c := range concerns {
		if c.why == nil {
			continue
		}
		if why := c.why(d, m); why != "" {
			all = append(all, need{c, why})
		}
	}
	return all
}

// findNext finds the next steps towards the desired number of members, all ready and as the spec says. The ordinals are a set, not 0 … n-1:
// existing members keep theirs, and new ones take the lowest free ordinals.
func (s *steps) findNext() {
	if f := cmp.Or(s.decision.update.stuck, s.decision.update.late); f != nil {
		s.faults = append(s.faults, plan.FaultOf{Fault: *f})
	}
	s.faults = append(s.faults, s.decision.incorrect...)
	s.setRules()
	for _, c := range concerns {
		for m := range s.decision.allVMs() {
			if i := slices.IndexFunc(m.needs, func(n need) bool { return n.concern == c }); i >= 0 {
				c.next(s, m, m.needs[i].because)
			}
		}
	}
	s.holdClones()
}
