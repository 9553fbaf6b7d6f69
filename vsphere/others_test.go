package vsphere

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// What the stream has not shown yet counts anyway: a step that takes a member down reads the members it counts on in the
// call in which it reads the member. (Found by the model in test/world, seeds 42134 and 41782.)
func TestAMemberIsNotTakenDownWhenTooFewOfTheMembersCountedOnAreUp(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(w *world){
		"is off":             func(w *world) { w.Must(w.PowerOff("web-1")) },
		"is marked":          func(w *world) { w.restamp("web-1", func(s *stamp.Stamp) { s.Marked = true }) },
		"was off for a time": func(w *world) { w.Must(w.PowerOff("web-1")); w.Must(w.PowerOn("web-1")) },
		"is gone":            func(w *world) { w.Must(w.PowerOff("web-1")); w.Must(w.Destroy("web-1")) },
	} {
		for _, op := range []plan.Op{plan.ShutdownGuest, plan.PowerOff} {
			t.Run(string(op)+": the other "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					p := w.start()
					p.running(0, true)
					other, last := p.running(1, true), p.running(2, true)
					p.do(guarded(plan.Mark, last))
					a := guarded(op, p.vm(last.MoRef))
					other = p.vm(other.MoRef)
					a.Marked, a.Least, a.Others = true, 1, []plan.Other{{MoRef: other.MoRef, ChangeVersion: other.ChangeVersion, Boot: other.Boot}}
					lost(w)
					if f := p.fault(a); f.Reason != vcfault.ReasonConcurrentAccess || !f.Passing || !f.Untried {
						t.Errorf("%+v", f)
					}
					if calls := w.Calls(); calls["ShutdownGuest"]+calls["PowerOffVM_Task"] != 0 {
						t.Errorf("it was taken down: %v", calls)
					}
					p.until("the other is read again", func() bool {
						now := p.vm(other.MoRef)
						return now.ChangeVersion != other.ChangeVersion || !now.Boot.Equal(other.Boot)
					})
					if a.Least = 0; name != "is gone" {
						p.do(a)
					}
				})
			})
		}
	}
}

func TestTheReadOfTheMembersCountedOnCostsNoExtraCall(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		var others []plan.Other
		for i := range int32(3) {
			vm := p.running(i, false)
			others = append(others, plan.Other{MoRef: vm.MoRef, ChangeVersion: vm.ChangeVersion, Boot: vm.Boot})
		}
		w.Must(w.ShiftBootTime("web-1", 800*time.Millisecond)) // the same boot: see plan.SameBoot
		alone, beside := p.running(3, false), p.running(4, false)
		p.do(guarded(plan.Mark, alone))
		p.do(guarded(plan.Mark, beside))
		cost := func(a plan.Action) int {
			a.Marked = true
			synctest.Wait()
			before := w.Calls()["RetrievePropertiesEx"]
			p.do(a)
			return w.Calls()["RetrievePropertiesEx"] - before
		}
		first := step(plan.PowerOff, alone)
		second := step(plan.PowerOff, beside)
		second.Others, second.Least = others, 3
		if one, two := cost(first), cost(second); two > one+1 { // the stream may tell of it before the task's end is seen
			t.Errorf("%d reads without, and %d with it", one, two)
		}
	})
}
