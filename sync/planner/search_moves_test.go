package planner_test

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// move is what happens between two places, for the story.
type move struct {
	what    string
	who     int8 // the replica; none if it was killed, or plays no part
	op      plan.Op
	ordinal int8
	gen     uint8
}

// moves gives every place that can follow, in a fixed order. wrong names the invariant that the move breaks; empty if none.
func (x *search) moves(p *place, then func(m move, q *place, wrong string)) {
	for r := range int8(2) {
		x.called(p, r, then)
		x.agedAndLooked(p, r, then)
		x.turned(p, r, then)
		for k := range uint8(keys) {
			if p.replicas[r].running[k].op != 0 {
				x.went(p, r, k, then)
			}
			x.forgot(p, r, k, then)
		}
		x.killed(p, r, then)
	}
	for i := range p.orphans {
		if f := &p.orphans[i]; f.op != 0 {
			q := *p
			q.orphans[i] = flight{vm: none}
			m := move{who: none, op: searchOps[f.op], ordinal: p.ordinalOf(f), gen: f.gen}
			m.what = "of a killed replica comes to nothing"
			then(m, &q, "")
			if done, _, wrong := x.carry(&q, *f, none); done {
				m.what = "of a killed replica is carried out"
				then(m, &q, wrong)
			}
		}
	}
}

func (p *place) ordinalOf(f *flight) int8 {
	switch {
	case f.key < manyOrdinals:
		return int8(f.key)
	case f.vm >= 0:
		return int8(p.vms[f.vm].ordinal)
	}
	return none
}

// called gives a replica a hook call, with the old spec or the new one. Metacontroller has one worker for a parent, so after a finalizing call no
// sync call follows (suspend.go in sync/loop handles a call that waited in a socket), and after the group is finalized no call at all.
func (x *search) called(p *place, r int8, then func(move, *place, string)) {
	for gen := uint8(1); gen <= 2 && !p.ended; gen++ {
		finalizing := x.deletes() && gen == 2
		if c := &p.replicas[r]; gen < c.gen || p.begun && !finalizing {
			continue // a stale call: answered from memory, it renews no lease
		}
		q := *p
		c := &q.replicas[r]
		if gen > c.gen {
			c.forgive()
		}
		if finalizing && !c.finalizing {
			c.forgive()
			c.finalizing, c.emptied, c.leaseOver = true, false, false
			for k := range c.running {
				f := &c.running[k]
				f.void = f.op != 0 && !f.called && (x.twoMoments(f) || f.is(plan.CreateFolder)) && !x.without("the question when a step was begun")
			}
		}
		q.begun = q.begun || finalizing
		if c.gen, c.call, c.folderSince = gen, leased, false; x.deletes() && !finalizing {
			c.call = fresh
		}
		q.owns(r)
		d := x.decide(&q, r)
		q.saw(r)
		wrong := ""
		if q.ended = d.finalized; q.ended {
			wrong = q.leftBehind()
		}
		then(move{what: "gets a call", who: r, gen: gen, ordinal: none}, &q, wrong)
	}
}

func (c *replica) forgive() {
	for k := range c.failed {
		c.failed[k] = failure{vm: none}
	}
}

// leftBehind says what is left of the group although a replica returned finalized: invariant 4.
func (p *place) leftBehind() (wrong string) {
	for i := range p.n {
		if p.vms[i].alive && p.vms[i].stamped {
			wrong = "4: finalized, and a VM of the group is left"
		}
	}
	p.flights(func(f *flight) {
		if f.is(plan.Clone) && f.called && f.folder == p.folder {
			wrong = "4: finalized, and a clone is running"
		}
	})
	return wrong
}

// agedAndLooked makes the last call of a replica old, or shows the replica something that has changed.
func (x *search) agedAndLooked(p *place, r int8, then func(move, *place, string)) {
	c := &p.replicas[r]
	// The end of a lease is a move only where it matters: an idle replica of a group that stays, or that ends the group itself, does
	// the same as one without a lease.
	if x.deletes() && !c.finalizing && c.call != unleased {
		q := *p
		q.replicas[r].call--
		then(move{what: "got its last call a while ago", who: r, ordinal: none}, &q, "")
	}
	// All other replicas' leases have ended a lease after the first call with the deletion.
	if s := &p.replicas[1-r]; x.waitsForLeases() && c.finalizing && !c.leaseOver && (s.finalizing || s.call == unleased) {
		q := *p
		q.replicas[r].leaseOver = true
		then(move{what: "has known of the deletion for a lease", who: r, ordinal: none}, &q, "")
	}
	if x.inOrder {
		q := *p
		if q.lookAtEverything(r); q.replicas[r] != *c {
			then(move{what: "sees all as it is", who: r, ordinal: none}, &q, "")
		}
		return
	}
	for i := range int8(p.n) {
		q := *p
		if q.look(r, i); q.replicas[r].seen != c.seen {
			then(move{what: "sees what became of", who: r, ordinal: int8(p.vms[i].ordinal)}, &q, "")
		}
	}
	if c.folder != p.folder {
		q := *p
		q.replicas[r].folder = p.folder
		then(move{what: "sees what became of the folder", who: r, ordinal: none}, &q, "")
	}
}

// look shows a replica a VM as it is now.
func (p *place) look(r, i int8) {
	m := &p.vms[i]
	if p.replicas[r].seen[i] = (glimpse{}); m.alive && m.stamped {
		p.replicas[r].seen[i] = glimpse{seen: true, looks: m.looks, current: true}
	}
}

// lookAtAll shows a replica all VMs that it knows.
func (p *place) lookAtAll(r int8) {
	for i := range int8(p.n) {
		if p.replicas[r].seen[i].seen {
			p.look(r, i)
		}
	}
}

// lookAtEverything shows a replica everything.
func (p *place) lookAtEverything(r int8) {
	for i := range int8(p.n) {
		p.look(r, i)
	}
	p.replicas[r].folder = p.folder
}

// owns is what a call records of the folder, before the group is finalized (group.owns).
func (p *place) owns(r int8) {
	if c := &p.replicas[r]; c.folder != 0 && (!c.finalizing || c.owned == 0) {
		c.owned |= 1 << c.folder
	}
}

// saw is what the loop remembers of an observation (group.saw).
func (p *place) saw(r int8) {
	c := &p.replicas[r]
	if c.folder != 0 {
		c.folderSince = true
		if c.finalizing && c.owned == 0 && !c.emptied {
			c.owned |= 1 << c.folder
		}
	}
	for i := range p.n {
		if g := &c.seen[i]; g.seen {
			c.newest = max(c.newest, g.gen)
			c.owned |= 1 << p.vms[i].folder
		}
	}
}

// turned begins the first step of a replica's plan, because the group's turn has come; if that step backs off, the next one.
func (x *search) turned(p *place, r int8, then func(move, *place, string)) {
	if p.replicas[r].call == unleased {
		return
	}
	d := x.decide(p, r)
	q := *p
	if q.saw(r); q.replicas[r].newest != p.replicas[r].newest || q.replicas[r].owned != p.replicas[r].owned || q.replicas[r].folderSince != p.replicas[r].folderSince {
		then(move{what: "makes a plan", who: r, ordinal: none}, &q, "")
	}
	for i := range d.actions {
		f := d.actions[i]
		if p.replicas[r].running[f.key].op != 0 {
			continue
		}
		next := q
		c := &next.replicas[r]
		if f.gen = c.gen; f.vm >= 0 {
			f.current = f.guarded && c.seen[f.vm].current
		}
		failed := c.failed[f.key].op != 0
		if c.running[f.key] = f; c.failed[f.key].before(&f) == 0 {
			c.failed[f.key] = failure{vm: none} // else it may still have been carried out
		}
		then(move{what: "begins", who: r, op: searchOps[f.op], ordinal: p.ordinalOf(&f)}, &next, x.unannounced(p, r, &f))
		if !failed && f.remembered() {
			return // it does not back off, so it is the one
		}
	}
}

// remembered reports whether a failure of the step is kept here (replica.matters); one that is not may back off at any time.
func (f *flight) remembered() bool {
	return f.is(plan.PowerOff) || f.is(plan.Destroy) || f.is(plan.Mark) || f.is(plan.Unmark) || f.is(plan.Release)
}

// unannounced reports a step that takes a member down without requiring its mark: invariant 7.
func (x *search) unannounced(p *place, r int8, f *flight) string {
	if (f.is(plan.PowerOff) || f.is(plan.Destroy)) && !f.marked && !f.never && !p.replicas[r].finalizing {
		return "7: a member is taken down that need not be marked"
	}
	return ""
}

// forgot drops the failure of a step that is no longer planned, as the loop does after a minute.
func (x *search) forgot(p *place, r int8, k uint8, then func(move, *place, string)) {
	f := &p.replicas[r].failed[k]
	if f.op == 0 || p.replicas[r].running[k].op != 0 || p.replicas[r].call == unleased || f.vm >= 0 && p.poweringOff(f.vm) { // no power-off takes a minute
		return
	}
	for _, a := range x.decide(p, r).actions {
		if a.key == k && a.op == f.op {
			return
		}
	}
	q := *p
	q.replicas[r].failed[k] = failure{vm: none}
	q.lookAtEverything(r)
	then(move{what: "forgets that it failed:", who: r, op: searchOps[f.op], ordinal: int8(k)}, &q, "")
}

// killed ends a replica's process and starts another one, which reads the inventory again. vCenter's tasks continue.
func (x *search) killed(p *place, r int8, then func(move, *place, string)) {
	if p.kills >= x.kills {
		return
	}
	for k := range p.replicas[r].running { // a process takes longer to begin, read and get a call than a power-off
		if f := &p.replicas[r].running[k]; f.is(plan.Unmark) && f.called && p.poweringOff(f.vm) {
			return
		}
	}
	q := *p
	q.kills++
	free := 0
	for k := range q.replicas[r].running {
		f := q.replicas[r].running[k]
		if f.op == 0 || f.is(plan.Unmark) && f.called || x.twoMoments(&f) && !f.called {
			continue
		}
		for free < maxOrphans && q.orphans[free].op != 0 {
			free++
		}
		if free == maxOrphans {
			x.cut++
			return
		}
		q.orphans[free] = f
	}
	q.replicas[r] = newReplica()
	q.lookAtEverything(r)
	q.flights(func(f *flight) { f.awaited[r] = false })
	then(move{what: "is killed and restarts", who: r, ordinal: none}, &q, "")
}

func newReplica() (c replica) {
	for k := range c.running {
		c.running[k].vm, c.failed[k].vm = none, none
	}
	return c
}
