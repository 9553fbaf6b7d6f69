package loop

import (
	"errors"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A step that was given up before it did anything leaves no doubt about its member. But an earlier try of the step may have been carried out.
func TestAnAbandonedStepIsNotReported(t *testing.T) {
	none := func(time.Duration) time.Duration { return 0 }
	off, mark := plan.Action{Op: plan.PowerOff, Key: "web-0", MoRef: "vm-7"}, plan.Action{Op: plan.Mark, Key: "web-0", MoRef: "vm-7"}
	for _, lost := range []bool{false, true} {
		g, now := newGroup(call("web", 2)), time.Now()
		g.renew(call("web", 2), now)
		if lost {
			g.ended(off, errors.New("the reply was lost"), now, none)
		}
		for range 2 {
			g.ended(off, fault{Reason: "ConcurrentAccess", Untried: true}, now, none)
		}
		if p := g.observe(Config{}, now).Pending["web-0"]; p.Fault.Untried == lost {
			t.Errorf("a reply was lost before: %v; %+v", lost, p)
		}
		g.begin(mark, now)
		if p := g.observe(Config{}, now).Pending["web-0"]; (p.Tried == plan.PowerOff) != lost {
			t.Errorf("a reply was lost before: %v; with the next step %+v", lost, p)
		}
	}
}

func TestAFailedStepIsReportedWhileTheNextOneForItsVMRuns(t *testing.T) {
	none := func(time.Duration) time.Duration { return 0 }
	g, now := newGroup(call("web", 2)), time.Now()
	g.renew(call("web", 2), now)
	begin := func(a plan.Action) plan.Pending {
		g.begin(a, now)
		return g.observe(Config{}, now).Pending[a.Key]
	}
	off := plan.Action{Op: plan.PowerOff, Key: "web-0", MoRef: "vm-7"}
	begin(off)
	g.ended(off, errors.New("the reply was lost"), now, none)
	if p := begin(off); p.Tried != "" || p.Fault.Reason == "" {
		t.Errorf("again: %+v", p)
	}
	if p := begin(plan.Action{Op: plan.Mark, Key: "web-0", MoRef: "vm-8"}); p.Tried != "" {
		t.Errorf("of another VM: %+v", p)
	}
	mark := plan.Action{Op: plan.Mark, Key: "web-0", MoRef: "vm-7"}
	if p := begin(mark); p.Tried != plan.PowerOff || p.Op != plan.Mark {
		t.Errorf("%+v", p)
	}
	g.ended(mark, errors.New("it is refused"), now, none)
	if p := g.observe(Config{}, now).Pending["web-0"]; p.Tried != plan.PowerOff || p.Op != plan.Mark {
		t.Errorf("after the next one failed, too: %+v", p)
	}
	if p := begin(mark); p.Tried != plan.PowerOff {
		t.Errorf("and while it is tried again: %+v", p)
	}
	g.ended(mark, nil, now, none)
	if p := begin(mark); p.Tried != "" {
		t.Errorf("after it was read: %+v", p)
	}
}
