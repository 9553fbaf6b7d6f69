package vsphere

import (
	"maps"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// TestAReplicaThatMarksAMemberSeesEarlierMarksOfOthers: of two replicas that mark two members at once, at
// least one sees both marks before it continues, whatever the stream has shown it. (Found by TestChaos, seed 3020: a group of two
// in which both replicas took one down.)
func TestAReplicaThatMarksAMemberSeesEarlierMarksOfOthers(t *testing.T) {
	inAWorld(t, func(t *testing.T, w *world) {
		one, two := w.start(), w.start()
		a, b := one.member(0), one.member(1)
		two.until("the other server sees both members", func() bool { return len(two.state().VMs) == 2 && two.vm(b.MoRef).ChangeVersion == b.ChangeVersion })
		for range 3 {
			one.do(guarded(plan.Mark, one.vm(a.MoRef)))
			two.do(guarded(plan.Mark, two.vm(b.MoRef)))
			if !two.vm(a.MoRef).Marked {
				t.Fatal("a server that marks a member does not see the mark that another wrote before")
			}
			one.until("the server sees both marks", func() bool { return one.vm(b.MoRef).Marked })
			one.do(guarded(plan.Unmark, one.vm(a.MoRef)))
			one.do(guarded(plan.Unmark, one.vm(b.MoRef)))
			two.until("the other server sees no mark", func() bool {
				return !two.vm(a.MoRef).Marked && !two.vm(b.MoRef).Marked && two.vm(b.MoRef).ChangeVersion == one.vm(b.MoRef).ChangeVersion
			})
		}
	})
}

// TestAReplicaThatActsOnAMarkOfAnotherReadsAllMembersFirst: it may see one mark of two that other replicas have written for two
// members. (Found by test/world, seed 74012276: of three replicas, two took one member down each for one scale-in.)
func TestAReplicaThatActsOnAMarkOfAnotherReadsAllMembersFirst(t *testing.T) {
	for _, op := range []plan.Op{plan.PowerOff, plan.ShutdownGuest} {
		t.Run(string(op), func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world, one *process) {
				a, b := one.running(0, true), one.running(1, true)
				two := w.start()
				two.until("the other server sees both members", func() bool { return len(two.state().VMs) == 2 && two.vm(a.MoRef).Tools })
				one.do(guarded(plan.Mark, one.vm(a.MoRef)))
				two.until("the other server sees the mark", func() bool { return two.vm(a.MoRef).Marked })
				goes := guarded(op, two.vm(a.MoRef))
				goes.Marked = true
				w.LoseReply("WaitForUpdatesEx", 2) // both streams are late
				one.do(guarded(plan.Mark, one.vm(b.MoRef)))
				if two.vm(b.MoRef).Marked {
					t.Fatal("the second mark is seen too early for this test")
				}
				if f := two.fault(goes); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient || !f.Untried {
					t.Errorf("a step that was planned without the second mark ended in %+v, not in ConcurrentAccess", f)
				}
				if !two.vm(b.MoRef).Marked {
					t.Error("the second mark is not seen after the step")
				}
				before := w.Calls()["RetrievePropertiesEx"]
				two.do(goes)
				second := w.Calls()["RetrievePropertiesEx"] - before
				goes = guarded(op, one.vm(b.MoRef))
				goes.Marked = true
				before = w.Calls()["RetrievePropertiesEx"]
				one.do(goes)
				if own := w.Calls()["RetrievePropertiesEx"] - before; own > second {
					t.Errorf("the step took %d reads after a mark of its own process, and %d after one of another; want no more after its own", own, second)
				}
			})
		})
	}
}

func TestStateMakesNoCallToVCenter(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.until("no read of the member is pending", func() bool { return !p.reader.Busy(inventory.VMRef(vm.MoRef)) })
		before := w.Calls()
		for range 1000 {
			p.state(vm.MoRef, w.Unmanaged.Value)
			p.Identify("shop", "web")
		}
		after := w.Calls()
		delete(before, "WaitForUpdatesEx")
		delete(after, "WaitForUpdatesEx")
		if n := after["RetrievePropertiesEx"] - before["RetrievePropertiesEx"]; n > 2 { // which the stream may have asked for
			t.Errorf("the states took %d reads; want at most 2", n)
		}
		delete(before, "RetrievePropertiesEx")
		delete(after, "RetrievePropertiesEx")
		if !maps.Equal(before, after) {
			t.Errorf("the states made calls: before %v, after %v", before, after)
		}
	})
}
