package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const (
	groups   = 100 // of two members each
	folderOf = "/DC0/vm/vm-operator/default/"
)

// deletionTakes is how long tasks take in a deletion.
var deletionTakes = vcsim.Latency{Power: 500 * time.Millisecond, Reconfigure: 100 * time.Millisecond, Other: 250 * time.Millisecond}

// manyGroups brings groups of two up on a new vCenter, quickly.
func manyGroups(b *testing.B, slots int) (vc *vcsim.VCenter, all []*metacontroller.Group, stop func()) {
	b.Helper()
	vc, err := vcsim.Start(vcsim.Config{})
	if err != nil {
		b.Fatal(err)
	}
	url, stop := serve(b, vc, slots)
	for i := range groups {
		all = append(all, metacontroller.New(url, "default", fmt.Sprintf("g-%d", i), fmt.Sprintf("uid-%d", i), 2))
	}
	var up sync.WaitGroup
	for _, g := range all {
		up.Go(func() {
			if _, err := g.Until(context.Background(), metacontroller.Running); err != nil {
				b.Error(err)
			}
		})
	}
	up.Wait()
	quiet(vc)
	vc.SetLatency(deletionTakes)
	return vc, all, stop
}

// deleteGroups deletes the groups, all at once, and returns how long it took until the last one was gone for Metacontroller, and how many
// vCenter calls that made.
func deleteGroups(b *testing.B, slots int) (took time.Duration, calls int) {
	b.Helper()
	vc, all, stop := manyGroups(b, slots)
	defer vc.Close() //nolint:errcheck // the measurement is over
	defer stop()
	before, began := total(vc), time.Now()
	var gone sync.WaitGroup
	for _, g := range all {
		gone.Go(func() {
			if err := g.Delete(context.Background()); err != nil {
				b.Error(err)
			}
		})
	}
	gone.Wait()
	return time.Since(began), total(vc) - before
}

// bareDeletion deletes the same VMs and folders with govmomi alone: as many workers as slots, each of which takes one group after another,
// powers its VMs off, destroys them, and removes the folder, while a watch on the same objects is open. It checks nothing.
func bareDeletion(b *testing.B, slots int) time.Duration {
	b.Helper()
	vc, all, stop := manyGroups(b, slots)
	defer vc.Close() //nolint:errcheck // the measurement is over
	stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, err := govmomi.NewClient(ctx, vc.URL(), true)
	if err != nil {
		b.Fatal(err)
	}
	watching := watch(ctx, b, vc)
	f := find.NewFinder(client.Client)
	work := make(chan bareGroup, groups)
	for _, g := range all {
		vms, err1 := f.VirtualMachineList(ctx, folderOf+g.Name+"/*")
		folder, err2 := f.Folder(ctx, folderOf+g.Name)
		if err1 != nil || err2 != nil {
			b.Fatal(err1, err2)
		}
		work <- bareGroup{vms, folder}
	}
	close(work)
	began := time.Now()
	var workers sync.WaitGroup
	for range slots {
		workers.Go(func() {
			for g := range work {
				if err := g.remove(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	cancel()
	<-watching
	return took
}

type bareGroup struct {
	vms    []*object.VirtualMachine
	folder *object.Folder
}

func (g bareGroup) remove(ctx context.Context) error {
	var tasks []func(context.Context) (*object.Task, error)
	for _, vm := range g.vms {
		tasks = append(tasks, vm.PowerOff, vm.Destroy)
	}
	for _, begin := range append(tasks, g.folder.Destroy) {
		task, err := begin(ctx)
		if err == nil {
			err = task.Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkDeletionBesideABareLoop deletes 100 groups of two at once, beside a bare govmomi loop with the same slots and the same watch
// open; medians of 3, alternating. The goals: at most 1.3 times its time, and at most 6 vCenter calls a member.
func BenchmarkDeletionBesideABareLoop(b *testing.B) {
	const slots = 8
	for range b.N {
		var ours, theirs, ratios, calls []float64
		for range 3 {
			t := bareDeletion(b, slots)
			o, n := deleteGroups(b, slots)
			ours, theirs = append(ours, o.Seconds()), append(theirs, t.Seconds())
			ratios, calls = append(ratios, o.Seconds()/t.Seconds()), append(calls, float64(n)/(2*groups))
		}
		b.ReportMetric(median(ours), "s")
		b.ReportMetric(median(theirs), "bare-s")
		b.ReportMetric(median(ratios), "x-bare")
		b.ReportMetric(median(calls), "calls/member")
	}
}
