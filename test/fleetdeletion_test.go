package test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Groups that go at the same time share what is read for each: the clones under way, the folders, the whole inventory before a group ends.
// Of a member's calls, three are its tasks and its share of its group's (mark, power-off, destroy, folder).
func TestDeletingManyGroupsCostsAtMostSixCallsAMemberHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	less, more := 40, 200
	if raced {
		more = 80
	}
	few, many := callsToDelete(t, less), callsToDelete(t, more)
	t.Logf("%.1f calls a member for %d groups, %.1f for %d", few, less, many, more)
	if many > 6 || many > 1.1*few || few > 1.25*many {
		t.Errorf("%.1f calls a member for %d groups of two, and %.1f for %d", few, less, many, more)
	}
}

// callsToDelete returns the calls a member that it takes to delete groups of two, all at once.
func callsToDelete(t *testing.T, groups int) (perMember float64) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: 200 * time.Millisecond, Power: 50 * time.Millisecond}})
		server := r.serve()
		all := make([]*metacontroller.Group, groups)
		for i := range all {
			all[i] = server.groupOf("default", fmt.Sprintf("g-%d", i), fmt.Sprintf("uid-%d", i), 2)
		}
		each := func(do func(testing.TB, *metacontroller.Group)) {
			var wg sync.WaitGroup
			for _, g := range all {
				wg.Go(func() { do(t, g) })
			}
			wg.Wait()
		}
		each(func(t testing.TB, g *metacontroller.Group) { up(t, g) })
		before := r.Calls()
		each(func(t testing.TB, g *metacontroller.Group) { remove(t, g) })
		calls := 0
		for method, n := range r.Calls() {
			calls += n - before[method]
		}
		perMember = float64(calls) / float64(2*groups)
	})
	return perMember
}
