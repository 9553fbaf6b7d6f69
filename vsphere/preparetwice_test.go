package vsphere

import (
	"maps"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Two replicas know different specs. The one with the older spec is suspended right before it removes an attribute. The other one sets the attribute,
// and its step ends before the first one continues. (Found by TestChaos, seed 700062: the group was RUNNING, and the value was permanently gone.)
func TestAnAttributeThatAnotherReplicaRemovesLateIsSetAgain(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		newer := w.start()
		moRef := newer.member(0).MoRef
		newer.do(preparing(newer.vm(moRef), withAttributes("owner", "ann")))

		older, wire := w.startWired()
		frozen, thaw := make(chan struct{}), make(chan struct{})
		wire.On(func(c vcsim.Call) vcsim.Break {
			if c.Method == "SetField" {
				close(frozen)
				<-thaw
			}
			return vcsim.Break{}
		})
		ended := make(chan plan.Fault)
		older.until("the member is seen", func() bool { return older.vm(moRef).Prepared != "" })
		go func() { ended <- older.fault(preparing(older.vm(moRef), withAttributes())) }()
		<-frozen
		wanted := withAttributes("owner", "bob")
		newer.until("the older replica's beginning is seen", func() bool { return plan.PreparationIn(newer.vm(moRef).Prepared).Digest == "" })
		newer.do(preparing(newer.vm(moRef), wanted))
		close(thaw)
		if f := <-ended; f.Reason != vcfault.ReasonConcurrentAccess {
			t.Errorf("the older replica got the fault %+v; want %s", f, vcfault.ReasonConcurrentAccess)
		}
		newer.until("the member is seen as unprepared", func() bool { return newer.vm(moRef).Prepared != plan.PreparationOf(&wanted) })
		newer.do(preparing(newer.vm(moRef), wanted))
		if has := w.attributes("web-0"); !maps.Equal(has, wanted.CustomAttributes) {
			t.Errorf("web-0 has the custom attributes %v; want the newer replica's %v", has, wanted.CustomAttributes)
		}
	})
}

// Found by a randomized test (test, seed 202025): the next session counted as lost, too, and was left in vCenter.
func TestASessionThatEndsTwiceDuringAPreparationLeavesNoOtherBehind(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		p, wire := w.startWired()
		vm, left := p.member(0), 2
		wire.On(func(c vcsim.Call) vcsim.Break {
			if c.Method != "ReconfigVM_Task" || left == 0 {
				return vcsim.Break{}
			}
			left--
			return vcsim.Break{Kind: vcsim.SessionGone}
		})
		if f := p.fault(preparing(vm, withAttributes("owner", "shop"))); f.Reason != vcfault.ReasonNotAuthenticated {
			t.Errorf("got the fault %+v; want %s", f, vcfault.ReasonNotAuthenticated)
		}
		p.do(preparing(p.vm(vm.MoRef), withAttributes("owner", "shop")))
		if n := w.Sessions(); n != 1 {
			t.Errorf("vCenter has %d sessions; want one", n)
		}
	})
}
