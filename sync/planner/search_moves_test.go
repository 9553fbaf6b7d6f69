package planner_test

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// move is what happens between two places, for the story.
type move struct {
	what    string
	who     int8 // the copy; nobody: none, or one that was killed
	op      plan.Op
	ordinal int8
	gen     uint8
}

// moves gives every place that can follow, in a fixed order. wrong says which invariant the move breaks; empty if none.
func (x *search) moves(p *place, then func(m move, q *place, wrong string)) {
	for r := range int8(2) {
		x.called(p, r, then)
		x.agedAndLooked(p, r, then)
		x.turned(p, r, then)
		for k := range uint8(keys) {
			if p.copies[r].running[k].op != 0 {
				x.went(p, r, k, then)
			}
			x.forgot(p, r, k, then)
		}
		x.killed(p, r, then)
	}
	for i := range p.orphans {
		if f := &p.orphans[i]; f.op != 0 {
			q := *p
			q.orphans[i] = flight{vm: nobody}
			m := move{who: nobody, op: searchOps[f.op], ordinal: p.ordinalOf(f), gen: f.gen}
			m.what = "of a killed copy comes to nothing"
			then(m, &q, "")
			if done, _, wrong := x.carry(&q, *f, nobody); done {
				m.what = "of a killed copy is carried out"
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
	return nobody
}

// called: a hook call comes, with the old spec or the new one. Metacontroller has one worker for a parent, so once a
// finalizing call was made no other follows (a call that waited in a socket is loop's echo); after finalized, none at all.
func (x *search) called(p *place, r int8, then func(move, *place, string)) {
	for gen := uint8(1); gen <= 2 && !p.ended; gen++ {
		finalizing := x.deletes() && gen == 2
		if c := &p.copies[r]; gen < c.gen || p.begun && !finalizing {
			continue // stale: answered from memory, renews nothing
		}
		q := *p
		c := &q.copies[r]
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
		for i := range q.n {
			c.seen[i].late, q.vms[i].late[r] = false, false
		}
		q.owns(r)
		d := x.decide(&q, r)
		q.saw(r)
		wrong := ""
		if q.ended = d.finalized; q.ended {
			wrong = q.leftBehind()
		}
		then(move{what: "is called", who: r, gen: gen, ordinal: nobody}, &q, wrong)
	}
}

func (c *replica) forgive() {
	for k := range c.failed {
		c.failed[k] = failure{vm: nobody}
	}
}

// leftBehind says what of the group is there although a copy says that it is finalized: invariant 4.
func (p *place) leftBehind() (wrong string) {
	for i := range p.n {
		if p.vms[i].alive && p.vms[i].stamped {
			wrong = "4: finalized, and a VM of the group is left"
		}
	}
	p.flights(func(f *flight) {
		if f.is(plan.Clone) && f.called && f.folder == p.folder {
			wrong = "4: finalized, and a clone is under way"
		}
	})
	return wrong
}

// agedAndLooked: the last call becomes old; something that changed is seen.
func (x *search) agedAndLooked(p *place, r int8, then func(move, *place, string)) {
	c := &p.copies[r]
	// A lease that ends is told only where it matters: an idle copy of a group that stays, or that ends the group itself, does
	// the same as one without a lease.
	if x.deletes() && !c.finalizing && c.call != unleased {
		q := *p
		q.copies[r].call--
		then(move{what: "was called a while ago", who: r, ordinal: nobody}, &q, "")
	}
	// Everybody else's leases have ended a lease after the deletion was first told.
	if s := &p.copies[1-r]; x.waitsForLeases() && c.finalizing && !c.leaseOver && (s.finalizing || s.call == unleased) {
		q := *p
		q.copies[r].leaseOver = true
		then(move{what: "has known of the deletion for a lease", who: r, ordinal: nobody}, &q, "")
	}
	if x.inOrder {
		q := *p
		if q.lookAtEverything(r); q.copies[r] != *c {
			then(move{what: "sees all as it is", who: r, ordinal: nobody}, &q, "")
		}
		return
	}
	for i := range int8(p.n) {
		q := *p
		if q.look(r, i); c.touched {
			q.lookAtAll(r)
		}
		if q.copies[r].seen != c.seen {
			then(move{what: "sees what became of", who: r, ordinal: int8(p.vms[i].ordinal)}, &q, "")
		}
	}
	if c.touched {
		q := *p
		q.lookAtAll(r)
		then(move{what: "sees what became of all", who: r, ordinal: nobody}, &q, "")
	}
	if c.folder != p.folder {
		q := *p
		q.copies[r].folder = p.folder
		then(move{what: "sees what became of the folder", who: r, ordinal: nobody}, &q, "")
	}
}

// look shows a VM to a copy as it is now.
func (p *place) look(r, i int8) {
	m := &p.vms[i]
	if p.copies[r].seen[i] = (glimpse{}); m.alive && m.stamped {
		p.copies[r].seen[i] = glimpse{seen: true, looks: m.looks, late: m.late[r], current: true}
	}
}

// lookAtAll shows a copy all VMs that it knows.
func (p *place) lookAtAll(r int8) {
	for i := range int8(p.n) {
		if p.copies[r].seen[i].seen {
			p.look(r, i)
		}
	}
	p.copies[r].touched = false
}

// lookAtEverything shows a copy all there is.
func (p *place) lookAtEverything(r int8) {
	for i := range int8(p.n) {
		p.look(r, i)
	}
	p.copies[r].folder, p.copies[r].touched = p.folder, false
}

// owns is what a call shows of the folder, before that is finalized (group.owns).
func (p *place) owns(r int8) {
	if c := &p.copies[r]; c.folder != 0 && (!c.finalizing || c.owned == 0) {
		c.owned |= 1 << c.folder
	}
}

// saw is what the loop remembers of an observation (group.saw).
func (p *place) saw(r int8) {
	c := &p.copies[r]
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

// turned: the group's turn has come, and the first step of its plan begins; the next one where the first backs off.
func (x *search) turned(p *place, r int8, then func(move, *place, string)) {
	if p.copies[r].call == unleased {
		return
	}
	d := x.decide(p, r)
	q := *p
	if q.saw(r); q.copies[r].newest != p.copies[r].newest || q.copies[r].owned != p.copies[r].owned || q.copies[r].folderSince != p.copies[r].folderSince {
		then(move{what: "makes a plan", who: r, ordinal: nobody}, &q, "")
	}
	for i := range d.actions {
		f := d.actions[i]
		if p.copies[r].running[f.key].op != 0 {
			continue
		}
		next := q
		c := &next.copies[r]
		if f.gen = c.gen; f.vm >= 0 {
			f.current = f.guarded && c.seen[f.vm].current
		}
		failed := c.failed[f.key].op != 0
		if c.running[f.key] = f; c.failed[f.key].before(&f) == 0 {
			c.failed[f.key] = failure{vm: nobody} // else it may still have been carried out
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

// unannounced says that a step takes a member down without asking for its mark: invariant 7.
func (x *search) unannounced(p *place, r int8, f *flight) string {
	if (f.is(plan.PowerOff) || f.is(plan.Destroy)) && !f.marked && !f.never && !p.copies[r].finalizing {
		return "7: a member is taken down that need not be marked"
	}
	return ""
}

// forgot: a failure of a step that nobody wants any more was a minute ago.
func (x *search) forgot(p *place, r int8, k uint8, then func(move, *place, string)) {
	f := &p.copies[r].failed[k]
	if f.op == 0 || p.copies[r].running[k].op != 0 || p.copies[r].call == unleased || f.vm >= 0 && p.poweringOff(f.vm) { // no power-off takes a minute
		return
	}
	for _, a := range x.decide(p, r).actions {
		if a.key == k && a.op == f.op {
			return
		}
	}
	q := *p
	q.copies[r].failed[k] = failure{vm: nobody}
	q.lookAtEverything(r)
	then(move{what: "forgets that it failed:", who: r, op: searchOps[f.op], ordinal: int8(k)}, &q, "")
}

// killed: a copy's process ends, and another begins. It reads the inventory again, and what vCenter was told goes on.
func (x *search) killed(p *place, r int8, then func(move, *place, string)) {
	if p.kills >= x.kills {
		return
	}
	for k := range p.copies[r].running { // a process begins, reads and is called in more time than a power-off takes
		if f := &p.copies[r].running[k]; f.is(plan.Unmark) && f.called && p.poweringOff(f.vm) {
			return
		}
	}
	q := *p
	q.kills++
	free := 0
	for k := range q.copies[r].running {
		f := q.copies[r].running[k]
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
	q.copies[r] = newReplica()
	q.lookAtEverything(r)
	q.flights(func(f *flight) { f.awaited[r] = false })
	then(move{what: "is killed and restarts", who: r, ordinal: nobody}, &q, "")
}

func newReplica() (c replica) {
	for k := range c.running {
		c.running[k].vm, c.failed[k].vm = nobody, nobody
	}
	return c
}
