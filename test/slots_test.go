package test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var slotsMembers = flag.Int("slots.members", 60, "how many members there are whose clones a host queues, in groups of a thousand")

// A real vCenter carries out four full clones from one host at the same time, or sixteen linked ones, and queues further clones. The server learns this
// from the start times of the tasks or, if queued tasks say that they run, from how long the tasks take.
func TestAGroupIsUpAboutAsFastAsAHostsLimitsAllow(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for i, c := range []struct {
		name    string
		limits  vcsim.Limits
		linked  bool
		members int
		// atOnce is how many clones vCenter carries out at the same time, and most the maximum number of tasks at the same time
		atOnce, most int
	}{
		{"full clones of a host", vcsim.Limits{HostUnits: 16}, false, *slotsMembers, 4, 33},
		{"full clones of a host, queued tasks say that they run", vcsim.Limits{HostUnits: 16, Unseen: true}, false, *slotsMembers,
			// the server begins 20 clones; five end before the server notices that clones wait, and four members are powered on in that time
			4, 33},
		{"linked clones of a host", vcsim.Limits{HostUnits: 16}, true, 2 * *slotsMembers, 16, 33},
		{"linked clones of a host, queued tasks say that they run", vcsim.Limits{HostUnits: 16, Unseen: true}, true, 2 * *slotsMembers, 16, 33},
	} {
		if leftOut(i) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{Hosts: 4, Limits: c.limits})
				if c.linked {
					_, err := r.AddSnapshot("/DC0/vm/vm-operator-template", "base")
					r.must(err)
				}
				s := r.serve(func(_ *vsphere.Config, l *loop.Config) { l.Slots = 32 })
				looks := r.sample(r.runningTasks)
				bound := time.Duration(c.members/c.atOnce)*lifetimes.Clone + 2*lifetimes.Power
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
				defer cancel()
				var all sync.WaitGroup
				for i := 0; i < c.members; i += 1000 {
					g := s.group(fmt.Sprint("web", i), int32(min(c.members-i, 1000)))
					if c.linked {
						g.Spec.Clone.Mode = v1alpha1.CloneLinked
					}
					g.Every = max(5*time.Second, bound/1000) // otherwise, if a group takes hours, the time between two calls grows beyond the lease
					all.Go(func() {
						if _, err := g.Until(ctx, metacontroller.Running); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				took, seen := time.Since(began), looks()
				ratio := took.Seconds() / bound.Seconds()
				t.Logf("%.2f times the bound; at most %d tasks at once; %+v", ratio, seen.most, s.loop.Slots().Limits)
				if took > bound*11/10+lifetimes.Clone { // plus one clone, because with few members a round of clones takes more than a tenth of the bound
					t.Errorf("%s, %.2f times the bound; want at most %s", took, ratio, bound*11/10+lifetimes.Clone)
				}
				if seen.most > c.most {
					t.Errorf("%d tasks at once, of which vCenter carries out %d; want at most %d", seen.most, c.atOnce, c.most)
				}
			})
		})
	}
}

// Another client always has four clones running on a host, which carries out eight at once.
func TestAnotherUserOfAVCenterKeepsItsShare(t *testing.T) {
	t.Parallel()
	thin.NotThin(t, "an hour of one loop holds no race that others don't")
	for _, unseen := range []bool{false, true} {
		t.Run(map[bool]string{false: "tasks are queued", true: "queued tasks say that they run"}[unseen], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{Limits: vcsim.Limits{HostUnits: 32, Unseen: unseen}})
				var others sync.WaitGroup
				var did atomic.Int64
				ctx, cancel := context.WithCancel(t.Context())
				for i := range 4 {
					others.Go(func() {
						for ctx.Err() == nil {
							vm := r.unmanaged("/DC0/vm", fmt.Sprint("other-", i))
							did.Add(1)
							r.task(vm.Destroy(context.Background()))
						}
					})
				}
				count := func() int64 {
					from := did.Load()
					time.Sleep(20 * time.Minute)
					return did.Load() - from
				}
				alone := count()
				s := r.serve(func(_ *vsphere.Config, l *loop.Config) { l.Slots = 32 })
				g := s.group("web", 400)
				g.Every = 20 * time.Second
				others.Go(func() { _, _ = g.Until(ctx, metacontroller.Running) })
				time.Sleep(10 * time.Minute)
				members := len(r.VMs())
				beside := count()
				members = len(r.VMs()) - members
				t.Logf("%d clones of the other user beside the server, %d alone; %d members; %+v", beside, alone, members, s.loop.Slots().Limits)
				if beside < alone*2/3 {
					t.Errorf("%d clones of the other user beside the server, %d alone; want at least %d", beside, alone, alone*2/3)
				}
				if members < 4*30*8/10 { // 80 % of half of the clones that the host carries out in 20 minutes
					t.Errorf("%d members in 20 minutes; want at least %d", members, 4*30*8/10)
				}
				cancel()
				others.Wait()
			})
		})
	}
}

// A server that has just started has not learned yet that its vCenter runs all clones at the same time.
func TestAServerThatHasJustStartedIsUpInTwoRoundsOfClones(t *testing.T) {
	thin.NotShort(t)
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		s := r.serve(func(_ *vsphere.Config, l *loop.Config) { l.Slots = 32 })
		began := time.Now()
		up(t, s.group("web", 50))
		if took, bound := time.Since(began), 2*lifetimes.Clone+2*lifetimes.Power; took > bound*5/4 {
			t.Errorf("50 members are up after %s, and vCenter takes %s for two rounds; want at most %s", took, bound, bound*5/4)
		}
	})
}

// runningTasks counts the tasks in vCenter that have not ended. It leaves out two kinds: removals of folders, because the server doesn't wait for them,
// and the tasks of PowerOnMultiVM_Task, because such a task ends only after the VM's own power-on task has begun, and both would count.
func (r *rig) runningTasks() (n int) {
	client := r.Admin().Client
	res, err := property.DefaultCollector(client).RetrieveProperties(context.Background(), types.RetrieveProperties{SpecSet: []types.PropertyFilterSpec{{
		ObjectSet: []types.ObjectSpec{{Obj: *client.ServiceContent.TaskManager, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "TaskManager", Path: "recentTask"}}}},
		PropSet: []types.PropertySpec{{Type: "Task", PathSet: []string{"info.state", "info.descriptionId"}}},
	}}})
	if err != nil {
		r.t.Error(err) // without this error, a failed read would count as no running tasks
		return 0
	}
	for _, task := range res.Returnval {
		properties := map[string]any{}
		for _, p := range task.PropSet {
			properties[p.Name] = p.Val
		}
		state := properties["info.state"]
		if (state == types.TaskInfoStateRunning || state == types.TaskInfoStateQueued) && properties["info.descriptionId"] != string(vcsim.UnregisterAndDestroy) &&
			properties["info.descriptionId"] != string(vcsim.PowerOnMulti) {
			n++
		}
	}
	return n
}
