package test

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A member of which nothing is to be prepared costs its clone, its power-on, which DRS makes two tasks of, and its share of what is read and
// awaited for several at a time. Nothing is written to it in between.
func TestBringingAPlainMemberUpCostsNoCallForItsDisks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const members = 50
		r := newRig(t, vcsim.Config{Latency: vcsim.Latency{Clone: time.Second}})
		g := r.serve().group("web", members)
		before := r.Calls()
		until(t, g, "all members run", metacontroller.Running)
		total := 0
		for method, n := range r.Calls() {
			total += n - before[method]
		}
		each := float64(total) / members
		if n := r.Calls()["ReconfigVM_Task"]; n != 0 {
			t.Errorf("%d reconfigures", n)
		}
		if each > 5 { // 4.2 to 4.6, as the ends of tasks fall together; one and a half more with a read and a reconfigure for each
			t.Errorf("%.2f calls a member", each)
		}
	})
}
