package planner_test

import (
	"fmt"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// This file models what is between a plan and vCenter: whether a step's call is made, refused or lost, and what package vsphere checks. plan.Apply
// says what a step that succeeds does to its VM, as in the forecast and in test/world.

// twoMoments reports whether the model separates a step's call from the end of its task, because another step looks for running tasks in between:
// Unmark for a PowerOff, the end of a group for a Clone. An Unmark writes the stamp and then looks; a PowerOn that promotes writes the stamp first.
func (x *search) twoMoments(f *flight) bool {
	return f.is(plan.PowerOn) && f.standby || f.is(plan.PowerOff) || f.is(plan.Unmark) || f.is(plan.Clone) && x.deletes()
}

// went continues a step: it is carried out, or refused, or carried out and its reply is lost.
func (x *search) went(p *place, r int8, k uint8, then func(move, *place, string)) {
	f := p.replicas[r].running[k]
	m := move{who: r, op: searchOps[f.op], ordinal: p.ordinalOf(&f)}
	fail := func(what string, p *place, final bool) {
		q := *p
		c := &q.replicas[r]
		c.running[k] = flight{vm: none}
		c.failed[k] = failure{op: f.op, vm: f.vm, cycle: f.why == whyCycle, final: final, tried: c.failed[k].before(&f)}
		m.what = what
		then(m, &q, "")
	}
	if x.twoMoments(&f) && !f.called {
		fail("is refused:", p, false)
		q := *p
		if wrong, may := x.call(&q, &f); may && p.replicas[r].call != unleased && !f.void {
			q.replicas[r].running[k].called = true
			m.what = "calls"
			then(m, &q, wrong)
		}
		return
	}
	if !f.is(plan.Unmark) { // whose stamp is already written
		fail("is refused:", p, false)
		if f.is(plan.Mark) && p.replicas[r].finalizing {
			fail("is refused permanently:", p, true)
		}
	}
	if f.is(plan.CreateFolder) && (f.void || p.replicas[r].call == unleased) {
		return // it is a call, and no task that continues
	}
	q := *p
	done, vm, wrong := true, f.vm, ""
	if !f.is(plan.Unmark) {
		done, vm, wrong = x.carry(&q, f, r)
	}
	if !done {
		if wrong == unmanagedStays {
			fail("finds an unmanaged VM in the folder:", &q, true)
		} else if f.is(plan.ConfirmGone) || f.is(plan.RemoveFolder) { // the request is remembered
			fail("finds something left:", &q, false)
		}
		return
	}
	lost := q
	if f.is(plan.Mark) && !x.without("the look at all after a mark") {
		lost.lookAtAll(r)
	}
	if wrong == "" {
		fail("does, and hears nothing of it:", &lost, false)
	}
	if f.is(plan.Unmark) && q.poweringOff(f.vm) {
		return // another step waits for it
	}
	c := &q.replicas[r]
	c.running[k], c.failed[k] = flight{vm: none}, failure{vm: none}
	switch {
	case f.is(plan.Mark) && !x.without("the look at all after a mark"):
		q.lookAtAll(r)
	case f.is(plan.ConfirmGone):
		c.emptied = c.finalizing
		q.lookAtEverything(r)
	case vm >= 0:
		q.look(r, vm)
	case f.key == folderAt:
		if c.folder = q.folder; f.is(plan.CreateFolder) {
			c.owned |= 1 << c.folder
		}
	}
	m.what = "does"
	then(m, &q, wrong)
}

func (p *place) poweringOff(vm int8) (is bool) {
	p.flights(func(f *flight) { is = is || f.is(plan.PowerOff) && f.called && f.vm == vm })
	return is
}

// call makes the call of a step that has two moments.
func (x *search) call(q *place, f *flight) (wrong string, may bool) {
	switch {
	case f.is(plan.Clone):
		return "", f.folder == q.folder
	case f.vm < 0:
		return "", false
	case f.is(plan.PowerOn):
		if m := &q.vms[f.vm]; m.alive && m.stamped && !m.standby {
			return "", true // another replica promoted it
		}
		if may = x.guarded(q, f); may { // the stamp comes first
			m := &q.vms[f.vm]
			m.standby, m.gen = false, max(m.gen, f.gen)
			q.changed(f.vm)
		}
		return "", may
	case f.is(plan.Unmark):
		return "", x.stamp(q, f)
	}
	m := &q.vms[f.vm]
	switch {
	case !m.alive, q.poweringOff(f.vm):
		return "", false
	case f.marked && !(m.stamped && m.marked) && !x.without("the look before a member is taken down"):
		return "", false
	case !m.stamped:
		return "2: a VM without our stamp is powered off", true
	case f.marked && !m.marked:
		return "7: a member is powered off that is not marked", true
	case !f.marked: // the group is deleted: nothing is promised
		return "", true
	}
	if wrong := x.oneTooMany(q, f); wrong != "" {
		return wrong, true
	}
	serving := 0
	for i := range int8(q.n) {
		if v := &q.vms[i]; v.alive && v.stamped && v.on && (i == f.vm || !q.poweringOff(i)) {
			serving++
		}
	}
	if m.on && serving-1 < x.promised(f.gen) {
		return "10: a step takes availability below replicas less maxUnavailable", true
	}
	return "", true
}

// oneTooMany reports a scale-in that takes down a member that must stay: invariant 14. Those that were taken down before don't count.
func (x *search) oneTooMany(q *place, f *flight) string {
	if m := &q.vms[f.vm]; m.why != whyScaleIn || m.standby {
		return ""
	}
	stay := int32(0)
	for i := range int8(q.n) {
		v := &q.vms[i]
		down := v.marked && v.why == whyScaleIn && (!v.on || q.poweringOff(i))
		stay += int32(oneWhere(i != f.vm && v.alive && v.stamped && !v.standby && !down))
	}
	if want := min(x.groups[f.gen].Replicas(), x.groups[q.vms[f.vm].gen].Replicas()); stay < want { // another replica may finish what was marked
		return fmt.Sprintf("14: a scale-in leaves %d members of %d", stay, want)
	}
	return ""
}

// guarded reports whether a stamp can be written, as its guard by changeVersion says.
func (x *search) guarded(q *place, f *flight) bool {
	return f.vm >= 0 && q.vms[f.vm].alive && q.vms[f.vm].stamped && (!f.guarded || f.current || x.without("the guard by changeVersion"))
}

// stamp is a reconfigure.
func (x *search) stamp(q *place, f *flight) bool {
	if !x.guarded(q, f) {
		return false
	}
	x.apply(&q.vms[f.vm], f)
	q.changed(f.vm)
	return true
}

// apply changes a VM as a step that succeeds does; a Clone makes it. It asks plan.Apply once for each step and VM that differ.
func (x *search) apply(m *machine, f *flight) {
	asked := effect{m.looks, f.op, f.why, f.gen, f.standby}
	then, known := x.effects[asked]
	if !known {
		then = x.applied(m, f)
		x.effects[asked] = then
	}
	m.looks, m.alive = then.looks, then.alive
	m.ran = m.ran || m.on
}

// effect is a step that succeeds, and the VM before it.
type effect struct {
	looks
	op, why, gen uint8
	standby      bool
}

func (x *search) applied(m *machine, f *flight) machine {
	o := plan.Observed{Group: x.groups[f.gen], Now: now}
	a := plan.Action{Op: searchOps[f.op], MoRef: vmName(0), Key: plan.MemberName("web", int32(m.ordinal)), Ordinal: int32(m.ordinal), Generation: int64(f.gen)}
	switch a.Op {
	case plan.Clone:
		a.Args = plan.CloneArgs{CPU: int32(x.size(f.gen)), MemoryMB: o.Group.MemoryMB(), Standby: f.standby}
	case plan.Mark:
		a.Args = plan.MarkArgs{Reason: searchWhy[f.why]}
	case plan.Reconfigure:
		a.Args = plan.ResizeArgs{CPU: int32(x.size(f.gen)), MemoryMB: o.Group.MemoryMB()}
	case plan.PowerOn:
		if !f.standby {
			a.Generation = 0
		}
	}
	if a.Op != plan.Clone {
		o.State.VMs = []plan.VM{x.vm(m, &glimpse{looks: m.looks}, 0, now)}
	}
	plan.Apply(&o, a)
	if len(o.State.VMs) == 0 { // it is the group's no longer
		gone := *m
		gone.stamped, gone.alive = a.Op != plan.Release && m.stamped, a.Op == plan.Release
		return gone
	}
	vm := &o.State.VMs[0]
	return machine{alive: true, looks: looks{stamped: m.stamped || a.Op == plan.Clone, on: vm.Power == plan.PoweredOn, marked: vm.Marked, standby: vm.Standby,
		why: uint8(slices.Index(searchWhy, vm.MarkReason)), gen: uint8(vm.Generation), size: uint8(vm.CPU)}}
}

// carry ends a step's task. done reports whether the task succeeded; vm is the VM that it changed.
func (x *search) carry(q *place, f flight, by int8) (done bool, vm int8, wrong string) {
	vm = f.vm
	var m *machine
	if vm >= 0 && q.vms[vm].alive {
		m = &q.vms[vm]
	}
	// vCenter changes a VM by one task at a time: a task that begins while the VM is being powered off fails with TaskInProgress ([doc] of
	// PowerOnVM_Task, ReconfigVM_Task and the others: "if the virtual machine is busy"). The search doesn't assume that for stamps.
	if m != nil && q.poweringOff(vm) && (f.is(plan.PowerOn) || f.is(plan.Reconfigure) || f.is(plan.Destroy)) {
		return false, vm, ""
	}
	switch searchOps[f.op] {
	case plan.CreateFolder:
		if q.folder == 0 {
			q.folder = q.newFolder()
		}
		return true, none, ""
	case plan.Clone:
		return x.cloned(q, &f)
	case plan.PowerOn:
		if m == nil || !m.stamped || m.marked && !x.without("the look before a power-on") {
			return false, vm, ""
		}
		x.apply(m, &f)
	case plan.PowerOff:
		if m == nil {
			return false, vm, ""
		}
		x.apply(m, &f)
	case plan.Reconfigure:
		if m == nil || m.on { // cold
			return false, vm, ""
		}
		return x.stamp(q, &f), vm, ""
	case plan.Mark, plan.Release:
		return x.stamp(q, &f), vm, ""
	case plan.Destroy:
		switch {
		case m == nil:
			return true, vm, ""
		case !m.stamped, m.on, f.never && m.ran, f.marked && (!m.marked || m.why == whyCycle) && !x.without("the look before a member is taken down"):
			return false, vm, ""
		case f.marked && !m.marked:
			wrong = "7: a member is destroyed that is not marked"
		default:
			wrong = x.oneTooMany(q, &f)
		}
		x.apply(m, &f)
		q.changed(vm)
	case plan.RemoveFolder:
		return x.folderRemoved(q, &f, by)
	case plan.ConfirmGone:
		return x.noCloneRunning(q, by) && !q.inhabited(), none, ""
	}
	return true, vm, wrong
}

func (p *place) newFolder() uint8 {
	next := uint8(1)
	for i := range p.n {
		next = max(next, p.vms[i].folder+1)
	}
	for r := range p.replicas {
		next = max(next, p.replicas[r].folder+1)
	}
	p.flights(func(f *flight) { next = max(next, f.folder+1) })
	return next
}

// cloned ends a Clone. It fails if the folder contains another object with the name, which is the lock of the ordinal.
func (x *search) cloned(q *place, f *flight) (done bool, vm int8, wrong string) {
	if q.folder == 0 || q.folder != f.folder || int(f.key) == x.unmanaged {
		return false, none, ""
	}
	for i := range int8(q.n) {
		if m := &q.vms[i]; m.alive && m.ordinal == f.key {
			if m.folder == f.folder && !x.without("one name in one folder") {
				return m.stamped, i, "" // else NameConflict
			}
			if m.stamped {
				wrong = "1: two VMs of one ordinal"
			}
		}
	}
	if q.n == maxVMs {
		x.cut++
		return false, none, ""
	}
	if q.ended {
		wrong = "4: finalized, and a VM of the group is made"
	}
	q.vms[q.n] = machine{ordinal: f.key, revision: x.revision(f.gen), folder: f.folder}
	x.apply(&q.vms[q.n], f)
	q.n++
	return true, int8(q.n) - 1, wrong
}

// noCloneRunning waits for the clones that ran when it was first asked for.
func (x *search) noCloneRunning(q *place, by int8) bool {
	if by == none {
		return false // the replica that asks is gone: nothing follows
	}
	c, left := &q.replicas[by], false
	q.flights(func(f *flight) {
		if !c.asked && f.is(plan.Clone) && (f.called || !x.twoMoments(f)) {
			f.awaited[by] = true
		}
		left = left || f.awaited[by]
	})
	c.asked = true
	return !left || x.without("the wait for clones")
}

// inhabited reports whether a VM of the group exists.
func (p *place) inhabited() bool {
	for i := range p.n {
		if p.vms[i].alive && p.vms[i].stamped {
			return true
		}
	}
	return false
}

// unmanagedIn reports whether the folder contains an unmanaged VM.
func (x *search) unmanagedIn(p *place) bool {
	is := x.unmanaged != none
	for i := range p.n {
		is = is || p.vms[i].alive && !p.vms[i].stamped
	}
	return is && p.folder == 1
}

// unmanagedStays is why a folder is not removed.
const unmanagedStays = "FolderHoldsStranger"

func (x *search) folderRemoved(q *place, f *flight, by int8) (done bool, vm int8, wrong string) {
	switch {
	case by != none && !x.noCloneRunning(q, by):
		return false, none, ""
	case q.folder != f.folder:
		return true, none, ""
	case q.inhabited():
		return false, none, ""
	case x.unmanagedIn(q) && !x.without("the look into the folder"):
		if by != none && !x.without("the clones listed again") { // others may have begun since
			q.replicas[by].asked = false
			q.flights(func(f *flight) { f.awaited[by] = false })
		}
		return false, none, unmanagedStays
	case x.unmanagedIn(q):
		wrong = "2: a folder is removed with an unmanaged VM in it"
	}
	q.folder = 0
	return true, none, wrong
}
