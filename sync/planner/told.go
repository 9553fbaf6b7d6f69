// This file hands a decision over to those who tell about it. No other file of the package but planner.go uses package tell.

package planner

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/tell"
)

// told is what the planner tells of a decision and its steps.
func (s *steps) told() *tell.Decision {
	f, sets, d := s.facts, s.sets, s.decision
	t := &tell.Decision{
		Observed: f.Observed, VCenterKnown: f.vCenterKnown, ShortOutage: f.shortOutage, Invalid: f.invalid, BlockedBy: f.blockedBy,
		Orphaned: f.orphaned(), Abandoned: f.abandoned(), RevisionKnown: f.revision != "", Want: f.want, Holds: f.holds,
		Policy:        tell.Policy{Check: f.policy.Check, Retain: f.policy.Retain, ReplaceOnTemplate: f.policy.ReplaceOnTemplate, Canary: f.policy.Canary, ReplaceMissing: f.policy.ReplaceMissing, Deadline: f.policy.Deadline, MaxUnhealthy: f.policy.MaxUnhealthy},
		AwaitsService: f.awaitsService(), MissingChildren: f.publisher().MissingChildren(), Suppressed: sets.suppressed,

		Members: s.toldOf(sets.members), Standby: s.toldOf(sets.standby), Quarantined: s.toldOf(sets.quarantined),
		NotFound: f.toldNotFound(sets.notFound), GivenUp: f.toldNotFound(sets.givenUp), Replaced: sets.replaced,
		NotFoundStandby: sets.notFoundStandby, NotFoundQuarantined: sets.notFoundQuarantined, Gone: f.toldGone(), Ordinals: sets.ordinals,
		Unreachable: sets.unreachable(), Unconfirmed: sets.unconfirmed(), Missing: sets.missingNames(),
		Arriving: d.arriving, Awaited: sets.arriving, StandbyComing: d.standbyComing, Held: sets.held,

		Update: tell.Update{Target: f.target(), Progress: d.update.progress, Canary: d.update.canary, Stuck: d.update.stuck, Unavailable: namesOf(d.update.unavailable), Ends: d.update.late != nil, Changes: d.isUpdating(), Waits: d.update.waits,
			Held: d.update.held, Closed: d.update.closed, Opens: d.update.opens},
		Healing: tell.Healing{TooMany: d.healing.tooMany, InVain: d.healing.inVain}, Trial: d.healing.trial, Adoption: d.adoption,
		Deletion: tell.Deletion{Reason: f.deletionReason(), RulesGone: f.rulesGone(), FolderLeft: f.folderLeft(), FolderKept: f.folderKept(), Childless: f.childless(), LeaseOver: f.leaseOver()},

		ToClone: s.missing(), Activities: s.toldActivities(), Waits: s.toldWaits(), WaitsForDisks: s.waitDisks, WaitsForCall: s.waitCall,
		Faults: s.faults, CloneFaults: s.cloneFaults, DiskFaults: s.diskFaults,
		Successors: tell.Successors{Source: f.sourceFault(), Unfillable: d.successors.unfillable, Blocked: d.successors.blocked, Unfinished: d.successors.unfinished},
	}
	for _, m := range d.free {
		t.Free = append(t.Free, s.toldMember(m))
	}
	for i := range s.wanted {
		w := &s.wanted[i]
		t.Steps = append(t.Steps, tell.Step{Key: w.Key, Starts: w.starts, Blocked: w.blocked, OfMember: w.ConcernsMember()})
	}
	return t
}

func (s *steps) toldOf(members []member) []tell.Member {
	all := make([]tell.Member, len(members))
	for i := range members {
		all[i] = s.toldMember(&members[i])
	}
	return all
}

func (s *steps) toldMember(m *member) tell.Member {
	f := s.facts
	t := tell.Member{
		VM: &m.VM, Name: m.name, Key: f.stepKey(m), Duplicate: m.duplicate, Returned: m.returned, GivenUp: m.givenUp,
		Differs: m.differs(), Difference: m.difference(), TemplateChanged: f.templateChanged(&m.VM),
		Uncustomized: m.uncustomized, CustomizationFailed: f.customizationOf(m).State == plan.CustomizationFailed,
		Ready: m.ready, Available: m.available(), RunsUnready: m.runsUnready(), Since: m.since, Silence: m.answer.silence, ProbeRefused: m.answer.refused, UntakenTooLong: m.untakenTooLong,
		Halting: m.halting(), AskedLately: f.Now.Before(m.Shutdown.At.Add(f.policy.Shutdown + haltGrace)), HeldUntil: m.heldUntil,
		Leaves: m.leaves(), TakenDown: f.takenDown(m), Nominated: m.nominated, Becomes: m.becomes, Reason: m.why, Kept: m.kept, KeptBy: m.keptBy, Awaits: m.awaits, AwaitsSource: m.awaitsSource, InVain: m.inVain,
	}
	if m.waits != nil {
		t.MarkWaits = m.waits.until
	}
	if m.returned {
		t.Away = f.awayAs(m)
	}
	if m.IsStandby() {
		t.Fit, t.Unfit = s.sets.fit(m), f.unfit(m)
	}
	if f.Finalizing {
		i, has := s.stepOf[f.stepKey(m)]
		t.Outlasts, t.LastToGo, t.StepBlocked = s.sets.outlasts(m), s.sets.isLastToGo(m), has && s.wanted[i].blocked
	}
	return t
}

func (f *facts) toldNotFound(all []notFoundMember) (told []tell.NotFound) {
	for i := range all {
		told = append(told, tell.NotFound{Member: all[i].Member, Missing: all[i].missing, Hidden: all[i].hidden(), Named: f.names(&all[i].Member)})
	}
	return told
}

// toldGone are the members in the stored status that are gone.
func (f *facts) toldGone() (gone []tell.Gone) {
	for i := range f.Group.Status.Members {
		was := &f.Group.Status.Members[i]
		if by, is := f.departed.As(plan.IDOf(was)); is && !f.isBack(was) {
			gone = append(gone, tell.Gone{Member: was, By: by})
		}
	}
	return gone
}

// toldActivities are what goes on, in the order of the message, with the number of VMs and ordinals for which each is not blocked.
func (s *steps) toldActivities() (all []tell.Activity) {
	order := slices.Clone(spoken[:])
	for m := range s.decision.allVMs() {
		for _, a := range m.does {
			if !slices.Contains(order, a.Activity) {
				order = append(order, a.Activity)
			}
		}
	}
	for _, a := range order {
		all = append(all, tell.Activity{N: s.doing(a), Activity: *a})
	}
	return all
}

// toldWaits are the preconditions with a sentence of their own, with the number of members that wait for each.
func (s *steps) toldWaits() (all []tell.Activity) {
	for _, p := range preconditions {
		n := 0
		for i := range s.sets.members {
			n += int(oneIf(s.sets.members[i].waits == p))
		}
		if p.says != "" {
			all = append(all, tell.Activity{N: n, Activity: plan.Activity{Says: p.says, Noun: "member"}})
		}
	}
	return all
}

// untilWake is after how long the plan must be made again although nothing has changed; zero if it depends on no time.
func (s *steps) untilWake() time.Duration {
	all := wake{now: s.facts.Now}
	for _, at := range []time.Time{s.facts.shortOutageOver, s.sets.wake.at, s.decision.wake.at, s.wake.at} {
		all.note(at)
	}
	return all.after()
}

// startSlowly reports whether so many members were lost at once that a few are recreated before the others.
func (s *steps) startSlowly() bool { return s.sets.lost() > 1 && s.missing() > 1 }
