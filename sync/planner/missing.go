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
// that was restored from a backup. So a member that vCenter does not show is one of three:
//
//	fact         known by                                       its ordinal
//	-----------  ---------------------------------------------  -----------------------------------------------------------
//	gone         vCenter's events, or this process's Destroy    is free
//	unconfirmed  nothing yet                                    stays its own; it counts as leaving: nothing goes instead of it
//	missing      vCenter's events, or none that says more       stays its own until it is back, or given up: spec.replace names
//	                                                            it, or spec.healing.replaceVanishedAfterSeconds are over
//
// One that was given up stays in status.members until another VM has its ordinal. If it comes back beside that, there are two VMs of one
// ordinal: see duplicates.go.

// notFoundMember is a member that vCenter does not show, and that is not gone: unconfirmed, or missing.
type notFoundMember struct {
	v1alpha1.Member
	// left: vCenter answers that it does not have it, or is being asked. missing: it does not, and why is in the message.
	left, missing bool
}

// hidden reports whether vCenter neither shows a member nor reports that it left.
func (a *notFoundMember) hidden() bool { return !a.left && !a.missing }

// sortNotFound finds the recorded members and VMs in quarantine that vCenter no longer shows.
func (v *sets) sortNotFound() {
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
			v.gone = append(v.gone, *m)
		default:
			v.miss(*m, v.missingAs(m))
		}
	}
	for i := range v.State.Vanished {
		x := &v.State.Vanished[i]
		m := v1alpha1.Member{Name: plan.MemberName(v.Group.Name, x.Ordinal), Ordinal: x.Ordinal, MoRef: x.MoRef, InstanceUUID: x.InstanceUUID}
		if x.Name != m.Name {
			m.VMName = plan.Printable(x.Name)
		}
		if !v.shows(here, &m) && !x.Superseded(v.Group.Status.Members, v.State.VMs) && !slices.ContainsFunc(v.Group.Status.Members, func(r v1alpha1.Member) bool { return x.Is(&r) }) &&
			!slices.ContainsFunc(kept, func(q v1alpha1.Quarantined) bool { return q.MoRef == x.MoRef }) {
			v.miss(m, x) // it was not in the status yet
		}
	}
	for _, q := range kept {
		if _, shown := here[q.MoRef]; !shown && !v.State.IsGone(q.MoRef, "") {
			v.notFoundQuarantined = append(v.notFoundQuarantined, q)
		}
	}
}

// shows reports whether vCenter shows a recorded member, perhaps with another moRef. here maps moRefs to instanceUuids.
func (v *facts) shows(here map[string]string, m *v1alpha1.Member) bool {
	if id, is := here[m.MoRef]; is && (id == "" || m.InstanceUUID == "" || id == m.InstanceUUID) {
		return true
	}
	return v.isBack(m)
}

// isBack reports whether a recorded member is in vCenter, perhaps with another moRef.
func (v *facts) isBack(m *v1alpha1.Member) bool {
	return m.InstanceUUID != "" && slices.ContainsFunc(v.State.VMs, func(vm plan.VM) bool { return vm.InstanceUUID == m.InstanceUUID })
}

func (v *facts) missingAs(m *v1alpha1.Member) *plan.Vanished {
	i := slices.IndexFunc(v.State.Vanished, func(x plan.Vanished) bool { return x.Is(m) })
	if i < 0 {
		return nil
	}
	return &v.State.Vanished[i]
}

// lost counts the members that are gone or given up, whose ordinals are free, and that the server did not remove.
func (v *sets) lost() (n int) {
	for i := range v.gone {
		n += int(oneIf(v.gone[i].Reason != plan.ReasonRemoving && !v.has(v.gone[i].Ordinal)))
	}
	for i := range v.givenUp {
		n += int(oneIf(v.givenUp[i].Reason != plan.ReasonRemoving))
	}
	return n
}

// countOrdinals counts the ordinals that members hold, and those of them that only notFound members hold.
func (v *sets) countOrdinals() (all, notFound int) {
	for i := range v.members {
		all += int(oneIf(!v.members[i].duplicate))
	}
	for i := range v.notFound {
		held := v.has(v.notFound[i].Ordinal) || slices.ContainsFunc(v.notFound[:i], func(m notFoundMember) bool { return m.Ordinal == v.notFound[i].Ordinal })
		notFound += int(oneIf(!held))
	}
	return all + notFound, notFound
}

// miss adds a member that vCenter does not show to notFound, unless it is given up. x is what is known of it; nil unless vCenter has
// reported that it does not have it: then what was known before stands.
func (v *sets) miss(m v1alpha1.Member, x *plan.Vanished) {
	a := notFoundMember{Member: m, left: x != nil, missing: !m.VanishedAt.IsZero()}
	if x != nil && x.How != "" {
		a.missing, a.Message = true, x.How
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
			if !v.has(m.Ordinal) { // else another VM is this member now
				v.givenUp = append(v.givenUp, a)
			}
			return
		}
	}
	v.notFound = append(v.notFound, a)
}

// names reports whether spec.replace names a member.
func (v *facts) names(m *v1alpha1.Member) bool {
	return slices.Contains(v.Group.Spec.Replace, v1alpha1.Replacement{Name: plan.MemberName(v.Group.Name, m.Ordinal), MoRef: m.MoRef})
}

// givesUp reports whether a missing member is given up: a new one may have its ordinal. An entry of spec.replace that was there before it
// was missed asked for a VM to be removed and replaced, not for a second one beside it, so it gives up nothing. A deletion does not give
// up by itself: nothing would remember a VM that is left behind.
func (v *facts) givesUp(m *v1alpha1.Member) bool {
	if v.names(m) && m.Replace != v1alpha1.ReplaceHeld {
		return true
	}
	if v.policy.ReplaceMissing == 0 || v.Finalizing {
		return false
	}
	due := m.VanishedAt.Add(v.policy.ReplaceMissing)
	v.wakeAt(due)
	return !v.Now.Before(due)
}

// holdMissing says what an operator has to do about missing members.
func (v *steps) holdMissing() {
	for i := range v.notFound {
		if m := &v.notFound[i]; m.missing {
			v.faults = append(v.faults, named{Who: plan.MemberName(v.Group.Name, m.Ordinal), Fault: plan.Fault{Reason: plan.ReasonMemberVanished,
				NeedsOperator: v.policy.ReplaceMissing == 0 || v.Finalizing, Message: v.missingText(m)}})
		}
	}
}

// missingText says what became of a member, and what to do. In a deletion, which needs no moRef, members with the same text share it in the
// message.
func (v *facts) missingText(m *notFoundMember) string {
	vm := "its VM " + m.MoRef
	if v.Finalizing {
		vm = "its VM"
	}
	text, name := "vCenter does not have "+vm+" any more, and it may still run: "+m.Message+
		"; bring it back into vCenter (add its host, or register the VM)", "name it in spec.replace"
	if m.Replace == v1alpha1.ReplaceHeld {
		name = "take it out of spec.replace, which named it before that, and name it there again"
	}
	switch {
	case v.Finalizing:
		return text + " and it is removed; or leave it behind: " + name + "; or, once the others are removed, leave all of these behind with the annotation " + v1alpha1.AnnotationAbandon + "=true"
	case v.policy.ReplaceMissing > 0:
		return text + fmt.Sprintf(", or it is replaced %d s after it was missed (spec.healing.replaceVanishedAfterSeconds)", int(v.policy.ReplaceMissing.Seconds()))
	}
	return text + ", or, if it is permanently gone, " + name
}

// missingNames names the missing members.
func (v *sets) missingNames() (names []string) {
	for i := range v.notFound {
		if m := &v.notFound[i]; m.missing {
			names = append(names, fmt.Sprintf("%s (%s: %s)", plan.MemberName(v.Group.Name, m.Ordinal), m.MoRef, m.Message))
		}
	}
	return names
}
