package tasks

import (
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

func TestATaskIsStalledWithoutProgressButNotWhileItIsQueuedOrProgresses(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		stands, getsOn, queued := r.Task(), r.Task(), r.Task()
		for _, ref := range []types.ManagedObjectReference{stands, getsOn, queued} {
			r.wait(t.Context(), ref)
		}
		r.SetProgress(stands, 95, types.TaskInfoStateRunning)
		r.SetProgress(queued, 0, types.TaskInfoStateQueued)
		began := time.Now()
		for percent := range int32(20) {
			r.SetProgress(getsOn, percent, types.TaskInfoStateRunning)
			time.Sleep(time.Minute)
		}
		if still := r.waiting.Still(stands); still < 18*time.Minute || still > time.Since(began) {
			t.Errorf("the task at 95%% has made no progress for %s; want from 18m to %s", still, time.Since(began))
		}
		if a, b := r.waiting.Still(getsOn), r.waiting.Still(queued); a > 2*time.Minute || b > 2*time.Minute {
			t.Errorf("the task that progresses has made no progress for %s, and the queued one for %s; want at most 2m", a, b)
		}
		r.SetProgress(stands, 96, types.TaskInfoStateRunning)
		time.Sleep(2 * time.Minute)
		if still := r.waiting.Still(stands); still > 2*time.Minute {
			t.Errorf("the task that progressed to 96%% has made no progress for %s; want at most 2m", still)
		}
		r.End(stands, nil, nil)
		r.End(getsOn, nil, nil)
		r.End(queued, nil, nil)
		time.Sleep(time.Minute)
		if still := r.waiting.Still(stands); still != 0 {
			t.Errorf("the ended task has made no progress for %s; want 0s", still)
		}
	})
}

func TestALongTaskIsReadAFewTimesAMinute(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		ref := r.Task()
		time.AfterFunc(10*time.Minute, func() { r.End(ref, nil, nil) })
		get(t, r.waitKind(t.Context(), ref, "Clone1"))
		before := r.Counted()["RetrieveProperties"]
		long := r.Task()
		r.waitKind(t.Context(), long, "Clone1")
		time.Sleep(10*time.Minute + time.Second)
		if n := r.Counted()["RetrieveProperties"] - before; n > 50 {
			t.Errorf("%d reads of one task in 10 minutes; want at most 50", n)
		}
		r.End(long, nil, nil)
	})
}
