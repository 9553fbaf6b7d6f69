package tell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
//	no address is shared            members report one, or groups have   Warning DuplicateAddress
//	user data is recognized         no guest reads it                    Warning UserDataUnrecognized
//	all holds are good              an annotation holds no member        Warning HoldIgnored
//	a member that is not held       held                                 MemberHeld
//	a held member                   its time is over                     Warning HoldTimedOut
//	members of a deleted group      none                                 DisksKept
//	any                             abandoned                            Warning Abandoned, and DisksKept
//	a member without a mark         its VM is gone                       Warning MemberGone
//	any member                      destroyed with the server's account  MemberRemoved
//	                                  by another process
//	a member that was on            off, and not by us                   MemberPoweredOff
//	a member within reach           vCenter can't reach it               Warning MemberUnreachable
//	any, of an older generation     a new entry of spec.replace names    Warning ReplaceNamesNoVM
//	                                  none of the group's VMs
//	a member                        missing, to be replaced in time      Warning MemberVanished
//	a member                        missing and given up                 Warning MemberGivenUp
//	a member                        here with another moRef              MemberReappeared
//	a VM that is no stray           a stray                              Warning StrayVM
//	any                             an object has a name of the spec     Warning NameShared
//	                                  without being meant
//
// A group without a stored status is new, or has lost it: then only an ERROR and the user data are news.
func (r *report) events(is *v1alpha1.VmGroupStatus) (all []plan.Event) {
	was := &r.Group.Status
	ready := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionReady)
	before := cmp.Or(meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionReady), &metav1.Condition{})
	// A call may have the parent from before the last status. So that an Event is not sent twice, its key is made from the
	// stored status.
	say := func(warning bool, reason, what, key string) {
		all = append(all, plan.Event{Warning: warning, Reason: reason, What: what, At: r.Now,
			Key: fmt.Sprintf("%s/%s/%d/%s", reason, key, r.Group.Generation, before.LastTransitionTime.UTC().Format(time.RFC3339))})
	}
	news := was.Phase != is.Phase || before.Reason != ready.Reason || was.ObservedGeneration != is.ObservedGeneration
	if is.Phase == v1alpha1.PhaseError && news && (r.Update.Stuck == nil || ready.Reason != r.Update.Stuck.Reason) {
		say(true, ready.Reason, is.LastMessage, "")
	}
	if r.Related.Unrecognized != "" && !r.Finalizing && !meta.IsStatusConditionTrue(was.Conditions, v1alpha1.ConditionUserDataUnrecognized) {
		say(true, plan.ReasonUserDataUnrecognized, r.Related.Unrecognized, "")
	}
	if len(was.Conditions) == 0 || !r.VCenterKnown {
		return all
	}
	if held := meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionUpdateHeld); r.Update.Stuck != nil && (held == nil || held.Reason != r.Update.Stuck.Reason) {
		say(true, "UpdateStopped", r.Update.Stuck.Message, r.Update.Target)
	}
	if r.healingSuspended() != "" && !meta.IsStatusConditionTrue(was.Conditions, v1alpha1.ConditionHealingSuspended) {
		say(true, plan.ReasonHealingSuspended, "healing is suspended: "+r.healingSuspended(), "")
	}
	if ignored := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionHoldIgnored); ignored != nil && ignored.Status == metav1.ConditionTrue &&
		!meta.IsStatusConditionTrue(was.Conditions, ignored.Type) {
		say(true, ignored.Reason, "Annotations that hold no member: "+ignored.Message, "")
	}
	all = slices.Concat(all, r.holdEvents(), r.strayEvents(is), r.nameEvents(is))
	if r.Finalizing {
		return slices.Concat(all, r.goneByOthers(), r.keptDisks(is, before.Reason))
	}
	if shared := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionDuplicateAddress); shared != nil && shared.Status == metav1.ConditionTrue &&
		!meta.IsStatusConditionTrue(was.Conditions, shared.Type) {
		say(true, shared.Reason, "Addresses that are not unique: "+shared.Message, "")
	}
	switch held := r.heldText(); {
	case r.Update.Progress != nil && r.Update.Changes && (was.Update == nil || was.Update.Target != r.Update.Progress.Target):
		say(false, "UpdateStarted", fmt.Sprintf("Update started%s: %s", r.newTemplate(), plan.AtMost(r.differing(), 3)), r.Update.Progress.Target)
	case was.Update == nil || is.Update != nil:
	case held != "":
		say(false, plan.ReasonUpdateHeld, held, was.Update.Target)
	case was.Update.Target != r.Update.Target:
		say(false, "UpdateWithdrawn", fmt.Sprintf("Update to %s withdrawn: no member differs from the spec", was.Update.Target), was.Update.Target)
	default:
		say(false, "UpdateFinished", fmt.Sprintf("Update to %s finished", was.Update.Target), was.Update.Target)
	}
	return slices.Concat(all, r.namesNothing(), r.changesByOthers(), r.missingAndReturned())
}

// keptDisks tells, once a deleted group has no members, which persistent disks it leaves: nothing else will.
func (r *report) keptDisks(is *v1alpha1.VmGroupStatus, before string) []plan.Event {
	if is.CurrentReplicas > 0 || r.Group.Status.CurrentReplicas == 0 && before == plan.ReasonFinalizing {
		return nil
	}
	var kept []string
	attached := map[string]bool{}
	for _, was := range r.Group.Status.Disks {
		attached[was.ID] = was.MoRef != ""
	}
	for _, d := range is.Disks {
		i := slices.IndexFunc(r.Group.Spec.Disks, func(of v1alpha1.Disk) bool { return of.Name == d.Name })
		if !attached[d.ID] || i < 0 || r.Group.Spec.Disks[i].Retention.WhenDeleted != v1alpha1.RetentionDelete { // else it went with its member
			kept = append(kept, r.diskText(&d))
		}
	}
	return r.disksKept(kept)
}

// namesInEvent is how many VMs an Event of abandonedEvents names, so that none exceeds the length of an Event's message.
const namesInEvent = 8

// abandonedEvents tell what an abandoned group leaves behind.
func (r *report) abandonedEvents(left []string) (all []plan.Event) {
	tell := func(what, key string) {
		all = append(all, plan.Event{Warning: true, Reason: plan.ReasonAbandoned, What: what, Key: "abandoned/" + key, At: r.Now})
	}
	if len(left) == 0 {
		tell("The annotation "+v1alpha1.AnnotationAbandon+" ended the deletion; no VM is known to be left behind", "")
	}
	for names := range slices.Chunk(left, namesInEvent) {
		tell("The annotation "+v1alpha1.AnnotationAbandon+" ended the deletion; left behind in vCenter: "+strings.Join(names, ", "), names[0])
	}
	var disks []string
	for _, d := range r.Group.Status.Disks {
		disks = append(disks, r.diskText(&d))
	}
	return append(all, r.disksKept(disks)...)
}

func (r *report) diskText(d *v1alpha1.PersistentDisk) string {
	return fmt.Sprintf("%s of %s (%s)", d.Name, plan.MemberName(r.Group.Name, d.Ordinal), d.ID)
}

// disksKept tells of persistent disks that a deleted group leaves.
func (r *report) disksKept(kept []string) []plan.Event {
	if len(kept) == 0 {
		return nil
	}
	return []plan.Event{{Reason: "DisksKept", What: fmt.Sprintf("Persistent disks kept in vCenter: %s; to give them to a new group with this name, annotate it with %s: %s",
		plan.AtMost(kept, 8), v1alpha1.AnnotationTakeDisksOf, r.Group.UID), Key: "kept", At: r.Now}}
}

// missingAndReturned tell of members that are missing or came back. (One that waits for an operator is part of the ERROR.)
func (r *report) missingAndReturned() (all []plan.Event) {
	for i := range r.NotFound {
		m := &r.NotFound[i]
		if was := r.Record(m.MoRef, i); m.Missing && r.Policy.ReplaceMissing > 0 && (was == nil || was.VanishedAt.IsZero()) {
			all = append(all, plan.Event{Warning: true, Reason: plan.ReasonMemberVanished, What: "Vanished from vCenter:", Member: plan.DisplayName(m.Name, m.VMName, m.MoRef),
				Why: m.Message, Key: "vanished/" + m.MoRef, At: r.Now})
		}
	}
	for i := range r.GivenUp {
		m := &r.GivenUp[i]
		if m.Reason == plan.ReasonMemberGivenUp {
			continue
		}
		why := "spec.replace names it"
		if !m.Named {
			why = fmt.Sprintf("vCenter did not show it again within %d s (spec.healing.replaceVanishedAfterSeconds)", int(r.Policy.ReplaceMissing.Seconds()))
		}
		all = append(all, plan.Event{Warning: true, Reason: "MemberGivenUp", What: "Vanished from vCenter, and given up:", Member: m.Name + " (" + m.MoRef + ")",
			Why: why, Key: "given-up/" + m.MoRef, At: r.Now})
	}
	for i := range r.Members {
		m := &r.Members[i]
		if m.InstanceUUID == "" || r.Record(m.MoRef, i) != nil {
			continue
		}
		for j := range r.Group.Status.Members {
			if was := &r.Group.Status.Members[j]; was.InstanceUUID == m.InstanceUUID {
				all = append(all, plan.Event{Reason: "MemberReappeared", What: "Back in vCenter:", Member: m.displayWith(m.MoRef),
					Why: "its moRef was " + was.MoRef, Key: "back/" + m.MoRef, At: r.Now})
			}
		}
	}
	return all
}

// namesNothing tells of new entries of spec.replace that name no VM of the group. Once a status of their generation is stored, another replica
// may have carried them out.
func (r *report) namesNothing() (all []plan.Event) {
	if r.Group.Status.ObservedGeneration >= r.Group.Generation {
		return nil
	}
	ask := r.Query()
	for _, entry := range r.NewReplace {
		if !slices.ContainsFunc(r.State.VMs, func(vm plan.VM) bool { return vm.MoRef == entry.MoRef }) &&
			!slices.ContainsFunc(ask.Recorded, func(m v1alpha1.Member) bool { return m.MoRef == entry.MoRef }) &&
			!slices.ContainsFunc(r.State.Vanished, func(x plan.Vanished) bool { return x.MoRef == entry.MoRef }) {
			all = append(all, plan.Event{Warning: true, Reason: "ReplaceNamesNoVM", At: r.Now, Key: "replace/" + entry.Name + "/" + entry.MoRef,
				What: fmt.Sprintf("spec.replace names %s with %s, which is no VM of the group, so nothing is replaced: correct the moRef (status.members has it), or remove the entry", entry.Name, entry.MoRef)})
		}
	}
	return all
}

// changesByOthers tell what happened to members without the server: what operators did, and failures.
func (r *report) changesByOthers() []plan.Event {
	return slices.Concat(r.goneByOthers(), r.poweredOff(), r.outOfReach())
}

// outOfReach tell of members that vCenter no longer reaches, by their host.
func (r *report) outOfReach() (all []plan.Event) {
	for i := range r.Members {
		m := &r.Members[i]
		if was := r.Record(m.MoRef, i); !m.Reachable && !m.Duplicate && was != nil && was.Reason != plan.ReasonUnreachable {
			all = append(all, plan.Event{Warning: true, Reason: "MemberUnreachable", What: "Out of vCenter's reach (" + plan.OutOfReach(m.Unreachable, m.Host) + "):", Member: m.displayWith(m.MoRef),
				Key: "unreachable/" + m.MoRef + "/" + was.LastTransitionTime.UTC().Format(time.RFC3339), At: r.Now})
		}
	}
	return all
}

// goneByOthers tell of members that this process did not remove. A process that was killed after it removed one, before an answer had its
// Event, leaves that to the next: the stored status still has the member, and vCenter's events name the account.
func (r *report) goneByOthers() (all []plan.Event) {
	for i := range r.Gone {
		was, by := r.Gone[i].Member, r.Gone[i].By
		chosen := was.Reason == plan.ReasonRemoving || was.Reason == plan.ReasonDuplicateMember
		if by.Ours && by.User == "" || (chosen || r.Finalizing) && !by.Ours ||
			r.Pending[plan.MemberName(r.Group.Name, was.Ordinal)].Op == plan.Destroy {
			continue
		}
		n := plan.Event{Warning: true, Reason: "MemberGone", What: "Gone from vCenter:", Member: plan.DisplayName(was.Name, was.VMName, was.MoRef), Key: plan.KeyGone(was.MoRef), At: r.Now}
		switch {
		case by.Ours:
			n.Warning, n.Reason, n.What = false, plan.EventRemoved, "Removed with the server's account "+by.User+":"
			n.Why = "by the server before it was restarted, another replica of it, or another user of that account"
		case by.User != "":
			n.What = "Removed in vCenter by " + by.User + ":"
		}
		all = append(all, n)
	}
	return all
}

// poweredOff tell of members that were found powered off.
func (r *report) poweredOff() (all []plan.Event) {
	for i := range r.Members {
		m := &r.Members[i]
		if m.Power != plan.PoweredOff || m.Marked || m.Duplicate || !m.Reachable || m.TakenDown || m.AskedLately {
			continue
		}
		// A guest that was asked to shut down after the status was written may have done so long ago, while no server ran.
		if was := r.Record(m.MoRef, i); was != nil && was.PowerState == string(plan.PoweredOn) && was.Reason != plan.ReasonPowerCycling && was.Reason != plan.ReasonRemoving &&
			!m.Shutdown.At.After(was.LastTransitionTime.Time) {
			all = append(all, plan.Event{Reason: "MemberPoweredOff", What: "Found powered off:", Member: m.displayWith(m.MoRef),
				Key: "off/" + m.MoRef + "/" + was.LastTransitionTime.UTC().Format(time.RFC3339), At: r.Now, PoweredOff: true, MoRef: m.MoRef, Made: m.Created})
		}
	}
	return all
}
