// This file says which VMs with the group's stamp nothing shows to be the group's.

package tell

import (
	"cmp"
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// addStrays says why ordinals of strays aren't filled.
func (r *report) addStrays() {
	for i := range r.State.Strays {
		x := &r.State.Strays[i]
		name := plan.MemberName(r.Group.Name, x.Ordinal)
		lacking := !r.Finalizing && r.Ordinals+len(r.Arriving) < r.Want && int(x.Ordinal) < r.Want &&
			!slices.ContainsFunc(r.Members, func(m Member) bool { return m.Ordinal == x.Ordinal })
		switch {
		case !x.Holds:
		case x.Pending && slices.Contains(r.Awaited, x.Ordinal):
			r.add(name, plan.Fault{Reason: plan.ReasonStrayVM, Message: fmt.Sprintf("finding out whether the VM %s is the group's: %s", x.MoRef, x.Why)})
		case !x.Pending && lacking:
			r.add(name, *r.heldFault(name))
		}
	}
}

// heldFault is why the ordinal of a member, or of any if name is empty, can't be filled because of a stray; nil if no stray holds it.
func (r *report) heldFault(name string) *plan.Fault {
	for i := range r.State.Strays {
		if x := &r.State.Strays[i]; x.Holds && (name == "" || plan.MemberName(r.Group.Name, x.Ordinal) == name) {
			return &plan.Fault{Reason: plan.ReasonStrayVM, NeedsOperator: !x.Pending,
				Message: fmt.Sprintf("it is not cloned, because the VM %s has its stamp, and %s: %s", strayName(x), x.Why, plan.RemedyFor(x))}
		}
	}
	return nil
}

func strayName(x *plan.Stray) string {
	return fmt.Sprintf("%s (%s)", plan.Printable(cmp.Or(x.Path, x.Name)), x.MoRef)
}

// templatesKept names the members that are templates now.
func (r *report) templatesKept() (texts []string) {
	for i := range r.State.Strays {
		if x := &r.State.Strays[i]; x.IsTemplate && x.Holds {
			texts = append(texts, fmt.Sprintf("%s was %s, is a template now, and is kept", strayName(x), plan.MemberName(r.Group.Name, x.Ordinal)))
		}
	}
	return texts
}

// straysText names the strays and says what to do; empty if there is none.
func (r *report) straysText() string {
	var names []string
	remedy := ""
	for i := range r.State.Strays {
		if x := &r.State.Strays[i]; !x.Pending {
			names, remedy = append(names, fmt.Sprintf("%s: %s", strayName(x), x.Why)), plan.RemedyFor(x)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "VMs with the group's stamp that are not the group's, and that the server does not touch: " + plan.AtMost(names, 5) + "; " + remedy
}

// strayStatuses lists the strays that are decided, those first that the stored status lists, so that these stay when there are too many.
func (r *report) strayStatuses() (all []v1alpha1.Stray) {
	was := map[plan.VMID]bool{}
	for _, w := range r.Group.Status.Strays {
		was[plan.VMID{MoRef: w.MoRef, InstanceUUID: w.InstanceUUID}] = true
	}
	listed := func(s v1alpha1.Stray) int32 {
		return 1 - oneIf(was[plan.VMID{MoRef: s.MoRef, InstanceUUID: s.InstanceUUID}])
	}
	for i := range r.State.Strays {
		if x := &r.State.Strays[i]; !x.Pending {
			all = append(all, v1alpha1.Stray{Name: plan.Printable(x.Name), Ordinal: x.Ordinal, MoRef: x.MoRef, InstanceUUID: x.InstanceUUID,
				Template: x.IsTemplate && x.Holds, Message: plan.Printable(x.Why)})
		}
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.Stray) int { return cmp.Compare(listed(a), listed(b)) })
	return all[:min(len(all), v1alpha1.MaxStrays)]
}

// strayEvents tell of strays that the stored status doesn't list.
func (r *report) strayEvents(is *v1alpha1.VmGroupStatus) (all []plan.Event) {
	for _, s := range is.Strays {
		if !slices.ContainsFunc(r.Group.Status.Strays, func(w v1alpha1.Stray) bool { return w.MoRef == s.MoRef && w.InstanceUUID == s.InstanceUUID }) {
			all = append(all, plan.Event{Warning: true, Reason: plan.ReasonStrayVM, What: "Not the group's, although they have its stamp, and never touched:",
				Member: fmt.Sprintf("%s (%s): %s", s.Name, s.MoRef, s.Message), At: r.Now, Key: plan.ReasonStrayVM + "/" + s.MoRef + "/" + s.InstanceUUID})
		}
	}
	return all
}
