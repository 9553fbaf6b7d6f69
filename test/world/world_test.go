// Package world simulates whole lives of a group that repeat exactly: real loops on a model of vCenter, in the time of a
// testing/synctest bubble, one event at a time. A seed gives a list of events; the list, or any part of it, gives the same history
// each time, byte for byte.
//
// What is real: sync/loop and sync/planner. What is a model: vCenter, and package vsphere, call by call (steps_test.go);
// Metacontroller (kube_test.go); and the stream that reports to each replica, late, what became of each VM.
package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

const (
	lease  = 90 * time.Second
	resync = 30 * time.Second
	// lag is the longest delay of the stream. With a longer delay, the stream counts as broken, and the inventory as unknown.
	lag = 10 * time.Second
)

// world is one life in progress.
type world struct {
	set      setting
	vc       *vcenter
	replicas []*replica
	started  int // how many replicas have started so far
	steps    []*step
	numbered int // how many steps have begun so far
	present  int // how many of them belonged to a group that existed
	kube     kube
	backup   *kube          // of etcd; nil: none was made
	wentBack bool           // etcd was restored
	undid    map[int64]bool // the lost generations that an operator undid
	second   *cluster
	asks     int  // how often an operator has asked for another try
	untagged bool // somebody took tags off a VM, which only a try-again sets again
	// renumbers is how many instanceUuids vCenter has changed.
	renumbers int
	resting   bool
	began     time.Time
	history   *strings.Builder // nil if not needed
	shown     string           // vCenter's state as last written to the history
	wrong     string           // the first violation
	promise   int              // the promised number of members, once that many have worked
	// troubledSince is when the life's lasting trouble began; before lists the members at that time, and lost those of them that a step took
	// down while they served.
	troubledSince time.Time
	before, lost  []string

	// mu is between the scheduler and the loops. The scheduler waits while they run, so nothing ever waits for mu.
	mu      sync.Mutex
	arrived []*step // the steps that began since the last event
	slept   time.Duration
}

// replica is one running server.
type replica struct {
	*world
	name    string
	loop    *loop.Loop
	view    *view
	ticks   chan time.Time
	stop    context.CancelFunc
	stopped chan struct{}
	paused  bool
	gate    chan struct{} // closed when the replica resumes
	parked  bool          // its loop waits in State
	waiting []waitingCall // calls that came while it was paused
	clones  map[types.UID][]int
	asked   map[string]time.Time // by moRef: when the guests that the replica asked to halt had booted
	marks   map[string]time.Time // by moRef: the times of the marks after which the replica has read all members
	called  time.Time
	updated time.Time         // when its view was last up to date
	spec    map[types.UID]int // by group: the place of the newest spec that the replica was called for
	known   map[types.UID]*knowledge
	holds   map[string]string // the annotations of its last call
	last    *v1alpha1.VmGroup // the newest group that it was called with
	// probed are the members that the replica probes; concluded are its conclusions, by moRef.
	probed    []plan.Asked
	concluded map[string]plan.Answer
	askedAt   time.Time
}

func (r *replica) State(ref plan.Ref, ask plan.Query) plan.VCenterState {
	r.mu.Lock()
	gate := r.gate
	r.parked = r.paused
	paused := r.paused
	r.mu.Unlock()
	if paused {
		<-gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view.state(ref, ask)
}

func (r *replica) Identify(string, string) []types.UID { return nil }

// Do waits for the scheduler, which carries out the step.
func (r *replica) Do(ctx context.Context, ref plan.Ref, a plan.Action) (plan.StepResult, error) {
	s := &step{world: r.world, by: r, ref: ref, a: r.set.defect.twist(a), done: make(chan error, 1)}
	r.mu.Lock()
	r.arrived = append(r.arrived, s)
	r.mu.Unlock()
	select {
	case err := <-s.done:
		return plan.StepResult{}, err
	case <-ctx.Done():
		return plan.StepResult{}, ctx.Err()
	}
}

// start starts a replica, whose inventory is unknown until the replica has read it.
func (w *world) start() *replica {
	r := w.newReplica()
	w.replicas = append(w.replicas, r)
	w.settle()
	return r
}

func (w *world) newReplica() *replica {
	w.started++
	r := &replica{world: w, name: fmt.Sprint("r", w.started), view: newView(w.vc), ticks: make(chan time.Time), stopped: make(chan struct{}),
		clones: map[types.UID][]int{}, asked: map[string]time.Time{}, marks: map[string]time.Time{}, spec: map[types.UID]int{}, known: map[types.UID]*knowledge{}, concluded: map[string]plan.Answer{}}
	random := rand.New(rand.NewPCG(w.set.seed, uint64(w.started)))
	r.loop = loop.New(loop.Config{Slots: w.set.slots, Lease: lease, Resync: resync, Log: zerolog.Nop(), Ticks: r.ticks, Prober: r,
		Jitter: func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }}, r)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.loop.Run(ctx); close(r.stopped) }()
	return r
}

// kill ends a replica. Its tasks continue in vCenter, but no further call of their steps follows.
func (w *world) kill(r *replica, halfway bool) {
	w.say("%s is killed", r.name)
	for _, s := range slices.Clone(w.steps) {
		if s.by != r {
			continue
		}
		if s.orphan = true; s.phase != running || halfway && s.a.Op == plan.Reset {
			w.drop(s)
		}
	}
	w.replicas = slices.DeleteFunc(w.replicas, func(x *replica) bool { return x == r })
	r.stop()
	if r.paused {
		r.paused = false
		close(r.gate)
	}
	<-r.stopped
	w.settle()
}

// pause stops a replica's process: it gets no tick and no event, and its loop stops.
func (w *world) pause(r *replica) {
	if r.paused {
		return
	}
	r.paused, r.parked, r.gate = true, false, make(chan struct{})
	r.loop.Changed("")
	w.settle()
	w.say("%s is paused, with its loop running: %v", r.name, r.parked)
}

// resume continues a replica. The replica gets the waiting calls before anything else, or after the first tick. (If its loop was not parked
// in State, the loop may have noticed the pause before its end, which a real process can't; the waiting calls are then dropped.)
func (w *world) resume(r *replica, callsFirst bool) {
	if !r.paused {
		return
	}
	w.say("%s resumes, with %d calls that waited", r.name, len(r.waiting))
	r.paused = false
	w.promise = min(w.promise, w.working()) // members that the replica's steps take down no longer work
	waited := r.waiting
	r.waiting = nil
	if !r.parked {
		waited = nil
	}
	if !callsFirst {
		w.tick(r)
	}
	close(r.gate)
	for _, c := range waited {
		w.renew(r, c)
		w.settle()
	}
	w.tick(r)
	w.settle()
}

func (w *world) tick(r *replica) {
	r.ticks <- time.Now()
}

// settle waits until all goroutines are blocked, and numbers the steps that began. Several steps may begin at once, in any order, so they are
// numbered by replica and member.
func (w *world) settle() {
	synctest.Wait()
	w.mu.Lock()
	arrived := w.arrived
	w.arrived = nil
	w.mu.Unlock()
	slices.SortFunc(arrived, func(a, b *step) int {
		return strings.Compare(a.by.name+" "+a.a.Key, b.by.name+" "+b.a.Key)
	})
	for _, s := range arrived {
		if w.second != nil && s.by == w.second.replica {
			w.violated("%s %s begins in the second cluster: %s", s.a.Op, s.a.Key, s.a.Reason)
		}
		if !slices.Contains(w.replicas, s.by) {
			continue
		}
		w.numbered++
		s.id = w.numbered
		w.steps = append(w.steps, s)
		if s.ref.UID == w.kube.uid() {
			w.present++
		}
		w.say("  %s begins: %s", s, s.a.Reason)
		w.checkBegun(s)
	}
}

// pass passes time, from one deadline to the next.
func (w *world) pass(d time.Duration) {
	for d > 0 {
		piece := min(d, 2500*time.Millisecond)
		d -= piece
		w.mu.Lock() // a loop that a timer wakes must see all changes so far
		w.slept += piece
		w.mu.Unlock()
		time.Sleep(piece)
		w.settle()
		if w.second != nil {
			w.tick(w.second.replica)
		}
		for _, r := range w.replicas {
			if r.paused {
				if w.set.defect == feelsNoPause {
					w.tick(r)
				}
				continue
			}
			w.tick(r)
			if time.Since(r.updated) > lag && r.view.known {
				w.update(r, 0, true)
			}
			if w.set.spec.Readiness.Probes() && time.Since(r.askedAt) >= askedEvery {
				w.ask(r)
			}
		}
		w.settle()
	}
}

// update updates one object in a replica's view, or all of them.
func (w *world) update(r *replica, which int, all bool) {
	if r.paused {
		return
	}
	if all || !r.view.known {
		r.updated = time.Now()
		w.say("%s sees everything", r.name)
		r.view.readAll()
	} else {
		late := r.view.late()
		if len(late) == 0 {
			r.updated = time.Now()
			return
		}
		w.say("%s sees %q", r.name, late[which%len(late)])
		r.view.read(late[which%len(late)])
	}
	r.loop.Changed("")
	w.settle()
}

func (w *world) say(format string, args ...any) {
	if w.history != nil {
		fmt.Fprintf(w.history, "%9.3f ", time.Since(w.began).Seconds())
		fmt.Fprintf(w.history, format, args...)
		w.history.WriteByte('\n')
	}
}

// show adds the state of vCenter to the history if the state changed.
func (w *world) show() {
	if w.history == nil {
		return
	}
	if now := w.vc.text(); now != w.shown {
		w.shown = now
		w.say("    %s", now)
	}
}

func (w *world) violated(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
		w.say("!!! %s", w.wrong)
	}
}

// outcome is how a life ended.
type outcome struct {
	wrong   string
	history string
	steps   int // how many steps began
	virtual time.Duration
}

// run runs a life: the events one by one, and then rest, until the group matches its spec.
func run(t *testing.T, set setting, events []event, recorded bool) (o outcome) {
	synctest.Test(t, func(*testing.T) {
		w := &world{set: set, began: time.Now()}
		w.vc = &vcenter{world: w, rules: map[types.UID]map[string]bool{}}
		if recorded {
			w.history = &strings.Builder{}
		}
		w.begin()
		for _, e := range events {
			if w.wrong != "" {
				break
			}
			w.say("%d: %s", e.at, e)
			e.happen(w)
			w.look()
			w.show()
		}
		if w.wrong == "" {
			w.rest()
		}
		for len(w.replicas) > 0 {
			w.kill(w.replicas[0], false)
		}
		w.sleep()
		o = outcome{wrong: w.wrong, steps: w.numbered, virtual: w.slept}
		if recorded {
			o.history = w.history.String()
		}
	})
	return o
}
