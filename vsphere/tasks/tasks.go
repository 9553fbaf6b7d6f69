package tasks

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

const (
	// batchEvery is how long additions (and vCenter's updates) gather before the next call.
	batchEvery = 20 * time.Millisecond
	// watchIdle is how long the watch is kept with nothing to wait for: no call is made meanwhile.
	watchIdle = 30 * time.Second
	// sessionRetry is how often a session is asked for while there is none. It costs no call.
	sessionRetry = 250 * time.Millisecond
	// watchAgainMost bounds the pause before a watch that failed is built again; it doubles from batchEvery.
	watchAgainMost = 5 * time.Second
	// emptyPause is the pause after an answer without updates.
	emptyPause = 250 * time.Millisecond
	// cancelAgain is when a cancelled wait that continues is cancelled again.
	cancelAgain = 250 * time.Millisecond
)

// Sessions provides the session to wait on. Lost reports that it is gone or unreachable.
type Sessions interface {
	Session(ctx context.Context) (*session.Session, error)
	Lost(s *session.Session, err error)
}

// Tasks waits for all running tasks together: with one PropertyCollector, and one filter over one ListView
// of the tasks (watch.go). So a task costs its share of one change of the list and of its final
// updates, not a separate collector. Finished tasks leave the list when others are added.
//
// A wait outlives sessions: the watch is built again and every task is read again.
type Tasks struct {
	sessions Sessions
	log      zerolog.Logger
	// added has a token when there is something new to await.
	added chan struct{}
	// ended is closed when run has returned.
	ended chan struct{}
	// failures counts the watches in a row that failed; run's alone.
	failures int

	mu      sync.Mutex
	awaited map[types.ManagedObjectReference]*awaited
	short   shortTasks
}

// awaited is one task that is awaited. info and err are read after done is closed.
type awaited struct {
	done    chan struct{}
	waiters int
	kind    Kind
	signs   Signs // Started is nil once it was called
	// read: it is not watched (short.go). over fires when it should have ended, nil if that is not known well; since is when it did, zero
	// if it did not, or if the task had not ended.
	read  bool
	over  *time.Timer
	since time.Time
	info  types.TaskInfo
	err   error
	// Since when it is awaited, and how it gets on (progress.go).
	began    time.Time
	progress progress
}

// Signs are called with what is known of a task before it is known to have ended. They must not block, nor call Tasks, and may be nil.
type Signs struct {
	// Started is called when a task that is watched is seen to run, with how long vCenter had queued it.
	Started func(queued time.Duration)
	// Over is called when a task should have ended because those of its kind take no longer, and again with false if it has not.
	Over func(over bool)
}

// New returns a Tasks that waits for nothing before Run.
func New(s Sessions, log zerolog.Logger) *Tasks {
	return &Tasks{
		sessions: s,
		log:      log,
		added:    make(chan struct{}, 1),
		ended:    make(chan struct{}),
		awaited:  map[types.ManagedObjectReference]*awaited{},
		short:    shortTasks{kinds: map[Kind]duration{}, added: make(chan struct{}, 1)},
	}
}

// Wait blocks until the task has ended and returns its state, result, error and times; the rest of the
// TaskInfo except its keys stays empty. For a failed task it also returns a task.Error, and for one that vCenter no longer knows
// vcfault.ErrTaskLost. If ctx ends, or Run does, the task continues and Wait returns the context's error. Tasks of one kind take about
// as long as each other.
func (t *Tasks) Wait(ctx context.Context, ref types.ManagedObjectReference, kind Kind, signs Signs) (*types.TaskInfo, error) {
	t.mu.Lock()
	a := t.awaited[ref]
	if a == nil {
		now := time.Now()
		a = &awaited{done: make(chan struct{}), kind: kind, signs: signs, read: t.reads(kind), info: types.TaskInfo{Key: ref.Value, Task: ref}, began: now, progress: progress{since: now}}
		t.awaited[ref] = a
		t.expect(a)
	}
	a.waiters++
	added := t.added
	if a.read {
		added = t.short.added
	}
	t.mu.Unlock()
	signal(added)

	select {
	case <-a.done:
		t.mu.Lock() // several may wait for one task
		defer t.mu.Unlock()
		info := a.info
		secret.BagOf(ctx).CleanAll(info.Error)
		return &info, session.CleanError(ctx, a.err)
	case <-ctx.Done():
	case <-t.ended:
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return nil, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.waiters--; a.waiters == 0 && t.awaited[ref] == a {
		t.drop(a)
	}
	return nil, ctx.Err()
}

// Times returns how long a task was queued and then ran, by vCenter's clock; zero where vCenter does not say. One that failed before it
// started has only been queued.
func Times(info *types.TaskInfo) (queued, ran time.Duration) {
	if info == nil || info.QueueTime.IsZero() || info.CompleteTime == nil {
		return 0, 0
	}
	started := info.CompleteTime
	if info.StartTime != nil {
		started = info.StartTime
	}
	return max(0, started.Sub(info.QueueTime)), max(0, info.CompleteTime.Sub(*started))
}

// finish ends the waits for a task.
func (t *Tasks) finish(ref types.ManagedObjectReference, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.awaited[ref]; a != nil {
		a.err = err
		if err == nil {
			t.short.learn(a.kind, &a.info)
		}
		close(a.done)
		t.drop(a)
	}
}

// drop ends the wait for a task. The caller holds t.mu.
func (t *Tasks) drop(a *awaited) {
	delete(t.awaited, a.info.Task)
	if a.over != nil {
		a.over.Stop()
	}
}

// wanted lists the tasks that are to be watched and not in listed.
func (t *Tasks) wanted(listed map[types.ManagedObjectReference]bool) (refs []types.ManagedObjectReference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref, a := range t.awaited {
		if !a.read && !listed[ref] {
			refs = append(refs, ref)
		}
	}
	return refs
}

// unwanted lists the tasks in listed that are no longer awaited.
func (t *Tasks) unwanted(listed map[types.ManagedObjectReference]bool) (refs []types.ManagedObjectReference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref := range listed {
		if t.awaited[ref] == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

// idle reports whether there is nothing to watch.
func (t *Tasks) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.awaited {
		if !a.read {
			return false
		}
	}
	return true
}
