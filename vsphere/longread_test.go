package vsphere

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// slowPages makes each page of an answer, but for the first, take a while.
type slowPages struct {
	soap.RoundTripper
	takes time.Duration
}

func (s slowPages) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	if _, is := req.(*methods.ContinueRetrievePropertiesExBody); is {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.RoundTripper.RoundTrip(ctx, req, res)
}

// inLongReads runs a test with a member and a vCenter that takes four minutes for a read of everything.
func inLongReads(t *testing.T, f func(t *testing.T, w *world, p *process)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fill(27)
		w.SetPageSize(7)
		c := w.config()
		direct := c.Through
		c.Through = func(session string) soap.RoundTripper { return slowPages{direct(session), time.Minute} }
		v, err := New(c)
		w.must(err)
		p := w.run(v)
		p.until("vCenter is known", func() bool { return p.state().Known })
		f(t, w, p)
	})
}

// scanning begins a read of everything, and returns once its first page is there.
func (p *process) scanning() (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- p.reader.Scan(context.Background()) }()
	time.Sleep(time.Second)
	return done
}

func TestAReadOfEverythingTakesAsLongAsPagesComeAndHoldsNoOtherReadUp(t *testing.T) {
	inLongReads(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.do(step(plan.PowerOn, vm))
		began, ended := time.Now(), p.scanning()
		w.must(w.PowerOff("web-0"))
		p.until("it is off", func() bool { return p.state().VMs[0].Power == plan.PoweredOff })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it is seen after %s", took)
		}
		if err := <-ended; err != nil || time.Since(began) < 3*time.Minute {
			t.Errorf("the read ended after %s: %v", time.Since(began), err)
		}
	})
}

func TestAPageThatCameLateBringsNothingBack(t *testing.T) {
	inLongReads(t, func(t *testing.T, w *world, p *process) {
		ended := p.scanning() // the simulator's pages are as of the first one
		refs := map[string]string{}
		for _, vm := range w.VMs() {
			refs[vm.Name] = vm.Ref.Value
		}
		w.must(w.Destroy("other-25"))
		w.must(w.Rename("other-26", "renamed"))
		late, err := w.AddVM("/DC0/vm", "late")
		w.must(err)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if _, _, told := p.inventory.Holder(refs["other-25"]); told {
			t.Error("a VM that was destroyed is back")
		}
		for ref, want := range map[string]string{refs["other-26"]: "/DC0/vm/renamed", late.Value: "/DC0/vm/late"} {
			if _, path, _ := p.inventory.Holder(ref); path != want {
				t.Errorf("%q, not %s", path, want)
			}
		}
	})
}
