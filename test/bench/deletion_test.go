package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/bare"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const groups = 100 // of two members each

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

// bareDeletion deletes as many members and folders with govmomi alone.
func bareDeletion(b *testing.B, slots int) time.Duration {
	b.Helper()
	vc, err := vcsim.Start(vcsim.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer vc.Close() //nolint:errcheck // the measurement is over
	fleet := bare.Fleet{Groups: groups, Members: 2, Slots: slots}
	if _, err := fleet.BringUp(context.Background(), bare.At(vc.URL())); err != nil {
		b.Fatal(err)
	}
	vc.SetLatency(deletionTakes)
	took, err := fleet.TakeDown(context.Background(), bare.At(vc.URL()))
	if err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkDeletionBesideABareLoop deletes 100 groups of two at once, beside a bare govmomi loop with the same slots and the same watch
// open; medians of 3, alternating. The goals: at most 1.3 times its time, and at most 6 vCenter calls a member.
func BenchmarkDeletionBesideABareLoop(b *testing.B) {
	const slots = 8
	for range b.N {
		besideBare(b, 2*groups, func() time.Duration { return bareDeletion(b, slots) }, func() (time.Duration, int) { return deleteGroups(b, slots) })
	}
}
