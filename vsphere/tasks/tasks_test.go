package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// awaiting runs a task waiter until the test ends.
func awaiting(t testing.TB, c *session.Client) (ts *Tasks, stop func()) {
	ts = New(c, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	go ts.Run(ctx)
	stop = func() { cancel(); <-ts.ended }
	t.Cleanup(stop)
	return ts, stop
}

// outcome is what a wait gave.
type outcome struct {
	info *types.TaskInfo
	err  error
}

func waitFor(ctx context.Context, ts *Tasks, ref types.ManagedObjectReference) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		info, err := ts.Wait(ctx, ref)
		result <- outcome{info, err}
	}()
	return result
}

func get[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(vctest.Patience):
		t.Fatalf("nothing came in %s", vctest.Patience)
		panic("unreachable")
	}
}

// pending waits until a WaitForUpdatesEx of the waiter is under way for those tasks.
func pending(t testing.TB, l *sessiontest.Lab, ts *Tasks, tasks int) {
	t.Helper()
	vctest.Eventually(t, "the tasks are awaited", func() bool {
		ts.mu.Lock()
		n := len(ts.awaited)
		ts.mu.Unlock()
		return n >= tasks && l.Counted()["WaitForUpdatesEx"] >= 2
	})
}

func TestTasksEndWithTheirResultOrTheirFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)

		good, bad := l.Task(), l.Task()
		goodEnds, badEnds := waitFor(t.Context(), ts, good), waitFor(t.Context(), ts, bad)
		pending(t, l, ts, 2)
		vm := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-7"}
		l.End(good, vm, nil)
		l.End(bad, nil, &types.NoDiskSpace{Datastore: "fast"})

		o := get(t, goodEnds)
		if o.err != nil || o.info.State != types.TaskInfoStateSuccess || o.info.Result != vm || o.info.CompleteTime == nil {
			t.Errorf("got %+v, %v", o.info, o.err)
		}
		o = get(t, badEnds)
		if e := vcfault.Classify("clone", o.err); e.Reason != vcfault.ReasonDatastoreFull || !vctest.Mentions(e.Message, `"fast"`) {
			t.Errorf("got %v", e)
		}
	})
}

func TestATaskThatHasEndedAlreadyIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)
		ref := l.Task()
		l.End(ref, nil, nil)
		if o := get(t, waitFor(t.Context(), ts, ref)); o.err != nil {
			t.Error(o.err)
		}
	})
}

func TestATaskThatVCenterForgotIsLostAndDisturbsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)
		other := l.Task()
		otherEnds := waitFor(t.Context(), ts, other)
		o := get(t, waitFor(t.Context(), ts, types.ManagedObjectReference{Type: "Task", Value: "task-gone"}))
		if !errors.Is(o.err, vcfault.ErrTaskLost) || vcfault.Classify("", o.err).Reason != vcfault.ReasonTaskLost {
			t.Errorf("got %v", o.err)
		}
		l.End(other, nil, nil)
		if o := get(t, otherEnds); o.err != nil {
			t.Error(o.err)
		}
	})
}

func TestWaitsOutliveALostSessionAndAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)

		first, second := l.Task(), l.Task()
		firstEnds, secondEnds := waitFor(t.Context(), ts, first), waitFor(t.Context(), ts, second)
		pending(t, l, ts, 2)
		l.DropSessions()
		l.End(first, nil, nil) // wakes the wait, which the simulator lets live on in a dead session
		if o := get(t, firstEnds); o.err != nil {
			t.Error(o.err)
		}
		l.Down()
		l.End(second, nil, nil)
		vctest.Eventually(t, "the outage is known", func() bool { return c.Health() != nil })
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
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)
		var refs []types.ManagedObjectReference
		var ends []<-chan outcome
		for range 6 {
			ref := l.Task()
			refs, ends = append(refs, ref), append(ends, waitFor(t.Context(), ts, ref))
			vctest.Eventually(t, "the task is in the list", func() bool {
				before := l.Counted()
				time.Sleep(4 * batchEvery)
				return maps.Equal(before, l.Counted()) && before["ModifyListView"] >= len(refs)
			})
		}
		begin := time.Now()
		for i := range refs {
			l.End(refs[i], nil, nil)
			if o := get(t, ends[i]); o.err != nil {
				t.Error(o.err)
			}
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if calls := l.Counted(); calls["CancelWaitForUpdates"] == 0 {
			t.Errorf("no wait was cancelled, so this tests nothing: %v", calls)
		}
	})
}

func TestAWaitThatIsGivenUpLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)
		ref := l.Task()
		ctx, cancel := context.WithCancel(t.Context())
		one, other := waitFor(ctx, ts, ref), waitFor(t.Context(), ts, ref)
		pending(t, l, ts, 1)
		cancel()
		if o := get(t, one); !errors.Is(o.err, context.Canceled) {
			t.Errorf("got %v", o.err)
		}
		l.End(ref, nil, nil)
		if o := get(t, other); o.err != nil {
			t.Error(o.err)
		}
	})
}

func TestTheEndOfRunEndsTheWaitsAndLeavesNothingInVCenter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, stop := awaiting(t, c)
		ends := waitFor(context.Background(), ts, l.Task())
		pending(t, l, ts, 1)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if o := get(t, ends); !errors.Is(o.err, context.Canceled) {
			t.Errorf("got %v", o.err)
		}
		if o := get(t, waitFor(context.Background(), ts, l.Task())); !errors.Is(o.err, context.Canceled) {
			t.Errorf("a wait after the end gave %v", o.err)
		}
		calls := l.Counted()
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
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, stop := awaiting(t, c)
		ref := l.Task()
		ends := waitFor(t.Context(), ts, ref)
		pending(t, l, ts, 1)
		l.Down()
		vctest.Eventually(t, "the outage is known", func() bool { return c.Health() != nil })
		l.Up()
		vctest.Eventually(t, "a second watch is made", func() bool { return l.Counted()["CreatePropertyCollector"] == 2 })
		l.End(ref, nil, nil)
		if o := get(t, ends); o.err != nil {
			t.Error(o.err)
		}
		stop()
		if calls := l.Counted(); calls["DestroyPropertyCollector"] != 2 || calls["DestroyView"] != 2 || calls["Login"] != 1 {
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
				l := sessiontest.Start(t, vcsim.Config{})
				c := l.Client(l.Config())
				ts, _ := awaiting(t, c)
				if _, err := c.Session(t.Context()); err != nil {
					t.Fatal(err)
				}
				const tasks = 96
				free := make(chan struct{}, tc.slots)
				var all sync.WaitGroup
				for i := range tasks {
					free <- struct{}{}
					all.Go(func() {
						defer func() { <-free }()
						ref := l.Task()
						time.AfterFunc(30*time.Second+time.Duration(7*(i%tc.slots))*time.Millisecond, func() { l.End(ref, nil, nil) })
						if _, err := ts.Wait(t.Context(), ref); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				calls := l.Counted()
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
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)
		ref := l.Task()
		l.End(ref, nil, nil)
		get(t, waitFor(t.Context(), ts, ref))
		before := l.Counted()
		time.Sleep(10 * batchEvery)
		after := l.Counted()
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
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts, _ := awaiting(t, c)
		for range 2 {
			ref := l.Task()
			l.End(ref, nil, nil)
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
		l := sessiontest.Start(t, vcsim.Config{})
		c := l.Client(l.Config())
		ts := New(c, zerolog.Nop()) // nobody runs it: no update comes
		done, gone := l.Task(), types.ManagedObjectReference{Type: "Task", Value: "task-none"}
		doneEnds, goneEnds := waitFor(t.Context(), ts, done), waitFor(t.Context(), ts, gone)
		vctest.Eventually(t, "both are awaited", func() bool { return len(ts.wanted(nil)) == 2 })
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.End(done, types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-7"}, nil)
		w := &watch{session: s, listed: map[types.ManagedObjectReference]bool{done: true, gone: true}, abort: func() {}}
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

func TestNoGoroutineOutlivesTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		if l.Sessions() != 0 {
			t.Fatal("a session of ours at the start")
		}
		synctest.Wait()
		before := inBubble(t)
		for range 5 {
			c := l.Client(l.Config())
			ts, stop := awaiting(t, c)
			ref := l.Task()
			l.End(ref, nil, nil)
			get(t, waitFor(t.Context(), ts, ref))
			stop()
			c.Logout(t.Context())
		}
		synctest.Wait()
		if n := inBubble(t); n > before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}

// inBubble counts the goroutines of the caller's bubble.
func inBubble(t *testing.T) int {
	t.Helper()
	all := make([]byte, 8<<20)
	all = all[:runtime.Stack(all, true)]
	bubble := regexp.MustCompile(`synctest bubble \d+\]`).Find(all) // the caller's is the first stack
	if bubble == nil {
		t.Fatal("the caller is in no bubble")
	}
	return bytes.Count(all, bubble)
}
