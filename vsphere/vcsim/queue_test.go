package vcsim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func (c *client) infoOf(t testing.TB, task *object.Task) types.TaskInfo {
	t.Helper()
	var read mo.Task
	ok(t, c.RetrieveOne(c.ctx, task.Reference(), []string{"info"}, &read))
	return read.Info
}

func TestAHostCarriesOutFourFullClonesAtOnceAndQueuesTheOthers(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		t.Run(fmt.Sprintf("unseen: %v", unseen), func(t *testing.T) {
			limits := vcsim.Limits{HostUnits: 16, Unseen: unseen}
			inABubble(t, vcsim.Config{Latency: vcsim.Latency{Clone: 40 * time.Second}, Limits: limits}, func(t *testing.T, v *vcsim.VCenter, c *client) {
				began := time.Now()
				var all []*object.Task
				for i := range 6 {
					all = append(all, c.startClone(t, fmt.Sprint("vm-", i)))
				}
				synctest.Wait()
				queued := 0
				for _, task := range all {
					if info := c.infoOf(t, task); info.State == types.TaskInfoStateQueued && info.StartTime == nil {
						queued++
					}
				}
				if want := map[bool]int{false: 2, true: 0}[unseen]; queued != want {
					t.Errorf("%d say that they are queued, want %d", queued, want)
				}
				late := 0
				for _, task := range all {
					ok(t, task.Wait(c.ctx))
					info := c.infoOf(t, task)
					if info.QueueTime.Sub(began) > time.Second || info.CompleteTime.Sub(began) < 40*time.Second {
						t.Errorf("%+v", info)
					}
					if info.CompleteTime.Sub(began) >= 80*time.Second {
						late++
						if lag := info.StartTime.Sub(info.QueueTime); (lag >= 39*time.Second) == unseen {
							t.Errorf("it was queued for %s", lag)
						}
					}
				}
				if late != 2 {
					t.Errorf("%d were queued", late)
				}
			})
		})
	}
}

func TestAQueuedTaskEndsWithItsVCenter(t *testing.T) {
	inABubble(t, vcsim.Config{Limits: vcsim.Limits{Operations: 1, PerSecond: 1}}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		v.Hold(vcsim.Clone)
		c.startClone(t, "first")
		c.startClone(t, "second")
		synctest.Wait()
		v.SetLimits(vcsim.Limits{Operations: 2, PerSecond: 1})
	}) // Close drops them
}
