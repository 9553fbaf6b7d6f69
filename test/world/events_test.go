package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// setting is how a life is set up. It is not shrunk.
type setting struct {
	seed     uint64
	spec     v1alpha1.VmGroupSpec
	replicas int  // how many servers run
	slots    int  // of each
	up       bool // the group is at work when the life begins
	tools    bool // readiness is asked of the guests
	heeds    bool // guests halt when they are asked to
	// peaceful: nobody but users and our own servers does anything, so availability must never fall below the promise.
	peaceful bool
	buries   bool // the group is deleted in the end
	defect   defect
}

func settingOf(seed uint64) setting {
	r := rand.New(rand.NewPCG(seed, 1))
	n := int32(r.IntN(5))
	s := setting{seed: seed, replicas: []int{1, 2, 2, 2, 2, 2, 3, 3}[r.IntN(8)], slots: 1 + r.IntN(6), up: r.IntN(4) > 0,
		tools: r.IntN(3) == 0, heeds: r.IntN(4) > 0, peaceful: seed%3 == 2, buries: r.IntN(2) == 0}
	s.spec = v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Replicas: &n, Inventory: v1alpha1.InventoryNone}
	if r.IntN(4) == 0 {
		s.spec.Inventory = ""
	}
	timeout := []int32{0, 0, 60}[r.IntN(3)]
	s.spec.Deletion.ShutdownTimeoutSeconds = &timeout
	s.spec.Deletion.QuarantineSeconds = []int32{0, 0, 0, 120}[r.IntN(4)]
	s.spec.Update.Resize = []v1alpha1.ResizeWay{"", "", v1alpha1.ResizeReplace}[r.IntN(3)]
	s.spec.ScaleIn.Order = []v1alpha1.ScaleInOrder{"", v1alpha1.ScaleInOldest, v1alpha1.ScaleInNewest}[r.IntN(3)]
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	switch r.IntN(4) {
	case 0:
		s.spec.Update.MaxUnavailable, s.spec.Update.MaxSurge = &one, &none
	case 1:
		s.spec.Update.MaxUnavailable, s.spec.Update.MaxSurge = &none, &one
	}
	if s.tools {
		s.spec.Readiness.Check = v1alpha1.ReadyToolsRunning
	}
	return s
}

// begin is how a life begins.
func (w *world) begin() {
	w.create()
	for range w.set.replicas {
		w.tell(w.start(), 0, true)
	}
	stranger := w.vc.add("", plan.Action{Op: plan.Clone, VM: "web-0", Folder: elsewhere})
	stranger.foreign = true
	if w.set.up {
		g := w.kube.group
		w.vc.folder, w.vc.folders = w.vc.ref("group"), 1
		for i := range *g.Spec.Replicas {
			m := w.vc.add(g.UID, plan.Action{Op: plan.Clone, VM: plan.MemberName(g.Name, i), Ordinal: i, Folder: w.vc.folder,
				Revision: plan.Revision(&g.Spec), Generation: 1, CPU: g.Spec.CPU, MemoryMB: g.MemoryMB(), Details: &plan.Details{Home: plan.HomeOf(&g.Spec).String()}})
			w.vc.power(m, true)
			w.vc.boots(m)
		}
		for _, r := range w.replicas {
			w.tell(r, 0, true)
		}
	}
	w.look()
}

// event is one thing that happens. Whom it concerns is counted among those that it can concern at that moment, so that any
// part of a list of events can be carried out.
type event struct {
	at   int // its place in the script
	kind kind
	a, b int
}

func (e event) String() string { return fmt.Sprintf("%s %d %d", e.kind.name, e.a, e.b) }

func (e event) happen(w *world) { e.kind.do(w, e.a, e.b) }

// kind is a kind of event, and how often it comes.
type kind struct {
	name   string
	weight int
	harm   bool // not in a peaceful life
	do     func(w *world, a, b int)
}

var kinds []kind

func init() { // they lead to lead, which knows them
	kinds = slices.Concat(ordinary, users, servers, operators)
}

// one gives one of a list, or the zero value of an empty one.
func one[T any](from []T, n int) (x T) {
	if len(from) > 0 {
		x = from[n%len(from)]
	}
	return x
}

// ordinary is what happens all the time.
var ordinary = []kind{
	{"a step goes on", 60, false, func(w *world, a, _ int) {
		if s := one(w.steps, a); s != nil {
			w.advance(s, well, 0)
		}
	}},
	{"a step goes wrong", 6, false, func(w *world, a, b int) {
		if s := one(w.steps, a); s != nil {
			w.advance(s, 1+b%(ways-1), b/4)
		}
	}},
	{"the stream tells one thing", 30, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.tell(r, b, false)
		}
	}},
	{"the stream tells everything", 6, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.tell(r, b, true)
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
			for _, r := range w.atWork() { // in peace, nobody may take it for idle still
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

// some are the VMs of which something holds, that are there and no strangers.
func (w *world) some(holds func(*machine) bool) (all []*machine) {
	for _, m := range w.vc.vms {
		if !m.gone && !m.foreign && holds(m) {
			all = append(all, m)
		}
	}
	return all
}

// inSight: an operator who cannot see a VM leaves it alone.
func inSight(m *machine) bool { return !m.hidden }

var users = []kind{
	{"a user scales", 5, false, func(w *world, a, _ int) {
		n := int32(a % 6)
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.Replicas = &n })
	}},
	{"a user takes another template", 2, false, func(w *world, a, _ int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = []string{"ubuntu", "debian"}[a%2] })
	}},
	{"a user resizes", 2, false, func(w *world, a, _ int) {
		w.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = int32(1 + a%3) })
	}},
	{"a user deletes", 1, false, func(w *world, _, _ int) { w.delete() }},
	{"a user applies anew", 3, false, func(w *world, _, _ int) {
		if w.kube.group == nil {
			w.create()
		}
	}},
}

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
	{"a replica goes on", 5, false, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.resume(r, b%2 == 0)
		}
	}},
	{"a replica loses vCenter", 1, false, func(w *world, a, _ int) {
		if r := one(w.replicas, a); r != nil && !r.paused {
			w.say("%s knows nothing any more", r.name)
			r.view.known = false
			r.loop.Changed("")
			w.settle()
		}
	}},
	{"a stale parent comes", 4, true, func(w *world, a, b int) {
		if r := one(w.replicas, a); r != nil {
			w.call(r, 1+b%5, true)
		}
	}},
}

// operators are people at vCenter, and bad luck.
var operators = []kind{
	{"an operator powers off", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Power == plan.PoweredOn }), a); m != nil {
			m.faulty = true
			w.vc.power(m, false)
		}
	}},
	{"an operator powers on", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Power == plan.PoweredOff }), a); m != nil {
			w.vc.power(m, true)
			m.heeds = false
		}
	}},
	{"an operator destroys", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil {
			m.faulty = true
			w.vc.removes(m)
		}
	}},
	{"an operator renames", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil && w.vc.named(m.Folder, "old-"+m.Name) == nil {
			m.Name, m.tampered = "old-"+m.Name, true
			m.reconfigured()
		}
	}},
	{"an operator moves", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil && w.vc.named(elsewhere, m.Name) == nil {
			m.Folder, m.tampered = elsewhere, true
			m.changed()
		}
	}},
	{"an operator edits", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil {
			m.reconfigured()
		}
	}},
	{"an operator makes a VM of a member's name", 1, true, func(w *world, a, _ int) {
		name := plan.MemberName("web", int32(a%5))
		if w.vc.folder != "" && w.vc.named(w.vc.folder, name) == nil && !w.removesFolder() {
			m := w.vc.add("", plan.Action{Op: plan.Clone, VM: name, Folder: w.vc.folder})
			m.foreign = true
		}
	}},
	{"an operator unregisters, and registers again", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil {
			again := *m
			w.vc.removes(m)
			m.faulty = true
			again.MoRef, again.tampered, again.faulty = w.vc.ref("vm"), true, true
			w.vc.power(&again, false)
			w.vc.vms = append(w.vc.vms, &again)
		}
	}},
	{"a VM is hidden", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return !m.hidden && !m.tampered }), a); m != nil {
			m.hidden = true
			m.changed()
		}
	}},
	{"a VM shows again", 3, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.hidden }), a); m != nil {
			m.hidden = false
			m.changed()
		}
	}},
	{"a guest falls sick", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Tools }), a); m != nil {
			m.Tools, m.IPs, m.faulty = false, nil, true
			m.changed()
		}
	}},
}

// removesFolder: what comes into a folder while it is being removed is taken off the inventory with it, and no call can
// prevent that.
func (w *world) removesFolder() bool {
	return slices.ContainsFunc(w.steps, func(s *step) bool { return s.phase == underWay && s.a.Op == plan.RemoveFolder })
}

// script is what happens in a life.
func script(set setting) []event {
	r := rand.New(rand.NewPCG(set.seed, 2))
	var from []kind
	total := 0
	for _, k := range kinds {
		if !k.harm || !set.peaceful {
			from, total = append(from, k), total+k.weight
		}
	}
	events := make([]event, 40+r.IntN(80))
	for i := range events {
		n := r.IntN(total)
		at := slices.IndexFunc(from, func(k kind) bool { n -= k.weight; return n < 0 })
		events[i] = event{at: i, kind: from[at], a: r.IntN(840), b: r.IntN(840)}
	}
	return events
}

// rest is the end of a life: no more harm is done, what is going on goes on, and all must come to what is wanted.
func (w *world) rest() {
	w.say("no more harm is done")
	w.calm = true
	for len(w.replicas) < w.set.replicas {
		w.start()
	}
	sleepers := slices.Clone(w.replicas)
	if !w.set.buries || len(w.atWork()) == 0 { // else they wake up when all is over
		for _, r := range sleepers {
			w.resume(r, false)
		}
	}
	for _, m := range w.vc.vms {
		if m.hidden {
			m.hidden = false
			m.changed()
		}
		if m.foreign && m.Folder != elsewhere && !m.gone { // it was in the way
			w.vc.removes(m)
		}
	}
	if w.await("the wanted members", w.off); w.wrong != "" {
		return
	}
	w.atRest()
	if w.wrong == "" && w.set.buries && w.kube.group != nil {
		w.delete()
		w.await("the end", w.off)
	}
	for i, r := range sleepers {
		w.resume(r, i%2 == 0)
	}
	for n := range 4 {
		w.goOn(n)
		w.pass(time.Second)
	}
	w.lastLook()
}

// await leads the world on until nothing is off.
func (w *world) await(what string, off func() string) {
	idle, began := time.Second, time.Now()
	for n := 0; w.wrong == ""; n++ {
		if off() == "" && !w.moves() && !slices.ContainsFunc(w.atWork(), func(r *replica) bool { return !r.view.known || len(r.view.late()) > 0 }) {
			return
		}
		if n > 500 || time.Since(began) > time.Hour {
			w.violated("never at %s: %s", what, off())
			return
		}
		if w.goOn(n) {
			idle = time.Second
		}
		w.pass(idle)
		idle = min(2*idle, 25*time.Second)
	}
}

// atWork are the replicas that are not paused.
func (w *world) atWork() []*replica {
	return slices.DeleteFunc(slices.Clone(w.replicas), func(r *replica) bool { return r.paused })
}

// moves reports whether a step can go on.
func (w *world) moves() bool {
	return slices.ContainsFunc(w.steps, func(s *step) bool { return s.phase == underWay || !s.by.paused })
}

// goOn lets everything go on that can, and says whether there was anything.
func (w *world) goOn(n int) (busy bool) {
	w.resolveTwins()
	for _, m := range w.vc.vms {
		switch {
		case m.gone:
		case m.halting(), m.Power == plan.PoweredOn && !m.Quarantined.IsZero(): // whoever powered that on is done
			w.vc.power(m, false)
		case m.Power == plan.PoweredOn && !m.Tools && !m.halting():
			w.vc.boots(m)
		}
	}
	w.call(one(w.atWork(), n), 0, false)
	for range 20 {
		for _, r := range w.atWork() {
			if len(r.view.late()) > 0 || !r.view.known {
				w.tell(r, 0, true)
				busy = true
			}
		}
		if !w.moves() || w.wrong != "" {
			break
		}
		for _, s := range slices.Clone(w.steps) {
			if slices.Contains(w.steps, s) {
				w.advance(s, well, 0)
			}
		}
		busy = true
		w.look()
	}
	w.show()
	return busy
}

// resolveTwins is what the operator does who made twins: the one that works stays.
func (w *world) resolveTwins() {
	kept := map[int32]*machine{}
	for _, m := range w.vc.vms {
		if !m.member(w.kube.uid()) {
			continue
		}
		other := kept[m.Ordinal]
		switch {
		case other == nil:
			kept[m.Ordinal] = m
		case m.Power == plan.PoweredOn && other.Power != plan.PoweredOn:
			w.vc.removes(other)
			kept[m.Ordinal] = m
		case m.tampered || other.tampered:
			w.vc.removes(m)
		}
	}
}
