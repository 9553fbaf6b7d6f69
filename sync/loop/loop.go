// Package loop carries out plans in vCenter: it keeps the desired state of each hook call for as long as the call permits acting on it (the
// lease), plans again whenever something has changed, and starts the plan's actions one by one, as many at once as there are slots (package
// limiter finds how many), one group after another.
//
// There is no queue of actions, only a queue of groups: every action that starts was planned just now. Nothing here has to
// outlive the process: Kubernetes has the desired state, vCenter the observed state. The package knows no JSON and no
// vSphere terms; time is the standard library's, so that testing/synctest can run it without a real sleep.
//
// Locks: Loop.mu guards everything that the loop remembers. It is never held during a call of VCenter or Config.Who, or while planning.
package loop

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// VCenter is what the loop drives.
type VCenter interface {
	// State returns what is known of a group, from memory. It starts a lookup of recorded members that are not seen, and
	// calls Loop.Changed when that ends.
	State(group plan.Ref, ask plan.Query) plan.VCenterState
	// Do carries out one action. It returns when the action's effect is visible to State, or with the fault that
	// prevented it (an error with a method PlanFault), or when ctx ends; a task that was started then continues. It also returns what
	// vCenter said of the step's tasks.
	Do(ctx context.Context, group plan.Ref, action plan.Action) (plan.StepResult, error)
	// Identify returns the UIDs of the groups with that name that have members.
	Identify(namespace, name string) []types.UID
}

// Prober asks members whether their service answers (spec.readiness.tcpSocket, httpGet).
type Prober interface {
	// Ask begins to probe these members, until a time or the next call; a call without members ends it.
	Ask(group types.UID, ask plan.Ask, until time.Time)
	// Answers returns the answers that are known, from memory, if the members are probed as this spec says.
	Answers(group types.UID, readiness *v1alpha1.Readiness) plan.Answers
}

// Config are the loop's settings. Metrics, Who, Prober, Jitter and Ticks can be nil.
type Config struct {
	// Slots bounds the vCenter tasks at once. One more is kept for groups that have nothing in progress, so that a
	// small group never waits behind a large one, and another for namespaces that have nothing in progress: the bound is Slots + 2. How many there are of each kind is found within that bound,
	// beginning with Begin (0: limiter.Begin).
	Slots, Begin int
	// Lease is how long a hook call permits acting; Resync is how often Metacontroller calls for a settled group.
	Lease, Resync time.Duration
	Log           zerolog.Logger
	Metrics       prometheus.Registerer // can be nil
	GroupMetrics  bool                  // metrics of each single group, too
	// Events adds Kubernetes Events to the answered children.
	Events bool
	// ChildLabels are the labels that children take from their group.
	ChildLabels plan.LabelKeys
	// Who returns which users powered these VMs off, by moRef, according to vCenter's events; nil skips the lookup.
	Who func(ctx context.Context, moRefs []string) (map[string]plan.Actor, error)
	// Prober probes members; nil: there are no probes.
	Prober Prober

	// Jitter returns how much to delay a retry, at least 0 and less than most, so that many do not come at once.
	// nil draws at random; a test that must repeat exactly brings its own source.
	Jitter func(most time.Duration) time.Duration
	// Ticks shows that the process runs: a gap of more than three seconds between two ticks is a suspension, which ends all
	// leases. nil uses a timer; a test that suspends a loop brings its own ticks.
	Ticks <-chan time.Time
}

// Loop keeps the groups and acts for them. Its methods can be called at any time from any goroutine.
type Loop struct {
	cfg     Config
	vcenter VCenter
	queue   workqueue.TypedDelayingInterface[types.UID]
	metrics meters
	actions sync.WaitGroup

	mu         sync.Mutex
	groups     map[types.UID]*group
	limiter    *limiter.Limiter  // of the slots
	causes     causes            // why steps fail
	failing    map[kindOfOne]int // steps that run although they would probably fail (wouldFail)
	working    map[string]int    // steps that have a slot, or for which one is reserved, by namespace
	waiting    []types.UID       // groups that found no slot, in the order of wait
	swept      time.Time         // when groups to be forgotten were looked for last
	suspension suspension
	creations  map[string]*creations // by namespace
	calls      calls
	began      time.Time // when the process began
	called     time.Time // when the last hook call came
	emptied    bool      // it ended the last group that was under lease
	// When a call ended a silence for the last time, and when the one before it had come.
	resumed, silentSince time.Time
}

// New returns a loop that does nothing until Run.
func New(cfg Config, vcenter VCenter) *Loop {
	if cfg.Jitter == nil {
		cfg.Jitter = rand.N[time.Duration]
	}
	l := &Loop{
		cfg: cfg, vcenter: vcenter, began: time.Now(), groups: map[types.UID]*group{}, causes: causes{}, failing: map[kindOfOne]int{}, working: map[string]int{}, creations: map[string]*creations{}, calls: newCalls(), limiter: limiter.New(cfg.Slots, cfg.Begin),
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{}),
	}
	l.metrics = newMeters(cfg.Metrics, l)
	return l
}

// Run acts until ctx ends. Then it starts nothing more, leaves running tasks to vCenter, and returns when its
// goroutines have ended.
func (l *Loop) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	defer l.actions.Wait()
	l.actions.Go(func() { l.watchSuspension(ctx) })
	for {
		uid, down := l.queue.Get()
		if down {
			return
		}
		l.round(ctx, uid)
		l.queue.Done(uid)
	}
}

// Changed makes the loop plan a group again ("" for all groups), because it changed in vCenter.
func (l *Loop) Changed(uid types.UID) {
	if uid != "" {
		l.queue.Add(uid)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(l.groups)) {
		l.queue.Add(uid)
	}
}

// Sync renews the group's lease by a hook call, plans from memory, and answers. A finalize for a group that is
// not being deleted renews nothing.
func (l *Loop) Sync(call plan.Call) plan.Result {
	if call.Unselected() {
		return l.unselected(call)
	}
	x := l.renew(call)
	result := l.plan(&x.observed, call.Ref(), x.owns)
	l.ask(&x.observed)
	l.answer(x, &result)
	return result
}

// exchange is a hook call that has been taken and is to be answered.
type exchange struct {
	group    *group
	at       time.Time // when it came
	observed plan.Observed
	owns     bool // it proves that the folder at the group's path belongs to it
	stale    bool // it may have waited while the process was suspended, so it renews nothing
}

// renew takes a hook call.
func (l *Loop) renew(call plan.Call) *exchange {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard(now)
	l.forget(now)
	g := l.groups[call.Group.UID]
	isNew := g == nil && !call.Finalizing // to this process, whose budgets are whole when it begins
	if g == nil {
		g = l.newGroup(call)
		l.groups[call.Group.UID] = g
	}
	l.calls.heard(now, &g.schedule)
	if now.Sub(g.lease.renewed) > l.cfg.Lease { // the calls went to other replicas: awaited children may have come and gone
		clear(g.answers.awaited)
	}
	if g.restored(&call, now, l.cfg.Lease) {
		g = l.beginAgain(g, call)
	}
	finalizing := g.lease.finalizing
	taken := g.renew(call, now)
	switch {
	case isNew:
		l.created(g, now)
	case g.lease.finalizing && !finalizing:
		l.deleted(g, now)
	case g.edits.created:
		l.beginNew(g, now)
	}
	if wait := g.edits.due(now); wait > 0 {
		l.queue.AddAfter(g.ref.UID, wait)
	}
	stale := l.checkSuspension(now)
	if stale {
		g.lease.expire(now, l.cfg.Lease)
	}
	observed := g.observe(l.cfg, now)
	observed.SharedClaims = l.sharedClaims(g, now)
	return &exchange{group: g, at: now, observed: observed, owns: taken && !stale && g.owns(&call), stale: stale}
}

// heard notes a hook call. The caller holds mu.
func (l *Loop) heard(now time.Time) {
	if l.silent(now) {
		l.resumed, l.silentSince = now, l.called
	}
	l.called, l.emptied = now, false
}

// newGroup returns a group of which nothing is known but the call. Its failures have causes with those of other groups.
func (l *Loop) newGroup(call plan.Call) *group {
	g := newGroup(call)
	g.failures.causes = l.causes
	return g
}

// beginAgain forgets a group that Kubernetes has again from a backup, as if the process had been restarted. But it remembers which generations
// there were before the backup was restored: who wrote them may have had more in mind than the members' stamps show. The caller holds mu.
func (l *Loop) beginAgain(g *group, call plan.Call) *group {
	l.leave(g)
	g.failures.clear(false)
	again := l.newGroup(call)
	if !g.lease.finalizing {
		again.lease.newestStamp = max(g.lease.newestStamp, g.lease.call.Group.Generation)
	}
	l.groups[call.Group.UID] = again
	l.cfg.Log.Warn().Stringer("group", g.ref).Int64("generation", call.Group.Generation).Int64("before", g.lease.call.Group.Generation).Bool("wasDeleted", g.lease.finalizing).
		Msg("Kubernetes has an older version of the group again, as after a restore of etcd")
	return again
}

// answer remembers the plan, makes the answer of it, and wakes the group for what comes next.
func (l *Loop) answer(x *exchange, result *plan.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, now := x.group, x.at
	if x.stale { // nothing happens before the next call, which comes soon if Metacontroller receives this answer
		result.InProgress, result.Finalized = true, false
	}
	if x.owns {
		g.folders.own, g.folders.blind = owning(g.folders.own, x.observed.State.Folder), x.observed.Blind
	}
	if x.observed.State.Known && !x.stale {
		g.lease.newReplace = nil // it was planned with
	}
	says := l.cfg.Events && !x.stale && l.hearFirst(g, &x.observed.State, result)
	g.saw(&x.observed)
	g.remember(&x.observed, result)
	g.lease.older.answered(result)
	busy, _ := l.calls.pauses()
	repeated := g.keepWritten(result, busy, now)
	news := g.answers.answered(l.cfg.Log, g.ref, &x.observed, result)
	l.emptied = result.Finalized && !l.isAnotherShown(g)
	g.failures.forgetUnwanted(&x.observed, result, g.runs, now)
	if len(result.Actions) > 0 {
		l.queue.Add(g.ref.UID)
	}
	if len(result.Actions) == 0 {
		l.leave(g)
	}
	l.wake(g, result)
	l.callAgain(g, result, news, says, now)
	g.events.news = false
	if l.cfg.Events && !x.stale && !repeated {
		g.answerEvents(result, now)
	}
}

// Placeholders for the generation and the UID of a group that was never applied.
const (
	generationToCome = 1 << 62
	noUID            = "00000000-0000-0000-0000-000000000000"
)

// plan observes vCenter and plans for a group.
func (l *Loop) plan(o *plan.Observed, ref plan.Ref, owns bool) plan.Result {
	return l.planAs(o, o.Query(), ref, owns)
}

// look is plan for a preview: it leaves no trace.
func (l *Loop) look(o *plan.Observed, ref plan.Ref, owns bool) plan.Result {
	ask := o.Query()
	ask.Preview = true
	return l.planAs(o, ask, ref, owns)
}

// planAs reads vCenter's state (after the pending actions were read, never before) and plans. owns reports whether a folder at the group's path
// belongs to it: either a call that has just come proves that, or this replica has created it.
func (l *Loop) planAs(o *plan.Observed, ask plan.Query, ref plan.Ref, owns bool) plan.Result {
	o.State = l.vcenter.State(ref, ask)
	if l.cfg.Prober != nil && !o.Unselected() {
		o.Answers = l.cfg.Prober.Answers(ref.UID, &o.Group.Spec.Readiness)
	}
	if owns {
		o.OwnFolders, o.Blind = owning(o.OwnFolders, o.State.Folder), o.Blind && !o.State.Known
	}
	return planner.Make(*o)
}

// ask has a group's members probed for as long as its lease lasts. While vCenter's state is unknown, the same members are probed as before.
func (l *Loop) ask(o *plan.Observed) {
	if l.cfg.Prober != nil && o.State.Known {
		l.cfg.Prober.Ask(o.Group.UID, o.Ask(), o.Called.Add(l.cfg.Lease))
	}
}

// round plans a group and starts at most one action. If there are more, the group queues again behind the others.
func (l *Loop) round(ctx context.Context, uid types.UID) {
	defer func() {
		if p := recover(); p != nil {
			l.cfg.Log.Error().Str("uid", string(uid)).Str("panic", panicked(p)).Bytes("stack", debug.Stack()).Msg("planning panicked; the group waits for its next call")
			l.mu.Lock()
			defer l.mu.Unlock()
			l.handOff(l.groups[uid])
			l.next()
		}
	}()
	now := time.Now()
	l.mu.Lock()
	g := l.groups[uid]
	if g != nil && g.edits.created {
		l.beginNew(g, now)
	}
	if !l.leased(g, now) {
		l.handOff(g)
		l.confirmUnselected(ctx, g, now)
		l.next()
		l.mu.Unlock()
		l.lookForStalled(g, now)
		return
	}
	g.edits.admit(now)
	if wait := g.edits.due(now); wait > 0 {
		l.queue.AddAfter(uid, wait)
	}
	observed, calls, older, made := g.observe(l.cfg, now), g.lease.calls, g.lease.older.since, g.folders.made
	l.mu.Unlock()

	result := l.plan(&observed, g.ref, made)
	l.ask(&observed)

	l.mu.Lock()
	defer l.mu.Unlock()
	if g.lease.calls != calls || g.lease.older.since != older { // another call came during planning: the plan may be of an older generation, or no step may begin now
		l.queue.Add(uid)
		return
	}
	defer l.next()
	if made {
		g.folders.own, g.folders.made = owning(g.folders.own, observed.State.Folder), false
	}
	l.freeSlots(g, observed.State.Stalled)
	for _, r := range g.runs {
		if r.past(now) {
			l.settle(r)
		}
	}
	g.saw(&observed)
	g.remember(&observed, &result)
	g.failures.lost(result.SlowStart)
	if !result.InProgress {
		g.turn.steps = 0 // what comes later has a turn of its own
	}
	g.failures.forgetUnwanted(&observed, &result, g.runs, now)
	l.wake(g, &result)
	if wait := g.failures.untilTurn(now); wait > 0 {
		l.queue.AddAfter(uid, wait)
	}
	// Events about the status go with the answer that has that status, with the time at which it began. Other users' actions are recorded now.
	if l.cfg.Events {
		g.events.note(result.Events)
	}
	if l.hear(g, &observed.State, slices.DeleteFunc(result.Events, func(n plan.Event) bool { return !n.PoweredOff })) {
		l.askWho(ctx, g)
	}
	l.startFirst(ctx, g, result.Actions, &observed.State)
}

// wake queues a group for when the time that its plan waits for has passed.
func (l *Loop) wake(g *group, r *plan.Result) {
	if at := time.Now().Add(r.Wake); r.Wake > 0 && (g.schedule.wakes.IsZero() || !g.schedule.wakes.After(time.Now()) || at.Before(g.schedule.wakes)) {
		g.schedule.wakes = at
		l.queue.AddAfter(g.ref.UID, r.Wake)
	}
}

// takesSlot reports whether an action takes a slot: ConfirmGone only reads, and the more groups do so at once, the fewer reads it takes.
// (It also removes a folder of the group that an operator renamed.)
func takesSlot(a *plan.Action) bool { return a.Op != plan.ConfirmGone }

// startFirst starts the first of a plan's actions that finds a slot. The caller holds mu.
func (l *Loop) startFirst(ctx context.Context, g *group, planned []plan.Action, state *plan.VCenterState) {
	actions := g.startable(planned, time.Now())
	l.handOff(g)
	if len(planned) == 0 {
		l.leave(g)
	}
	if len(actions) == 0 || ctx.Err() != nil {
		return
	}
	g.turn.failing = l.wouldFail(g, actions)
	i, work, waits := l.first(g, actions, state)
	if i < 0 {
		l.wait(g, waits, len(actions))
		return
	}
	l.start(ctx, g, actions[i], work, changeOf(&actions[i], state))
	if len(actions) > 1 {
		l.queue.Add(g.ref.UID)
	}
}

func (l *Loop) start(ctx context.Context, g *group, a plan.Action, work limiter.Work, change string) {
	now := time.Now()
	run := g.begin(a, now)
	run.change = change
	a.Again = g.failures.undoneSince(a.Key, change, now)
	if takesSlot(&a) {
		work.Tenant = g.ref.Namespace
		run.slot = l.limiter.Begin(work, now)
		count(l.working, g.ref.Namespace, 1)
		if a.Op != plan.CreateFolder {
			g.turn.steps++
			g.turn.passed = 0
		}
	}
	if run.slot != nil && g.turn.failing {
		run.failing = &kindOfOne{work.Kind, g.ref.Namespace}
		l.countFailing(*run.failing, 1)
	}
	if run.cause != nil { // others follow once the cause is past
		l.wakeAll(run.cause, run.passes.Sub(now)+time.Millisecond)
	}
	l.actions.Go(func() {
		began := time.Now()
		took, err := l.do(ctx, g.ref, a)
		now := time.Now()
		ended := plan.ReportEnded(&a, faultOf(err), now.UTC().Truncate(time.Millisecond), now.Sub(began), took.Queued)
		l.mu.Lock()
		defer l.mu.Unlock()
		if !faultOf(err).Missing { // else it was not tried
			l.metrics.ended(&ended)
			g.history = g.history.with(ended)
		}
		if event, worth := a.Event(now); worth && err == nil {
			l.hear(g, nil, []plan.Event{event})
		}
		if l.cfg.Events {
			g.events.acted(&a, err, now)
		}
		l.returned(g, &a, err, took, now)
		run.undoers = took.Undoers
		of, retry := g.ended(a, err, now, l.cfg.Jitter)
		if err == nil {
			g.healed.acted(&a, now)
		}
		l.wakeAll(of, retry)
		if retry > 0 {
			l.queue.AddAfter(g.ref.UID, retry)
		}
		l.queue.Add(g.ref.UID)
		l.next()
	})
}

// wakeAll queues the groups that wait for a cause, for then. The caller holds mu.
func (l *Loop) wakeAll(c *cause, after time.Duration) {
	if c == nil {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(c.waiting)) {
		l.queue.AddAfter(uid, after)
	}
}

// do carries out an action; a panic in it fails only this action.
func (l *Loop) do(ctx context.Context, ref plan.Ref, a plan.Action) (took plan.StepResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %s", panicked(p))
			l.cfg.Log.Error().Stringer("group", ref).Str("vm", a.Key).Str("op", string(a.Op)).Str("panic", panicked(p)).Bytes("stack", debug.Stack()).Msg("action panicked")
		}
	}()
	return l.vcenter.Do(ctx, ref, a)
}

// keepFor is how long a group without calls is remembered: its generation, and that it was finalizing, keep a
// stale call from undoing what a newer one began.
const keepFor = time.Hour

// forget drops groups without calls for a long time. It looks for them once in a while.
func (l *Loop) forget(now time.Time) {
	if now.Sub(l.swept) < keepFor/4 {
		return
	}
	l.swept = now
	l.forgetCreations(now)
	for uid, g := range l.groups {
		if !l.shown(g, now) && now.Sub(g.heard()) > max(keepFor, 10*l.cfg.Lease) && len(g.runs) == 0 && g.turn.reserved == nil {
			g.failures.clear(false)
			delete(l.groups, uid)
		}
	}
}
