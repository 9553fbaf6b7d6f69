package world

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Each replica probes the members itself, at least every askedEvery, so replicas learn at different times which services answer. A member
// counts as working once one replica has an answer from its service, and no replica that may act finds the service silent.

const askedEvery = 10 * time.Second

// probing is what happens in lives with a probe only.
var probing = []kind{
	{"a replica asks the members", 15, false, func(w *world, a, _ int) {
		if r := one(w.running(), a); r != nil {
			w.ask(r)
		}
	}},
	{"a service starts", 8, false, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Tools && !m.serves && !w.hasAilment(m, noService) }), a); m != nil {
			m.serves = true
		}
	}},
}

// Ask notes which members the loop wants to be probed, and concludes that the members that are powered off are down.
func (r *replica) Ask(_ types.UID, ask plan.Ask, _ time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = ask.Members
	for _, moRef := range ask.Down {
		r.concluded[moRef] = plan.Answer{Down: true}
	}
}

// ask makes a replica probe all members.
func (w *world) ask(r *replica) {
	w.mu.Lock()
	r.askedAt = time.Now()
	for _, m := range r.probed {
		r.conclude(m.MoRef)
	}
	w.mu.Unlock()
	r.loop.Changed("")
	w.settle()
}

// hear notes the members whose service has answered a replica, unless a replica that may act finds the service silent. Replicas don't
// share their answers: a replica that has not probed a member again since the member failed still counts it as silent. A replica that is
// paused, or was not called for longer than a lease, takes nothing down, so its answers don't matter (seed 15747). A member that was marked
// before its service first answered doesn't count. A faulty member that works is no longer faulty.
func (w *world) hear() {
	for _, m := range w.vc.vms {
		heard, silent := false, false
		for _, r := range w.replicas {
			heard = heard || r.concluded[m.MoRef].Concluded == plan.Answering
			silent = silent || !r.paused && time.Since(r.called) <= lease && r.concluded[m.MoRef].Concluded == plan.Silent
		}
		m.heard = m.heard || m.serves && !m.Marked && heard && !silent
		m.faulty = m.faulty && !w.works(m)
	}
}

// conclude notes whether a member's service answers now. The caller holds r.mu.
func (r *replica) conclude(moRef string) {
	was := r.concluded[moRef]
	a := plan.Answer{Address: netip.MustParseAddr("192.0.2.1"), Concluded: plan.Silent, Failure: "no answer", Down: was.Down}
	if m := r.vc.find(moRef); m != nil && m.serves && !m.gone {
		a.Concluded, a.Failure, a.Down = plan.Answering, "", false
	}
	r.concluded[moRef] = a
}

// Answers returns the replica's last answers; at the end of the life, it probes the members first, so that all replicas know the same.
func (r *replica) Answers(_ types.UID, readiness *v1alpha1.Readiness) plan.Answers {
	if !readiness.Probes() {
		return plan.Answers{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := plan.Answers{Of: map[string]plan.Answer{}}
	for _, m := range r.probed {
		if r.resting {
			r.conclude(m.MoRef)
		}
		all.Of[m.MoRef] = r.concluded[m.MoRef]
	}
	for moRef, a := range r.concluded {
		if a.Down {
			all.Of[moRef] = a
		}
	}
	return all
}
