package planner_test

import (
	"bytes"
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A place is a state of the small world: vCenter, and what each of two replicas knows. All its parts are
// plain values, so that an assignment copies it.
type place struct {
	vms      [maxVMs]machine // those in use come first, by ordinal and age
	n        uint8
	folder   uint8 // the group's folder; 0: there is none
	replicas [2]replica
	orphans  [maxOrphans]flight // the steps of a replica that was killed
	kills    uint8              // number of kills
	begun    bool               // a replica got a call with the deletion
	ended    bool               // a replica returned finalized
}

const (
	maxVMs       = 8
	maxOrphans   = 3
	manyOrdinals = 4
	folderAt     = manyOrdinals     // the key of the folder's steps
	confirmAt    = manyOrdinals + 1 // the key of ConfirmGone
	keys         = manyOrdinals + 2
	none         = -1 // no VM, ordinal or replica
	departed     = -2 // a VM that is gone and that no replica sees any more
)

// machine is a VM as it is. Its name and folder are those of its clone, forever: operators change nothing.
type machine struct {
	ordinal, revision, folder uint8
	alive                     bool // else destroyed; it is kept here as long as a replica sees it
	looks
	ran   bool // it was powered on once, as vCenter's events tell
	first bool // it was there when the life began
}

// looks are what a stamp, a configuration and a power state show.
type looks struct {
	stamped, on, marked bool
	standby             bool // according to the stamp
	why, gen, size      uint8
}

// glimpse is a VM as a replica knows it, of any age.
type glimpse struct {
	seen bool
	looks
	current bool // its configuration has not changed since: a guard by changeVersion would pass
}

type replica struct {
	gen                 uint8 // of the newest call; 0: none since the process began
	call                uint8
	finalizing, emptied bool
	leaseOver           bool // since its finalizing began one lease has passed
	folderSince         bool // the folder was seen since the last call
	asked               bool // noCloneRunning was asked for the group
	newest              uint8
	owned               uint8 // bits of the folders that were the group's; bit 0: others before
	folder              uint8 // as the replica knows it
	seen                [maxVMs]glimpse
	running             [keys]flight
	failed              [keys]failure
}

// The values of replica.call.
const (
	unleased = iota
	leased   // the last call permits acting, and is older than the grace of a folder
	fresh    // the last call was a moment ago
)

// flight is a step that was begun.
type flight struct {
	op       uint8 // index in searchOps; 0: none
	key      uint8
	vm       int8
	why, gen uint8 // gen: of the spec that it was planned from
	folder   uint8
	marked   bool // Action.Marked
	never    bool // Action.NeverOn
	standby  bool // Action.Standby
	void     bool // it began before its replica knew of the deletion, and vCenter was not called
	guarded  bool // Action.ChangeVersion was given
	current  bool // its guard would pass
	called   bool // vCenter's task is running; of an Unmark: the stamp is written
	awaited  [2]bool
}

// failure is a step that failed, and may have been carried out.
type failure struct {
	op    uint8
	vm    int8
	cycle bool  // a Mark for a power cycle
	final bool  // it does not pass by itself
	tried uint8 // what failed before for that VM and may have taken it down
}

// before is what had failed before a step was begun, and may have taken its VM down (loop.failure.before).
func (f *failure) before(next *flight) uint8 {
	switch {
	case f.vm != next.vm || f.vm < 0:
		return 0
	case f.op != next.op && searchOps[f.op].TakesDown():
		return f.op
	}
	return f.tried
}

var (
	searchOps = []plan.Op{"", plan.CreateFolder, plan.Reconfigure, plan.PowerOn, plan.Unmark, plan.Clone, plan.Mark, plan.PowerOff, plan.Release, plan.Destroy, plan.RemoveFolder, plan.ConfirmGone}
	searchWhy = []plan.MarkReason{"", plan.MarkReasonScaleIn, plan.MarkReasonUpdate, plan.MarkReasonResize, plan.MarkReasonPowerCycle, plan.MarkReasonDuplicate}
)

func (f *flight) is(op plan.Op) bool { return searchOps[f.op] == op }

// Indexes in searchWhy.
const (
	whyScaleIn = 1
	whyCycle   = 4
)

// changed records that a VM's configuration changed: steps planned from the former one are refused.
func (p *place) changed(vm int8) {
	for r := range p.replicas {
		c := &p.replicas[r]
		c.seen[vm].current = false
		for k := range c.running {
			if c.running[k].vm == vm {
				c.running[k].current = false
			}
		}
	}
	for i := range p.orphans {
		if p.orphans[i].vm == vm {
			p.orphans[i].current = false
		}
	}
}

// flights calls f for every step that is running.
func (p *place) flights(f func(*flight)) {
	for r := range p.replicas {
		for k := range p.replicas[r].running {
			if p.replicas[r].running[k].op != 0 {
				f(&p.replicas[r].running[k])
			}
		}
	}
	for i := range p.orphans {
		if p.orphans[i].op != 0 {
			f(&p.orphans[i])
		}
	}
}

// tidy brings places that differ only in facts that don't matter to the same form: it forgets VMs and folders that no replica knows any more,
// assigns numbers again, and drops failures that no plan uses.
func (p *place) tidy(sc *scenario) {
	kept, to := p.vms, [maxVMs]int8{}
	order := make([]uint8, 0, maxVMs)
	for i := range p.n {
		m := &kept[i]
		if !m.alive {
			m.looks, m.ran = looks{}, false
		}
		if to[i] = departed; m.alive || p.replicas[0].seen[i].seen || p.replicas[1].seen[i].seen {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b uint8) int { return int(kept[a].ordinal) - int(kept[b].ordinal) })
	p.vms, p.n = [maxVMs]machine{}, uint8(len(order))
	seen := [2][maxVMs]glimpse{p.replicas[0].seen, p.replicas[1].seen}
	p.replicas[0].seen, p.replicas[1].seen = [maxVMs]glimpse{}, [maxVMs]glimpse{}
	for i, was := range order {
		to[was], p.vms[i] = int8(i), kept[was]
		for r := range seen {
			if g := seen[r][was]; g.seen {
				p.replicas[r].seen[i] = g
			}
		}
	}
	move := func(vm *int8) {
		if *vm >= 0 {
			*vm = to[*vm]
		}
	}
	p.flights(func(f *flight) {
		if move(&f.vm); f.vm < 0 {
			f.current = false
		}
	})
	for r := range p.replicas {
		c := &p.replicas[r]
		if c.gen == 2 {
			c.newest = 0 // it knows everything
		}
		if c.folderSince {
			c.call = min(c.call, leased) // it creates no folder before its next call
		}
		for k := range c.failed {
			move(&c.failed[k].vm)
			if !c.matters(sc, &c.failed[k]) {
				c.failed[k] = failure{vm: none}
			}
		}
	}
	if sc.deletes() {
		p.tidyFolders()
	}
	slices.SortFunc(p.orphans[:], func(a, b flight) int {
		var x, y [flightSize]byte
		return bytes.Compare(b.append(x[:0], false), a.append(y[:0], false))
	})
}

// matters reports whether a plan uses a failure. Of the steps in Pending that don't run, sync/planner uses only those that may have taken a member
// down, a Mark, and in finalize those that can't be done at all.
func (c *replica) matters(sc *scenario, f *failure) bool {
	if c.finalizing || f.vm < 0 || searchOps[f.op].TakesDown() {
		f.tried = 0
	}
	switch searchOps[f.op] {
	case plan.PowerOff, plan.Destroy, plan.Release, plan.Unmark:
		f.final = false
		return !c.finalizing && f.vm >= 0
	case plan.Mark:
		if f.tried != 0 {
			f.final = false
			return true
		}
		if f.vm = departed; c.finalizing {
			f.cycle = false
			return f.final
		}
		f.final = false
		return true
	case plan.RemoveFolder:
		return f.final // FolderHoldsStranger
	}
	f.final = false
	return f.tried != 0
}

func (p *place) tidyFolders() {
	known := uint8(0)
	note := func(folder uint8) {
		if folder > 0 {
			known |= 1 << folder
		}
	}
	note(p.folder)
	for i := range p.n {
		note(p.vms[i].folder)
	}
	note(p.replicas[0].folder)
	note(p.replicas[1].folder)
	p.flights(func(f *flight) { note(f.folder) })
	var to [8]uint8
	for i, next := uint8(1), uint8(1); i < 8; i++ {
		if known&(1<<i) != 0 {
			to[i] = next
			next++
		}
	}
	p.folder = to[p.folder]
	for i := range p.n {
		p.vms[i].folder = to[p.vms[i].folder]
	}
	p.flights(func(f *flight) { f.folder = to[f.folder] })
	for r := range p.replicas {
		c := &p.replicas[r]
		c.folder = to[c.folder]
		owned := uint8(0)
		for i := range uint8(8) {
			if c.owned&(1<<i) != 0 {
				owned |= 1 << to[i] // those that are gone: bit 0
			}
		}
		c.owned = owned
	}
}

// swapped returns the place with the replicas exchanged.
func (p *place) swapped() *place {
	q := *p
	q.replicas[0], q.replicas[1] = p.replicas[1], p.replicas[0]
	q.flights(func(f *flight) { f.awaited[0], f.awaited[1] = f.awaited[1], f.awaited[0] })
	return &q
}

// text encodes a place; read decodes it.
func (p *place) text(b []byte) []byte {
	b = append(b, p.n, p.folder<<4|p.kills, bits(p.begun, p.ended))
	for i := range p.n {
		m := &p.vms[i]
		b = append(b, m.ordinal<<4|m.revision<<2|bits(m.first), m.folder<<3|bits(m.alive, m.ran))
		b = m.looks.append(b)
	}
	for r := range p.replicas {
		b = p.replicas[r].append(b, p.n)
	}
	for i := range p.orphans {
		b = p.orphans[i].append(b, true)
	}
	return b
}

func (p *place) read(b []byte) {
	*p = place{n: b[0], folder: b[1] >> 4, kills: b[1] & 15, begun: b[2]&1 != 0, ended: b[2]&2 != 0}
	b = b[3:]
	for i := range p.n {
		m := &p.vms[i]
		m.ordinal, m.revision, m.folder = b[0]>>4, b[0]>>2&3, b[1]>>3&15
		m.first = b[0]&1 != 0
		m.alive, m.ran = b[1]&1 != 0, b[1]&2 != 0
		b = m.looks.read(b[2:])
	}
	for r := range p.replicas {
		b = p.replicas[r].read(b, p.n)
	}
	for i := range p.orphans {
		b = p.orphans[i].read(b)
	}
}

func (l *looks) append(b []byte) []byte {
	return append(b, bits(l.stamped, l.on, l.marked)|l.gen<<3|l.size<<5, l.why|bits(l.standby)<<7)
}

func (l *looks) read(b []byte) []byte {
	*l = looks{stamped: b[0]&1 != 0, on: b[0]&2 != 0, marked: b[0]&4 != 0, gen: b[0] >> 3 & 3, size: b[0] >> 5, why: b[1] & 127, standby: b[1]&128 != 0}
	return b[2:]
}

func (c *replica) append(b []byte, n uint8) []byte {
	b = append(b, c.gen|c.call<<2|c.newest<<4, bits(c.finalizing, c.emptied, c.leaseOver, c.folderSince, c.asked), c.owned, c.folder)
	for i := range n {
		g := &c.seen[i]
		if b = append(b, bits(g.seen, g.current)); g.seen {
			b = g.looks.append(b)
		}
	}
	for k := range c.running {
		b = c.running[k].append(b, true)
	}
	for k := range c.failed {
		f := &c.failed[k]
		if b = append(b, f.op); f.op != 0 {
			b = append(b, byte(f.vm), bits(f.cycle, f.final), f.tried)
		}
	}
	return b
}

func (c *replica) read(b []byte, n uint8) []byte {
	x := b[1]
	*c = replica{gen: b[0] & 3, call: b[0] >> 2 & 3, newest: b[0] >> 4, owned: b[2], folder: b[3], finalizing: x&1 != 0,
		emptied: x&2 != 0, leaseOver: x&4 != 0, folderSince: x&8 != 0, asked: x&16 != 0}
	b = b[4:]
	for i := range n {
		g := &c.seen[i]
		g.seen, g.current = b[0]&1 != 0, b[0]&2 != 0
		if b = b[1:]; g.seen {
			b = g.looks.read(b)
		}
	}
	for k := range c.running {
		b = c.running[k].read(b)
	}
	for k := range c.failed {
		f := &c.failed[k]
		f.op, f.vm = b[0], none
		if b = b[1:]; f.op != 0 {
			f.vm, f.cycle, f.final, f.tried = int8(b[0]), b[1]&1 != 0, b[1]&2 != 0, b[2]
			b = b[3:]
		}
	}
	return b
}

const flightSize = 6

// append encodes a flight; short leaves out what is empty.
func (f *flight) append(b []byte, short bool) []byte {
	if short && f.op == 0 {
		return append(b, 0)
	}
	return append(b, f.op, f.key, byte(f.vm), f.why<<4|f.gen|bits(f.standby)<<3, f.folder, bits(f.marked, f.guarded, f.current, f.called, f.awaited[0], f.awaited[1], f.never, f.void))
}

func (f *flight) read(b []byte) []byte {
	if *f = (flight{vm: none}); b[0] == 0 {
		return b[1:]
	}
	x := b[5]
	*f = flight{op: b[0], key: b[1], vm: int8(b[2]), why: b[3] >> 4, gen: b[3] & 7, standby: b[3]&8 != 0, folder: b[4], marked: x&1 != 0,
		guarded: x&2 != 0, current: x&4 != 0, called: x&8 != 0, awaited: [2]bool{x&16 != 0, x&32 != 0}, never: x&64 != 0, void: x&128 != 0}
	return b[6:]
}

func bits(all ...bool) (b byte) {
	for i, is := range all {
		if is {
			b |= 1 << i
		}
	}
	return b
}
