package plan

import (
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// messageReconciled is the ancestor's message, kept to the letter, for a group with which all is well.
const messageReconciled = "successfully reconciled VmGroup"

// message says for people what happens or hinders. It is made of facts alone (no clock, no count of tries), so
// it changes only when something happened.
func (v *view) message() string {
	if v.hold != nil {
		text := strings.TrimSuffix(v.hold.Message, ".")
		if !v.sighted && len(v.Group.Status.Members) > 0 {
			text += "; the last known figures are kept"
		}
		return text
	}
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if v.stuck == nil && v.updating > 0 && !v.Finalizing {
		say("updating %d of %d", v.updating, v.want)
	}
	if v.cloning > 0 && v.sourceFault() == nil && !v.Finalizing {
		say("cloning %d of %d", v.cloning, v.want)
	}
	if v.adopting > 0 {
		say("adopting %s", count(v.adopting, "VM"))
	}
	if v.returning > 0 {
		say("bringing %s back from quarantine", count(v.returning, "VM"))
	}
	if v.resizing > 0 {
		say("resizing %d of %d", v.resizing, v.want)
	}
	if v.starting > 0 {
		say("powering on %d of %d", v.starting, v.want)
	}
	switch {
	case v.Finalizing && v.leaving > 0 && v.policy.retain:
		say("releasing %s", count(v.leaving, "member"))
		if v.leaving == 1 && !v.leaseOver() {
			say("the last one as soon as no other copy of the server can act for the group")
		}
	case v.Finalizing && v.leaving > 0:
		say("removing %s", count(v.leaving, "member"))
	case v.Finalizing && len(v.arriving) > 0:
		say("waiting for %s to end before removing what comes of them", count(len(v.arriving), "clone"))
	case v.Finalizing && v.folderLeft() && v.policy.retain:
		say("leaving the group's folder to the retained VMs")
	case v.Finalizing && v.folderLeft():
		say("removing the group's folder")
	case v.Finalizing && !v.Emptied:
		say("confirming that nothing of the group is left in vCenter")
	case v.Finalizing:
		say("nothing of the group is left in vCenter")
	case v.leaving > 0:
		say("removing %d of %d", v.leaving, len(v.members)+len(v.unseen))
	}
	if v.draining > 0 {
		say("draining %s before (spec.service.drainSeconds)", count(v.draining, "member"))
	}
	if v.Sight.RulesOff && v.hold == nil {
		say("setting the group's DRS rules")
	}
	if v.preparing > 0 {
		say("preparing %d of %d (tags, attributes, network)", v.preparing, v.want)
	}
	if v.tidying > 0 && !v.Finalizing {
		say("putting %s into quarantine or, when its time is over, away", count(v.tidying, "VM"))
	}
	if v.waitCall {
		say("waiting for the next hook call before making the group's folder")
	}
	for i, f := range v.faults {
		if i == 3 {
			say("and %d more hindrances", len(v.faults)-i)
			break
		}
		text := strings.TrimSuffix(f.Message, ".")
		if f.who != FolderKey && f.who != ConfirmKey && f.who != RulesKey {
			text = f.who + ": " + text
		}
		say("%s", text)
	}
	if names := v.unreachable(); len(names) > 0 {
		say("left alone because vCenter cannot reach or show them: %s", atMost(names, 5))
	}
	if v.suspended != "" {
		say("healing is suspended: %s", v.suspended)
	} else if names := v.notReady(); len(names) > 0 && !v.Finalizing {
		say("not ready yet: %s", atMost(names, 5))
	}
	switch {
	case len(parts) > 0:
	case v.busy():
		say("waiting for vCenter to end what is under way")
	default:
		say(messageReconciled)
	}
	if text := v.heldText(); text != "" && !v.Finalizing {
		say("%s", text)
	}
	if names := v.conflictingChildren(); len(names) > 0 {
		say("a foreign object has the name of %s", strings.Join(names, ", "))
	}
	text := strings.Join(parts, "; ")
	if v.paused() {
		text = "paused (spec.paused), so nothing is changed; otherwise: " + text
	}
	return text
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// unreachable names the members that exist and can neither be reached nor, some of them, seen.
func (v *view) unreachable() []string {
	var names []string
	for i := range v.members {
		if m := &v.members[i]; !m.Reachable {
			names = append(names, fmt.Sprintf("%s (%s)", m.name, m.Unreachable))
		}
	}
	for _, m := range v.unseen {
		names = append(names, fmt.Sprintf("%s (not seen)", MemberName(v.Group.Name, m.Ordinal)))
	}
	return names
}

// notReady names the members that run and are waited for, or stay unready with nothing done about it.
func (v *view) notReady() (names []string) {
	for i := range v.members {
		if m := &v.members[i]; v.healable(m) && !m.leaves {
			names = append(names, m.name)
		}
	}
	return names
}

// busy tells whether something is under way or to be done that waits for nobody.
func (v *view) busy() bool {
	if len(v.actions)+v.missing+len(v.arriving)+v.starting+v.resizing+v.preparing+v.leaving+v.updating > 0 || v.Finalizing {
		return true
	}
	for _, p := range v.Pending {
		if p.State == Running {
			return true
		}
	}
	return false
}

// blocked tells whether a person has to act before the group can be as it is wanted.
func (v *view) blocked() bool {
	if v.hold != nil {
		return v.hold.Person
	}
	for _, f := range v.faults {
		if f.Person {
			return true
		}
	}
	return false
}

func (v *view) phase() v1alpha1.Phase {
	switch {
	case v.blocked():
		return v1alpha1.PhaseError
	case v.hold == nil && !v.busy() && v.ordinals == v.want && v.countReady() == v.want && len(v.faults)+len(v.unseen) == 0:
		return v1alpha1.PhaseRunning
	}
	return v1alpha1.PhasePending
}
