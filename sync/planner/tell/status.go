package tell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// status returns the new status. What stands of the stored one, tell/lastknown.go says.
func (r *report) status(message string) v1alpha1.VmGroupStatus {
	s := r.Group.Status
	if r.VCenterKnown {
		s = r.observedStatus()
	}
	s.Orphaned, s.FinalizingSince = r.Orphaned, r.finalizingSince()
	if r.ShortOutage {
		return s
	}
	s.ObservedGeneration = r.Group.Generation
	s.DesiredReplicas = r.Group.Replicas()
	s.Selector = "controller-uid=" + string(r.Group.UID)
	s.Phase = r.phase()
	s.LastMessage = plan.Printable(message)
	s.Summary = summaryOf(plan.WithoutHelp(s.LastMessage))
	s.Conditions = r.conditions(s.Phase, message)
	return s
}

// observedStatus is what depends on vCenter: the figures that the status keeps while vCenter's state is unknown.
func (r *report) observedStatus() v1alpha1.VmGroupStatus {
	s := v1alpha1.VmGroupStatus{VCenterUUID: r.State.VCenter}
	s.Members, s.Standby = r.memberStatuses(), r.standbyStatuses()
	s.CurrentReplicas, s.StandbyReplicas = int32(len(r.Members)+len(r.NotFound)), int32(len(s.Standby))
	for i := range r.Members {
		m := &r.Members[i]
		s.ReadyReplicas += oneIf(m.Ready)
		s.AvailableReplicas += oneIf(m.Available)
		s.UpdatedReplicas += oneIf(m.Difference == "")
	}
	if !r.RevisionKnown { // which members are up to date is unknown
		s.UpdatedReplicas = min(s.CurrentReplicas, r.Group.Status.UpdatedReplicas)
	}
	s.Quarantined, s.Adopted, s.Update = r.quarantineStatuses(), r.adoptedEntries(), r.Update.Progress
	s.GivenUp, s.Strays, s.Names = r.givenUpStatuses(), r.strayStatuses(), r.nameStatuses()
	s.Disks, s.Canary, s.Trial = plan.DiskStatuses(r.Group, r.State.VMs), r.Update.Canary, r.Trial
	if r.BlockedBy != nil || r.Finalizing {
		s.Canary, s.Trial = r.Group.Status.Canary, r.Group.Status.Trial
	}
	if r.BlockedBy != nil && !r.Finalizing {
		s.Update = r.Group.Status.Update
	}
	return s
}

// finalizingSince is when a process of the server first learned that the group is being deleted; zero if it isn't.
func (r *report) finalizingSince() metav1.Time {
	switch since := r.Group.Status.FinalizingSince; {
	case !r.Finalizing || r.Older != nil:
		return metav1.Time{}
	case !since.IsZero():
		return metav1.NewTime(since.UTC())
	}
	return metav1.NewTime(r.FinalizingSince.UTC().Truncate(time.Second))
}

// summaryMost is how long a message can be in a table, in bytes.
const summaryMost = 100

// summaryOf returns the beginning of a message. One that is too long ends after a clause, if that leaves most of the room in use, or else
// after a word: what follows says what to do, and half of that is of no use.
func summaryOf(message string) string {
	cut := plan.Bounded(message, summaryMost)
	if cut == message {
		return message
	}
	end := 0
	for _, after := range []string{"; ", ": ", " (", ", "} {
		end = max(end, strings.LastIndex(cut, after))
	}
	if end < summaryMost/2 {
		end = strings.LastIndex(cut, " ")
	}
	if end < summaryMost/2 {
		return cut
	}
	return cut[:end] + " …"
}

// bootTime returns when a member was powered on, if its guest has reported since. The stored time is kept for the same boot, because vCenter
// may report it with another fraction.
func (r *report) bootTime(m *Member, i int) metav1.Time {
	switch was := r.Record(m.MoRef, i); {
	case m.Power != plan.PoweredOn || m.BootTime.IsZero() || !m.HasReported():
		return metav1.Time{}
	case was != nil && plan.SameBoot(was.BootTime.Time, m.BootTime):
		return metav1.NewTime(was.BootTime.UTC())
	}
	return metav1.NewTime(m.BootTime.UTC().Truncate(time.Second))
}

// vanishedAt is when a member vanished that is back and one too many; zero for others.
func (r *report) vanishedAt(m *Member) metav1.Time {
	if !m.Returned {
		return metav1.Time{}
	}
	if was := m.Away; was != nil && !was.VanishedAt.IsZero() {
		return metav1.NewTime(was.VanishedAt.UTC())
	}
	return metav1.NewTime(r.Now.UTC().Truncate(time.Second))
}

func (r *report) quarantineStatuses() []v1alpha1.Quarantined {
	if len(r.Quarantined)+len(r.NotFoundQuarantined) == 0 {
		return nil
	}
	all := make([]v1alpha1.Quarantined, len(r.Quarantined))
	for i := range r.Quarantined {
		q := &r.Quarantined[i]
		all[i] = v1alpha1.Quarantined{Name: plan.Printable(q.VM.Name), Ordinal: q.Ordinal, MoRef: q.MoRef, InstanceUUID: q.InstanceUUID, VMPathName: q.File, Reason: string(q.MarkReason), Since: metav1.NewTime(q.VM.Quarantined.UTC())}
	}
	return append(all, r.NotFoundQuarantined...)
}

func (r *report) standbyStatuses() []v1alpha1.StandbyMember {
	if len(r.Standby) == 0 {
		return slices.Clone(r.NotFoundStandby)
	}
	all := make([]v1alpha1.StandbyMember, 0, len(r.Standby)+len(r.NotFoundStandby))
	for i := range r.Standby {
		m := &r.Standby[i]
		s := v1alpha1.StandbyMember{Name: m.Name, VMName: m.Renamed(m.Name), Ordinal: m.Ordinal, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.File, Zone: plan.ZoneOf(&r.Group.Spec, m.Ordinal),
			Host: plan.Printable(m.Host), Revision: m.Revision, Ready: m.Fit}
		if !s.Ready {
			s.Reason, s.Message = r.why(m)
		}
		if s.Reason == reasonOff {
			s.Reason, s.Message = plan.ReasonDiffers, cmp.Or(m.Differs, "it is being prepared, promoted or recreated")
		}
		s.Message = plan.Printable(s.Message)
		all = append(all, s)
	}
	return append(all, r.NotFoundStandby...)
}

// givenUpStatuses lists the VMs that were given up, until they are members again, or in quarantine.
func (r *report) givenUpStatuses() []v1alpha1.GivenUp {
	var all []v1alpha1.GivenUp
	add := func(g v1alpha1.GivenUp) {
		if g.InstanceUUID != "" && !slices.ContainsFunc(all, func(x v1alpha1.GivenUp) bool { return x.InstanceUUID == g.InstanceUUID }) {
			all = append(all, g)
		}
	}
	for _, g := range r.Group.Status.GivenUp {
		if !r.isSettled(g.InstanceUUID) {
			add(g)
		}
	}
	for _, m := range r.Replaced {
		add(v1alpha1.GivenUp{Name: plan.MemberName(r.Group.Name, m.Ordinal), MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.VMPathName})
	}
	for i := range r.GivenUp {
		m := &r.GivenUp[i]
		add(v1alpha1.GivenUp{Name: plan.MemberName(r.Group.Name, m.Ordinal), MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.VMPathName})
	}
	for i := range r.Members {
		if m := &r.Members[i]; m.GivenUp {
			add(v1alpha1.GivenUp{Name: m.Name, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.File})
		}
	}
	return all[max(0, len(all)-v1alpha1.MaxVMsGivenUp):]
}

// isSettled reports whether a VM that was given up is back, and what becomes of it is settled: it is the member, or in quarantine.
func (r *report) isSettled(instanceUUID string) bool {
	return slices.ContainsFunc(r.Members, func(m Member) bool { return m.InstanceUUID == instanceUUID && !m.Duplicate && !m.GivenUp }) ||
		slices.ContainsFunc(r.Quarantined, func(q Member) bool { return q.InstanceUUID == instanceUUID })
}

// adoptedEntries are the entries of spec.adopt that have been carried out, now or earlier.
func (r *report) adoptedEntries() []string {
	var done []string
	for _, entry := range r.Group.Spec.Adopt {
		is := slices.Contains(r.Group.Status.Adopted, entry) ||
			slices.ContainsFunc(r.State.Candidates, func(c plan.Candidate) bool { return c.Done && c.Entry == entry })
		if is {
			done = append(done, entry)
		}
	}
	return done
}

func (r *report) memberStatuses() []v1alpha1.Member {
	if len(r.Members)+len(r.NotFound)+len(r.GivenUp) == 0 {
		return nil
	}
	all := make([]v1alpha1.Member, 0, len(r.Members)+len(r.NotFound)+len(r.GivenUp))
	for i := range r.Members {
		m := &r.Members[i]
		reason, message := r.why(m)
		all = append(all, v1alpha1.Member{
			Name: m.Name, VMName: m.Renamed(m.Name), Ordinal: m.Ordinal, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, VMPathName: m.File, PowerState: string(m.Power), IPs: m.IPs,
			BootTime: r.bootTime(m, i), Zone: plan.ZoneOf(&r.Group.Spec, m.Ordinal), Host: plan.Printable(m.Host),
			Revision: m.Revision, Ready: m.Ready, LastTransitionTime: metav1.NewTime(m.Since), Reason: reason, Message: plan.Printable(message),
			HeldUntil: metav1.NewTime(m.HeldUntil), VanishedAt: r.vanishedAt(m),
		})
	}
	for _, a := range r.NotFound {
		m := a.Member
		if m.Ready {
			m.LastTransitionTime = metav1.NewTime(r.Now.UTC().Truncate(1e9))
		}
		m.Ready, m.Reason, m.Message = false, plan.ReasonMemberVanished, plan.Printable(m.Message)
		if !a.Missing {
			m.Reason, m.VanishedAt = plan.ReasonMemberNotSeen, metav1.Time{}
			m.Message = plan.NotSeen
		}
		m.Message = plan.Joined(m.Message, plan.AsLastKnown)
		all = append(all, m)
	}
	for _, a := range r.GivenUp {
		m := a.Member
		m.Ready, m.Reason, m.Message = false, plan.ReasonMemberGivenUp, plan.Joined(plan.Printable(m.Message), plan.AsLastKnown)
		all = append(all, m)
	}
	return all
}

// reasonOff is why a member that should be on is not ready.
const reasonOff = "PoweredOff"

// why returns the reason and the message of a member's status: why it is not ready, or how it differs from the spec.
func (r *report) why(m *Member) (reason, message string) {
	pending := r.Pending[m.Name]
	switch {
	case m.Duplicate:
		return plan.ReasonDuplicateMember, "another VM is this member"
	case !m.Reachable:
		return plan.ReasonUnreachable, plan.Joined(fmt.Sprintf("the VM is %s: skipped", m.Unreachable), plan.AsLastKnown)
	case m.Question != "":
		return plan.ReasonQuestionPending, questionFault(m.Question)
	case m.Uncustomized == plan.CustomizationFailed:
		return plan.ReasonCustomizationFailed, customizationFault(m.Customization)
	case pending.Fault.Reason != "" && !(m.Ready && pending.Op == plan.PowerOn):
		return pending.Fault.Reason, pending.Fault.Message
	case m.MarkedForRemoval():
		return plan.ReasonRemoving, plan.Joined("chosen to be removed", r.heldMessage(m))
	case m.Marked:
		return plan.ReasonPowerCycling, plan.Joined("chosen to be powered off for its new size, and on again", r.heldMessage(m))
	case m.Power == plan.PoweredOff:
		return reasonOff, "the VM is powered off"
	case m.Power == plan.Suspended:
		return "Suspended", "the VM is suspended"
	case m.Halting:
		return "ShuttingDown", "its guest was asked to shut down"
	case m.Uncustomized != "":
		return plan.ReasonCustomizing, fmt.Sprintf("the customization of its guest is %s", m.Uncustomized)
	case !m.Ready && len(m.UnreportedAddresses) > 0:
		return plan.ReasonAddressNotTaken, untakenFault(m.IPs, m.UnreportedAddresses)
	case !m.Ready && m.Silence != "":
		return plan.ReasonNotAnswering, m.Silence
	case !m.Ready && r.Policy.Check == v1alpha1.ReadyToolsRunning && !m.HasReported():
		return plan.ReasonNotReady, "VMware Tools do not run in its guest"
	case !m.Ready:
		return plan.ReasonNotReady, "its guest reports no address"
	case m.isSilent():
		return plan.ReasonToolsSilent, "VMware Tools do not run in its guest: it counts as ready by their last report since its power-on"
	case m.Difference != "":
		return plan.ReasonDiffers, m.Difference
	}
	return "", ""
}
