package tasks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// The properties of a task.
const (
	taskState    = "info.state"
	taskError    = "info.error"
	taskResult   = "info.result"
	taskQueued   = "info.queueTime"
	taskStarted  = "info.startTime"
	taskComplete = "info.completeTime"
	taskProgress = "info.progress"
	taskKind     = "info.descriptionId"
	taskReason   = "info.reason"
	taskEntity   = "info.entity"
	taskParent   = "info.parentTaskKey"
)

const (
	// readLeast and readMost are the minimum and maximum time between two reads. With a minimum, one read finds the ends of several tasks.
	readLeast, readMost = 40 * time.Millisecond, 15 * time.Second
	// readShare: a task is read again after its age divided by readShare.
	readShare = 8
	// endShare: a task is first read after the time that the fastest task of its kind took, plus that time divided by endShare.
	endShare = 16
)

// failedReads are the pauses after reads that failed.
var failedReads = retry.Backoff{First: readLeast, Most: 5 * time.Second}

// Sessions provides the session for reads. Tasks calls Lost if the session has ended or is unreachable.
type Sessions interface {
	Session(ctx context.Context) (*session.Session, error)
	Lost(s *session.Session, err error)
}

// Tasks waits for all running tasks together: it reads those that may have ended in one call. A task is first read at the age at which the
// fastest tasks of its kind ended, and then at growing intervals (readShare).
type Tasks struct {
	sessions Sessions
	log      zerolog.Logger
	// added has a token when a task was added.
	added chan struct{}
	// ended is closed when Run has returned.
	ended chan struct{}

	mu      sync.Mutex
	awaited map[types.ManagedObjectReference]*awaited
	fastest map[string]time.Duration // the shortest recent duration of tasks of a kind, by vCenter's clock
}

// awaited is an awaited task. info and err are read after done is closed.
type awaited struct {
	done       chan struct{}
	waiters    int
	kind       string
	info       types.TaskInfo
	err        error
	began, due time.Time // when the task began, and when it is read next
	ready      time.Time // when the task may have ended: from then on, a read of other tasks includes it
	percent    int32     // the last known progress
	progressed time.Time // when a read last showed a change of the progress or state
}

// New returns a Tasks. Waits make no progress before Run.
func New(s Sessions, log zerolog.Logger) *Tasks {
	return &Tasks{sessions: s, log: log, added: make(chan struct{}, 1), ended: make(chan struct{}),
		awaited: map[types.ManagedObjectReference]*awaited{}, fastest: map[string]time.Duration{}}
}

// Wait blocks until the task has ended and returns its key, state, result, error and times; the other fields of the
// TaskInfo are empty. For a failed task it also returns a task.Error, and for a task that vCenter no longer knows,
// vcfault.ErrTaskLost. If ctx or Run ends, the task continues in vCenter and Wait returns the context's error. Tasks with the same kind should
// take about the same time, because that and when the task began decide when it is read.
func (t *Tasks) Wait(ctx context.Context, ref types.ManagedObjectReference, kind string, began time.Time) (*types.TaskInfo, error) {
	t.mu.Lock()
	a := t.awaited[ref]
	if a == nil {
		now := time.Now()
		a = &awaited{done: make(chan struct{}), kind: kind, info: types.TaskInfo{Key: ref.Value, Task: ref}, began: began, progressed: now}
		if began.After(now) { // vCenter's clock was set during another task, whose times it is from
			a.began = now
		}
		t.schedule(a, now)
		t.awaited[ref] = a
	}
	a.waiters++
	t.mu.Unlock()
	select {
	case t.added <- struct{}{}:
	default:
	}

	select {
	case <-a.done:
		t.mu.Lock() // several callers can wait for one task
		defer t.mu.Unlock()
		info := a.info
		session.SecretsOf(ctx).CleanAll(info.Error)
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
		delete(t.awaited, ref)
	}
	return nil, ctx.Err()
}

// Still returns the time since a read last showed a change of an awaited task's progress or state. It is zero for a
// queued task, which waits for other tasks, and for a task that is not awaited.
func (t *Tasks) Still(ref types.ManagedObjectReference) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.awaited[ref]; a != nil {
		return time.Since(a.progressed)
	}
	return 0
}

// Times returns how long a task was queued and then ran, by vCenter's clock; zero for times that vCenter does not report. A task that failed
// before it started was only queued.
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

// Run reads tasks until ctx ends. Waits that have not ended then return the context's error.
func (t *Tasks) Run(ctx context.Context) {
	defer close(t.ended)
	var last time.Time
	failures := 0
	for {
		var due <-chan time.Time
		if next := t.next(); !next.IsZero() {
			due = time.After(max(time.Until(next), time.Until(last.Add(readLeast))))
		}
		select {
		case <-due:
		case <-t.added:
			continue
		case <-ctx.Done():
			return
		}
		last = time.Now()
		if err := t.read(session.WithOperationID(ctx), last); err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			t.log.Debug().Err(err).Msg("cannot read the running tasks")
			failures++
			session.Sleep(ctx, failedReads.After(failures))
		}
	}
}

// schedule decides when a task is read next. The caller holds t.mu.
func (t *Tasks) schedule(a *awaited, now time.Time) {
	age, fastest := now.Sub(a.began), t.fastest[a.kind]
	wait := max(age/readShare, readLeast)
	a.ready = now
	if soonest := fastest + fastest/endShare; age < soonest {
		wait = soonest - age
		a.ready = a.began.Add(fastest + fastest/(2*endShare))
	}
	a.due = now.Add(min(wait, readMost))
}

// next returns the time of the next read; zero if no task is awaited.
func (t *Tasks) next() (next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.awaited {
		if next.IsZero() || a.due.Before(next) {
			next = a.due
		}
	}
	return next
}

// read reads the tasks that are due.
func (t *Tasks) read(ctx context.Context, now time.Time) error {
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{
		{Type: "Task", PathSet: []string{taskState, taskError, taskResult, taskQueued, taskStarted, taskComplete, taskProgress}}}}
	t.mu.Lock()
	for ref, a := range t.awaited {
		if !a.due.After(now) || a.ready.Before(now) {
			spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
		}
	}
	t.mu.Unlock()
	s, err := t.sessions.Session(ctx)
	for err == nil && len(spec.ObjectSet) > 0 {
		var objects []types.ObjectContent
		objects, err = retrieve(ctx, s, spec)
		if gone := vcfault.MissingObject(err); slices.ContainsFunc(spec.ObjectSet, func(o types.ObjectSpec) bool { return o.Obj == gone }) {
			spec.ObjectSet = slices.DeleteFunc(spec.ObjectSet, func(o types.ObjectSpec) bool { return o.Obj == gone })
			t.finish(gone, vcfault.ErrTaskLost)
			err = nil
			continue
		}
		for i := 0; i < len(objects) && err == nil; i++ {
			err = t.update(&objects[i])
		}
		break
	}
	if err != nil && s != nil && (vcfault.NotAuthenticated(err) || vcfault.Classify("", err).Reason == vcfault.ReasonVCenterUnreachable) {
		t.sessions.Lost(s, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range spec.ObjectSet {
		if a := t.awaited[o.Obj]; a != nil {
			t.schedule(a, now)
			if err != nil {
				a.progressed = now // a task whose progress can't be read must not count as stalled
			}
		}
	}
	return err
}

// retrieve reads tasks in one answer. The server uses this method for nothing else, so its metrics show what the waits cost.
func retrieve(ctx context.Context, s *session.Session, spec types.PropertyFilterSpec) ([]types.ObjectContent, error) {
	res, err := methods.RetrieveProperties(ctx, s.Vim, &types.RetrieveProperties{This: s.Vim.ServiceContent.PropertyCollector, SpecSet: []types.PropertyFilterSpec{spec}})
	if err != nil {
		return nil, err
	}
	return res.Returnval, nil
}

// update processes the reading of a task.
func (t *Tasks) update(o *types.ObjectContent) error {
	for _, m := range o.MissingSet {
		if err := vcfault.SessionEnded(m.Fault.Fault); err != nil {
			return err
		}
		if m.Path == taskState {
			t.finish(o.Obj, vcfault.ErrTaskLost)
			return nil
		}
	}
	t.mu.Lock()
	a := t.awaited[o.Obj]
	if a == nil {
		t.mu.Unlock()
		return nil
	}
	percent := int32(0)
	for _, p := range o.PropSet {
		switch v := p.Val.(type) {
		case types.TaskInfoState:
			a.info.State = v
		case types.LocalizedMethodFault:
			a.info.Error = &v
		case time.Time:
			switch p.Name {
			case taskQueued:
				a.info.QueueTime = v
			case taskStarted:
				a.info.StartTime = &v
			case taskComplete:
				a.info.CompleteTime = &v
			}
		case int32:
			percent = v
		default:
			if p.Name == taskResult {
				a.info.Result = v
			}
		}
	}
	if percent != a.percent || a.info.State != types.TaskInfoStateRunning {
		a.percent, a.progressed = percent, time.Now()
	}
	state := a.info.State
	if state == types.TaskInfoStateError && a.info.Error == nil {
		a.info.Error = &types.LocalizedMethodFault{Fault: &types.RuntimeFault{}}
	}
	failure := a.info.Error
	t.mu.Unlock()
	switch state {
	case types.TaskInfoStateSuccess:
		t.finish(o.Obj, nil)
	case types.TaskInfoStateError:
		t.finish(o.Obj, task.Error{LocalizedMethodFault: failure})
	}
	return nil
}

// finish ends the waits for a task.
func (t *Tasks) finish(ref types.ManagedObjectReference, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.awaited[ref]
	if a == nil {
		return
	}
	if queued, ran := Times(&a.info); err == nil && a.kind != "" && !a.info.QueueTime.IsZero() {
		took, fastest := queued+ran, t.fastest[a.kind]
		if t.fastest[a.kind] = took; took > fastest && fastest > 0 {
			t.fastest[a.kind] = fastest + (took-fastest)/8
		}
	}
	a.err = err
	close(a.done)
	delete(t.awaited, ref)
}
