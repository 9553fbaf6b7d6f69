package loop

import (
	"errors"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestAStepThatFailedIsToldWhileTheNextOneForItsVMRuns(t *testing.T) {
	none := func(time.Duration) time.Duration { return 0 }
	g, now := newGroup(call("web", 2)), time.Now()
	g.renew(call("web", 2), now)
	begin := func(a plan.Action) plan.Pending {
		g.running[a.VM] = a
		return g.observe(Config{}, now).Pending[a.VM]
	}
	off := plan.Action{Op: plan.PowerOff, VM: "web-0", MoRef: "vm-7"}
	begin(off)
	g.ended(off, errors.New("the reply was lost"), now, none)
	if p := begin(off); p.Tried != "" || p.Fault.Reason == "" {
		t.Errorf("again: %+v", p)
	}
	if p := begin(plan.Action{Op: plan.Mark, VM: "web-0", MoRef: "vm-8"}); p.Tried != "" {
		t.Errorf("of another VM: %+v", p)
	}
	mark := plan.Action{Op: plan.Mark, VM: "web-0", MoRef: "vm-7"}
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
