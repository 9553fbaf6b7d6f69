package test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/bare"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Groups that are deleted at the same time share the reads that each needs: the running clones, the folders, and the full inventory before a group
// ends.
// Of the calls for each member, 2.5 are steps: its power-off, its destroy, and half of the removal of its group's folder.
func TestDeletingManyGroupsCostsAtMostSixCallsAMemberHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	thin.NotThin(t, "it counts calls, and its groups hold no race that fewer don't")
	const less, more = 40, 120
	few, many := (callsToDelete(t, less)+callsToDelete(t, less))/2, callsToDelete(t, more) // the mean of two runs, because the number varies more with fewer groups
	t.Logf("%.1f calls a member for %d groups, %.1f for %d", few, less, many, more)
	if many > 5.5 || many > 1.1*few || few > 1.25*many {
		t.Errorf("%.1f calls a member for %d groups of two, and %.1f for %d", few, less, many, more)
	}
}

// callsToDelete returns how many calls the server makes for each member to delete groups of two members, all at the same time.
func callsToDelete(t *testing.T, groups int) (perMember float64) {
	_, calls, _ := deletion(t, groups, 2, 50*time.Millisecond)
	return float64(calls) / float64(2*groups)
}

// A slot is free as soon as its task should have ended, and a group is gone soon after its last step. If the server took a member of each group in
// turns, all groups would be gone only at the end. The bare loop neither reads a VM before it destroys the VM, nor checks that nothing is left.
func TestADeletionTakesLittleLongerThanABareLoop(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for i, fleet := range []struct {
		bare.Fleet
		most float64
	}{{bare.Fleet{Groups: 1, Members: 50, Slots: 8}, 1.5}, {bare.Fleet{Groups: 20, Members: 5, Slots: 8}, 1.35}, {bare.Fleet{Groups: 60, Members: 2, Slots: 8}, 1.3}} {
		if leftOut(i) {
			continue
		}
		t.Run(fmt.Sprintf("%d of %d", fleet.Groups, fleet.Members), func(t *testing.T) {
			t.Parallel()
			const off = 200 * time.Millisecond
			took, calls, gone := deletion(t, fleet.Groups, fleet.Members, off)
			alone := bareDeletion(t, fleet.Fleet, off)
			t.Logf("%s and %d calls, %.2f times a bare loop", took, calls, took.Seconds()/alone.Seconds())
			if took.Seconds() > fleet.most*alone.Seconds() {
				t.Errorf("%s, want at most %.2f times %s", took, fleet.most, alone)
			}
			slices.Sort(gone)
			if quarter := gone[len(gone)/4]; fleet.Groups > 50 && quarter > took*8/10 { // measured: 0.46 to 0.63 of the time, and 0.99 if the server takes a member of each group in turns
				t.Errorf("a quarter of the groups are gone after %s, and all after %s", quarter, took)
			}
		})
	}
}

// bareDeletion returns how long a bare loop takes to delete the same VMs.
func bareDeletion(t *testing.T, fleet bare.Fleet, off time.Duration) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: 200 * time.Millisecond, Power: off}})
		_, err := fleet.BringUp(t.Context(), r.newClient)
		r.must(err)
		took, err = fleet.TakeDown(t.Context(), r.newClient)
		r.must(err)
	})
	return took
}

// deletion deletes groups, all at the same time, in a vCenter that needs the given time for a power-off. It returns how long the deletion of all takes,
// how many calls the server makes, and how long it takes until each group is gone. The hook call for a group is made when its last answer asks for it.
func deletion(t *testing.T, groups, members int, off time.Duration) (took time.Duration, calls int, gone []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: 200 * time.Millisecond, Power: off}})
		server := r.serve()
		all := make([]*metacontroller.Group, groups)
		for i := range all {
			all[i] = server.groupOf("default", fmt.Sprintf("g-%d", i), fmt.Sprintf("uid-%d", i), int32(members))
		}
		each := func(call func(*metacontroller.Group, context.Context) (metacontroller.Answer, error), ends func(metacontroller.Answer) bool) {
			var wg sync.WaitGroup
			for _, g := range all {
				time.Sleep(time.Millisecond) // kubectl deletes one group after the other
				wg.Go(func() {
					for {
						a, err := call(g, within(t))
						if err != nil {
							t.Errorf("%s: %v", g.Name, err)
						}
						if err != nil || ends(a) {
							return
						}
						time.Sleep(time.Duration(a.ResyncAfterSeconds * float64(time.Second)))
					}
				})
			}
			wg.Wait()
		}
		each((*metacontroller.Group).Sync, metacontroller.Running)
		settled := time.Now().Add(5 * time.Second)
		each((*metacontroller.Group).Sync, func(metacontroller.Answer) bool { return time.Now().After(settled) })
		before, began := r.Calls(), time.Now()
		var mu sync.Mutex
		each((*metacontroller.Group).Finalize, func(a metacontroller.Answer) bool {
			if a.Finalized {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, time.Since(began))
			}
			return a.Finalized
		})
		took = time.Since(began)
		for method, n := range r.Calls() {
			calls += n - before[method]
		}
	})
	return took, calls, gone
}
