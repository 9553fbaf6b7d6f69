package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// tasksUnderWay counts the tasks in vCenter that have not ended, except for the removal of folders, which nothing waits for, and the task of
// PowerOnMultiVM_Task itself, which ends when the VM's own has begun: for a moment both are there.
func (r *rig) tasksUnderWay() (n int) {
	client := r.Admin().Client
	res, err := property.DefaultCollector(client).RetrieveProperties(context.Background(), types.RetrieveProperties{SpecSet: []types.PropertyFilterSpec{{
		ObjectSet: []types.ObjectSpec{{Obj: *client.ServiceContent.TaskManager, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "TaskManager", Path: "recentTask"}}}},
		PropSet: []types.PropertySpec{{Type: "Task", PathSet: []string{"info.state", "info.descriptionId"}}},
	}}})
	if err != nil {
		r.t.Error(err) // a look that fails proves nothing
		return 0
	}
	for _, task := range res.Returnval {
		properties := map[string]any{}
		for _, p := range task.PropSet {
			properties[p.Name] = p.Val
		}
		state := properties["info.state"]
		if (state == types.TaskInfoStateRunning || state == types.TaskInfoStateQueued) && properties["info.descriptionId"] != string(vcsim.UnregisterAndDestroy) &&
			properties["info.descriptionId"] != "Datacenter.ExecuteVmPowerOnLRO" {
			n++
		}
	}
	return n
}

// Each replica of the server keeps to its own slots and doesn't know of the others' tasks: together they have at most replicas ×
// (slots + 1) under way.
func TestReplicasTogetherKeepToTheirSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const replicas, slots, groups = 3, 2, 11
		r := newRig(t, vcsim.Config{})
		r.Hold(vcsim.Clone)
		var servers []*serverReplica
		for range replicas {
			servers = append(servers, r.serve(func(_ *vsphere.Config, l *loop.Config) {
				l.Slots, l.Lease, l.Resync = slots, patience, time.Second
			}))
		}
		stop := r.sample(r.tasksUnderWay)
		var all sync.WaitGroup
		var list []*metacontroller.Group
		for i := range groups {
			list = append(list, servers[0].group(fmt.Sprint("g", i), 1))
		}
		for range 2 { // a folder that another replica has made is used after the next call
			for i, g := range list {
				for k := range servers {
					g.URL = servers[(i+k)%replicas].url
					r.one(g)
				}
			}
			time.Sleep(2 * time.Second)
		}
		eventually(t, patience, "all slots are taken", func() bool { return r.tasksUnderWay() >= replicas*(slots+1) })
		time.Sleep(5 * time.Second) // replicas that met another one's clone have tried again by now
		r.Release(vcsim.Clone)
		for i, g := range list {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				_, err := g.Until(within(t), func(a metacontroller.Answer) bool {
					g.URL = servers[random.IntN(replicas)].url
					return metacontroller.Running(a)
				})
				if err != nil {
					t.Errorf("%s: %v", g.Name, err)
				}
			})
		}
		all.Wait()
		seen := stop()
		if most := replicas * (slots + 1); seen.most > most {
			t.Errorf("%d tasks were under way at once, want at most %d", seen.most, most)
		}
		t.Logf("replicas=%d slots=%d groups=%d: at most %d tasks at once, of %d allowed (%d looks)", replicas, slots, groups, seen.most, replicas*(slots+1), seen.looks)
		if n := len(slices.DeleteFunc(r.VMs(), func(vm vcsim.VM) bool { return vm.Template })); n != groups {
			t.Errorf("%d members, want %d", n, groups)
		}
	})
}
