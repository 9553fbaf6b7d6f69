package world

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A replica asks members at once: those whose guests run answer.

// Ask notes whom the loop wants to be asked.
func (r *replica) Ask(_ types.UID, ask plan.Ask, _ time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = ask.Members
}

// Answers concludes from what the guests do now.
func (r *replica) Answers(_ types.UID, readiness *v1alpha1.Readiness) plan.Answers {
	if !readiness.Probes() {
		return plan.Answers{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := plan.Answers{Of: map[string]plan.Answer{}}
	for _, m := range r.probed {
		a := plan.Answer{Address: netip.MustParseAddr("192.0.2.1"), Concluded: plan.Silent, Failure: "no answer"}
		for _, one := range r.vc.vms {
			if one.MoRef == m.MoRef && one.Tools && !one.gone {
				a.Concluded, a.Failure = plan.Answering, ""
			}
		}
		if a.Since = r.concluded[m.MoRef].Since; r.concluded[m.MoRef].Concluded != a.Concluded {
			a.Since = time.Now()
		}
		r.concluded[m.MoRef], all.Of[m.MoRef] = a, a
	}
	return all
}
