package vsphere

import (
	"maps"
	"testing"
	"testing/synctest"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
)

// TestAReplicaThatMarksAMemberSeesEarlierMarksOfOthers: of two replicas that mark two members at once, at
// least one sees both marks before it continues, whatever the stream has shown it. (Found by TestChaos, seed 3020: a group of two
// in which both replicas took one down.)
func TestAReplicaThatMarksAMemberSeesEarlierMarksOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.start(), w.start()
		a, b := one.member(0), one.member(1)
		two.until("it sees both members", func() bool { return len(two.state().VMs) == 2 && two.vm(b.MoRef).ChangeVersion == b.ChangeVersion })
		for range 3 {
			one.do(guarded(plan.Mark, one.vm(a.MoRef)))
			two.do(guarded(plan.Mark, two.vm(b.MoRef)))
			if !two.vm(a.MoRef).Marked {
				t.Fatal("the mark that was there before is not seen")
			}
			one.until("it sees both marks", func() bool { return one.vm(b.MoRef).Marked })
			one.do(guarded(plan.Unmark, one.vm(a.MoRef)))
			one.do(guarded(plan.Unmark, one.vm(b.MoRef)))
			two.until("it sees no mark", func() bool {
				return !two.vm(a.MoRef).Marked && !two.vm(b.MoRef).Marked && two.vm(b.MoRef).ChangeVersion == one.vm(b.MoRef).ChangeVersion
			})
		}
	})
}

func TestStateMakesNoCallToVCenter(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.until("all is quiet", func() bool { return !p.reader.Busy(inventory.VMRef(vm.MoRef)) })
		before := w.Calls()
		for range 1000 {
			p.state(vm.MoRef, w.Unmanaged.Value)
			p.Identify("shop", "web")
		}
		after := w.Calls()
		delete(before, "WaitForUpdatesEx")
		delete(after, "WaitForUpdatesEx")
		if n := after["RetrievePropertiesEx"] - before["RetrievePropertiesEx"]; n > 2 { // which the stream may have asked for
			t.Errorf("%d reads", n)
		}
		delete(before, "RetrievePropertiesEx")
		delete(after, "RetrievePropertiesEx")
		if !maps.Equal(before, after) {
			t.Errorf("calls before %v, after %v", before, after)
		}
	})
}
