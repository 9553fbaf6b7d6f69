package planner

import (
	"cmp"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A standby member is one whose power state is to be off. Its clone's stamp says so, until it is promoted: from then on it is a member
// that is off and should be on, and a process that stops in between is of no account. One that somebody powers on is promoted by that.
// It never ran, so it is drained, shut down, promised and kept in quarantine by nobody, and one that vCenter does not have is gone.

// splitStandby moves the standby members out of members, which are in order. One whose ordinal a member has stays there.
func (s *sets) splitStandby() {
	if !slices.ContainsFunc(s.members, func(m member) bool { return m.IsStandby() }) {
		return
	}
	var serving []member
	for begin, end := 0, 0; begin < len(s.members); begin = end {
		for end = begin; end < len(s.members) && s.members[end].Ordinal == s.members[begin].Ordinal; end++ {
		}
		claimants := s.members[begin:end]
		if slices.ContainsFunc(claimants, func(m member) bool { return !m.IsStandby() }) {
			serving = append(serving, claimants...)
			continue
		}
		s.standby = append(s.standby, claimants...)
	}
	s.members = serving
}

// judgeStandby decides what concerns each standby member alone, and finds the recorded ones that vCenter does not show, and that it has
// not reported as gone.
func (s *sets) judgeStandby() {
	for i := range s.standby {
		m := &s.standby[i]
		m.resize, m.outdated, m.disks = s.sizeDifference(&m.VM), s.cloneDifference(&m.VM), s.disksDue(m)
	}
	for _, m := range s.Group.Status.Standby {
		here := slices.ContainsFunc(s.State.VMs, func(vm plan.VM) bool {
			return vm.MoRef == m.MoRef || vm.Ordinal == m.Ordinal && vm.Quarantined.IsZero()
		})
		if !here && !s.State.IsGone(m.MoRef, "") {
			m.Ready, m.Reason, m.Message = false, plan.ReasonMemberNotSeen, "vCenter does not show this VM, nor report it as gone: a privilege may have been lost"
			s.notFoundStandby = append(s.notFoundStandby, m)
		}
	}
}

// isStandby reports whether a standby member has an ordinal, or is being made with it.
func (s *sets) isStandby(ordinal int32) bool {
	return slices.ContainsFunc(s.standby, func(m member) bool { return m.Ordinal == ordinal }) ||
		slices.ContainsFunc(s.notFoundStandby, func(m v1alpha1.StandbyMember) bool { return m.Ordinal == ordinal }) ||
		slices.Contains(s.standbyComing, ordinal)
}

// fit reports whether a standby member can be promoted now.
func (s *sets) fit(m *member) bool {
	p := s.Pending[m.name]
	return s.revision != "" && m.Reachable && !m.Marked && !m.contested && m.Question == "" && m.differs() == "" && !m.unprepared() && !s.unfit(m) && !s.isNotFound(m.Ordinal) &&
		(p.State != plan.Running || p.Op == plan.PowerOn)
}

// unfit reports whether a standby member has to be made again.
func (f *facts) unfit(m *member) bool {
	return m.outdated != "" || m.resize != "" && (f.policy.Resize == v1alpha1.ResizeReplace || f.refusesResize(m)) || m.unprepared() && !f.preparable(m) ||
		slices.Contains(f.Group.Spec.Replace, v1alpha1.Replacement{Name: m.name, MoRef: m.MoRef})
}

// promote powers up to most standby members on, and returns how many. In each zone that has the fewest members one is promoted first;
// one that is being promoted, before all others; one that failed, after them.
func (s *steps) promote(most int) (promoted int) {
	if len(s.standby) == 0 || most <= 0 || s.awaitsRules() {
		return 0
	}
	load := s.pickOrdinals()
	for ; promoted < most; promoted++ {
		var next *member
		better := func(m *member) bool {
			rank := func(m *member) int {
				switch p := s.Pending[m.name]; {
				case p.State == plan.Running:
					return 0
				case p.Fault.Reason == "":
					return 1
				}
				return 2
			}
			return next == nil || cmp.Or(cmp.Compare(rank(m), rank(next)), cmp.Compare(load.Load(m.Ordinal), load.Load(next.Ordinal))) < 0
		}
		for i := range s.standby {
			if m := &s.standby[i]; !m.leaves && s.fit(m) && better(m) {
				next = m
			}
		}
		if next == nil {
			break
		}
		next.leaves = true // the standby members
		load.Count(next.Ordinal)
		next.decide(plan.Create, "standby member promoted: "+s.promotionText(promoted))
		next.begins(starting, s.act(s.promotion(next, next.why)))
	}
	return promoted
}

// promoteRunning takes note in its stamp of a standby member that somebody powered on.
func (s *steps) promoteRunning(m *member, why string) { s.act(s.promotion(m, why)) }

const runningText = "a standby member that somebody powered on is a member"

func (f *facts) promotion(m *member, reason string) plan.Action {
	return plan.Action{Op: plan.PowerOn, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: plan.PowerOnArgs{Promotes: true},
		Generation: f.Group.Generation, Reason: reason}
}

// promotionText says why the n-th member that is promoted now is wanted.
func (s *sets) promotionText(n int) string {
	switch {
	case s.ordinals+len(s.arriving)+n < s.want:
		return s.membersText()
	case slices.ContainsFunc(s.members, func(m member) bool { return m.leaves && m.retire == plan.WhyHealing }):
		return "in place of an unhealthy member"
	}
	return s.surgeText(n + 1)
}

// soonFit is how many standby members will be fit without an operator's help, and are not promoted yet.
func (s *sets) soonFit() (n int) {
	for _, ordinal := range s.standbyComing {
		n += int(oneIf(s.Pending[plan.MemberName(s.Group.Name, ordinal)].Fault.Reason == ""))
	}
	for i := range s.standby {
		m := &s.standby[i]
		if !m.leaves && m.Reachable && !m.going() && !m.duplicate && m.Question == "" && !s.unfit(m) && s.Pending[m.name].Fault.Reason == "" && !s.isNotFound(m.Ordinal) {
			n++
		}
	}
	return n
}

// standbyFirst reports whether an update waits for the standby members: those that differ from the spec are made again, or resized,
// before a serving member is, and all of them exist before the first one is, so that the update promotes them.
func (s *sets) standbyFirst() bool {
	here, differ := len(s.notFoundStandby), false
	for i := range s.standby {
		m := &s.standby[i]
		here++
		differ = differ || (m.differs() != "" || m.unprepared()) && m.Reachable && !m.duplicate && m.Question == ""
	}
	return differ || here < int(s.Group.Spec.Standby) && !slices.ContainsFunc(s.members, func(m member) bool { return m.differs() == "" })
}

// keepStandby makes the standby members that stay like the spec, removes those that are unfit or too many, and makes those that are
// missing.
func (s *steps) keepStandby() {
	order := s.orderOf(s.standby)
	here, stay := len(s.notFoundStandby), 0 // one that is not seen counts as leaving: nothing goes instead of it
	for i := range s.standby {
		if m := &s.standby[i]; !m.leaves {
			here++
			stay += int(oneIf(!m.going() && !s.unfit(m)))
		}
	}
	left := here
	for _, i := range order {
		m := &s.standby[i]
		switch {
		case m.leaves || !m.Reachable:
		case s.unfit(m) && left <= int(s.Group.Spec.Standby) && !s.remakes(m, int(s.Group.Spec.Standby)-left):
			m.decide(plan.Update, againText(m))
			m.awaits = aSuccessor
			if s.cloneBlocked(m) {
				m.awaits = anOperator
			}
		case m.going() || s.unfit(m) || stay > int(s.Group.Spec.Standby):
			stay -= int(oneIf(!m.going() && !s.unfit(m)))
			left--
			s.removeStandby(m, left >= int(s.Group.Spec.Standby))
		case m.unprepared() || m.Prepared != s.prepared && s.preparable(m):
			m.decide(plan.Update, "prepared as a standby member")
			m.begins(standingBy, s.prepare(m, m.why))
		case m.disks != "":
			m.decide(plan.Update, "disks: it "+m.disks)
			m.begins(standingBy, s.setDisksOf(m, m.why))
		case m.resize != "":
			m.decide(plan.Update, "resize of a standby member: it "+m.resize)
			m.begins(standingBy, s.act(plan.Action{Op: plan.Reconfigure, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: s.resizeArgs(false), Reason: m.why}))
		}
	}
	for _, m := range s.free {
		if m.Standby {
			m.begins(standingBy, true)
		}
	}
	s.cloneStandby(int(s.Group.Spec.Standby) - here - len(s.standbyComing))
}

// cloneStandby makes standby members.
func (s *steps) cloneStandby(count int) {
	if count <= 0 {
		return
	}
	ordinals := s.picker()
	for i := range s.standby {
		if m := &s.standby[i]; !m.leaves {
			ordinals.Count(m.Ordinal)
		}
	}
	for _, ordinal := range s.standbyComing {
		ordinals.Count(ordinal)
	}
	reason := fmt.Sprintf("too few standby members: %d of %d", int(s.Group.Spec.Standby)-count, s.Group.Spec.Standby)
	vacant := make([]*member, count)
	for n := range vacant {
		vacant[n] = s.vacancy(reason)
		vacant[n].Standby = true
	}
	fresh, _ := s.cloneEach(vacant, ordinals)
	for _, m := range fresh {
		m.begins(standingBy, true)
	}
}

// removeStandby marks a standby member, and then removes it: enough others are left without it, or it is made again.
func (s *steps) removeStandby(m *member, enough bool) {
	why, reason := plan.WhyScaleIn, fmt.Sprintf("more standby members than spec.standby: %d", s.Group.Spec.Standby)
	again := s.unfit(m) && !enough
	if again {
		why, reason = plan.WhyUpdate, againText(m)
	}
	if m.decide(plan.Remove, reason); again {
		m.becomes = plan.Update
	}
	switch m.leaves = true; {
	case !m.going() && again:
		s.act(s.replacing(m, why, reason))
		s.tellUnrehearsed(m)
	case !m.going():
		s.act(s.marking(m, why, reason))
	default:
		s.remove(m, idle, reason)
	}
	m.begins(discarding, true)
}

// againText says why a standby member is made again.
func againText(m *member) string {
	return "standby member made again: " + cmp.Or(prefixed("it ", m.differs()), "spec.replace names it, or it was made for another spec")
}

// prefixed puts a prefix before a text that is not empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// aside reports whether a step concerns a standby member alone: the group is RUNNING meanwhile.
func (r *report) aside(name string) bool {
	return slices.ContainsFunc(r.standby, func(m member) bool { return m.name == name }) ||
		slices.ContainsFunc(r.standbyComing, func(ordinal int32) bool { return plan.MemberName(r.Group.Name, ordinal) == name })
}

func (r *report) standbyStatuses() []v1alpha1.StandbyMember {
	if len(r.standby) == 0 {
		return slices.Clone(r.notFoundStandby)
	}
	all := make([]v1alpha1.StandbyMember, 0, len(r.standby)+len(r.notFoundStandby))
	for i := range r.standby {
		m := &r.standby[i]
		s := v1alpha1.StandbyMember{Name: m.name, VMName: m.renamed(), Ordinal: m.Ordinal, MoRef: m.MoRef, Zone: plan.ZoneOf(&r.Group.Spec, m.Ordinal),
			Host: plan.Printable(m.Host), Revision: m.Revision, Ready: r.fit(m)}
		if !s.Ready {
			s.Reason, s.Message = r.why(m)
		}
		if s.Reason == reasonOff {
			s.Reason, s.Message = plan.ReasonDiffers, cmp.Or(m.differs(), "it is being prepared, promoted or made again")
		}
		s.Message = plan.Printable(s.Message)
		all = append(all, s)
	}
	return append(all, r.notFoundStandby...)
}
