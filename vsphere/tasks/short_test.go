package tasks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

var powerOff = Kind{Name: "PowerOff1"}

// taking is the outcome of a task of a kind that takes so long.
func (r *rig) taking(ctx context.Context, kind Kind, long time.Duration) error {
	ref := r.Task()
	time.AfterFunc(long, func() { r.End(ref, nil, nil) })
	_, err := r.waiting.Wait(ctx, ref, kind, Signs{})
	return err
}

// knows lets the waiter learn how long tasks of a kind take.
func (r *rig) knows(t testing.TB, kind Kind, long time.Duration) {
	t.Helper()
	for range 12 {
		if err := r.taking(t.Context(), kind, long); err != nil {
			t.Fatal(err)
		}
	}
}

// reading waits until one task is read, and not watched.
func (r *rig) reading(t testing.TB) {
	t.Helper()
	synctest.Wait()
	if refs, _ := r.waiting.nextRead(time.Time{}); len(refs) != 1 {
		t.Fatalf("%d tasks are read, want 1", len(refs))
	}
}

// Besides the calls that start them. With eight slots, tasks that are watched cost three calls each.
func TestShortTasksAreReadTogetherWhenTheyShouldHaveEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		kind  Kind
		takes func(i int) time.Duration
		calls float64 // a task
		late  time.Duration
	}{
		"they take the same time": {powerOff, func(int) time.Duration { return 500 * time.Millisecond }, 0.6, 25 * time.Millisecond},
		"their times vary":        {powerOff, func(i int) time.Duration { return time.Duration(300+100*(i*7%5)) * time.Millisecond }, 1.1, 75 * time.Millisecond},
		"they take none":          {powerOff, func(int) time.Duration { return 0 }, 0.5, 80 * time.Millisecond},
		"they may be late":        {Kind{"PowerOff1", true}, func(i int) time.Duration { return time.Duration(480+10*(i*7%5)) * time.Millisecond }, 0.3, 80 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, r *rig) {
				r.knows(t, tc.kind, 500*time.Millisecond)
				const tasks = 200
				before, free := r.Counted(), make(chan struct{}, 8)
				var late atomic.Int64
				var all sync.WaitGroup
				for i := range tasks {
					free <- struct{}{}
					time.Sleep(7 * time.Millisecond) // their calls
					all.Go(func() {
						defer func() { <-free }()
						began := time.Now()
						if err := r.taking(t.Context(), tc.kind, tc.takes(i)); err != nil {
							t.Error(err)
						}
						late.Add(int64(time.Since(began) - tc.takes(i)))
					})
				}
				all.Wait()
				n := 0
				for method, after := range r.Counted() {
					n += after - before[method]
				}
				per, mean := float64(n)/tasks, time.Duration(late.Load()/tasks)
				t.Logf("%.2f calls a task, %s late", per, mean)
				if per > tc.calls || mean > tc.late {
					t.Errorf("%.2f calls a task, %s late on average; want at most %.1f and %s", per, mean, tc.calls, tc.late)
				}
			})
		})
	}
}

func TestAShortTaskThatTakesLongIsWatched(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		r.knows(t, powerOff, time.Second)
		ref, other := r.Task(), r.Task()
		began := time.Now()
		ends := r.waitKind(t.Context(), ref, powerOff)
		r.reading(t)
		before := r.Counted()["RetrievePropertiesEx"]
		time.Sleep(50 * time.Second)
		if n := r.Counted()["RetrievePropertiesEx"] - before; n > 16 {
			t.Errorf("it is read %d times", n)
		}
		ended := time.Now()
		r.ended(t, ref, ends)
		if late := time.Since(ended); late > time.Second || time.Since(began) < 50*time.Second {
			t.Errorf("its end is noticed after %s", late)
		}
		r.ended(t, other, r.wait(t.Context(), other))
	})
}

func TestWhatAReadOfShortTasksFindsIsToldAsByTheWatch(t *testing.T) {
	inABubble(t, func(t *testing.T, r *rig) {
		r.knows(t, powerOff, time.Second)
		gone := r.waitKind(t.Context(), types.ManagedObjectReference{Type: "Task", Value: "task-gone"}, powerOff)
		r.reading(t)
		bad, good := r.Task(), r.Task()
		badEnds, goodEnds := r.waitKind(t.Context(), bad, powerOff), r.waitKind(t.Context(), good, powerOff)
		r.End(bad, nil, &types.NoDiskSpace{Datastore: "fast"})
		r.End(good, types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-7"}, nil)
		if o := get(t, gone); !errors.Is(o.err, vcfault.ErrTaskLost) {
			t.Errorf("one that vCenter forgot: %v", o.err)
		}
		if o := get(t, badEnds); vcfault.Classify("", o.err).Reason != vcfault.ReasonDatastoreFull {
			t.Errorf("one that failed: %v", o.err)
		}
		if o := get(t, goodEnds); o.err != nil || o.info.Result == nil || o.info.CompleteTime == nil {
			t.Errorf("one that succeeded: %+v, %v", o.info, o.err)
		}
	})
}

func TestAReadTaskIsSaidToBeOverWhenItShouldHaveEnded(t *testing.T) {
	const short = 200 * time.Millisecond
	for name, tc := range map[string]struct {
		known func(i int) time.Duration // how long others took
		takes time.Duration
		want  []string
	}{
		"it ends in time":           {func(int) time.Duration { return short }, short, []string{"over"}},
		"it takes longer":           {func(int) time.Duration { return short }, 2 * short, []string{"over", "goes on"}},
		"the times of others vary":  {func(i int) time.Duration { return time.Duration(i%5+1) * short / 3 }, short, nil},
		"they are long":             {func(int) time.Duration { return 5 * short }, 5 * short, nil},
		"nobody knows of any other": {nil, short, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, r *rig) {
				for i := range 20 {
					if tc.known == nil {
						break
					}
					if err := r.taking(t.Context(), powerOff, tc.known(i)); err != nil {
						t.Fatal(err)
					}
				}
				var said []string
				ref, began := r.Task(), time.Now()
				time.AfterFunc(tc.takes, func() { r.End(ref, nil, nil) })
				_, err := r.waiting.Wait(t.Context(), ref, powerOff, Signs{Over: func(over bool) {
					said = append(said, map[bool]string{true: "over", false: "goes on"}[over])
					if passed := time.Since(began); over && (passed < short || passed > short+20*time.Millisecond) {
						t.Errorf("it is said to be over after %s", passed)
					}
				}})
				time.Sleep(time.Minute)                      // nothing is said of a task that is not awaited any more
				first := tc.takes == short && len(said) == 0 // the read came before, at that moment
				if err != nil || !slices.Equal(said, tc.want) && !first {
					t.Errorf("%v, %v; want %v", said, err, tc.want)
				}
			})
		})
	}
}

func TestShortTasksOutliveALostSessionAndAnOutage(t *testing.T) {
	for name, breaks := range map[string]func(r *rig) (mend func()){
		"a lost session": func(r *rig) func() { r.DropSessions(); return func() {} },
		"an outage":      func(r *rig) func() { r.Down(); return r.Up },
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, r *rig) {
				r.knows(t, powerOff, time.Second)
				ref := r.Task()
				ends := r.waitKind(t.Context(), ref, powerOff)
				r.reading(t)
				mend := breaks(r)
				r.End(ref, nil, nil)
				time.Sleep(5 * time.Second)
				mend()
				succeeds(t, ends)
			})
		})
	}
}
