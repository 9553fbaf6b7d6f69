package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Note is something that happened to a group, and that somebody may ask about later. Notes become Kubernetes Events.
//
// What an action did is noted by whoever carried it out (Action.Note), with the action's own reason. What is new otherwise is
// noted by the plan, by comparing its status with the stored one (view.notes): so it is told once, by whichever replica
// answers, and not told again after a restart. Equal notes of two replicas have one Key.
type Note struct {
	// Warning: somebody should look at it.
	Warning bool
	// Reason is one CamelCase word, such as MemberRemoved.
	Reason string
	// What happened, to which Member (its name and moRef; empty: the group), and why. Notes that differ in nothing but the
	// member are told as one.
	What, Member, Why string
	// Key tells notes apart.
	Key string
	At  time.Time
	// Deed is what somebody did to the VM MoRef; vCenter's events may tell who.
	Deed  Deed
	MoRef string
}

// Deed is what somebody other than this server did to a VM.
type Deed string

// The deeds that are asked about.
const (
	DeedRemoved    Deed = "Removed"
	DeedPoweredOff Deed = "Powered off"
)

// By is the note with the user who did it, if vCenter's events tell; nobody is to be asked any more.
func (n Note) By(user string) Note {
	if user != "" {
		n.What = string(n.Deed) + " in vCenter by " + user + ":"
	}
	n.Deed = ""
	return n
}

const noteCreated = "MemberCreated"

// Note is what an action that succeeded is told as; false if it is not worth telling.
func (a *Action) Note(at time.Time) (n Note, worth bool) {
	what := map[Op][2]string{
		Clone: {noteCreated, "Created"}, Adopt: {"MemberAdopted", "Adopted"}, Reset: {"MemberRestarted", "Restarted"},
		Reconfigure: {"MemberResized", "Resized"}, Quarantine: {"MemberQuarantined", "Quarantined"},
		Release: {"MemberReleased", "Released"}, Destroy: {"MemberRemoved", "Removed"},
	}[a.Op]
	kept := a.MoRef != "" && strings.HasSuffix(a.VM, a.MoRef) // in quarantine
	switch {
	case a.Op == Unmark && kept:
		what = [2]string{"MemberReturned", "Returned"}
	case what[0] == "":
		return Note{}, false
	}
	n = Note{Reason: what[0], What: what[1], Member: a.VM, Why: a.Reason, Key: what[0] + "/" + cmp.Or(a.MoRef, a.VM), At: at}
	switch {
	case a.Op == Destroy || a.Op == Release:
		n.Key = keyGone(a.MoRef)
	case a.Op == Clone: // until the VM is seen
		n.Key += "/" + at.UTC().Format(time.RFC3339Nano)
	case a.ChangeVersion != "": // may happen again
		n.Key += "/" + a.ChangeVersion
	}
	if a.MoRef != "" && !kept {
		n.Member += " (" + a.MoRef + ")"
	}
	return n, true
}

// Seen is the note with the moRef of the VM that a Clone made, which only vCenter's answer shows.
func (n Note) Seen(s *VCenterState) Note {
	if n.Reason != noteCreated {
		return n
	}
	for i := range s.VMs {
		if vm := &s.VMs[i]; vm.Name == n.Member && vm.Quarantined.IsZero() {
			n.Key, n.Member = n.Reason+"/"+vm.MoRef, n.Member+" ("+vm.MoRef+")"
			return n
		}
	}
	return n
}

// keyGone is the key of every note that says that a VM is gone: the first one counts, and who removed it says why.
func keyGone(moRef string) string { return "gone/" + moRef }

// notes are what is new in a status, compared with the stored one:
//
//	stored                          now                                  note
//	------------------------------  -----------------------------------  -------------------------------------------
//	not ERROR, another reason or    ERROR                                Warning, with the reason and the message
//	  generation
//	no update, or another target    an update                            UpdateStarted
//	an update                       none, all members as the spec says   UpdateFinished
//	an update                       none, and another target             UpdateWithdrawn
//	an update                       none, members held as they are       UpdateHeld
//	any                             the update has stopped               Warning UpdateStopped
//	healing not suspended           suspended                            Warning HealingSuspended
//	a member that was to stay       its VM is gone for certain           Warning MemberGone
//	a member that was on            off, and not by us                   MemberPoweredOff
//	a member                        vanished, to be replaced in time     Warning MemberVanished
//	a member                        vanished and given up                Warning MemberGivenUp
//	a member                        here with another moRef              MemberReappeared
//
// A group without a stored status was never answered, or lost it: only what is an ERROR is new.
func (v *view) notes(is *v1alpha1.VmGroupStatus) (all []Note) {
	was := &v.Group.Status
	ready := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionReady)
	before := cmp.Or(meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionReady), &metav1.Condition{})
	// A call may bring the parent as it was before the last status; so that a note is not told twice, its key is made of what
	// was stored.
	say := func(warning bool, reason, what, key string) {
		all = append(all, Note{Warning: warning, Reason: reason, What: what, At: v.Now,
			Key: fmt.Sprintf("%s/%s/%d/%s", reason, key, v.Group.Generation, before.LastTransitionTime.UTC().Format(time.RFC3339))})
	}
	news := was.Phase != is.Phase || before.Reason != ready.Reason || was.ObservedGeneration != is.ObservedGeneration
	if is.Phase == v1alpha1.PhaseError && news && ready.Reason != ReasonProgressDeadline {
		say(true, ready.Reason, is.LastMessage, "")
	}
	if len(was.Conditions) == 0 || !v.sighted {
		return all
	}
	if held := meta.FindStatusCondition(was.Conditions, v1alpha1.ConditionUpdateHeld); v.stuck != nil && (held == nil || held.Reason != v.stuck.Reason) {
		say(true, "UpdateStopped", v.stuck.Message, v.target())
	}
	if v.suspended != "" && !meta.IsStatusConditionTrue(was.Conditions, v1alpha1.ConditionHealingSuspended) {
		say(true, ReasonHealingSuspended, "healing is suspended: "+v.suspended, "")
	}
	if v.Finalizing {
		return all
	}
	switch held := v.heldText(); {
	case v.update != nil && v.updating > 0 && (was.Update == nil || was.Update.Target != v.update.Target):
		say(false, "UpdateStarted", fmt.Sprintf("Update to %s started: %s", v.update.Target, atMost(v.differing(), 3)), v.update.Target)
	case was.Update == nil || v.update != nil:
	case held != "":
		say(false, ReasonUpdateHeld, held, was.Update.Target)
	case was.Update.Target != v.target():
		say(false, "UpdateWithdrawn", fmt.Sprintf("Update to %s withdrawn: no member differs from the spec", was.Update.Target), was.Update.Target)
	default:
		say(false, "UpdateFinished", fmt.Sprintf("Update to %s finished", was.Update.Target), was.Update.Target)
	}
	return slices.Concat(all, v.deedsOfOthers(), v.comingsAndGoings())
}

// comingsAndGoings tell of members that vanished from vCenter, and came back. (One that waits for an operator is told as the ERROR.)
func (v *view) comingsAndGoings() (all []Note) {
	for i := range v.unseen {
		m := &v.unseen[i]
		if r := v.record(m.MoRef, i); m.vanished && v.policy.replaceVanished > 0 && (r == nil || r.VanishedAt.IsZero()) {
			all = append(all, Note{Warning: true, Reason: ReasonMemberVanished, What: "Vanished from vCenter:", Member: m.Name + " (" + m.MoRef + ")",
				Why: m.Message, Key: "vanished/" + m.MoRef, At: v.Now})
		}
	}
	for _, r := range v.replaced[min(len(v.replaced), len(v.Group.Status.Replaced)):] {
		why := "spec.replace names it"
		if r.Reason == string(WhyHealing) {
			why = fmt.Sprintf("it did not come back within %d s", int(v.policy.replaceVanished.Seconds()))
		}
		all = append(all, Note{Warning: true, Reason: "MemberGivenUp", What: "Vanished from vCenter, and given up:", Member: r.Name + " (" + r.MoRef + ")",
			Why: why, Key: "given-up/" + r.MoRef, At: v.Now})
	}
	for i := range v.members {
		m := &v.members[i]
		if m.InstanceUUID == "" || v.record(m.MoRef, i) != nil {
			continue
		}
		for j := range v.Group.Status.Members {
			if r := &v.Group.Status.Members[j]; r.InstanceUUID == m.InstanceUUID {
				all = append(all, Note{Reason: "MemberReappeared", What: "Back in vCenter:", Member: m.name + " (" + m.MoRef + ")",
					Why: "it was " + r.MoRef, Key: "back/" + m.MoRef, At: v.Now})
			}
		}
	}
	return all
}

// deedsOfOthers are what somebody else did to members, or what befell them.
func (v *view) deedsOfOthers() (all []Note) {
	stored := v.Group.Status.Members
	for i := range stored {
		r := &stored[i]
		if len(v.State.Gone) == 0 || !slices.Contains(v.State.Gone, r.MoRef) || v.isBack(r) || r.Reason == ReasonRemoving || r.Reason == ReasonDuplicateMember ||
			v.Pending[MemberName(v.Group.Name, r.Ordinal)].Op == Destroy {
			continue
		}
		all = append(all, Note{Warning: true, Reason: "MemberGone", What: "Gone from vCenter:", Member: r.Name + " (" + r.MoRef + ")", Key: keyGone(r.MoRef), At: v.Now,
			Deed: DeedRemoved, MoRef: r.MoRef})
	}
	for i := range v.members {
		m := &v.members[i]
		asked := m.Shutdown.At.Add(v.policy.shutdown + haltGrace)
		if m.Power != PoweredOff || m.Marked || m.duplicate || !m.Reachable || v.takenDown(m) || v.Now.Before(asked) {
			continue
		}
		if r := v.record(m.MoRef, i); r != nil && r.PowerState == string(PoweredOn) && r.Reason != ReasonPowerCycling && r.Reason != ReasonRemoving {
			all = append(all, Note{Reason: "MemberPoweredOff", What: "Found powered off:", Member: m.displayWith(m.MoRef),
				Key: "off/" + m.MoRef + "/" + r.LastTransitionTime.UTC().Format(time.RFC3339), At: v.Now, Deed: DeedPoweredOff, MoRef: m.MoRef})
		}
	}
	return all
}
