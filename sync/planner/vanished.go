package planner

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A VM that leaves vCenter's inventory may continue to run: on a host that was removed, in another vCenter, or unknown to a vCenter
// that was restored from a backup. So a member is gone only if it was destroyed. Otherwise it has vanished, and keeps its ordinal: if it
// were recreated, two VMs could have one name and address when it comes back. An operator brings it back, or gives it up by naming it
// in spec.replace; spec.healing.replaceVanishedAfterSeconds gives it up after a time. status.replaced remembers those that were given
// up: one that comes back beside its replacement goes.

// absent is a member that vCenter does not show, and that is not gone: unseen, or vanished.
type absent struct {
	v1alpha1.Member
	// left: vCenter answers that it does not have it, or is being asked. vanished: it does not, and why is in the message.
	left, vanished bool
}

// hidden reports whether vCenter neither shows a member nor reports that it left.
func (a *absent) hidden() bool { return !a.left && !a.vanished }

// sortUnseen finds the recorded members and VMs in quarantine that vCenter no longer shows, but has not reported as gone: they
// have vanished, or a lost privilege hides them, and the members' ordinals stay taken. It counts the members that are certainly
// gone, or given up.
func (v *view) sortUnseen() {
	v.replaced = slices.Clip(v.Group.Status.Replaced)
	kept := v.Group.Status.Quarantined
	if len(v.Group.Status.Members)+len(kept)+len(v.State.Vanished) == 0 {
		return
	}
	here := make(map[string]string, len(v.State.VMs))
	for i := range v.State.VMs {
		here[v.State.VMs[i].MoRef] = v.State.VMs[i].InstanceUUID
	}
	for i := range v.Group.Status.Members {
		switch m := &v.Group.Status.Members[i]; {
		case v.shows(here, m):
		case v.State.IsGone(m.MoRef, m.InstanceUUID):
			v.lose(m)
		default:
			v.miss(*m, v.vanishedAs(m))
		}
	}
	for i := range v.State.Vanished {
		x := &v.State.Vanished[i]
		m := v1alpha1.Member{Name: plan.MemberName(v.Group.Name, x.Ordinal), Ordinal: x.Ordinal, MoRef: x.MoRef, InstanceUUID: x.InstanceUUID}
		if x.Name != m.Name {
			m.VMName = plan.Printable(x.Name)
		}
		// A replica that was cut off may remember a member whose ordinal others gave to another VM meanwhile: they saw it leave.
		superseded := func(r v1alpha1.Member) bool { return x.Is(&r) || r.Ordinal == x.Ordinal && v.shows(here, &r) }
		if !v.shows(here, &m) && !slices.ContainsFunc(v.Group.Status.Members, superseded) &&
			!slices.ContainsFunc(kept, func(q v1alpha1.Quarantined) bool { return q.MoRef == x.MoRef }) {
			v.miss(m, x) // it was not in the status yet
		}
	}
	for _, q := range kept {
		if _, shown := here[q.MoRef]; !shown && !v.State.IsGone(q.MoRef, "") {
			v.unseenKept = append(v.unseenKept, q)
		}
	}
}

// shows reports whether vCenter shows a recorded member, perhaps with another moRef. here maps moRefs to instanceUuids.
func (v *view) shows(here map[string]string, m *v1alpha1.Member) bool {
	if id, is := here[m.MoRef]; is && (id == "" || m.InstanceUUID == "" || id == m.InstanceUUID) {
		return true
	}
	return v.isBack(m)
}

// isBack reports whether a recorded member is in vCenter, perhaps with another moRef.
func (v *view) isBack(m *v1alpha1.Member) bool {
	return m.InstanceUUID != "" && slices.ContainsFunc(v.State.VMs, func(vm plan.VM) bool { return vm.InstanceUUID == m.InstanceUUID })
}

func (v *view) vanishedAs(m *v1alpha1.Member) *plan.Vanished {
	i := slices.IndexFunc(v.State.Vanished, func(x plan.Vanished) bool { return x.Is(m) })
	if i < 0 {
		return nil
	}
	return &v.State.Vanished[i]
}

// lose counts a member that is gone, if its ordinal is free and the server did not remove it.
func (v *view) lose(m *v1alpha1.Member) {
	if m.Reason != plan.ReasonRemoving && !v.has(m.Ordinal) {
		v.lost++
	}
}

// miss adds a member that vCenter does not show to unseen, unless it was given up. x is what is known of it; nil unless vCenter has
// reported that it does not have it: then what was known before stands.
func (v *view) miss(m v1alpha1.Member, x *plan.Vanished) {
	if x != nil && v.givenUp(&m) {
		return
	}
	a := absent{Member: m, left: x != nil, vanished: !m.VanishedAt.IsZero()}
	if x != nil && x.How != "" {
		a.vanished, a.Message = true, x.How
		if !v.names(&m) {
			a.Replace = ""
		} else if a.VanishedAt.IsZero() {
			a.Replace = v1alpha1.ReplaceHeld
		}
		if a.VanishedAt.IsZero() {
			a.VanishedAt = metav1.NewTime(v.Now.UTC().Truncate(time.Second))
		}
		if v.Finalizing && v.policy.Retain { // it stays anyway
			return
		}
		if v.givesUp(&a.Member) {
			v.lose(&m)
			return
		}
	}
	if !v.has(m.Ordinal) && !v.isUnseen(m.Ordinal) {
		v.ordinals++
		v.absent++
	}
	v.unseen = append(v.unseen, a)
}

// givenUp reports whether a member was given up before.
func (v *view) givenUp(m *v1alpha1.Member) bool {
	return slices.ContainsFunc(v.replaced, func(r v1alpha1.Replaced) bool {
		return r.MoRef == m.MoRef && (m.InstanceUUID == "" || r.InstanceUUID == m.InstanceUUID)
	})
}

// names reports whether spec.replace names a member.
func (v *view) names(m *v1alpha1.Member) bool {
	return slices.Contains(v.Group.Spec.Replace, v1alpha1.Replacement{Name: plan.MemberName(v.Group.Name, m.Ordinal), MoRef: m.MoRef})
}

// givesUp reports whether a member that has vanished is given up now, and remembers it. An entry of spec.replace that is older than that
// asked for a VM to be removed and replaced, not for a second one beside it, so it gives up nothing. A deletion does not give up by
// itself: nothing would remember a VM that is left behind.
func (v *view) givesUp(m *v1alpha1.Member) bool {
	why := plan.WhyReplace
	if m.Replace == v1alpha1.ReplaceHeld || !v.names(m) {
		due := m.VanishedAt.Add(v.policy.ReplaceVanished)
		if v.policy.ReplaceVanished == 0 || v.Finalizing {
			return false
		}
		if v.Now.Before(due) {
			v.wakeAt(due)
			return false
		}
		why = plan.WhyHealing
	}
	v.replaced = append(v.replaced, v1alpha1.Replaced{Name: m.Name, Ordinal: m.Ordinal, MoRef: m.MoRef, InstanceUUID: m.InstanceUUID,
		Reason: string(why), VanishedAt: m.VanishedAt})
	v.replaced = v.replaced[max(0, len(v.replaced)-replacedMost):]
	return true
}

// replacedMost bounds how many given-up VMs are remembered.
const replacedMost = 1000

// stillReplaced returns the given-up VMs that have not come back and been destroyed.
func (v *view) stillReplaced() []v1alpha1.Replaced {
	destroyed := func(r v1alpha1.Replaced) bool {
		return slices.ContainsFunc(v.Group.Status.Members, func(m v1alpha1.Member) bool {
			return r.InstanceUUID != "" && m.InstanceUUID == r.InstanceUUID && v.State.IsGone(m.MoRef, m.InstanceUUID) && !v.isBack(&m)
		})
	}
	if !slices.ContainsFunc(v.replaced, destroyed) {
		return v.replaced
	}
	return slices.DeleteFunc(slices.Clone(v.replaced), destroyed)
}

// yield makes members that were given up and came back yield to their replacements, which are not duplicates and continue to serve.
func (v *view) yield() {
	for i := range v.members {
		m := &v.members[i]
		if !m.duplicate || m.InstanceUUID == "" || !slices.ContainsFunc(v.Group.Status.Replaced, func(r v1alpha1.Replaced) bool {
			return r.InstanceUUID == m.InstanceUUID && r.Ordinal == m.Ordinal
		}) {
			continue
		}
		m.yields = slices.ContainsFunc(v.claimants(m.Ordinal), func(other member) bool {
			return other.MoRef != m.MoRef && !other.yields && other.Power == plan.PoweredOn && other.Reachable
		})
	}
	for i := range v.members {
		m := &v.members[i]
		if m.duplicate && !m.yields {
			m.duplicate = slices.ContainsFunc(v.claimants(m.Ordinal), func(other member) bool { return other.MoRef != m.MoRef && !other.yields })
		}
	}
}

// claimants returns the members with an ordinal.
func (v *view) claimants(ordinal int32) []member {
	begin := slices.IndexFunc(v.members, func(m member) bool { return m.Ordinal == ordinal })
	end := begin
	for end < len(v.members) && v.members[end].Ordinal == ordinal {
		end++
	}
	return v.members[begin:end]
}

// removeYielding removes members that yield. They are powered off without a guest shutdown, because another VM has their name and address.
func (v *view) removeYielding() {
	for i := range v.members {
		m := &v.members[i]
		if !m.yields || !m.Reachable {
			continue
		}
		reason := "it came back to vCenter after it was given up, and another VM is this member now"
		m.leaves = true
		goesOn := true
		switch {
		case !m.going():
			goesOn = v.act(v.marking(m, plan.WhyReplace, reason))
		case m.Power != plan.PoweredOff:
			goesOn = v.act(plan.Action{Op: plan.PowerOff, VM: m.name, Ordinal: m.Ordinal, MoRef: m.MoRef, Marked: true, Reason: reason})
		default:
			goesOn = v.remove(m, chosen, reason)
		}
		v.leaving += int(oneIf(goesOn))
	}
}

// holdVanished says what an operator has to do about members that have vanished.
func (v *view) holdVanished() {
	for i := range v.unseen {
		if m := &v.unseen[i]; m.vanished {
			v.faults = append(v.faults, named{Who: plan.MemberName(v.Group.Name, m.Ordinal), Fault: plan.Fault{Reason: plan.ReasonMemberVanished,
				Person: v.policy.ReplaceVanished == 0 || v.Finalizing, Message: v.vanishedText(m)}})
		}
	}
}

// vanishedText says what became of a member, and what to do.
func (v *view) vanishedText(m *absent) string {
	text, name := "vCenter does not have its VM any more, and it may still run: "+m.Message+"; bring it back into vCenter (add its host, or register the VM)", "name it in spec.replace"
	if m.Replace == v1alpha1.ReplaceHeld {
		name = "take it out of spec.replace, which named it before that, and name it there again"
	}
	switch {
	case v.Finalizing:
		return text + " and it is removed; or leave it behind: " + name + "; or, once the others are removed, leave all of these behind with the annotation " + v1alpha1.AnnotationAbandon + "=true"
	case v.policy.ReplaceVanished > 0:
		return text + fmt.Sprintf(", or it is replaced %d s after it was missed (spec.healing.replaceVanishedAfterSeconds)", int(v.policy.ReplaceVanished.Seconds()))
	}
	return text + ", or, if it is gone for good, " + name
}

// vanished names the members that have vanished.
func (v *view) vanished() (names []string) {
	for i := range v.unseen {
		if m := &v.unseen[i]; m.vanished {
			names = append(names, fmt.Sprintf("%s (%s: %s)", plan.MemberName(v.Group.Name, m.Ordinal), m.MoRef, m.Message))
		}
	}
	return names
}
