package test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// busyVCenter serves 160 calls a second, and 16 full clones at once.
var busyVCenter = vcsim.Config{Latency: vcsim.Latency{Clone: 10 * time.Second, Power: 2 * time.Second, Reconfigure: time.Second, Other: 200 * time.Millisecond},
	Limits: vcsim.Limits{HostUnits: 64}, Workers: vcsim.Workers{AtOnce: 4, Each: 25 * time.Millisecond}}

// flood is what one of ten groups of a tenant does until ctx ends.
type flood func(ctx context.Context, s *serverReplica, tenant, name string)

// floods are all that makes the server call vCenter again and again.
var floods = map[string]flood{
	"a new library item":           edited(costlyEdits["a new library item"]),
	"try-again with a missing tag": edited(costlyEdits["try-again with a missing tag"]),
	"replicas 0 and 1":             edited(costlyEdits["replicas 0 and 1"]),
	"another folder and datastore": edited(func(g *metacontroller.Group, n int) {
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Placement.Folder, s.Placement.Datastore = fmt.Sprint("a/b/c/d/", n), fmt.Sprint("missing-", n)
		})
	}),
	"created and deleted": recreated,
}

// edited edits a group five times a second.
func edited(edit func(g *metacontroller.Group, n int)) flood {
	return func(ctx context.Context, s *serverReplica, tenant, name string) {
		g := s.groupOf(tenant, name, tenant+name, 1)
		for n := 0; ctx.Err() == nil; n++ {
			edit(g, n)
			_, _ = g.Sync(ctx)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// recreated creates a group each second, and deletes it a second later.
func recreated(ctx context.Context, s *serverReplica, tenant, name string) {
	var deleted sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		deleted.Go(func() {
			g := s.groupOf(tenant, fmt.Sprint(name, "-", n), fmt.Sprint(tenant, name, "-", n), 1)
			_, _ = g.Sync(ctx)
			time.Sleep(time.Second)
			_ = g.Delete(context.Background())
		})
		time.Sleep(time.Second)
	}
	deleted.Wait()
}

// Ten groups of a tenant that flood the server at most double the delays of 100 groups of others. vCenter serves a bounded number of calls at once, so what
// some groups cost delays the others.
func TestFloodsAtMostDoubleTheDelaysOfOtherTenants(t *testing.T) {
	thin.NotShort(t)
	thin.NotThin(t, "each flood takes ten seconds, and holds no race that one group's edits don't")
	inRig(t, busyVCenter, func(t *testing.T, r *rig) {
		r.must(r.AddLibrary("golden"))
		s := r.serve(func(_ *vsphere.Config, l *loop.Config) { l.Slots = 32 })
		groups := make([]*metacontroller.Group, 100)
		for i := range groups {
			groups[i] = s.groupOf(fmt.Sprint("team-", i/5), fmt.Sprint("web-", i), fmt.Sprint("uid-", i), 1)
		}
		delays(t, groups) // the first steps, in which the server learns how many vCenter carries out at once
		measure := func() (all []time.Duration, calls float64) {
			before, began := r.total(), time.Now()
			all = delays(t, groups)
			return all, float64(r.total()-before) / time.Since(began).Seconds()
		}
		alone, calls := measure()
		t.Logf("alone: %.0f calls a second; median %.0f s, 95th percentile %.0f s", calls, alone[50].Seconds(), alone[95].Seconds())
		for i, what := range slices.Sorted(maps.Keys(floods)) {
			ctx, stop := context.WithCancel(t.Context())
			var flooding sync.WaitGroup
			for n := range 10 {
				flooding.Go(func() { floods[what](ctx, s, fmt.Sprint("flood-", i), fmt.Sprint("flood-", n)) })
			}
			time.Sleep(10 * time.Second)
			beside, calls := measure()
			median, most := beside[50].Seconds()/alone[50].Seconds(), beside[95].Seconds()/alone[95].Seconds()
			t.Logf("%s: %.0f calls a second; the median is %.2f times that without the flood, the 95th percentile %.2f times", what, calls, median, most)
			if median > 2 || most > 2 {
				t.Errorf("beside ten groups that flood (%s), others are delayed %.2f times as long in the median, and %.2f times in the 95th percentile; want at most 2", what, median, most)
			}
			stop()
			flooding.Wait()
			time.Sleep(2 * time.Minute)
		}
	})
}

// delays scales each group to 2 and back, and returns how long each took, in order. The groups begin one after the other within a minute.
func delays(t *testing.T, groups []*metacontroller.Group) []time.Duration {
	all := make([]time.Duration, len(groups))
	var scaled sync.WaitGroup
	for i, g := range groups {
		scaled.Go(func() {
			time.Sleep(time.Duration(i) * time.Minute / time.Duration(len(groups)))
			began := time.Now()
			for _, n := range []int32{2, 1} {
				g.Scale(n)
				up(t, g)
			}
			all[i] = time.Since(began)
		})
	}
	scaled.Wait()
	slices.Sort(all)
	return all
}
