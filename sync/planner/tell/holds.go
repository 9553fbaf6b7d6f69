// This file says which annotations hold members, and which hold none.

package tell

import (
	"fmt"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// heldMessage says which annotations hold a member; empty if none does.
func (r *report) heldMessage(m *Member) string {
	if m.HeldUntil.IsZero() {
		return ""
	}
	return fmt.Sprintf("held by %s until %s at the latest", plan.AtMost(r.Holds.By(m.Name, m.MoRef), 3), m.HeldUntil.Format(time.RFC3339))
}

// ignoredHolds says which annotations hold no member, and why.
func (r *report) ignoredHolds() (texts []string) {
	for _, a := range r.Holds.All {
		why := ""
		switch {
		case a.MoRef == "":
			why = fmt.Sprintf("must name a member and its VM, such as %s-0/vm-42", r.Group.Name)
		case r.Holds.Timeout == 0:
			why = "spec.deletion.holdTimeoutSeconds is not set"
		default:
			if why = r.mismatch(a.Member, a.MoRef); why == "" {
				continue
			}
		}
		texts = append(texts, strings.TrimPrefix(a.Key, v1alpha1.AnnotationHold)+": "+why)
	}
	return texts
}

// mismatch says why a VM isn't the member that an annotation names; empty if it is.
func (r *report) mismatch(member, moRef string) string {
	is, named := !r.VCenterKnown, false
	for i := range r.Members {
		m := &r.Members[i]
		is, named = is || m.Name == member && m.MoRef == moRef, named || m.Name == member
	}
	for i := range r.NotFound {
		is = is || r.NotFound[i].MoRef == moRef
	}
	switch {
	case is || !named && r.Finalizing: // it was removed after its hold, and the annotation is left over
		return ""
	case !named:
		return fmt.Sprintf("the group has no member %s, or no longer has it: remove the annotation", member)
	}
	return fmt.Sprintf("%s is not the VM of %s", moRef, member)
}

// holdEvents are the Events about holds that began or timed out since the stored status. A member whose hold timed out may be gone already.
func (r *report) holdEvents() (all []plan.Event) {
	for i := range r.Members {
		m := &r.Members[i]
		if was := r.Record(m.MoRef, i); !m.HeldUntil.IsZero() && (was == nil || was.HeldUntil.IsZero()) {
			all = append(all, plan.Event{Reason: "MemberHeld", What: "Not taken down yet:", Member: m.Name + " (" + m.MoRef + ")", Why: r.heldMessage(m), At: r.Now,
				Key: "held/" + m.MoRef + "/" + m.HeldUntil.Format(time.RFC3339)})
		}
	}
	for i := range r.Group.Status.Members {
		was := &r.Group.Status.Members[i]
		name := plan.MemberName(r.Group.Name, was.Ordinal)
		keys := r.Holds.By(name, was.MoRef)
		if was.HeldUntil.IsZero() || r.Now.Before(was.HeldUntil.Time) || keys == nil {
			continue
		}
		why := fmt.Sprintf("%s did not end within %d s (spec.deletion.holdTimeoutSeconds)", plan.AtMost(keys, 3), int(r.Holds.Timeout.Seconds()))
		all = append(all, plan.Event{Warning: true, Reason: "HoldTimedOut", What: "Not held any longer:", Member: name + " (" + was.MoRef + ")", Why: why, At: r.Now,
			Key: "hold-over/" + was.MoRef + "/" + was.HeldUntil.UTC().Format(time.RFC3339)})
	}
	return all
}
