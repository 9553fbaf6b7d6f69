// This file has which standby members can be promoted, and which VMs in quarantine can be members again.

package planner

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// fit reports whether a standby member can be promoted now.
func (s *sets) fit(m *member) bool {
	p := s.facts.Pending[m.name]
	return s.facts.revision != "" && m.Reachable && !m.Marked && !m.contested && m.Question == "" && m.differs() == "" && !m.unprepared() && !s.facts.unfit(m) && !s.isNotFound(m.Ordinal) &&
		(p.State != plan.Running || p.Op == plan.PowerOn)
}

// unfit reports whether a standby member has to be created again.
func (f *facts) unfit(m *member) bool {
	return f.needsClone(m) || m.unprepared() && !f.preparable(m) ||
		slices.Contains(f.Group.Spec.Replace, v1alpha1.Replacement{Name: m.name, MoRef: m.MoRef})
}

// standbyFirst reports whether an update waits for the standby members, so that it can promote them: those that differ from the spec are
// updated before serving members are, and all of them exist before the first serving member is replaced. One more than spec.standby, which is made
// while another is being promoted, is not waited for: that would withdraw the promotion.
func (s *sets) standbyFirst() bool {
	here, done, differ := len(s.notFoundStandby), 0, false
	for i := range s.standby {
		m := &s.standby[i]
		here++
		due := m.differs() != "" || m.unprepared()
		done += int(oneIf(!due && m.Reachable && !m.duplicate && m.Question == ""))
		differ = differ || due && m.Reachable && !m.duplicate && m.Question == ""
	}
	return differ && done < int(s.facts.Group.Spec.Standby) || here < int(s.facts.Group.Spec.Standby) && !slices.ContainsFunc(s.members, func(m member) bool { return m.differs() == "" })
}

// soonFit is how many standby members, promoted ones apart, will be fit without an operator's help.
func (d *decision) soonFit() (n int) {
	for _, ordinal := range d.standbyComing {
		n += int(oneIf(d.facts.Pending[plan.MemberName(d.facts.Group.Name, ordinal)].Fault.Reason == ""))
	}
	for i := range d.sets.standby {
		m := &d.sets.standby[i]
		if !m.leaves() && m.Reachable && !m.MarkedForRemoval() && !m.duplicate && m.Question == "" && !d.facts.unfit(m) && d.facts.Pending[m.name].Fault.Reason == "" && !d.sets.isNotFound(m.Ordinal) {
			n++
		}
	}
	return n
}

// fitsAgain reports whether a VM can be a member again: it was not removed because it was unhealthy, and equals a clone made now.
func (d *decision) fitsAgain(q *member) bool {
	d.wake.note(q.Quarantined.Add(d.facts.policy.Quarantine))
	if d.facts.revision == "" || q.MarkReason != plan.MarkReasonScaleIn && q.MarkReason != plan.MarkReasonUpdate || !q.Reachable || q.Power != plan.PoweredOff || d.facts.policy.Quarantine == 0 {
		return false
	}
	how, ages := d.facts.cloneDifference(&q.VM)
	d.wake.note(ages)
	p := d.facts.Pending[d.facts.stepKey(q)]
	return how == "" && plan.DisksLost(&d.facts.Group.Spec, q.Disks) == "" && !d.facts.due(q) && !p.Fault.NeedsOperator && p.Op != plan.Destroy
}

// due reports whether a VM's time in quarantine is over.
func (f *facts) due(q *member) bool {
	return q.MarkReason != plan.MarkReasonDuplicate && !f.Now.Before(q.Quarantined.Add(f.policy.Quarantine))
}

// unpromoted counts the standby members that an operator powered on, until their stamps say that they are members: if they are powered off again, or
// vCenter no longer shows them, no member would take the place of one that was removed because of them.
func (s *sets) unpromoted() (n int) {
	for i := range s.members {
		m := &s.members[i]
		n += int(oneIf(m.Standby && !m.duplicate && !m.MarkedForRemoval()))
	}
	return n
}

// wouldBeInVain reports whether a standby member isn't created again because others were cloned in vain.
func (d *decision) wouldBeInVain(m *member) bool {
	return d.update.stuck != nil && len(d.update.inVain) > 0 && d.facts.needsClone(m)
}

// freesName reports whether a VM in quarantine that still has its member's name, and addresses that spec.networks gives, gets another name: its
// ordinal is free then.
func (d *decision) freesName() bool {
	return slices.ContainsFunc(d.sets.quarantined, func(q member) bool {
		_, places := plan.AddressesOf(&d.facts.Group.Spec, q.Ordinal)
		return q.Reachable && d.facts.blocksName(&q) && places
	})
}
