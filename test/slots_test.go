package test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var slotsMembers = flag.Int("slots.members", 60, "how many members there are whose clones a host queues, in groups of a thousand")

// The limits are a real vCenter's: a host carries out four full clones at once. The server learns from the tasks' times that it queues
// the others; where these say that they run, from how long they take.
func TestAGroupIsUpAboutAsFastAsAHostsLimitsAllow(t *testing.T) {
	t.Parallel()
	for _, unseen := range []bool{false, true} {
		t.Run(map[bool]string{false: "tasks are queued", true: "queued tasks say that they run"}[unseen], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				members := *slotsMembers
				r := newRig(t, vcsim.Config{Hosts: 4, Limits: vcsim.Limits{Operations: 640, HostUnits: 16, PerSecond: 60, Unseen: unseen}})
				s := r.serve(func(_ *vsphere.Config, l *loop.Config) { l.Slots = 32 })
				looks := r.sample(r.tasksUnderWay)
				bound := time.Duration(members/4)*lifetimes.Clone + 2*lifetimes.Power
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
				defer cancel()
				var all sync.WaitGroup
				for i := 0; i < members; i += 1000 {
					g := s.group(fmt.Sprint("web", i), int32(min(members-i, 1000)))
					g.Every = max(time.Second, bound/1000) // without it, the calls of a group that takes hours come later than its lease ends
					all.Go(func() {
						if _, err := g.Until(ctx, metacontroller.Running); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				took, seen := time.Since(began), looks()
				ratio := took.Seconds() / bound.Seconds()
				t.Logf("%.2f times the bound; at most %d tasks at once; %+v", ratio, seen.most, s.loop.Slots().Numbers)
				if took > bound*11/10+lifetimes.Clone { // with few members, a round of clones is more than a tenth
					t.Errorf("%s, %.2f times the bound", took, ratio)
				}
				most := 24
				if unseen { // twenty seem to start at once, five end before it shows that they wait, and four are powered on meanwhile
					most = 29
				}
				if seen.most > most {
					t.Errorf("%d tasks at once, of which vCenter carries out 4", seen.most)
				}
			})
		})
	}
}

// A server that has just started knows nothing of its vCenter but that this starts all clones at once.
func TestAServerThatHasJustStartedIsUpInTwoRoundsOfClones(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vcsim.Config{})
		s := r.serve(func(_ *vsphere.Config, l *loop.Config) { l.Slots = 32 })
		began := time.Now()
		up(t, s.group("web", 50))
		if took, bound := time.Since(began), 2*lifetimes.Clone+2*lifetimes.Power; took > bound*5/4 {
			t.Errorf("50 members are up after %s, and vCenter takes %s for two rounds", took, bound)
		}
	})
}
