package planner_test

import (
	"fmt"
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// recordedOnly is a group whose status has n members, and as many standby members and VMs in quarantine, of which vCenter shows none.
func recordedOnly(n int, tell func(*plan.VCenterState, v1alpha1.Member)) plan.Observed {
	o := observed(1)
	s := &o.Group.Status
	for i := range n {
		m := v1alpha1.Member{Name: fmt.Sprint("web-", i), Ordinal: int32(i), MoRef: fmt.Sprint("vm-9", i), InstanceUUID: fmt.Sprintf("5013-%012x", i)}
		s.Members = append(s.Members, m)
		s.Standby = append(s.Standby, v1alpha1.StandbyMember{Name: m.Name, Ordinal: m.Ordinal, MoRef: fmt.Sprint("vm-8", i)})
		s.Quarantined = append(s.Quarantined, v1alpha1.Quarantined{Name: m.Name, MoRef: fmt.Sprint("vm-7", i)})
		tell(&o.State, m)
	}
	return o
}

// A client that can write a status can give it as many members as etcd stores, some 8,000, and Metacontroller repeats the call. The time of a
// plan must not grow with the square of that number. The test compares one plan of 8,000 members with eight plans of 1,000, by the processor
// time of this thread, which doesn't depend on how busy the machine is, and takes the best of several times.
func TestAPlanCostsNoMoreForEachOfThousandsOfRecords(t *testing.T) {
	thin.NotShort(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(o plan.Observed, times int) time.Duration {
		used := func() time.Duration {
			const thread = 1 // RUSAGE_THREAD
			var u syscall.Rusage
			must.Succeed(t, syscall.Getrusage(thread, &u))
			return time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		before := used()
		for range times {
			planner.Make(o)
		}
		return used() - before
	}
	for what, tell := range map[string]func(*plan.VCenterState, v1alpha1.Member){
		"not seen": func(*plan.VCenterState, v1alpha1.Member) {},
		"gone": func(s *plan.VCenterState, m v1alpha1.Member) {
			s.Gone = append(s.Gone, plan.Gone{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID})
		},
		"missing": func(s *plan.VCenterState, m v1alpha1.Member) {
			s.Vanished = append(s.Vanished, plan.Vanished{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID, Name: m.Name, Ordinal: m.Ordinal})
		},
	} {
		few, many := recordedOnly(1000, tell), recordedOnly(8000, tell)
		best := math.Inf(1)
		for range 10 {
			best = min(best, float64(cost(many, 1))/float64(cost(few, 8)))
		}
		if best > 4 { // the square is 8
			t.Errorf("%s: each of 8,000 costs %.1f times what each of 1,000 does", what, best)
		}
		t.Logf("%s: %.1f times", what, best)
	}
}
