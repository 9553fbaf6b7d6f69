package planner

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// toRestamp brings the stamp of a VM up to date that came from another vCenter, or of which vCenter changed the instanceUuid. No other step acts on such
// a VM before: by its stamp, it is a copy, or another vCenter's.
var toRestamp = &concern{next: (*steps).restamp}

// restamping: the stamp of a VM gets what vCenter calls the VM now.
var restamping = &plan.Activity{Says: "recording what vCenter calls %s now", Noun: "VM", Background: true}

// whyRestamp says why a VM's stamp is brought up to date; empty if it isn't.
func (f *facts) whyRestamp(m *member) string {
	switch {
	case m.MoRef == "" || !m.Reachable:
		return ""
	case m.Renumbered != "":
		return fmt.Sprintf("its instanceUuid was %s, and was changed to %s in vCenter", m.InstanceUUID, m.Renumbered)
	case m.VCenter != "" && m.VCenter != f.State.VCenter:
		return fmt.Sprintf("it was in vCenter %s, and is in %s now", m.VCenter, f.State.VCenter)
	}
	return ""
}

// decideRestamps gives the concern to VMs of all kinds. It is no part of their verdicts.
func (d *decision) decideRestamps() {
	for m := range d.allVMs() {
		if why := d.facts.whyRestamp(m); why != "" {
			m.wants(toRestamp, why)
		}
	}
}

func (s *steps) restamp(m *member, why string) {
	m.begins(restamping, s.act(plan.Action{Op: plan.Restamp, Key: s.facts.stepKey(m), Ordinal: m.Ordinal, MoRef: m.MoRef, ChangeVersion: m.ChangeVersion, Reason: why}))
}
