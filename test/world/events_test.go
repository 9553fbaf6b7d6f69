package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// event is one thing that happens. Its numbers choose among the objects that exist at that moment, so that any part of a list of
// events can run.
type event struct {
	at   int // the event's place in the script
	kind kind
	a, b int
}

func (e event) String() string { return fmt.Sprintf("%s %d %d", e.kind.name, e.a, e.b) }

func (e event) happen(w *world) { e.kind.do(w, e.a, e.b) }

// kind is a kind of event, and how often it occurs.
type kind struct {
	name   string
	weight int
	harm   bool // not in a peaceful life
	do     func(w *world, a, b int)
}

var kinds []kind

func init() { // their functions refer to kinds

	kinds = slices.Concat(ordinary, users, selections, servers, operators, storage, probing, typos, troubles, strays, restores, tagging, identities)
}

// one returns an element of a list, or the zero value if the list is empty.
func one[T any](from []T, n int) (x T) {
	if len(from) > 0 {
		x = from[n%len(from)]
	}
	return x
}

// ordinary lists what happens all the time.
var ordinary = []kind{
	{"a step continues", 60, false, func(w *world, a, _ int) {
		if s := one(w.steps, a); s != nil {
			w.advance(s, well, 0)
		}
	}},
	{"a step goes wrong", 6, false, func(w *world, a, b int) {
		if s := one(w.steps, a); s != nil {
			w.advance(s, 1+b%(ways-1), b/4)
		}
	}},
	{"the stream reports one change", 30, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.update(r, b, false)
		}
	}},
	{"the stream reports everything", 6, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.update(r, b, true)
		}
	}},
	{"a hook is called", 20, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.call(r, 0, b%8 == 0)
		}
	}},
	{"time passes", 22, false, func(w *world, a, _ int) {
		w.pass([]time.Duration{200 * time.Millisecond, time.Second, time.Second, 2 * time.Second, 5 * time.Second, 12 * time.Second, 35 * time.Second,
			95 * time.Second}[a%8])
	}},
	{"a guest boots", 8, false, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Power == plan.PoweredOn && !m.Tools && !m.halting() }), a); m != nil {
			w.vc.boots(m)
			for _, r := range w.running() { // in a peaceful life, no replica must still count it as idle
				if w.set.peaceful && r.view.known {
					r.view.read(m.MoRef)
					r.loop.Changed("")
				}
			}
			w.settle()
		}
	}},
	{"a guest halts", 8, false, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.halting() }), a); m != nil {
			w.vc.power(m, false)
		}
	}},
}

// some returns the VMs that satisfy a condition, without those that an operator made, strays, templates and those that are gone.
func (w *world) some(holds func(*machine) bool) (all []*machine) {
	for _, m := range w.vc.vms {
		if !m.gone && !m.foreign && !m.stray && !m.IsTemplate && holds(m) {
			all = append(all, m)
		}
	}
	return all
}

var users = []kind{
	{"a user scales", 5, false, func(w *world, a, _ int) {
		n := int32(a % 6)
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.Replicas = &n })
	}},
	{"a user changes the template", 2, false, func(w *world, a, _ int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = []string{"ubuntu", "debian"}[a%2] })
	}},
	{"a user resizes", 2, false, func(w *world, a, _ int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = int32(1 + a%3) })
	}},
	{"a user edits standby", 1, false, func(w *world, a, _ int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.Standby = int32(a % 3) })
	}},
	{"a user deletes", 1, false, func(w *world, _, _ int) { w.delete() }},
	{"a user reapplies", 3, false, func(w *world, _, _ int) {
		if w.kube.group == nil {
			w.create()
		}
	}},
}

// noTemplate is the name of a template that doesn't exist.
const noTemplate = "nonesuch"

// typos is what happens in lives whose users mistype the template.
var typos = []kind{{"a user mistypes the template", 4, false, func(w *world, _, _ int) {
	w.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = noTemplate })
}}}

// stalest is the largest number of versions by which the parent that a replica gets can be out of date.
const stalest = 5

var servers = []kind{
	{"a replica is killed", 2, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.kill(r, b%2 == 0)
		}
	}},
	{"a replica starts", 5, false, func(w *world, _, _ int) {
		if len(w.replicas) < w.set.replicas {
			w.say("%s starts", w.start().name)
		}
	}},
	{"a replica is paused", 2, false, func(w *world, a, _ int) {
		if r := one(w.replicas, a); r != nil {
			w.pause(r)
		}
	}},
	{"a replica resumes", 5, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.resume(r, b%2 == 0)
		}
	}},
	{"a replica loses vCenter", 1, false, func(w *world, a, _ int) {
		if r := one(w.replicas, a); r != nil && !r.paused {
			w.say("%s loses vCenter", r.name)
			r.view.known = false
			r.loop.Changed("")
			w.settle()
		}
	}},
	{"a stale parent arrives", 4, true, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.call(r, 1+b%stalest, true)
		}
	}},
}

// script returns the events of a life, drawn from the setting's seed.
func script(set setting) []event {
	r := rand.New(rand.NewPCG(set.seed, 2))
	var from []kind
	total := 0
	of := slices.Concat(ordinary, users, selections, servers, operators)
	if set.trouble.any() {
		of = slices.Concat(ordinary, servers)
	}
	if set.disks {
		of = append(of, storage...)
	}
	if set.strays && !set.trouble.any() {
		of = append(of, strays...)
	}
	if set.restores && !set.trouble.any() {
		of = append(of, restores...)
	}
	if len(set.spec.Tags) > 0 {
		of = append(of, tagging...)
	}
	if set.identities && !set.trouble.any() {
		of = append(of, identities...)
	}
	if set.typos {
		of = append(of, typos...)
	}
	if set.spec.Readiness.Probes() {
		of = append(of, probing...)
	}
	for _, k := range of {
		if !k.harm || !set.peaceful {
			from, total = append(from, k), total+k.weight
		}
	}
	if set.trouble.any() {
		return troubledScript(r, from, total)
	}
	events := make([]event, 40+r.IntN(80))
	for i := range events {
		n := r.IntN(total)
		at := slices.IndexFunc(from, func(k kind) bool { n -= k.weight; return n < 0 })
		events[i] = event{at: i, kind: from[at], a: r.IntN(840), b: r.IntN(840)}
	}
	return events
}
