package tasks

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// progressEvery is how often the server reads the progress of tasks that have been awaited for longer than that, in one call for all
// of them. It does not watch progress, because each step would be an update.
const progressEvery = time.Minute

const taskProgress = "info.progress"

// progress is a task's last known progress, and when it was seen to change.
type progress struct {
	percent int32
	since   time.Time
}

// Still returns for how long neither the progress nor the state of an awaited task has been seen to change. It is zero for a
// queued task, which waits for others, and for one that is not awaited.
func (t *Tasks) Still(ref types.ManagedObjectReference) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.awaited[ref]; a != nil {
		return time.Since(a.progress.since)
	}
	return 0
}

// readProgress reads now and then, until ctx ends.
func (t *Tasks) readProgress(ctx context.Context) {
	for session.Sleep(ctx, progressEvery) {
		if refs := t.old(); len(refs) > 0 {
			t.readProgressOf(ctx, refs)
		}
	}
}

// old returns the tasks that have been awaited for long.
func (t *Tasks) old() (refs []types.ManagedObjectReference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref, a := range t.awaited {
		if time.Since(a.began) >= progressEvery {
			refs = append(refs, ref)
		}
	}
	return refs
}

// readProgressOf reads the progress of tasks once. A task whose progress cannot be read counts as progressing.
func (t *Tasks) readProgressOf(ctx context.Context, refs []types.ManagedObjectReference) {
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "Task", PathSet: []string{taskState, taskProgress}}},
		ReportMissingObjectsInResults: types.NewBool(true)}
	for _, ref := range refs {
		spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	read := map[types.ManagedObjectReference]session.Object{}
	if s, err := t.sessions.Session(ctx); err == nil {
		objects, _ := session.ReadObjects(session.WithOperationID(ctx), s, spec) // the wait finds out what is wrong
		for _, o := range objects {
			read[o.Ref] = o
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ref := range refs {
		a := t.awaited[ref]
		if a == nil {
			continue
		}
		o := read[ref]
		percent, state := session.Prop[int32](o, taskProgress), session.Prop[types.TaskInfoState](o, taskState)
		if percent != a.progress.percent || state != types.TaskInfoStateRunning {
			a.progress = progress{percent, time.Now()}
		}
	}
}
