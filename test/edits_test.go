package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// costlyEdits are edits that make the server call vCenter each time. Each changes the group for the nth time.
var costlyEdits = map[string]func(g *metacontroller.Group, n int){
	"a new library item": func(g *metacontroller.Group, n int) {
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = fmt.Sprint("golden/", g.Name, "-", n) })
	},
	"try-again with a missing tag": func(g *metacontroller.Group, n int) {
		if g.Annotations = map[string]string{v1alpha1.AnnotationTryAgain: fmt.Sprint(n)}; n == 0 {
			g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Tags = []v1alpha1.Tag{{Category: "backup", Name: "missing"}} })
		}
	},
	"replicas 0 and 1": func(g *metacontroller.Group, n int) { g.Scale(int32(n % 2)) },
}

// total counts all calls to vCenter.
func (r *rig) total() (n int) {
	for _, of := range r.Calls() {
		n += of
	}
	return n
}

// A group that is edited all the time has a budget of calls.
func TestEditsBecomeABoundedNumberOfCalls(t *testing.T) {
	t.Parallel()
	for what, edit := range costlyEdits {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Second, Power: time.Second, Other: 100 * time.Millisecond}})
				r.must(r.AddLibrary("golden"))
				g := r.serve().group("web", 1)
				up(t, g)
				const each, lasts = 19 * time.Millisecond, time.Minute
				before := 0
				for n := range int(lasts / each) {
					if edit(g, n); n == int(lasts/each/2) {
						before = r.total()
					}
					_, err := g.Sync(within(t))
					r.must(err)
					time.Sleep(each)
				}
				during := float64(r.total()-before) / (lasts / 2).Seconds()
				time.Sleep(25 * time.Second)
				before = r.total()
				time.Sleep(time.Minute)
				after := float64(r.total()-before) / time.Minute.Seconds()
				if during > 5 || after > 2 { // without a budget: 210 and 0 of a library item, 168 and 1 of try-again, 10 and 0 of replicas
					t.Errorf("%.1f calls a second while it is edited, and %.1f from 25 s later on; want at most 5 and 2", during, after)
				}
				if says := g.Status.LastMessage; !strings.Contains(says, "since 2000-01-01T00:0") || !strings.Contains(says, "more often than the server acts on") {
					t.Errorf("the status says %q, and not since when the budget is used up", says)
				}
				if a, err := g.Sync(within(t)); err != nil || strings.Contains(a.Status.LastMessage, "more often") {
					t.Errorf("the newest edit has no effect, %v after the last one: %q (%v)", time.Minute+25*time.Second, a.Status.LastMessage, err)
				}
				t.Logf("%.1f calls a second while it is edited, and %.1f from 25 s later on", during, after)
			})
		})
	}
}

// The group whose budget of edits is used up is deleted at once, and its last edit has its effect within seconds.
func TestTheLastOfManyEditsAndADeletionWaitNoLongerThanSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Second, Power: time.Second, Other: 10 * time.Millisecond}})
		g := r.serve().group("web", 0)
		flood := func() {
			for n := range 100 {
				g.Scale(int32(n % 2))
				_, err := g.Sync(within(t))
				r.must(err)
				time.Sleep(10 * time.Millisecond)
			}
		}
		flood()
		g.Scale(3)
		began := time.Now()
		up(t, g)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the group was up after %s; want at most 15 s", took)
		}
		flood()
		began = time.Now()
		remove(t, g)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the group was gone after %s; want at most 15 s", took)
		}
	})
}

// Each new group has a budget of edits of its own, so a namespace has a budget of new groups.
func TestGroupsThatAreCreatedAndDeletedAllTheTimeCostABoundedNumberOfCalls(t *testing.T) {
	thin.NotShort(t)
	inRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Second, Power: time.Second, Other: 100 * time.Millisecond}}, func(t *testing.T, r *rig) {
		s := r.serve()
		ctx, stop := context.WithCancel(t.Context())
		var flooding sync.WaitGroup
		for n := range 10 {
			flooding.Go(func() { recreated(ctx, s, "shop", fmt.Sprint("web-", n)) })
		}
		time.Sleep(time.Minute)
		before := r.total()
		time.Sleep(time.Minute)
		each := float64(r.total()-before) / time.Minute.Seconds()
		t.Logf("%.1f calls a second for ten groups a second", each)
		if each > 25 { // without a budget: 100
			t.Errorf("%.1f calls a second while ten groups a second are created and deleted; want at most 25", each)
		}
		began := time.Now()
		up(t, s.groupOf("other", "web", "uid-other", 1))
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("a new group of another namespace was up after %s; want at most 30 s", took)
		}
		stop()
		flooding.Wait()
		began = time.Now()
		up(t, s.groupOf("shop", "last", "uid-last", 1))
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("a new group of the namespace was up %s after the flood; want at most 30 s", took)
		}
	})
}

// Groups that are created together wait only for vCenter. Of groups that are deleted and created again, some wait. A restart delays none.
func TestManyGroupsOfANamespaceBeginAtOnceUnlessManyWereDeleted(t *testing.T) {
	thin.NotShort(t)
	inRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Second, Power: time.Second, Other: 100 * time.Millisecond}}, func(t *testing.T, r *rig) {
		s := r.serve(func(_ *vsphere.Config, l *loop.Config) { l.Slots = 32 })
		groups := make([]*metacontroller.Group, 150)
		waits := func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "new groups of the namespace shop wait")
		}
		waited := func(replicas int32) time.Duration {
			all := make([]time.Duration, len(groups))
			var applied sync.WaitGroup
			for n := range groups {
				g := s.groupOf("shop", fmt.Sprint("web-", n), fmt.Sprint("uid-", replicas, "-", n), replicas)
				groups[n] = g
				applied.Go(func() {
					began := time.Now()
					until(t, g, "it begins", func(a metacontroller.Answer) bool { return !waits(a) })
					all[n] = time.Since(began)
					up(t, g)
				})
			}
			applied.Wait()
			return slices.Max(all)
		}
		if took := waited(1); took > 0 {
			t.Errorf("one of 150 groups waited %s", took)
		}
		s.stop()
		s = r.serve()
		var deleted sync.WaitGroup
		for _, g := range groups {
			g.URL = s.url
			if a := value(g.Sync(within(t))); waits(a) {
				t.Errorf("after a restart, %s waits: %s", g.Name, a.Status.LastMessage)
			}
			deleted.Go(func() { remove(t, g) })
		}
		deleted.Wait()
		if took := waited(0); took < 10*time.Second || took > 110*time.Second {
			t.Errorf("after 150 deletions, one of 150 new groups waited %s; want at most 110 s", took)
		}
	})
}
