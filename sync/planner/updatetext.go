// This file puts into words how far an update is, and what it leaves alone.

package planner

import (
	"cmp"
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// heldText says how many members that differ from the spec are held, and which field holds them.
func (r *report) heldText() string {
	n, all := r.decision.update.held, 0
	for i := range r.sets.members {
		all += int(oneIf(!r.sets.members[i].duplicate))
	}
	why := cmp.Or(r.sets.heldBy(), r.decision.update.closed)
	switch {
	case n == 0 || r.decision.update.stuck != nil:
		return ""
	case why == "":
		why = fmt.Sprintf("update.canary holds at %d", r.facts.policy.Canary)
	}
	return fmt.Sprintf("%d of %s differ from the spec and are kept (%s)", n, plan.Count(all, "member"), why)
}

// differing says how members differ from the spec, each difference once.
func (r *report) differing() (texts []string) {
	var order []string
	which := map[string][]string{}
	for i := range r.sets.members {
		m := &r.sets.members[i]
		how := m.difference()
		if how == "" || m.duplicate {
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
	for i := range r.sets.members {
		if m := &r.sets.members[i]; r.facts.templateChanged(&m.VM) && !m.duplicate {
			names = append(names, m.display())
		}
	}
	if len(names) == 0 {
		return ""
	}
	what := "set update.onTemplateChange to Replace to replace them"
	if r.facts.policy.ReplaceOnTemplate {
		what = "updates replace them"
	}
	return fmt.Sprintf("members that were cloned from another version of the template %s: %s; %s",
		strings.TrimSpace(r.facts.Group.Spec.Template), plan.AtMost(names, 10), what)
}

// updatesNow is 1 while members are to be updated and nothing stops that, and 0 otherwise.
func (r *report) updatesNow() int {
	if r.facts.Finalizing || r.decision.update.stuck != nil || len(r.steps.faults) > 0 && r.steps.doing(cloning, returning, resizing, starting, leaving, preparing, settingDisks) == 0 {
		return 0
	}
	return int(oneIf(r.decision.isUpdating()))
}

// updatingText counts the members that are as the spec says and that spec.replace doesn't name, as kubectl rollout status does.
func (r *report) updatingText(int) string {
	n := 0
	for i := range r.sets.members {
		m := &r.sets.members[i]
		n += int(oneIf(m.difference() == "" && m.nominated != plan.WhyReplace && !m.duplicate))
	}
	return fmt.Sprintf("updating: %d of %s updated", min(n, r.facts.want), plan.Count(r.facts.want, "member"))
}

// newTemplate says which templates an update replaces by which; empty if it keeps the template.
func (r *report) newTemplate() string {
	if former := r.facts.FormerTemplates(); len(former) > 0 {
		return fmt.Sprintf(" from the template %s to %s", plan.AtMost(former, 3), plan.Printable(r.facts.Group.Spec.Template))
	}
	return ""
}
