package tasks

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Run waits for tasks until ctx ends. Waits that are not over then return the context's error; nothing is left in vCenter.
func (t *Tasks) Run(ctx context.Context) {
	defer close(t.ended)
	var w *watch
	defer func() { w.close(ctx) }()
	var reads sync.WaitGroup
	reads.Go(func() { t.readProgress(ctx) })
	reads.Go(func() { t.readShort(ctx) })
	defer reads.Wait()
	for {
		if !t.nap(ctx, &w) {
			return
		}
		if w == nil || w.broken {
			w = t.watch(ctx, w)
			if w == nil || w.broken {
				session.Sleep(ctx, sessionRetry)
			}
			continue
		}
		if err := t.turn(ctx, w); err != nil && ctx.Err() == nil {
			t.fail(ctx, &w, err)
		} else {
			t.failures = 0
		}
	}
}

// nap waits until there is a task to wait for, and then until a batch has gathered. It closes a watch that has been idle for
// long. It returns false when ctx has ended.
func (t *Tasks) nap(ctx context.Context, w **watch) bool {
	for t.idle() {
		var long <-chan time.Time
		if *w != nil {
			timer := time.NewTimer(watchIdle)
			defer timer.Stop()
			long = timer.C
		}
		select {
		case <-t.added:
		case <-long:
			(*w).close(ctx)
			*w = nil
		case <-ctx.Done():
			return false
		}
	}
	return session.Sleep(ctx, batchEvery)
}

// watch makes a watch on the current session; old is one that broke, or nil. If that fails, it returns a broken watch that is still
// to be removed from vCenter, or nil: the session, and the objects in it, may outlive the outage.
func (t *Tasks) watch(ctx context.Context, old *watch) *watch {
	s, err := t.sessions.Session(ctx)
	if err != nil {
		return old
	}
	if old != nil && old.session == s {
		old.close(ctx) // the network failed, but the session survived
	}
	w, err := newWatch(session.WithOperationID(ctx), s)
	if err != nil {
		w.broken = true
		t.fail(ctx, &w, err)
	}
	return w
}

// fail reacts to a failed call of w: if its session is gone, so is the watch; otherwise it is built again, and the
// old one destroyed when possible.
func (t *Tasks) fail(ctx context.Context, w **watch, err error) {
	t.log.Debug().Err(err).Msg("the wait for tasks restarts")
	switch {
	case vcfault.NotAuthenticated(err):
		t.sessions.Lost((*w).session, err)
		*w = nil
	case vcfault.Classify("", err).Reason == vcfault.ReasonVCenterUnreachable:
		t.sessions.Lost((*w).session, err)
		(*w).broken = true
	default:
		(*w).close(ctx)
		*w = nil
	}
	session.Sleep(ctx, min(batchEvery<<min(t.failures, 10), watchAgainMost)) // never a hot loop
	t.failures++
}

// turn brings the list up to date, waits for one answer and processes it.
//
// Tasks that are added meanwhile enter the list at once, and the answer then comes at once, too. But turn changes the
// list during a wait only when vCenter has processed the last change: vcsim deadlocks if another change comes while
// it processes one. So if that is unknown, it cancels the wait instead, and the next turn adds them.
func (t *Tasks) turn(ctx context.Context, w *watch) error {
	ctx = session.WithOperationID(ctx)
	grown, err := t.list(ctx, w)
	if err != nil || t.idle() {
		return err
	}
	answer := w.wait(ctx)
	added, stop := t.added, ctx.Done()
	if grown {
		added = nil // the answer is on its way
	}
	var batch, again, abort <-chan time.Time
	silence := time.After(taskSilence)
	cancel := func() {
		w.cancel(ctx)
		again = time.After(cancelAgain)
	}
	for {
		select {
		case <-added:
			added, batch = nil, time.After(batchEvery)
		case <-batch:
			batch = nil
			if len(t.wanted(w.listed)) == 0 {
				added = t.added // that task was in the list already
				continue
			}
			if !w.settled {
				cancel()
				continue
			}
			grown, err = t.list(ctx, w)
			if err != nil {
				cancel()
			} else if !grown {
				added = t.added
			}
		case <-stop:
			stop, abort = nil, time.After(cleanTimeout)
			cancel()
		case <-abort:
			w.abort()
		case <-silence:
			w.abort() // vCenter is far too late: the network must have lost its answers
		case <-again:
			cancel() // the last cancel came before the wait
		case a := <-answer:
			if err != nil {
				return err
			}
			return t.take(ctx, w, a)
		}
	}
}

// manyDone is how many finished tasks may stay in the list until others are added.
const manyDone = 64

// list adds awaited tasks to the watch's list, and removes those that no longer are. It reports whether the list has
// grown, which vCenter answers at once.
func (t *Tasks) list(ctx context.Context, w *watch) (grown bool, err error) {
	add, remove := t.wanted(w.listed), t.unwanted(w.listed)
	if len(add) == 0 && len(remove) < manyDone {
		return false, nil
	}
	unknown, err := w.change(ctx, add, remove)
	for _, ref := range unknown {
		t.finish(ref, vcfault.ErrTaskLost)
	}
	return len(add) > len(unknown), err
}

// take processes an answer. The answer to a cancel has no updates.
func (t *Tasks) take(ctx context.Context, w *watch, a answer) error {
	if fault.Is(a.err, &types.RequestCanceled{}) {
		return nil
	}
	if a.err != nil {
		return a.err
	}
	if a.set == nil {
		session.Sleep(ctx, emptyPause) // in case vCenter did not wait
		return t.reread(ctx, w.session, slices.Collect(maps.Keys(w.listed)))
	}
	w.note(a)
	for _, filter := range a.set.FilterSet {
		for _, update := range filter.ObjectSet {
			if err := t.update(ctx, w.session, update); err != nil {
				return err
			}
		}
	}
	return nil
}

// reread reads tasks. Those that are watched are read without updates for a whole wait, as the inventory is read again periodically: no
// action may wait forever because one update was missed.
func (t *Tasks) reread(ctx context.Context, s *session.Session, refs []types.ManagedObjectReference) error {
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "Task", PathSet: taskPaths}}}
	for _, ref := range refs {
		spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	for len(spec.ObjectSet) > 0 {
		objects, err := session.Retrieve(ctx, s, spec)
		if gone := vcfault.MissingObject(err); gone.Value != "" {
			left := slices.DeleteFunc(spec.ObjectSet, func(o types.ObjectSpec) bool { return o.Obj == gone })
			if len(left) == len(spec.ObjectSet) {
				return err
			}
			spec.ObjectSet = left
			t.finish(gone, vcfault.ErrTaskLost)
			continue
		}
		if err != nil {
			return err
		}
		for _, o := range objects {
			u := types.ObjectUpdate{Kind: types.ObjectUpdateKindModify, Obj: o.Obj, MissingSet: o.MissingSet}
			for _, p := range o.PropSet {
				u.ChangeSet = append(u.ChangeSet, types.PropertyChange{Name: p.Name, Op: types.PropertyChangeOpAssign, Val: p.Val})
			}
			if err := t.update(ctx, s, u); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// update processes the update of one task.
func (t *Tasks) update(ctx context.Context, s *session.Session, u types.ObjectUpdate) error {
	t.mu.Lock()
	a := t.awaited[u.Obj]
	t.mu.Unlock()
	if a == nil {
		return nil
	}
	if u.Kind == types.ObjectUpdateKindLeave {
		t.finish(u.Obj, vcfault.ErrTaskLost)
		return nil
	}
	for _, m := range u.MissingSet {
		if err := vcfault.SessionEnded(m.Fault.Fault); err != nil {
			return err
		}
		if m.Path == taskState {
			t.finish(u.Obj, vcfault.ErrTaskLost)
			return nil
		}
	}
	for _, change := range u.ChangeSet {
		apply(&a.info, change)
	}
	switch a.info.State {
	case types.TaskInfoStateSuccess:
		t.finish(u.Obj, nil)
	case types.TaskInfoStateError:
		if a.info.Error == nil { // the state came before the error: read both
			info, err := readInfo(ctx, s, u.Obj)
			if err != nil {
				return err
			}
			a.info.Error = info.Error
		}
		if a.info.Error == nil {
			a.info.Error = &types.LocalizedMethodFault{Fault: &types.RuntimeFault{}}
		}
		t.finish(u.Obj, task.Error{LocalizedMethodFault: a.info.Error})
	case types.TaskInfoStateRunning:
		if tell := a.signs.Started; tell != nil && a.info.StartTime != nil && !a.info.QueueTime.IsZero() {
			a.signs.Started = nil
			tell(max(0, a.info.StartTime.Sub(a.info.QueueTime)))
		}
	}
	return nil
}
