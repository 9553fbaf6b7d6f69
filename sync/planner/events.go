package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// events are what is new in a status, compared with the stored one:
//
//	stored                          now                                  Event
//	------------------------------  -----------------------------------  -------------------------------------------
//	not ERROR, another reason or    ERROR                                Warning, with the reason and the message
//	  generation
//	no update, or another target    an update                            UpdateStarted
//	an update                       none, all members as the spec says   UpdateFinished
//	an update                       none, and another target             UpdateWithdrawn
//	an update                       none, members held as they are       UpdateHeld
//	any                             the update has stopped               Warning UpdateStopped
//	healing not suspended           suspended                            Warning HealingSuspended
//	no address is shared            members report one address           Warning DuplicateAddress
//	user data is recognized         no guest reads it                    Warning UserDataUnrecognized
//	all holds are good              an annotation holds nobody           Warning HoldIgnored
//	a member that is not held       held                                 MemberHeld
//	a held member                   its time is over                     Warning HoldTimedOut
//	members of a deleted group      none                                 DisksKept
//	a member that was to stay       its VM is gone for certain           Warning MemberGone
//	the same                        destroyed with the server's account  MemberRemoved
//	a member that was on            off, and not by us                   MemberPoweredOff
//	a member                        missing, to be replaced in time      Warning MemberVanished
//	a member                        missing and given up                 Warning MemberGivenUp
//	a member                        here with another moRef              MemberReappeared
//
// A group without a stored status is new, or has lost it: then only an ERROR and the user data are news.
func (v *report) events(is *v1alpha1.VmGroupStatus) (all []plan.Event) {
	was := &v.Group.Status
	ready := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionReady)
	before := cmp.Or(meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionReady), &metav1.Condition{})
	// A call may have the parent from before the last status. So that an Event is not sent twice, its key is made from the
	// stored status.
	say := func(warning bool, reason, what, key string) {
		all = append(all, plan.Event{Warning: warning, Reason: reason, What: what, At: v.Now,
			Key: fmt.Sprintf("%s/%s/%d/%s", reason, key, v.Group.Generation, before.LastTransitionTime.UTC().Format(time.RFC3339))})
	}
	news := was.Phase != is.Phase || before.Reason != ready.Reason || was.ObservedGeneration != is.ObservedGeneration
	if is.Phase == v1alpha1.PhaseError && news && ready.Reason != plan.ReasonProgressDeadline {
		say(true, ready.Reason, is.LastMessage, "")
	}
	if v.Related.Unrecognized != "" && !v.Finalizing && !meta.IsStatusConditionTrue(was.Conditions, v1alpha1.ConditionUserDataUnrecognized) {
		say(true, plan.ReasonUserDataUnrecognized, v.Related.Unrecognized, "")
	}
	if len(was.Conditions) == 0 || !v.sighted {
		return all
	}
	if held := meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionUpdateHeld); v.stuck != nil && (held == nil || held.Reason != v.stuck.Reason) {
		say(true, "UpdateStopped", v.stuck.Message, v.target())
	}
	if v.suspended != "" && !meta.IsStatusConditionTrue(was.Conditions, v1alpha1.ConditionHealingSuspended) {
		say(true, plan.ReasonHealingSuspended, "healing is suspended: "+v.suspended, "")
	}
	if ignored := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionHoldIgnored); ignored != nil && ignored.Status == metav1.ConditionTrue &&
		!meta.IsStatusConditionTrue(was.Conditions, ignored.Type) {
		say(true, ignored.Reason, "Annotations that hold no member: "+ignored.Message, "")
	}
	all = append(all, v.holdEvents()...)
	if v.Finalizing {
		return append(all, v.keptDisks(is, before.Reason)...)
	}
	if shared := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionDuplicateAddress); shared != nil && shared.Status == metav1.ConditionTrue &&
		!meta.IsStatusConditionTrue(was.Conditions, shared.Type) {
		say(true, shared.Reason, "Members report the same address: "+shared.Message, "")
	}
	switch held := v.heldText(); {
	case v.update != nil && v.updating() > 0 && (was.Update == nil || was.Update.Target != v.update.Target):
		say(false, "UpdateStarted", fmt.Sprintf("Update to %s started: %s", v.update.Target, plan.AtMost(v.differing(), 3)), v.update.Target)
	case was.Update == nil || v.update != nil:
	case held != "":
		say(false, plan.ReasonUpdateHeld, held, was.Update.Target)
	case was.Update.Target != v.target():
		say(false, "UpdateWithdrawn", fmt.Sprintf("Update to %s withdrawn: no member differs from the spec", was.Update.Target), was.Update.Target)
	default:
		say(false, "UpdateFinished", fmt.Sprintf("Update to %s finished", was.Update.Target), was.Update.Target)
	}
	return slices.Concat(all, v.changesByOthers(), v.missingAndReturned())
}

// keptDisks tells, once a deleted group has no members, which persistent disks it leaves: nothing else will.
func (v *report) keptDisks(is *v1alpha1.VmGroupStatus, before string) []plan.Event {
	if is.CurrentReplicas > 0 || v.Group.Status.CurrentReplicas == 0 && before == plan.ReasonFinalizing {
		return nil
	}
	var kept []string
	attached := map[string]bool{}
	for _, was := range v.Group.Status.Disks {
		attached[was.ID] = was.MoRef != ""
	}
	for _, d := range is.Disks {
		i := slices.IndexFunc(v.Group.Spec.Disks, func(of v1alpha1.Disk) bool { return of.Name == d.Name })
		if !attached[d.ID] || i < 0 || v.Group.Spec.Disks[i].Retention.WhenDeleted != v1alpha1.RetentionDelete { // else it went with its member
			kept = append(kept, fmt.Sprintf("%s of %s (%s)", d.Name, plan.MemberName(v.Group.Name, d.Ordinal), d.ID))
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return []plan.Event{{Reason: "DisksKept", What: fmt.Sprintf("Persistent disks that stay in vCenter: %s; a group that is made again under this name takes them with the annotation %s: %s",
		plan.AtMost(kept, 8), v1alpha1.AnnotationTakeDisksOf, v.Group.UID), Key: "kept", At: v.Now}}
}

// missingAndReturned tell of members that are missing or came back. (One that waits for an operator is part of the ERROR.)
func (v *report) missingAndReturned() (all []plan.Event) {
	for i := range v.notFound {
		m := &v.notFound[i]
		if r := v.record(m.MoRef, i); m.missing && v.policy.ReplaceMissing > 0 && (r == nil || r.VanishedAt.IsZero()) {
			all = append(all, plan.Event{Warning: true, Reason: plan.ReasonMemberVanished, What: "Vanished from vCenter:", Member: displayName(m.Name, m.VMName, m.MoRef),
				Why: m.Message, Key: "vanished/" + m.MoRef, At: v.Now})
		}
	}
	for i := range v.givenUp {
		m := &v.givenUp[i]
		if m.Reason == plan.ReasonMemberGivenUp {
			continue
		}
		why := "spec.replace names it"
		if !v.names(&m.Member) {
			why = fmt.Sprintf("it did not come back within %d s", int(v.policy.ReplaceMissing.Seconds()))
		}
		all = append(all, plan.Event{Warning: true, Reason: "MemberGivenUp", What: "Vanished from vCenter, and given up:", Member: m.Name + " (" + m.MoRef + ")",
			Why: why, Key: "given-up/" + m.MoRef, At: v.Now})
	}
	for i := range v.members {
		m := &v.members[i]
		if m.InstanceUUID == "" || v.record(m.MoRef, i) != nil {
			continue
		}
		for j := range v.Group.Status.Members {
			if r := &v.Group.Status.Members[j]; r.InstanceUUID == m.InstanceUUID {
				all = append(all, plan.Event{Reason: "MemberReappeared", What: "Back in vCenter:", Member: m.displayWith(m.MoRef),
					Why: "it was " + r.MoRef, Key: "back/" + m.MoRef, At: v.Now})
			}
		}
	}
	return all
}

// changesByOthers tell what happened to members without the server: what operators did, and failures.
func (v *report) changesByOthers() (all []plan.Event) {
	stored := v.Group.Status.Members
	for i := range stored {
		r := &stored[i]
		by, gone := v.State.GoneAs(r.MoRef, r.InstanceUUID)
		if !gone || v.isBack(r) || by.Ours && by.User == "" || r.Reason == plan.ReasonRemoving || r.Reason == plan.ReasonDuplicateMember ||
			v.Pending[plan.MemberName(v.Group.Name, r.Ordinal)].Op == plan.Destroy {
			continue
		}
		n := plan.Event{Warning: true, Reason: "MemberGone", What: "Gone from vCenter:", Member: displayName(r.Name, r.VMName, r.MoRef), Key: plan.KeyGone(r.MoRef), At: v.Now}
		switch {
		case by.Ours:
			n.Warning, n.Reason, n.What = false, plan.EventRemoved, "Removed with the server's account "+by.User+":"
			n.Why = "by the server before it was restarted, another replica of it, or somebody else who has that account"
		case by.User != "":
			n.What = "Removed in vCenter by " + by.User + ":"
		}
		all = append(all, n)
	}
	for i := range v.members {
		m := &v.members[i]
		asked := m.Shutdown.At.Add(v.policy.Shutdown + haltGrace)
		if m.Power != plan.PoweredOff || m.Marked || m.duplicate || !m.Reachable || v.takenDown(m) || v.Now.Before(asked) {
			continue
		}
		// A guest that was asked to shut down after the status was written may have done so long ago, while no server ran.
		if r := v.record(m.MoRef, i); r != nil && r.PowerState == string(plan.PoweredOn) && r.Reason != plan.ReasonPowerCycling && r.Reason != plan.ReasonRemoving &&
			!m.Shutdown.At.After(r.LastTransitionTime.Time) {
			all = append(all, plan.Event{Reason: "MemberPoweredOff", What: "Found powered off:", Member: m.displayWith(m.MoRef),
				Key: "off/" + m.MoRef + "/" + r.LastTransitionTime.UTC().Format(time.RFC3339), At: v.Now, PoweredOff: true, MoRef: m.MoRef, Made: m.Created})
		}
	}
	return all
}
