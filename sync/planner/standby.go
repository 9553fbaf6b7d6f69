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
func (v *sets) splitStandby() {
	if !slices.ContainsFunc(v.members, func(m member) bool { return m.IsStandby() }) {
		return
	}
	var serving []member
	for begin, end := 0, 0; begin < len(v.members); begin = end {
		for end = begin; end < len(v.members) && v.members[end].Ordinal == v.members[begin].Ordinal; end++ {
		}
		claimants := v.members[begin:end]
		if slices.ContainsFunc(claimants, func(m member) bool { return !m.IsStandby() }) {
			serving = append(serving, claimants...)
			continue
		}
		v.standby = append(v.standby, claimants...)
	}
	v.members = serving
}

// judgeStandby decides what concerns each standby member alone, and finds the recorded ones that vCenter does not show, and that it has
// not reported as gone.
func (v *sets) judgeStandby() {
	for i := range v.standby {
		m := &v.standby[i]
		m.resize, m.outdated, m.disks = v.sizeDifference(&m.VM), v.cloneDifference(&m.VM), v.disksDue(m)
	}
	for _, m := range v.Group.Status.Standby {
		here := slices.ContainsFunc(v.State.VMs, func(vm plan.VM) bool {
			return vm.MoRef == m.MoRef || vm.Ordinal == m.Ordinal && vm.Quarantined.IsZero()
		})
		if !here && !v.State.IsGone(m.MoRef, "") {
			m.Ready, m.Reason, m.Message = false, plan.ReasonMemberNotSeen, "vCenter does not show this VM, nor report it as gone: a privilege may have been lost"
			v.notFoundStandby = append(v.notFoundStandby, m)
		}
	}
}

// isStandby reports whether a standby member has an ordinal, or is being made with it.
func (v *sets) isStandby(ordinal int32) bool {
	return slices.ContainsFunc(v.standby, func(m member) bool { return m.Ordinal == ordinal }) ||
		slices.ContainsFunc(v.notFoundStandby, func(m v1alpha1.StandbyMember) bool { return m.Ordinal == ordinal }) ||
		slices.Contains(v.standbyComing, ordinal)
}

// fit reports whether a standby member can be promoted now.
func (v *sets) fit(m *member) bool {
	p := v.Pending[m.name]
	return v.revision != "" && m.Reachable && !m.Marked && !m.contested && m.Question == "" && m.differs() == "" && !m.unprepared() && !v.unfit(m) && !v.isNotFound(m.Ordinal) &&
		(p.State != plan.Running || p.Op == plan.PowerOn)
}

// unfit reports whether a standby member has to be made again.
func (v *facts) unfit(m *member) bool {
	return m.outdated != "" || m.resize != "" && (v.policy.Resize == v1alpha1.ResizeReplace || v.refusesResize(m)) || m.unprepared() && !v.preparable(m) ||
		slices.Contains(v.Group.Spec.Replace, v1alpha1.Replacement{Name: m.name, MoRef: m.MoRef})
}

// promote powers up to most standby members on, and returns how many. In each zone that has the fewest members one is promoted first;
// one that is being promoted, before all others; one that failed, after them.
func (v *steps) promote(most int) (promoted int) {
	if len(v.standby) == 0 || most <= 0 || v.awaitsRules() {
		return 0
	}
	load := v.pickOrdinals()
	for ; promoted < most; promoted++ {
		var next *member
		better := func(m *member) bool {
			rank := func(m *member) int {
				switch p := v.Pending[m.name]; {
				case p.State == plan.Running:
					return 0
				case p.Fault.Reason == "":
					return 1
				}
				return 2
			}
			return next == nil || cmp.Or(cmp.Compare(rank(m), rank(next)), cmp.Compare(load.Load(m.Ordinal), load.Load(next.Ordinal))) < 0
		}
		for i := range v.standby {
			if m := &v.standby[i]; !m.leaves && v.fit(m) && better(m) {
				next = m
			}
		}
		if next == nil {
			break
		}
		next.leaves = true // the standby members
		load.Count(next.Ordinal)
		next.decide(plan.Create, "standby member promoted: "+v.promotionText(promoted))
		next.begins(starting, v.act(v.promotion(next, next.why)))
	}
	return promoted
}

// promoteRunning takes note in its stamp of a standby member that somebody powered on.
func (v *steps) promoteRunning(m *member, why string) { v.act(v.promotion(m, why)) }

const runningText = "a standby member that somebody powered on is a member"

func (v *facts) promotion(m *member, reason string) plan.Action {
	return plan.Action{Op: plan.PowerOn, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: plan.PowerOnArgs{Promotes: true},
		Generation: v.Group.Generation, Reason: reason}
}

// promotionText says why the n-th member that is promoted now is wanted.
func (v *sets) promotionText(n int) string {
	switch {
	case v.ordinals+len(v.arriving)+n < v.want:
		return v.membersText()
	case slices.ContainsFunc(v.members, func(m member) bool { return m.leaves && m.retire == plan.WhyHealing }):
		return "in place of an unhealthy member"
	}
	return v.surgeText(n + 1)
}

// soonFit is how many standby members will be fit without an operator's help, and are not promoted yet.
func (v *sets) soonFit() (n int) {
	for _, ordinal := range v.standbyComing {
		n += int(oneIf(v.Pending[plan.MemberName(v.Group.Name, ordinal)].Fault.Reason == ""))
	}
	for i := range v.standby {
		m := &v.standby[i]
		if !m.leaves && m.Reachable && !m.going() && !m.duplicate && m.Question == "" && !v.unfit(m) && v.Pending[m.name].Fault.Reason == "" && !v.isNotFound(m.Ordinal) {
			n++
		}
	}
	return n
}

// standbyFirst reports whether an update waits for the standby members: those that differ from the spec are made again, or resized,
// before a serving member is, and all of them exist before the first one is, so that the update promotes them.
func (v *sets) standbyFirst() bool {
	here, differ := len(v.notFoundStandby), false
	for i := range v.standby {
		m := &v.standby[i]
		here++
		differ = differ || (m.differs() != "" || m.unprepared()) && m.Reachable && !m.duplicate && m.Question == ""
	}
	return differ || here < int(v.Group.Spec.Standby) && !slices.ContainsFunc(v.members, func(m member) bool { return m.differs() == "" })
}

// keepStandby makes the standby members that stay like the spec, removes those that are unfit or too many, and makes those that are
// missing.
func (v *steps) keepStandby() {
	order := v.orderOf(v.standby)
	here, stay := len(v.notFoundStandby), 0 // one that is not seen counts as leaving: nothing goes instead of it
	for i := range v.standby {
		if m := &v.standby[i]; !m.leaves {
			here++
			stay += int(oneIf(!m.going() && !v.unfit(m)))
		}
	}
	left := here
	for _, i := range order {
		m := &v.standby[i]
		switch {
		case m.leaves || !m.Reachable:
		case v.unfit(m) && left <= int(v.Group.Spec.Standby) && !v.remakes(m, int(v.Group.Spec.Standby)-left):
			m.decide(plan.Update, againText(m))
			m.awaits = aSuccessor
			if v.cloneBlocked(m) {
				m.awaits = anOperator
			}
		case m.going() || v.unfit(m) || stay > int(v.Group.Spec.Standby):
			stay -= int(oneIf(!m.going() && !v.unfit(m)))
			left--
			v.removeStandby(m, left >= int(v.Group.Spec.Standby))
		case m.unprepared() || m.Prepared != v.prepared && v.preparable(m):
			m.decide(plan.Update, "prepared as a standby member")
			m.begins(standingBy, v.prepare(m, m.why))
		case m.disks != "":
			m.decide(plan.Update, "disks: it "+m.disks)
			m.begins(standingBy, v.setDisksOf(m, m.why))
		case m.resize != "":
			m.decide(plan.Update, "resize of a standby member: it "+m.resize)
			m.begins(standingBy, v.act(plan.Action{Op: plan.Reconfigure, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Args: v.resizeArgs(false), Reason: m.why}))
		}
	}
	for _, m := range v.free {
		if m.Standby {
			m.begins(standingBy, true)
		}
	}
	v.cloneStandby(int(v.Group.Spec.Standby) - here - len(v.standbyComing))
}

// cloneStandby makes standby members.
func (v *steps) cloneStandby(count int) {
	if count <= 0 {
		return
	}
	ordinals := v.picker()
	for i := range v.standby {
		if m := &v.standby[i]; !m.leaves {
			ordinals.Count(m.Ordinal)
		}
	}
	for _, ordinal := range v.standbyComing {
		ordinals.Count(ordinal)
	}
	reason := fmt.Sprintf("too few standby members: %d of %d", int(v.Group.Spec.Standby)-count, v.Group.Spec.Standby)
	vacant := make([]*member, count)
	for n := range vacant {
		vacant[n] = v.vacancy(reason)
		vacant[n].Standby = true
	}
	fresh, _ := v.cloneEach(vacant, ordinals)
	for _, m := range fresh {
		m.begins(standingBy, true)
	}
}

// removeStandby marks a standby member, and then removes it: enough others are left without it, or it is made again.
func (v *steps) removeStandby(m *member, enough bool) {
	why, reason := plan.WhyScaleIn, fmt.Sprintf("more standby members than spec.standby: %d", v.Group.Spec.Standby)
	again := v.unfit(m) && !enough
	if again {
		why, reason = plan.WhyUpdate, againText(m)
	}
	if m.decide(plan.Remove, reason); again {
		m.becomes = plan.Update
	}
	switch m.leaves = true; {
	case !m.going() && again:
		v.act(v.replacing(m, why, reason))
		v.tellUnrehearsed(m)
	case !m.going():
		v.act(v.marking(m, why, reason))
	default:
		v.remove(m, idle, reason)
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
func (v *report) aside(name string) bool {
	return slices.ContainsFunc(v.standby, func(m member) bool { return m.name == name }) ||
		slices.ContainsFunc(v.standbyComing, func(ordinal int32) bool { return plan.MemberName(v.Group.Name, ordinal) == name })
}

func (v *report) standbyStatuses() []v1alpha1.StandbyMember {
	if len(v.standby) == 0 {
		return slices.Clone(v.notFoundStandby)
	}
	all := make([]v1alpha1.StandbyMember, 0, len(v.standby)+len(v.notFoundStandby))
	for i := range v.standby {
		m := &v.standby[i]
		s := v1alpha1.StandbyMember{Name: m.name, VMName: m.renamed(), Ordinal: m.Ordinal, MoRef: m.MoRef, Zone: plan.ZoneOf(&v.Group.Spec, m.Ordinal),
			Host: plan.Printable(m.Host), Revision: m.Revision, Ready: v.fit(m)}
		if !s.Ready {
			s.Reason, s.Message = v.why(m)
		}
		if s.Reason == reasonOff {
			s.Reason, s.Message = plan.ReasonDiffers, cmp.Or(m.differs(), "it is being prepared, promoted or made again")
		}
		s.Message = plan.Printable(s.Message)
		all = append(all, s)
	}
	return append(all, v.notFoundStandby...)
}
