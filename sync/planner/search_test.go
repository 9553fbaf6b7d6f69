package planner_test

// This file searches small worlds: two replicas, a group of up to three members, and one edit of its spec. A breadth-first search visits every
// place (state of the world) that the real planner.Make can lead to if anything goes wrong at any time, in any order. At each step it checks
// the invariants 1, 2, 4, 7, 10 and 14 of docs/design.md. It ends when no new place appears, or at a bound. search_scenarios_test.go lists the
// worlds, and how far the search of each gets.
//
//	go test ./sync/planner -run SmallWorld -v                                        a few seconds: the small ones whole, the others begun
//	go test ./sync/planner -run 'SmallWorld|Planted' -v -timeout 2h -search.full     all, as far as -search.states allows
//
// What can happen at any moment (search_moves_test.go, search_vcenter_test.go): a replica gets a call, with the old generation or
// the new one; its lease ends; it sees one VM, or the folder, as it is now, and the others as they were; its turn comes and the
// first step of its plan begins; a step calls vCenter; its task ends; it is refused; it is carried out and its reply is lost; a
// failure is forgotten; the process is killed and forgets all, and vCenter's tasks continue.
//
// The model repeats what the loop does between planner.Make and vCenter, as far as a plan or a step depends on it: which steps run or have
// failed, by member; the call, its generation and what came after it; finalizing, newestStamp, ownFolders, folderSeen, emptied; that a replica
// reads its own writes; the lease. It also repeats what package vsphere checks before a call. If you change either, change the model, too. The
// defects (search_defects_test.go) show that without any one of these guards, the search finds a violation.
//
// What the model leaves out, and why the search is still valid:
//
//   - In a scenario that says "seen in order", a replica sees vCenter as it was at one moment, as its stream of changes shows it, and what its
//     own steps read later: otherwise these worlds are too large. In other scenarios, a replica can see each VM, and the group's folder, as
//     it was at any time.
//   - Times are kept only as far as a decision needs them (a lease has ended or not), and
//     come in any order that they can have. What the spec waits for is 0: drainSeconds, minReadySeconds, the shutdown's
//     time-out. So no guest is asked to halt: PowerOff takes members down. Members that are on are ready, and none is healed.
//   - A step that the check of its own member has refused for certain (Fault.Untried) is left out: its replica is where it was before
//     the step began.
//   - Back-off and slow start are left out: they only delay. A step that failed can be tried again at once, or later, or never;
//     the next one in the plan begins where the first might be backing off.
//   - status.update is empty, and status.members as well, as in a stale parent; where it says "recorded", it has the first members
//     forever, and vCenter's events never tell what became of them.
//   - Operators, hardware faults, hidden VMs, adoption, quarantine, hot-add and other features: the properties and lives cover
//     these.
//   - A step's read of a member and the call that follows are one moment. Between them lie milliseconds, in which no other replica
//     can write a stamp, wait for it, plan, and take another member down. (A process that is suspended checks its lease.)
//   - PowerOn (of a member that is no standby one), Destroy, a stamp and the folder's steps are called and carried out in one moment, at any time after they
//     began; until then no replica can distinguish a running task from one that was not called. Clone, where a replica asks
//     for running clones, PowerOff, Unmark and a promotion have two.
//   - After a kill the process begins, reads and gets a call only after a running power-off has ended. Nor is a failure
//     forgotten before that: it is kept for more than a minute. By then the replica has seen everything: vsphere reads the object
//     of a failed step at once, and an inventory whose stream is silent for so long is no longer known.
//   - What a replica reads of all members after its mark's reply was lost, it reads at once: vsphere waits for that before
//     the step returns.
//   - After the deletion's first call, no other call comes: Metacontroller has one worker for a parent. suspend.go in sync/loop
//     handles a call that waited in a socket.
//   - A place has room for eight VMs, those that are gone and still seen included, and for three steps of a killed replica. Moves
//     beyond are cut and counted, and a world with such moves isn't called whole. Two replicas that don't see what the other does can
//     clone and remove a VM again and again, without end: with room for ten VMs, scale 2 to 1 has the same 66 moves cut.
//   - The two replicas are interchangeable: two places that differ only in which replica is which count as one. So do places that differ only
//     in facts that no plan and no step uses (place.tidy).

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/thin"
)

var (
	searchFull   = flag.Bool("search.full", false, "search the small worlds as far as -search.states allows")
	searchStates = flag.Int("search.states", 5_000_000, "bound of the places that are searched in each small world, with -search.full")
)

// found is the result of a search.
type found struct {
	places, moves int
	depth         int
	whole         bool // no new place appears any more, and no move was cut
	frontier      int  // places that were found, and not visited
	settled       int  // places at which the edit is carried out
	cut, plans    int
	took          time.Duration
	wrong         string // the first invariant that was broken
	story         string // the shortest way there
}

func (f *found) String() string {
	how := fmt.Sprintf("bounded: %d of them not visited", f.frontier)
	switch {
	case f.whole:
		how = "whole"
	case f.frontier == 0:
		how = "whole but for what was cut"
	}
	return fmt.Sprintf("%d places, %d moves, depth %d, %d settled, %d plans, %d cut, %.1f s, %s", f.places, f.moves, f.depth, f.settled, f.plans, f.cut, f.took.Seconds(), how)
}

// digest identifies a place: 128 bits, so that two places practically never collide.
type digest [16]byte

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func digestOf(text []byte) (p digest) {
	binary.LittleEndian.PutUint64(p[:8], maphash.Bytes(seeds[0], text))
	binary.LittleEndian.PutUint64(p[8:], maphash.Bytes(seeds[1], text))
	return p
}

// origin is the way to a place: the n-th move from another one.
type origin struct {
	from uint32
	nth  uint16
}

// form returns the encoded canonical form of a place. Since the replicas are interchangeable, it is the lesser of the two encodings.
func (x *search) form(p *place, room *[2][]byte) (text []byte, swapped bool) {
	p.tidy(x.scenario)
	room[0] = p.text(room[0][:0])
	q := p.swapped()
	room[1] = q.text(room[1][:0])
	if string(room[1]) < string(room[0]) {
		return room[1], true
	}
	return room[0], false
}

// begin returns the first place: the group is as the spec of generation 1 says, and both replicas know that.
func (x *search) begin() *place {
	p := &place{folder: 1}
	for i := range p.orphans {
		p.orphans[i].vm = none
	}
	for i := range uint8(x.from) {
		p.vms[i] = machine{ordinal: i, revision: 1, folder: 1, alive: true, ran: true, first: true, looks: looks{stamped: true, on: true, gen: 1, size: 1}}
		p.n++
	}
	for range x.standby {
		p.vms[p.n] = machine{ordinal: p.n, revision: 1, folder: 1, alive: true, looks: looks{stamped: true, standby: true, gen: 1, size: 1}}
		p.n++
	}
	for r := range int8(2) {
		c := &p.replicas[r]
		*c = newReplica()
		if c.gen, c.call, c.folder = 1, leased, 1; x.deletes() {
			c.call = fresh
		}
		for i := range int8(p.n) {
			p.look(r, i)
		}
		p.owns(r)
		p.saw(r)
	}
	return p
}

// run searches until no new place appears, an invariant is broken, or there are more places than allowed.
func (x *search) run(most int) (f found) {
	began := time.Now()
	defer func() { f.took, f.cut, f.plans = time.Since(began), x.cut, len(x.plans) }()
	known := map[digest]struct{}{}
	var origins []origin
	var room [2][]byte
	var layer, next [][]byte
	add := func(p *place, from uint32, nth int) {
		text, _ := x.form(p, &room)
		if digest := digestOf(text); !has(known, digest) {
			known[digest] = struct{}{}
			origins = append(origins, origin{from, uint16(nth)})
			next = append(next, append([]byte(nil), text...))
		}
	}
	add(x.begin(), 0, 0)
	first := uint32(0) // the number of the first place of the layer
	for ; len(next) > 0; f.depth++ {
		layer, next = next, nil
		for i, text := range layer {
			var p place
			if p.read(text); x.settled(&p) {
				f.settled++
			}
			nth, from := 0, first+uint32(i)
			x.moves(&p, func(m move, q *place, wrong string) {
				f.moves++
				if wrong != "" && f.wrong == "" {
					f.wrong, f.story = wrong, x.story(origins, from, nth)
				}
				add(q, from, nth)
				nth++
			})
			if f.places = len(origins); f.wrong != "" || f.places > most {
				f.frontier = len(layer) - i - 1 + len(next)
				return f
			}
		}
		first += uint32(len(layer))
	}
	f.whole = x.cut == 0
	return f
}

func has(known map[digest]struct{}, p digest) bool {
	_, is := known[p]
	return is
}

// settled reports whether the edit is carried out.
func (x *search) settled(p *place) bool {
	n, standby := int32(0), int32(0)
	for i := range p.n {
		switch m := &p.vms[i]; {
		case !m.alive:
		case m.standby != !m.on, m.marked, m.revision != x.revision(2), m.size != x.size(2):
			return false
		case m.standby:
			standby++
		default:
			n++
		}
	}
	return p.ended || !x.deletes() && n == x.to && standby == x.standby
}

// story is the way to a place, and one move more.
func (x *search) story(origins []origin, to uint32, nth int) string {
	way := []int{nth}
	for ; to > 0; to = origins[to].from {
		way = append([]int{int(origins[to].nth)}, way...)
	}
	var story strings.Builder
	fmt.Fprintf(&story, "%s\n", x)
	var room [2][]byte
	names := [2]string{"A", "B"}
	p := x.begin()
	for i := range len(way) {
		text, swapped := x.form(p, &room)
		var here place
		here.read(text)
		if swapped {
			names[0], names[1] = names[1], names[0]
		}
		n := 0
		x.moves(&here, func(m move, q *place, wrong string) {
			if n == way[i] {
				fmt.Fprintf(&story, "%3d  %s\n", i+1, m.text(names))
				if wrong != "" {
					fmt.Fprintf(&story, "     broken: %s\n", wrong)
				}
				after := *q
				p = &after
			}
			n++
		})
	}
	return story.String()
}

func (m *move) text(names [2]string) string {
	text := m.what
	if m.op != "" {
		text += " " + string(m.op)
	}
	if m.ordinal >= 0 && m.ordinal < manyOrdinals {
		text += fmt.Sprintf(" web-%d", m.ordinal)
	}
	if m.gen > 0 && m.op == "" {
		text += fmt.Sprintf(" with generation %d", m.gen)
	}
	if m.who == none {
		return "A step " + text
	}
	return names[m.who] + " " + text
}

func TestNoSmallWorldBreaksAnInvariant(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.String(), func(t *testing.T) {
			most := s.places
			switch {
			case *searchFull:
				most = *searchStates
			case thin.Run():
				most /= 40
			case s.whole:
				most *= 4
			}
			f := newSearch(s.scenario, "").run(most)
			t.Log(f.String())
			switch {
			case f.wrong != "":
				t.Fatalf("%s\n%s", f.wrong, f.story)
			case f.places < min(most, s.places):
				t.Errorf("only %d places, and there were %d: does the search still see what replicas do?", f.places, s.places)
			case f.whole && f.settled == 0 && s.unmanaged == none:
				t.Error("the edit is never carried out")
			case s.whole && !f.whole && !thin.Run():
				t.Errorf("more than %d places, and there were %d: raise it, or find out why", most, s.places)
			}
		})
	}
}
