// This file has the fourth stage of a plan, and how a step is added to it. The steps are found in concerns.go and, of a deletion, in finalize.go.

package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// steps are the next step for each need, and the faults that block steps.
type steps struct {
	facts     *facts
	sets      *sets
	decision  *decision
	wanted    []step         // the steps that are wanted, started or not
	stepOf    map[string]int // their indices, by the key of the member
	wake      wake
	waitCall  bool
	waitDisks bool           // a member is not removed until the status lists its disks
	faults    []plan.FaultOf // of members, or of the group
	// cloneFaults are the faults that keep members from being cloned until an operator acts, diskFaults those that keep disks from being
	// added or growing.
	cloneFaults, diskFaults []plan.FaultOf
}

func newSteps(d *decision) *steps {
	return &steps{facts: d.facts, sets: d.sets, decision: d, wake: wake{now: d.facts.Now}}
}

// act adds an action unless its member already has one: a member never has two. If the last try of the action failed, act adds its fault.
// unblocked is false if that fault, or a question in vCenter, blocks the action.
func (s *steps) act(a plan.Action) (unblocked bool) {
	if _, has := s.stepOf[a.Key]; has {
		return true
	}
	if s.stepOf == nil {
		s.stepOf = map[string]int{}
	}
	s.stepOf[a.Key] = len(s.wanted)
	p, pending := s.facts.Pending[a.Key]
	asks := s.sets.asks(a.MoRef)
	failed := !asks && p.Fault.Reason != "" && p.Op == a.Op
	if failed {
		s.faults = append(s.faults, plan.FaultOf{Who: a.Key, Fault: p.Fault})
	}
	blocked := asks || failed
	s.wanted = append(s.wanted, step{Action: a, starts: !asks && (!pending || p.State == plan.Due || p.Lets(a)), blocked: blocked})
	return !blocked
}

// marking is the action that marks a member.
func (f *facts) marking(m *member, why plan.MarkReason, reason string) plan.Action {
	return plan.Action{Op: plan.Mark, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion,
		Args: plan.MarkArgs{Reason: why}, Generation: f.Group.Generation, Reason: reason}
}

// step is a wanted action. starts: it can start now. blocked: its last try failed, or its VM has a pending question.
type step struct {
	plan.Action
	starts, blocked bool
}

// actions are the steps that can be started now, by rank.
func (s *steps) actions() (all []plan.Action) {
	for i := range s.wanted {
		if s.wanted[i].starts {
			all = append(all, s.wanted[i].Action)
		}
	}
	plan.SortByRank(all)
	return all
}

// doing counts the VMs and ordinals for which an activity is not blocked.
func (s *steps) doing(a *plan.Activity) (n int) {
	for m := range s.decision.allVMs() {
		n += int(oneIf(slices.Contains(m.does, does{a, false})))
	}
	return n
}

// missing counts the members that are to be cloned and whose clones are not running.
func (s *steps) missing() (n int) {
	for _, m := range s.decision.free {
		n += int(oneIf(m.missing))
	}
	return n
}
