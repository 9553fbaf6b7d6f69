package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// toPowerOn powers a member on, unless it was cloned for another spec and never prepared: then it is removed.
var toPowerOn = &concern{why: (*decision).whyPowerOn, awaits: (*decision).awaitsRules, next: (*steps).powerOn}

func (d *decision) whyPowerOn(m *member) string {
	switch {
	case !m.isOff() || d.startable(m) && (d.facts.lacksData(m) || m.unprepared()):
		return ""
	case m.Standby:
		return runningText
	}
	return m.Power.Text() + "; should be on"
}

// awaitsRules says that a member can't be powered on before the group's DRS rules are set.
func (d *decision) awaitsRules(*member) string {
	return textIf(d.facts.awaitsRules(), "the group's DRS rules")
}

func (s *steps) powerOn(m *member, why string) {
	unblocked := true
	switch {
	case !s.decision.startable(m), s.facts.awaitsRules():
	case m.Standby:
		unblocked = s.act(s.facts.promotion(m, why))
	default:
		unblocked = s.act(plan.Action{Op: plan.PowerOn, Key: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Reason: why})
	}
	m.begins(starting, unblocked)
}
