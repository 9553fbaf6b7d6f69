package tasks

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// progressEvery is how often the progress is read of the tasks that are awaited for longer than that: one call for all of them. It is
// not watched, for each step would be an update.
const progressEvery = time.Minute

const taskProgress = "info.progress"

// progress is how far a task was when it was last seen to get on, and when that was.
type progress struct {
	percent int32
	since   time.Time
}

// Still is for how long a task that is awaited was not seen to get on: neither its progress nor its state changed. One that is
// queued waits for others and is not meant; nor is one that is not awaited.
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

// old are the tasks that are awaited for long.
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

// readProgressOf reads the progress of tasks once. Where it cannot be read, they count as getting on.
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
