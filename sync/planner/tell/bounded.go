// This file bounds the texts of a result. Guests, people and vCenter say how long names and messages are, and how many.

package tell

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Bound cuts the texts that are too long (plan.TextMost, plan.MemberTextMost). Names and ids stay as they are: vCenter and Kubernetes
// bound them, and a part of one is another. An Event's text is bounded where the Event is made (plan.EventOf).
func Bound(r plan.Result) plan.Result {
	s := &r.Status
	s.LastMessage = plan.Bounded(s.LastMessage, plan.TextMost)
	// The lists can be those of the stored status, which others read.
	s.Conditions = withBounded(s.Conditions, plan.TextMost, func(c *metav1.Condition) []*string { return []*string{&c.Message} })
	s.Members = withBounded(s.Members, plan.MemberTextMost, func(m *v1alpha1.Member) []*string { return []*string{&m.Message, &m.VMName, &m.Host} })
	s.Standby = withBounded(s.Standby, plan.MemberTextMost, func(m *v1alpha1.StandbyMember) []*string { return []*string{&m.Message, &m.VMName, &m.Host} })
	s.Quarantined = withBounded(s.Quarantined, plan.MemberTextMost, func(q *v1alpha1.Quarantined) []*string { return []*string{&q.Name} })
	r.Verdicts = withBounded(r.Verdicts, plan.TextMost, func(v *plan.Verdict) []*string { return []*string{&v.Reason, &v.WaitsFor} })
	r.Actions = withBounded(r.Actions, plan.TextMost, func(a *plan.Action) []*string { return []*string{&a.Reason} })
	if r.Refusal != nil && len(r.Refusal.Message) > plan.TextMost {
		r.Refusal = &plan.Refusal{Message: plan.Bounded(r.Refusal.Message, plan.TextMost), Retry: r.Refusal.Retry}
	}
	return r
}

// withBounded returns the list itself if each text is short enough, and otherwise another one.
func withBounded[E any](all []E, most int, texts func(*E) []*string) []E {
	changed := false
	for i := range all {
		for j, text := range texts(&all[i]) {
			if len(*text) <= most {
				continue
			}
			if !changed {
				all, changed = slices.Clone(all), true
			}
			*texts(&all[i])[j] = plan.Bounded(*text, most)
		}
	}
	return all
}
