package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// status returns the new status. While vCenter's state is unknown, the status keeps all figures but those that the spec gives.
func (r *report) status(message string) v1alpha1.VmGroupStatus {
	if r.facts.shortOutage {
		s := r.facts.Group.Status
		s.Orphaned, s.FinalizingSince = s.Orphaned || r.facts.orphaned(), r.facts.finalizingSince()
		return s
	}
	s := r.facts.Group.Status
	if r.facts.vCenterKnown {
		s = r.observedStatus()
	}
	s.Orphaned, s.FinalizingSince = r.facts.orphaned(), r.facts.finalizingSince()
	s.ObservedGeneration = r.facts.Group.Generation
	s.DesiredReplicas = r.facts.Group.Replicas()
	s.Selector = "controller-uid=" + string(r.facts.Group.UID)
	s.Phase = r.phase()
	s.LastMessage = plan.Printable(message)
	s.Summary = plan.Bounded(plan.WithoutHelp(s.LastMessage), summaryMost)
	s.Conditions = r.conditions(s.Phase, message)
	return s
}

// observedStatus is what depends on vCenter: the figures that the status keeps while vCenter's state is unknown.
func (r *report) observedStatus() v1alpha1.VmGroupStatus {
	s := v1alpha1.VmGroupStatus{VCenterUUID: r.facts.State.VCenter}
	s.Members, s.Standby = r.memberStatuses(), r.standbyStatuses()
	s.CurrentReplicas, s.StandbyReplicas = int32(len(r.sets.members)+len(r.sets.notFound)), int32(len(s.Standby))
	for i := range r.sets.members {
		m := &r.sets.members[i]
		s.ReadyReplicas += oneIf(m.ready)
		s.AvailableReplicas += oneIf(m.available())
		s.UpdatedReplicas += oneIf(m.difference() == "")
	}
	if r.facts.revision == "" { // which members are up to date is unknown
		s.UpdatedReplicas = min(s.CurrentReplicas, r.facts.Group.Status.UpdatedReplicas)
	}
	s.Quarantined, s.Adopted, s.Update = r.quarantineStatuses(), r.adoptedEntries(), r.decision.update.progress
	s.GivenUp, s.Strays = r.givenUpStatuses(), r.strayStatuses()
	s.Disks, s.Canary, s.Trial = plan.DiskStatuses(r.facts.Group, r.facts.State.VMs), r.decision.update.canary, r.decision.healing.trial
	if r.facts.blockedBy != nil || r.facts.Finalizing {
		s.Canary, s.Trial = r.facts.Group.Status.Canary, r.facts.Group.Status.Trial
	}
	if r.facts.blockedBy != nil && !r.facts.Finalizing {
		s.Update = r.facts.Group.Status.Update
	}
	return s
}

// finalizingSince is when a process of the server first learned that the group is being deleted; zero if it isn't.
func (f *facts) finalizingSince() metav1.Time {
	switch since := f.Group.Status.FinalizingSince; {
	case !f.Finalizing || f.Older != nil:
		return metav1.Time{}
	case !since.IsZero():
		return metav1.NewTime(since.UTC())
	}
	return metav1.NewTime(f.FinalizingSince.UTC().Truncate(time.Second))
}

// summaryMost is how long a message can be in a table, in bytes.
const summaryMost = 100

// bootTime returns when a member was powered on, if its guest has reported since. The stored time is kept for the same boot, because vCenter
// may report it with another fraction.
func (r *report) bootTime(m *member, i int) metav1.Time {
	switch was := r.facts.record(m.MoRef, i); {
	case m.Power != plan.PoweredOn || m.Boot.IsZero() || !m.HasReported():
		return metav1.Time{}
	case was != nil && plan.SameBoot(was.BootTime.Time, m.Boot):
		return metav1.NewTime(was.BootTime.UTC())
	}
	return metav1.NewTime(m.Boot.UTC().Truncate(time.Second))
}

// vanishedAt is when a member vanished that is back and one too many; zero for others.
func (r *report) vanishedAt(m *member) metav1.Time {
	if !m.returned {
		return metav1.Time{}
	}
	if was := r.facts.awayAs(m); was != nil && !was.VanishedAt.IsZero() {
		return metav1.NewTime(was.VanishedAt.UTC())
	}
	return metav1.NewTime(r.facts.Now.UTC().Truncate(time.Second))
}

func (r *report) quarantineStatuses() []v1alpha1.Quarantined {
	if len(r.sets.quarantined)+len(r.sets.notFoundQuarantined) == 0 {
		return nil
	}
	all := make([]v1alpha1.Quarantined, len(r.sets.quarantined))
	for i := range r.sets.quarantined {
		q := &r.sets.quarantined[i]
		all[i] = v1alpha1.Quarantined{Name: plan.Printable(q.VM.Name), Ordinal: q.Ordinal, MoRef: q.MoRef, InstanceUUID: q.InstanceUUID, VMPathName: q.File, Reason: string(q.Why), Since: metav1.NewTime(q.Quarantined.UTC())}
	}
	return append(all, r.sets.notFoundQuarantined...)
}

func (r *report) standbyStatuses() []v1alpha1.StandbyMember {
	if len(r.sets.standby) == 0 {
		return slices.Clone(r.sets.notFoundStandby)
	}
	all := make([]v1alpha1.StandbyMember, 0, len(r.sets.standby)+len(r.sets.notFoundStandby))
	for i := range r.sets.standby {
		m := &r.sets.standby[i]
		s := v1alpha1.StandbyMember{Name: m.name, VMName: m.renamed(), Ordinal: m.Ordinal, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.File, Zone: plan.ZoneOf(&r.facts.Group.Spec, m.Ordinal),
			Host: plan.Printable(m.Host), Revision: m.Revision, Ready: r.sets.fit(m)}
		if !s.Ready {
			s.Reason, s.Message = r.why(m)
		}
		if s.Reason == reasonOff {
			s.Reason, s.Message = plan.ReasonDiffers, cmp.Or(m.differs(), "it is being prepared, promoted or recreated")
		}
		s.Message = plan.Printable(s.Message)
		all = append(all, s)
	}
	return append(all, r.sets.notFoundStandby...)
}

// givenUpStatuses lists the VMs that were given up, until they are members again, or in quarantine.
func (r *report) givenUpStatuses() []v1alpha1.GivenUp {
	var all []v1alpha1.GivenUp
	add := func(g v1alpha1.GivenUp) {
		if g.InstanceUUID != "" && !slices.ContainsFunc(all, func(x v1alpha1.GivenUp) bool { return x.InstanceUUID == g.InstanceUUID }) {
			all = append(all, g)
		}
	}
	for _, g := range r.facts.Group.Status.GivenUp {
		if !r.isSettled(g.InstanceUUID) {
			add(g)
		}
	}
	for _, m := range r.sets.replaced {
		add(v1alpha1.GivenUp{Name: plan.MemberName(r.facts.Group.Name, m.Ordinal), MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.VMPathName})
	}
	for i := range r.sets.givenUp {
		m := &r.sets.givenUp[i]
		add(v1alpha1.GivenUp{Name: plan.MemberName(r.facts.Group.Name, m.Ordinal), MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.VMPathName})
	}
	for i := range r.sets.members {
		if m := &r.sets.members[i]; m.givenUp {
			add(v1alpha1.GivenUp{Name: m.name, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.File})
		}
	}
	return all[max(0, len(all)-v1alpha1.MaxVMsGivenUp):]
}

// isSettled reports whether a VM that was given up is back, and what becomes of it is settled: it is the member, or in quarantine.
func (r *report) isSettled(instanceUUID string) bool {
	return slices.ContainsFunc(r.sets.members, func(m member) bool { return m.InstanceUUID == instanceUUID && !m.duplicate && !m.givenUp }) ||
		slices.ContainsFunc(r.sets.quarantined, func(q member) bool { return q.InstanceUUID == instanceUUID })
}

// adoptedEntries are the entries of spec.adopt that have been carried out, now or earlier.
func (r *report) adoptedEntries() []string {
	var done []string
	for _, entry := range r.facts.Group.Spec.Adopt {
		is := slices.Contains(r.facts.Group.Status.Adopted, entry) ||
			slices.ContainsFunc(r.facts.State.Candidates, func(c plan.Candidate) bool { return c.Done && c.Entry == entry })
		if is {
			done = append(done, entry)
		}
	}
	return done
}

func (r *report) memberStatuses() []v1alpha1.Member {
	if len(r.sets.members)+len(r.sets.notFound)+len(r.sets.givenUp) == 0 {
		return nil
	}
	all := make([]v1alpha1.Member, 0, len(r.sets.members)+len(r.sets.notFound)+len(r.sets.givenUp))
	for i := range r.sets.members {
		m := &r.sets.members[i]
		reason, message := r.why(m)
		all = append(all, v1alpha1.Member{
			Name: m.name, VMName: m.renamed(), Ordinal: m.Ordinal, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.File, PowerState: string(m.Power), IPs: m.IPs,
			BootTime: r.bootTime(m, i), Zone: plan.ZoneOf(&r.facts.Group.Spec, m.Ordinal), Host: plan.Printable(m.Host),
			Revision: m.Revision, Ready: m.ready, LastTransitionTime: metav1.NewTime(m.since), Reason: reason, Message: plan.Printable(message),
			HeldUntil: metav1.NewTime(m.heldUntil), VanishedAt: r.vanishedAt(m),
		})
	}
	for _, a := range r.sets.notFound {
		m := a.Member
		if m.Ready {
			m.LastTransitionTime = metav1.NewTime(r.facts.Now.UTC().Truncate(1e9))
		}
		m.Ready, m.Reason, m.Message = false, plan.ReasonMemberVanished, plan.Printable(m.Message)
		if !a.missing {
			m.Reason, m.VanishedAt = plan.ReasonMemberNotSeen, metav1.Time{}
			m.Message = notSeen
		}
		m.Message = together(m.Message, plan.AsLastKnown)
		all = append(all, m)
	}
	for _, a := range r.sets.givenUp {
		m := a.Member
		m.Ready, m.Reason, m.Message = false, plan.ReasonMemberGivenUp, together(plan.Printable(m.Message), plan.AsLastKnown)
		all = append(all, m)
	}
	return all
}

// reasonOff is why a member that should be on is not ready.
const reasonOff = "PoweredOff"

// why returns the reason and the message of a member's status: why it is not ready, or how it differs from the spec.
func (r *report) why(m *member) (reason, message string) {
	pending := r.facts.Pending[m.name]
	switch {
	case m.duplicate:
		return plan.ReasonDuplicateMember, "another VM is this member"
	case !m.Reachable:
		return plan.ReasonUnreachable, fmt.Sprintf("the VM is %s: skipped", m.Unreachable)
	case m.Question != "":
		return plan.ReasonQuestionPending, questionFault(m.Question)
	case m.uncustomized == plan.CustomizationFailed:
		return plan.ReasonCustomizationFailed, customizationFault(m.Customization)
	case pending.Fault.Reason != "" && !(m.ready && pending.Op == plan.PowerOn):
		return pending.Fault.Reason, pending.Fault.Message
	case m.markedForRemoval():
		return plan.ReasonRemoving, together("chosen to be removed", r.heldMessage(m))
	case m.Marked:
		return plan.ReasonPowerCycling, together("chosen to be powered off for its new size, and on again", r.heldMessage(m))
	case m.Power == plan.PoweredOff:
		return reasonOff, "the VM is powered off"
	case m.Power == plan.Suspended:
		return "Suspended", "the VM is suspended"
	case m.halting():
		return "ShuttingDown", "its guest was asked to shut down"
	case m.uncustomized != "":
		return plan.ReasonCustomizing, fmt.Sprintf("the customization of its guest is %s", m.uncustomized)
	case !m.ready && len(m.Untaken) > 0:
		return plan.ReasonAddressNotTaken, untakenFault(m.IPs, m.Untaken)
	case !m.ready && m.answer.silence != "":
		return plan.ReasonNotAnswering, m.answer.silence
	case !m.ready && r.facts.policy.Check == v1alpha1.ReadyToolsRunning && !m.HasReported():
		return plan.ReasonNotReady, "VMware Tools do not run in its guest"
	case !m.ready:
		return plan.ReasonNotReady, "its guest reports no address"
	case m.difference() != "":
		return plan.ReasonDiffers, m.difference()
	case m.Reported && !m.Tools:
		return plan.ReasonToolsSilent, "VMware Tools do not run in its guest: it counts as ready by their last report since its power-on"
	}
	return "", ""
}

func (r *report) heldMessage(m *member) string {
	return r.facts.holds.Text(m.name, m.MoRef, m.heldUntil)
}
