// This file finds the next steps of a group that is not being deleted.

package planner

import (
	"cmp"
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// findNext finds the next steps towards the desired number of members, all ready and as the spec says. The ordinals are a set, not 0 … n-1:
// existing members keep theirs, and new ones take the lowest free ordinals.
func (s *steps) findNext() {
	if f := cmp.Or(s.decision.update.stuck, s.decision.update.late); f != nil {
		s.faults = append(s.faults, plan.FaultOf{Fault: *f})
	}
	s.faults = append(s.faults, s.decision.incorrect...)
	s.restamp()
	s.settleDuplicates()
	s.setRules()
	for m := range s.decision.allVMs() {
		for _, need := range m.needs {
			nextSteps[need.what](s, m, need.why)
		}
	}
	s.holdClones()
}

// nextSteps plan the next step for a VM or an ordinal, from its need and the VM's current state. Of two steps for one member, only the first
// is taken; a duplicate already has one (settleDuplicates).
//
//	need              the VM now                                    next step
//	----------------  --------------------------------------------  ------------------------------------------------
//	needsUnmark       any                                           Unmark
//	needsPromotion    any                                           PowerOn, which promotes it
//	needsRemoval      not marked                                    Mark; of one that is replaced, its successor first
//	needsRemoval      marked, its preconditions passed              ShutdownGuest, PowerOff, DeleteDisks,
//	                                                                then Quarantine or Destroy (remove)
//	needsAdoption     in its former folder, or with its former name Move, Rename
//	needsReset        on                                            Reset
//	needsSize         off, or on where it can grow                  Reconfigure
//	needsSize         on, its turn                                  Mark; then ShutdownGuest or PowerOff
//	needsData         off                                           SetDisks
//	needsPreparation  off                                           Prepare
//	needsPower        off, and the DRS rules are set, if required   PowerOn
//	needsTags         any                                           Prepare
//	needsDisks        any                                           SetDisks
//	needsDiscard      not marked                                    Mark; of one that is cloned again, its successor first
//	needsDiscard      marked                                        Destroy (remove)
//	needsUpkeep       off                                           Prepare, SetDisks, Reconfigure
//	needsReturn       in quarantine                                 Rename, Move, Unmark
//	needsQuarantine   on since it went there                        PowerOff
//	needsQuarantine   with a member's name, or in its folder        Rename, CreateQuarantine, Move
//	needsDestruction  off                                           Destroy (remove)
//	needsAdopting     no member                                     CreateFolder, Adopt
//	needsClone        none                                          CreateFolder, Clone
var nextSteps = [allNeeds]func(s *steps, m *member, why string){
	needsUnmark:      (*steps).unmark,
	needsPromotion:   (*steps).promoteStandby,
	needsRemoval:     (*steps).removeChosen,
	needsAdoption:    (*steps).finishAdoption,
	needsReset:       (*steps).reset,
	needsSize:        (*steps).resizeInPlace,
	needsData:        (*steps).giveData,
	needsPreparation: (*steps).prepareFirst,
	needsPower:       (*steps).powerOn,
	needsTags:        (*steps).prepareMember,
	needsDisks:       (*steps).setDisks,
	needsDiscard:     (*steps).discardStandby,
	needsUpkeep:      (*steps).updateStandby,
	needsReturn:      (*steps).returnMember,
	needsQuarantine:  (*steps).quarantine,
	needsDestruction: (*steps).destroyQuarantined,
	needsAdopting:    (*steps).adoptOne,
	needsClone:       (*steps).makeClone,
}

// restamp brings the stamps of VMs up to date that came from another vCenter, or of which vCenter changed the instanceUuid. No other step acts on such a
// VM before: by its stamp, it is a copy, or another vCenter's.
func (s *steps) restamp() {
	for m := range s.decision.allVMs() {
		reason := ""
		switch {
		case m.MoRef == "" || !m.Reachable:
			continue
		case m.Renumbered != "":
			reason = fmt.Sprintf("its instanceUuid was %s, and was changed to %s in vCenter", m.InstanceUUID, m.Renumbered)
		case m.VCenter != "" && m.VCenter != s.facts.State.VCenter:
			reason = fmt.Sprintf("it was in vCenter %s, and is in %s now", m.VCenter, s.facts.State.VCenter)
		default:
			continue
		}
		m.begins(restamping, s.act(plan.Action{Op: plan.Restamp, VM: s.facts.stepKey(m), Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Reason: reason}))
	}
}

// powerOn powers a member on, unless it was cloned for another spec and never prepared: then it is removed.
func (s *steps) powerOn(m *member, why string) {
	unblocked := true
	switch {
	case !s.decision.startable(m), s.facts.awaitsRules():
	case m.Standby:
		unblocked = s.act(s.facts.promotion(m, why))
	default:
		unblocked = s.act(plan.Action{Op: plan.PowerOn, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Reason: why})
	}
	m.begins(starting, unblocked)
}
