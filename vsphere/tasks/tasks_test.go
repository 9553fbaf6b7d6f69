package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// rig is a lab, and a running waiter for its tasks.
type rig struct {
	*sessiontest.Lab
	client  *session.Client
	waiting *Tasks
	stop    func()
}

// inABubble runs a test in a synctest bubble, in parallel with others, with a waiter that runs until the test ends.
func inABubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := sessiontest.Start(t, vcsim.Config{})
		test(t, await(t, l, l.Client(l.Config())))
	})
}

// await runs a waiter until the test ends.
func await(t testing.TB, l *sessiontest.Lab, c *session.Client) *rig {
	r := &rig{Lab: l, client: c, waiting: New(c, zerolog.Nop())}
	ctx, cancel := context.WithCancel(context.Background())
	go r.waiting.Run(ctx)
	r.stop = func() { cancel(); <-r.waiting.ended }
	t.Cleanup(r.stop)
	return r
}

// outcome is the result of a wait.
type outcome struct {
	info *types.TaskInfo
	err  error
}

func (r *rig) wait(ctx context.Context, ref types.ManagedObjectReference) <-chan outcome {
	return r.waitKind(ctx, ref, "")
}

func (r *rig) waitKind(ctx context.Context, ref types.ManagedObjectReference, kind string) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		info, err := r.waiting.Wait(ctx, ref, kind, time.Now())
		result <- outcome{info, err}
	}()
	return result
}

// ended ends a task, and requires that the wait for the task ends.
func (r *rig) ended(t testing.TB, ref types.ManagedObjectReference, result <-chan outcome) {
	t.Helper()
	r.End(ref, nil, nil)
	succeeds(t, result)
}

// succeeds requires that a task succeeds.
func succeeds(t testing.TB, result <-chan outcome) {
	t.Helper()
	if o := get(t, result); o.err != nil {
		t.Errorf("the task failed: %v", o.err)
	}
}

func get(t testing.TB, c <-chan outcome) outcome {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(vctest.Timeout):
		t.Fatalf("the wait for the task did not end within %s", vctest.Timeout)
		panic("unreachable")
	}
}

// pending waits until so many tasks are awaited and each was read.
func (r *rig) pending(t testing.TB, tasks int) {
	t.Helper()
	vctest.Eventually(t, "the tasks are awaited", func() bool {
		r.waiting.mu.Lock()
		n := len(r.waiting.awaited)
		r.waiting.mu.Unlock()
		return n >= tasks && r.Counted()["RetrieveProperties"] >= 2
	})
}

func TestTasksEndWithTheirResultOrTheirFault(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		good, bad := r.Task(), r.Task()
		goodEnds, badEnds := r.wait(t.Context(), good), r.wait(t.Context(), bad)
		r.pending(t, 2)
		vm := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-7"}
		r.End(good, vm, nil)
		r.End(bad, nil, &types.NoDiskSpace{Datastore: "fast"})

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

func TestATasksTimesAreVCentersOwn(t *testing.T) {
	begun := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	after := func(s time.Duration) *time.Time { at := begun.Add(s * time.Second); return &at }
	for what, c := range map[string]struct {
		info        *types.TaskInfo
		queued, ran time.Duration
	}{
		"it ran at once":                {&types.TaskInfo{QueueTime: begun, StartTime: after(0), CompleteTime: after(40)}, 0, 40},
		"it was queued":                 {&types.TaskInfo{QueueTime: begun, StartTime: after(15), CompleteTime: after(40)}, 15, 25},
		"it failed before it began":     {&types.TaskInfo{QueueTime: begun, CompleteTime: after(7)}, 7, 0},
		"vCenter says no times":         {&types.TaskInfo{}, 0, 0},
		"its end is not known":          {&types.TaskInfo{QueueTime: begun, StartTime: after(1)}, 0, 0},
		"its start is before its queue": {&types.TaskInfo{QueueTime: *after(1), StartTime: after(0), CompleteTime: after(2)}, 0, 2},
		"there is no task":              {nil, 0, 0},
	} {
		if queued, ran := Times(c.info); queued != c.queued*time.Second || ran != c.ran*time.Second {
			t.Errorf("%s: %s and %s; want %s and %s", what, queued, ran, c.queued*time.Second, c.ran*time.Second)
		}
	}
}

func TestATaskThatHasEndedAlreadyIsSeenAtOnce(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		ref := r.Task()
		r.End(ref, nil, nil)
		succeeds(t, r.wait(t.Context(), ref))
	})
}

func TestATaskThatVCenterForgotIsLostAndAffectsNoOther(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		other := r.Task()
		otherEnds := r.wait(t.Context(), other)
		o := get(t, r.wait(t.Context(), types.ManagedObjectReference{Type: "Task", Value: "task-gone"}))
		if !errors.Is(o.err, vcfault.ErrTaskLost) || vcfault.Classify("", o.err).Reason != vcfault.ReasonTaskLost {
			t.Errorf("got %v", o.err)
		}
		r.ended(t, other, otherEnds)
	})
}

func TestWaitsOutliveALostSessionAndAnOutage(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		first, second := r.Task(), r.Task()
		firstEnds, secondEnds := r.wait(t.Context(), first), r.wait(t.Context(), second)
		r.pending(t, 2)
		r.DropSessions()
		r.End(first, nil, nil) // wakes the simulator's wait, which continues in the dead session
		succeeds(t, firstEnds)
		r.Down()
		r.End(second, nil, nil)
		vctest.Eventually(t, "the outage is known", func() bool { return r.client.Health() != nil })
		r.Up()
		succeeds(t, secondEnds)
		if got := r.Sessions(); got != 1 {
			t.Errorf("%d sessions, want 1", got)
		}
	})
}

func TestAnAbandonedWaitLeavesTheOthersAlone(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		ref := r.Task()
		ctx, cancel := context.WithCancel(t.Context())
		one, other := r.wait(ctx, ref), r.wait(t.Context(), ref)
		r.pending(t, 1)
		cancel()
		if o := get(t, one); !errors.Is(o.err, context.Canceled) {
			t.Errorf("got %v", o.err)
		}
		r.ended(t, ref, other)
	})
}

func TestWhenRunEndsItEndsTheWaits(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		ends := r.wait(context.Background(), r.Task())
		r.pending(t, 1)
		begin := time.Now()
		r.stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the stop took %v; want at most 3s", took)
		}
		if o := get(t, ends); !errors.Is(o.err, context.Canceled) {
			t.Errorf("got %v", o.err)
		}
		if o := get(t, r.wait(context.Background(), r.Task())); !errors.Is(o.err, context.Canceled) {
			t.Errorf("a wait after the end gave %v", o.err)
		}
	})
}

// Tasks of one kind take about the same time. After the first task of a kind, the waiter must know how long the next one takes.
func TestATaskIsReadWhenItShouldHaveEnded(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		for i, took := range []time.Duration{time.Second, time.Second, 1500 * time.Millisecond} {
			before, began, ref := r.Counted()["RetrieveProperties"], time.Now(), r.Task()
			time.AfterFunc(took, func() { r.End(ref, nil, nil) })
			succeeds(t, r.waitKind(t.Context(), ref, "PowerOff1"))
			reads, late := r.Counted()["RetrieveProperties"]-before, time.Since(began)-took
			if late > took/readShare+readLeast || i > 0 && reads > 1+int((took-time.Second)/(time.Second/readShare)) {
				t.Errorf("the end of task %d was seen %s late, after %d reads", i, late, reads)
			}
		}
	})
}

// The task of a VM that DRS powers on is known only when the end of another task was seen. That task's times are wrong if vCenter's clock is
// set while it runs.
func TestATaskThatBeganBeforeTheWaitIsReadWhenItShouldHaveEnded(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		const took, known = 3 * time.Second, time.Second
		for i, clock := range []time.Duration{0, 0, time.Hour} {
			began, ref := time.Now(), r.Task()
			time.AfterFunc(took, func() { r.End(ref, nil, nil) })
			if clock == 0 {
				time.Sleep(known)
			}
			if _, err := r.waiting.Wait(t.Context(), ref, "PowerOn2", began.Add(clock)); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(began) - took; i > 0 && late > took/endShare+readLeast {
				t.Errorf("the end of task %d was seen %s late, want at most %s", i, late, took/endShare+readLeast)
			}
		}
	})
}

func TestRunningTasksShareTheirCalls(t *testing.T) {
	for _, tc := range []struct {
		slots int
		most  float64
	}{{8, 2}, {32, 1.2}} {
		t.Run(fmt.Sprintf("%d at once", tc.slots), func(t *testing.T) {
			inABubble(t, func(t *testing.T, r *rig) {
				if _, err := r.client.Session(t.Context()); err != nil {
					t.Fatal(err)
				}
				const tasks = 96
				free := make(chan struct{}, tc.slots)
				var all sync.WaitGroup
				for i := range tasks {
					free <- struct{}{}
					all.Go(func() {
						defer func() { <-free }()
						ref := r.Task()
						time.AfterFunc(30*time.Second+time.Duration(7*(i%tc.slots))*time.Millisecond, func() { r.End(ref, nil, nil) })
						if _, err := r.waiting.Wait(t.Context(), ref, "Clone1", time.Now()); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				calls := r.Counted()
				per := float64(calls["RetrieveProperties"]) / tasks
				t.Logf("%.2f calls a task", per)
				if per > tc.most {
					t.Errorf("%.2f calls a task, want at most %.1f: %v", per, tc.most, calls)
				}
			})
		})
	}
}

func TestNoCallIsMadeWhileThereIsNothingToAwait(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		ref := r.Task()
		r.End(ref, nil, nil)
		get(t, r.wait(t.Context(), ref))
		before := r.Counted()
		time.Sleep(time.Minute)
		after := r.Counted()
		for method, n := range after {
			if n != before[method] {
				t.Errorf("%s was called", method)
			}
		}
	})
}

func TestTasksAreAwaitedAfterTheSessionEndedWhileIdle(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		for range 2 {
			ref := r.Task()
			r.End(ref, nil, nil)
			succeeds(t, r.wait(t.Context(), ref))
			r.DropSessions()
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
			r := await(t, l, c)
			ref := l.Task()
			l.End(ref, nil, nil)
			get(t, r.wait(t.Context(), ref))
			r.stop()
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
