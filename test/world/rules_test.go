package world

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// In lives with hosts, the group's members prefer to be apart, and DRS powers none on beside another that the group's rule names. There may be fewer hosts
// than members. Each VM that is on is on a host of its own as long as there are enough.

// ruleOf returns the VMs that a group's rule names, and whether the rule exists. vCenter takes a VM that leaves the inventory out of it.
func (v *vcenter) ruleOf(uid types.UID) (named map[string]bool, exists bool) {
	rule, exists := v.rules[uid]
	named = maps.Clone(rule)
	maps.DeleteFunc(named, func(moRef string, _ bool) bool { return v.find(moRef).gone })
	return named, exists
}

// wantedRule returns the VMs that a group's rule has to name, as the replica knows them; none if it needs no rule.
func (v *view) wantedRule(uid types.UID, rules plan.Rules) map[string]bool {
	named := map[string]bool{}
	for moRef, g := range v.vms {
		if rules.KeepApart() && !g.gone && !g.blind && g.uid == uid && g.vm.Quarantined.IsZero() && !g.vm.IsTemplate && !v.vcenter.find(moRef).stray &&
			(!g.outOfRule || g.vm.Power == plan.PoweredOn) {
			named[moRef] = true
		}
	}
	if len(named) < 2 {
		return nil
	}
	return named
}

// rulesOff reports whether a group's rule differs from what the replica knows that it has to be.
func (v *view) rulesOff(uid types.UID, rules plan.Rules) bool {
	named, exists := v.vcenter.ruleOf(uid)
	wanted := v.wantedRule(uid, rules)
	return v.vcenter.set.hosts > 0 && (exists != (wanted != nil) || !maps.Equal(named, wanted))
}

// startRules notes what a SetRules writes.
func (s *step) startRules() (over bool) {
	rules := plan.RulesOf(s.a.Details().Spec)
	s.rule = s.by.view.wantedRule(s.ref.UID, rules)
	return !s.by.view.rulesOff(s.ref.UID, rules)
}

// rulesSet applies the effect of a SetRules to vCenter.
func (s *step) rulesSet() error {
	for moRef := range s.rule {
		if s.vc.find(moRef).gone {
			return objectGone
		}
	}
	if s.vc.rules[s.ref.UID] = s.rule; s.rule == nil {
		delete(s.vc.rules, s.ref.UID)
	}
	return nil
}

// noteBackInRule removes from the stamps of VMs that are on that the rule leaves them out.
func (s *step) noteBackInRule() {
	for _, m := range s.vc.vms {
		g := s.by.view.vms[m.MoRef]
		if g != nil && !g.gone && !g.blind && g.uid == s.ref.UID && !m.stray && g.outOfRule && g.vm.Power == plan.PoweredOn && g.vm.ChangeVersion == m.ChangeVersion {
			m.outOfRule = false
			m.reconfigured()
			s.by.view.read(m.MoRef)
		}
	}
}

// keptOff reports whether DRS refuses to power a VM on, because each host has a VM that the rule keeps apart from it.
func (v *vcenter) keptOff(m *machine) bool {
	named, _ := v.ruleOf(m.uid)
	on := 0
	for _, other := range v.vms {
		if other != m && named[other.MoRef] && other.Power == plan.PoweredOn {
			on++
		}
	}
	return v.set.hosts > 0 && named[m.MoRef] && on >= v.set.hosts
}

// ruleIsOff says how a group's rule differs from its members; empty if it doesn't.
func (w *world) ruleIsOff(uid types.UID) string {
	if w.set.hosts == 0 {
		return ""
	}
	named, _ := w.vc.ruleOf(uid)
	members, missing := 0, 0
	for _, m := range w.vc.vms {
		if !m.gone && m.uid == uid && !m.stray && m.Quarantined.IsZero() && !m.IsTemplate && (!m.outOfRule || m.Power == plan.PoweredOn) {
			if members++; !named[m.MoRef] {
				missing++
			}
		}
	}
	if members > 1 && (missing > 0 || members != len(named)) {
		return "the rule that keeps members apart does not name exactly the members"
	}
	return ""
}
