package vsphere

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// awaiting runs a task waiter until the test ends.
func awaiting(t testing.TB, c *client) (ts *tasks, stop func()) {
	ts = newTasks(c, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	go ts.run(ctx)
	stop = func() { cancel(); <-ts.ended }
	t.Cleanup(stop)
	return ts, stop
}

// outcome is what a wait gave.
type outcome struct {
	info *types.TaskInfo
	err  error
}

func waitFor(ctx context.Context, ts *tasks, ref types.ManagedObjectReference) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		info, err := ts.wait(ctx, ref)
		result <- outcome{info, err}
	}()
	return result
}

func get[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing came in %s", patience)
		panic("unreachable")
	}
}

// pending waits until a WaitForUpdatesEx of the waiter is under way for those tasks.
func pending(t testing.TB, l *lab, ts *tasks, tasks int) {
	t.Helper()
	eventually(t, "the tasks are awaited", func() bool {
		ts.mu.Lock()
		n := len(ts.awaited)
		ts.mu.Unlock()
		return n >= tasks && l.calls()["WaitForUpdatesEx"] >= 2
	})
}

func TestTasksEndWithTheirResultOrTheirFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)

		good, bad := l.task(), l.task()
		goodEnds, badEnds := waitFor(t.Context(), ts, good), waitFor(t.Context(), ts, bad)
		pending(t, l, ts, 2)
		vm := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-7"}
		l.end(good, vm, nil)
		l.end(bad, nil, &types.NoDiskSpace{Datastore: "fast"})

		o := get(t, goodEnds)
		if o.err != nil || o.info.State != types.TaskInfoStateSuccess || o.info.Result != vm || o.info.CompleteTime == nil {
			t.Errorf("got %+v, %v", o.info, o.err)
		}
		o = get(t, badEnds)
		if e := vcfault.Classify("clone", o.err); e.Reason != vcfault.ReasonDatastoreFull || !mentions(e.Message, `"fast"`) {
			t.Errorf("got %v", e)
		}
	})
}

func TestATaskThatHasEndedAlreadyIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)
		ref := l.task()
		l.end(ref, nil, nil)
		if o := get(t, waitFor(t.Context(), ts, ref)); o.err != nil {
			t.Error(o.err)
		}
	})
}

func TestATaskThatVCenterForgotIsLostAndDisturbsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)
		other := l.task()
		otherEnds := waitFor(t.Context(), ts, other)
		o := get(t, waitFor(t.Context(), ts, types.ManagedObjectReference{Type: "Task", Value: "task-gone"}))
		if !errors.Is(o.err, vcfault.ErrTaskLost) || vcfault.Classify("", o.err).Reason != vcfault.ReasonTaskLost {
			t.Errorf("got %v", o.err)
		}
		l.end(other, nil, nil)
		if o := get(t, otherEnds); o.err != nil {
			t.Error(o.err)
		}
	})
}

func TestWaitsOutliveALostSessionAndAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)

		first, second := l.task(), l.task()
		firstEnds, secondEnds := waitFor(t.Context(), ts, first), waitFor(t.Context(), ts, second)
		pending(t, l, ts, 2)
		l.DropSessions()
		l.end(first, nil, nil) // wakes the wait, which the simulator lets live on in a dead session
		if o := get(t, firstEnds); o.err != nil {
			t.Error(o.err)
		}
		l.Down()
		l.end(second, nil, nil)
		eventually(t, "the outage is known", func() bool { return c.health() != nil })
		l.Up()
		if o := get(t, secondEnds); o.err != nil {
			t.Error(o.err)
		}
		if got := l.Sessions(); got != 1 {
			t.Errorf("%d sessions, want 1", got)
		}
	})
}

func TestTasksAddedOneByOneDuringAWaitAreSeenSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)
		var refs []types.ManagedObjectReference
		var ends []<-chan outcome
		for range 6 {
			ref := l.task()
			refs, ends = append(refs, ref), append(ends, waitFor(t.Context(), ts, ref))
			eventually(t, "the task is in the list", func() bool {
				before := l.calls()
				time.Sleep(4 * batchEvery)
				return maps.Equal(before, l.calls()) && before["ModifyListView"] >= len(refs)
			})
		}
		begin := time.Now()
		for i := range refs {
			l.end(refs[i], nil, nil)
			if o := get(t, ends[i]); o.err != nil {
				t.Error(o.err)
			}
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if calls := l.calls(); calls["CancelWaitForUpdates"] == 0 {
			t.Errorf("no wait was cancelled, so this tests nothing: %v", calls)
		}
	})
}

func TestAWaitThatIsGivenUpLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)
		ref := l.task()
		ctx, cancel := context.WithCancel(t.Context())
		one, other := waitFor(ctx, ts, ref), waitFor(t.Context(), ts, ref)
		pending(t, l, ts, 1)
		cancel()
		if o := get(t, one); !errors.Is(o.err, context.Canceled) {
			t.Errorf("got %v", o.err)
		}
		l.end(ref, nil, nil)
		if o := get(t, other); o.err != nil {
			t.Error(o.err)
		}
	})
}

func TestTheEndOfRunEndsTheWaitsAndLeavesNothingInVCenter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, stop := awaiting(t, c)
		ends := waitFor(context.Background(), ts, l.task())
		pending(t, l, ts, 1)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if o := get(t, ends); !errors.Is(o.err, context.Canceled) {
			t.Errorf("got %v", o.err)
		}
		if o := get(t, waitFor(context.Background(), ts, l.task())); !errors.Is(o.err, context.Canceled) {
			t.Errorf("a wait after the end gave %v", o.err)
		}
		calls := l.calls()
		for made, unmade := range map[string]string{"CreatePropertyCollector": "DestroyPropertyCollector", "CreateListView": "DestroyView"} {
			if calls[made] != calls[unmade] || calls[made] == 0 {
				t.Errorf("%s: %d, %s: %d", made, calls[made], unmade, calls[unmade])
			}
		}
		if calls["CancelWaitForUpdates"] == 0 { // one that was being cancelled at that moment may be cancelled twice
			t.Error("no wait was cancelled")
		}
	})
}

func TestAWatchThatBreaksInALivingSessionIsBuiltAnewAndNotLeaked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, stop := awaiting(t, c)
		ref := l.task()
		ends := waitFor(t.Context(), ts, ref)
		pending(t, l, ts, 1)
		l.Down()
		eventually(t, "the outage is known", func() bool { return c.health() != nil })
		l.Up()
		eventually(t, "a second watch is made", func() bool { return l.calls()["CreatePropertyCollector"] == 2 })
		l.end(ref, nil, nil)
		if o := get(t, ends); o.err != nil {
			t.Error(o.err)
		}
		stop()
		if calls := l.calls(); calls["DestroyPropertyCollector"] != 2 || calls["DestroyView"] != 2 || calls["Login"] != 1 {
			t.Errorf("calls: %v", calls)
		}
	})
}

// The calls per task, beside the one that starts it: its share of adding it to the list, of vCenter's answer
// to that, and of the answer when it ends.
func TestRunningTasksShareTheirCalls(t *testing.T) {
	for _, tc := range []struct {
		slots int
		most  float64
	}{{8, 3}, {32, 1.2}} {
		t.Run(fmt.Sprintf("%d at once", tc.slots), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := startLab(t)
				c := l.client(l.config())
				ts, _ := awaiting(t, c)
				if _, err := c.session(t.Context()); err != nil {
					t.Fatal(err)
				}
				const tasks = 96
				free := make(chan struct{}, tc.slots)
				var all sync.WaitGroup
				for i := range tasks {
					free <- struct{}{}
					all.Go(func() {
						defer func() { <-free }()
						ref := l.task()
						time.AfterFunc(30*time.Second+time.Duration(7*(i%tc.slots))*time.Millisecond, func() { l.end(ref, nil, nil) })
						if _, err := ts.wait(t.Context(), ref); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				calls := l.calls()
				n := calls["ModifyListView"] + calls["WaitForUpdatesEx"] + calls["CreatePropertyCollector"] + calls["CreateListView"] + calls["CreateFilter"]
				per := float64(n) / tasks
				t.Logf("%.2f calls a task", per)
				if per > tc.most {
					t.Errorf("%.2f calls a task, want at most %.1f: %v", per, tc.most, calls)
				}
			})
		})
	}
}

func TestNoCallIsMadeWhileThereIsNothingToAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)
		ref := l.task()
		l.end(ref, nil, nil)
		get(t, waitFor(t.Context(), ts, ref))
		before := l.calls()
		time.Sleep(10 * batchEvery)
		after := l.calls()
		for method, n := range after {
			if n != before[method] {
				t.Errorf("%s was called", method)
			}
		}
	})
}

func TestAfterAnIdleTimeInWhichTheSessionWentTasksAreAwaitedAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts, _ := awaiting(t, c)
		for range 2 {
			ref := l.task()
			l.end(ref, nil, nil)
			if o := get(t, waitFor(t.Context(), ts, ref)); o.err != nil {
				t.Error(o.err)
			}
			l.DropSessions()
		}
	})
}

// A wait that gave no news for its whole time is followed by a read, so that no missed update hangs an action.
func TestATaskWhoseEndWasNotToldIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLab(t)
		c := l.client(l.config())
		ts := newTasks(c, zerolog.Nop()) // nobody runs it: no update comes
		done, gone := l.task(), types.ManagedObjectReference{Type: "Task", Value: "task-none"}
		doneEnds, goneEnds := waitFor(t.Context(), ts, done), waitFor(t.Context(), ts, gone)
		eventually(t, "both are awaited", func() bool { return len(ts.wanted(nil)) == 2 })
		s, err := c.session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.end(done, types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-7"}, nil)
		w := &taskWatch{session: s, listed: map[types.ManagedObjectReference]bool{done: true, gone: true}, abort: func() {}}
		if err := ts.take(t.Context(), w, answer{}); err != nil {
			t.Fatal(err)
		}
		if o := get(t, doneEnds); o.err != nil || o.info.State != types.TaskInfoStateSuccess || o.info.Result == nil {
			t.Errorf("%+v", o)
		}
		if o := get(t, goneEnds); !errors.Is(o.err, vcfault.ErrTaskLost) {
			t.Errorf("%+v", o)
		}
	})
}
