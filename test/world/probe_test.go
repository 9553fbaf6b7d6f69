package world

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Each replica asks the members by itself, at least every askedEvery, so that replicas learn at different times who answers. A member
// whose service answers counts from when one of them knows, and none knows better.

const askedEvery = 10 * time.Second

// probing is what happens in lives with a probe only.
var probing = []kind{
	{"a replica asks the members", 15, false, func(w *world, a, _ int) {
		if r := one(w.running(), a); r != nil {
			w.ask(r)
		}
	}},
	{"a service starts", 8, false, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Tools && !m.serves && !w.ails(m, noService) }), a); m != nil {
			m.serves = true
		}
	}},
}

// Ask notes whom the loop wants to be asked. Of members that are down only that is known.
func (r *replica) Ask(_ types.UID, ask plan.Ask, _ time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed = ask.Members
	for _, moRef := range ask.Down {
		r.concluded[moRef] = plan.Answer{Down: true}
	}
}

// ask makes a replica ask all members.
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

// hear notes whom a replica has heard, and none that can act takes for silent: there is no consensus about answers, so one that has not
// asked a member again since it failed counts on it as little as before. One that is paused, or was not called for longer than a lease,
// takes nothing down (seed 15747). A member that is marked when it is first heard is not counted on. What went wrong with a member is over once it works.
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

// conclude concludes from what a guest does now. The caller holds r.mu.
func (r *replica) conclude(moRef string) {
	was := r.concluded[moRef]
	a := plan.Answer{Address: netip.MustParseAddr("192.0.2.1"), Concluded: plan.Silent, Failure: "no answer", Down: was.Down}
	if m := r.vc.find(moRef); m != nil && m.serves && !m.gone {
		a.Concluded, a.Failure, a.Down = plan.Answering, "", false
	}
	r.concluded[moRef] = a
}

// Answers returns what the replica has learned; as the life rests, what there is to learn.
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
