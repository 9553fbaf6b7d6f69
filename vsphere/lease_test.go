package vsphere

import (
	"context"
	"sync/atomic"
	"testing"

	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// The lease may end before any call of a step. The step must then stop, and the stamp must record exactly what the step did. Without a record of a
// request to shut down, the member would count as serving; with a record of a restart that never happened, the server would replace the member.
func TestAStepWhoseLeaseEndsMidwayReportsWhatItDid(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		var asks atomic.Int32 // calls that are granted
		cfg := w.config()
		cfg.Leased = func(uid apitypes.UID, _ string) bool { return uid == web.UID && asks.Add(-1) >= 0 }
		v, err := New(cfg)
		w.must(err)
		p := w.run(v)
		w.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vcsim.VM) bool { return true } })
		asks.Store(1000)
		vm := p.running(0, true)
		for _, c := range []struct {
			op     plan.Op
			method string
			says   func(vm plan.VM) bool
		}{
			{plan.ShutdownGuest, "ShutdownGuest", func(vm plan.VM) bool { return !vm.Shutdown.At.IsZero() }},
			{plan.Reset, "ResetVM_Task", func(vm plan.VM) bool { return !vm.Restarted.IsZero() }},
			{plan.Mark, "ReconfigVM_Task", func(vm plan.VM) bool { return vm.Marked }},
			{plan.PowerOff, "PowerOffVM_Task", func(vm plan.VM) bool { return vm.Power == plan.PoweredOff }},
		} {
			for granted, ended := int32(0), false; !ended; granted++ {
				a := guarded(c.op, p.vm(vm.MoRef))
				a.Marked = c.op == plan.PowerOff
				calls := w.Calls()[c.method]
				asks.Store(granted)
				err := p.Do(context.Background(), web, a)
				did := w.Calls()[c.method] > calls
				w.must(p.reader.Read(context.Background(), inventory.VMRef(vm.MoRef)))
				if says := c.says(p.vm(vm.MoRef)); says != did {
					t.Errorf("%s with %d calls granted: done %v, and the stamp says %v; want the same of both", c.op, granted, did, says)
				}
				if ended = err == nil; !ended && (vctest.ReasonOf(t, err) != vcfault.ReasonConcurrentAccess || granted > 5) {
					t.Fatalf("%s with %d calls granted: got the error %v; want %s with up to 5 calls, and success with more", c.op, granted, err, vcfault.ReasonConcurrentAccess)
				}
			}
		}
	})
}
