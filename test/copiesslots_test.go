package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/test/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// tasksUnderWay counts the tasks in vCenter that have not ended.
func (r *rig) tasksUnderWay() (n int) {
	ctx := context.Background()
	client := r.Admin().Client
	var manager mo.TaskManager
	pc := property.DefaultCollector(client)
	if err := pc.RetrieveOne(ctx, *client.ServiceContent.TaskManager, []string{"recentTask"}, &manager); err != nil {
		return 0
	}
	for _, ref := range manager.RecentTask {
		var task mo.Task
		if pc.RetrieveOne(ctx, ref, []string{"info.state"}, &task) == nil &&
			(task.Info.State == types.TaskInfoStateRunning || task.Info.State == types.TaskInfoStateQueued) {
			n++
		}
	}
	return n
}

// Each copy of the server keeps to its own slots and knows nothing of the others' tasks: together they have at most
// copies × (slots + 1) under way.
func TestCopiesTogetherKeepToTheirSlots(t *testing.T) {
	t.Parallel()
	const copies, slots, groups = 3, 3, 30
	r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: 150 * time.Millisecond, Power: 50 * time.Millisecond}})
	var servers []*copyOfServer
	for range copies {
		servers = append(servers, r.serve(func(_ *vsphere.Config, l *loop.Config) {
			l.Slots, l.Lease, l.Resync = slots, 10*time.Second, time.Second
		}))
	}
	stop := r.watch(10*time.Millisecond, r.tasksUnderWay)
	var all sync.WaitGroup
	for i := range groups {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		g := servers[0].group(fmt.Sprint("g", i), 1)
		all.Go(func() {
			_, err := g.Until(within(t), func(a metacontroller.Answer) bool {
				g.URL = servers[random.IntN(copies)].url
				return metacontroller.Running(a)
			})
			if err != nil {
				t.Errorf("%s: %v", g.Name, err)
			}
		})
	}
	all.Wait()
	seen := stop()
	if most := copies * (slots + 1); seen.most > most {
		t.Errorf("%d tasks were under way at once; they are to be at most %d", seen.most, most)
	}
	t.Logf("copies=%d slots=%d groups=%d: at most %d tasks at once, of %d allowed (%d looks)", copies, slots, groups, seen.most, copies*(slots+1), seen.looks)
	if n := len(slices.DeleteFunc(r.VMs(), func(vm vcsim.VM) bool { return vm.Template })); n != groups {
		t.Errorf("there are %d members, and %d are wanted", n, groups)
	}
}
