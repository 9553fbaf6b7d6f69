// This file puts into words how far an update is, and what it leaves alone.

package tell

import (
	"fmt"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// heldText says how many members that differ from the spec are held, and which field holds them.
func (r *report) heldText() string {
	n, all := r.Update.Held, 0
	for i := range r.Members {
		all += int(oneIf(!r.Members[i].Duplicate))
	}
	if n == 0 || r.Update.Stuck != nil {
		return ""
	}
	return fmt.Sprintf("%d of %s differ from the spec and are kept (%s)", n, plan.Count(all, "member"), r.whatHolds())
}

// whatHolds says what holds the members that differ from the spec.
func (r *report) whatHolds() string {
	switch u := &r.Group.Spec.Update; {
	case r.Update.Stuck != nil:
		return r.Update.Stuck.Message
	case u.Strategy == v1alpha1.UpdateOnDelete:
		return "update.strategy is OnDelete"
	case u.Paused:
		return "update.paused is true"
	case r.Suppressed != nil:
		return "the members' failed probes are suppressed"
	case r.Update.Closed:
		return "update.windows: the next one opens at " + r.Update.Opens.Format(time.RFC3339)
	case r.Policy.Canary >= 0:
		return fmt.Sprintf("update.canary holds at %d", r.Policy.Canary)
	}
	return ""
}

// differing says how members differ from the spec, each difference once.
func (r *report) differing() (texts []string) {
	var order []string
	which := map[string][]string{}
	for i := range r.Members {
		m := &r.Members[i]
		how := m.Difference
		if how == "" || m.Duplicate {
			continue
		}
		if which[how] == nil {
			order = append(order, how)
		}
		which[how] = append(which[how], m.display())
	}
	for _, how := range order {
		if names := which[how]; len(names) == 1 {
			texts = append(texts, names[0]+" "+how)
		} else {
			texts = append(texts, fmt.Sprintf("%d members (%s): each %s", len(names), plan.AtMost(names, 10), how))
		}
	}
	return texts
}

// changedTemplate names the members that were cloned from another version of the template.
func (r *report) changedTemplate() string {
	var names []string
	for i := range r.Members {
		if m := &r.Members[i]; m.TemplateChanged && !m.Duplicate {
			names = append(names, m.display())
		}
	}
	if len(names) == 0 {
		return ""
	}
	what := "set update.onTemplateChange to Replace to replace them"
	if r.Policy.ReplaceOnTemplate {
		what = "updates replace them"
	}
	return fmt.Sprintf("members that were cloned from another version of the template %s: %s; %s",
		strings.TrimSpace(r.Group.Spec.Template), plan.AtMost(names, 10), what)
}

// updatesNow reports whether members are to be updated and nothing stops that.
func (r *report) updatesNow() bool {
	if r.Finalizing || r.Update.Stuck != nil || len(r.faults) > 0 && !r.does(func(a *plan.Activity) bool { return a.Updates }) {
		return false
	}
	return r.Update.Changes
}

// updatingText counts the members that are as the spec says and that spec.replace doesn't name, as kubectl rollout status does.
func (r *report) updatingText() string {
	n := 0
	for i := range r.Members {
		m := &r.Members[i]
		n += int(oneIf(m.Difference == "" && m.Nominated != plan.MarkReasonReplace && !m.Duplicate))
	}
	return fmt.Sprintf("updating: %d of %s updated", min(n, r.Want), plan.Count(r.Want, "member"))
}

// newTemplate says which templates an update replaces by which; empty if it keeps the template.
func (r *report) newTemplate() string {
	if former := r.FormerTemplates(); len(former) > 0 {
		return fmt.Sprintf(" from the template %s to %s", plan.AtMost(former, 3), plan.Printable(r.Group.Spec.Template))
	}
	return ""
}
