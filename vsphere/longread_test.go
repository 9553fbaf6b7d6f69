package vsphere

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// slowPages delays the pages of a full inventory read: the first one, which has no token, and the others.
type slowPages struct {
	first, others time.Duration

	mu    sync.Mutex
	began [][]time.Time // the pages of each read
}

func (s *slowPages) through(direct func(session string) soap.RoundTripper) func(string) soap.RoundTripper {
	return func(session string) soap.RoundTripper { return slowPage{direct(session), s} }
}

// reads has, for each full inventory read, when each page was asked for.
func (s *slowPages) reads() [][]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.began)
}

func (s *slowPages) note(first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.began = append(s.began, nil)
	}
	last := len(s.began) - 1
	s.began[last] = append(s.began[last], time.Now())
}

type slowPage struct {
	soap.RoundTripper
	pages *slowPages
}

func (s slowPage) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	takes := time.Duration(0)
	switch r := req.(type) {
	case *methods.RetrievePropertiesExBody:
		if r.Req.Options.MaxObjects > 0 {
			takes = s.pages.first
			s.pages.note(true)
		}
	case *methods.ContinueRetrievePropertiesExBody:
		takes = s.pages.others
		s.pages.note(false)
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.RoundTripper.RoundTrip(ctx, req, res)
}

// inLongReads runs a test with a member and a vCenter that delays the five pages of a full inventory read.
func inLongReads(t *testing.T, pages *slowPages, f func(t *testing.T, w *world, p *process)) {
	inAWorld(t, func(t *testing.T, w *world) {
		w.fill(27)
		w.cutReads(7)
		c := w.config()
		c.Through = pages.through(c.Through)
		v, err := New(c)
		w.must(err)
		p := w.run(v)
		p.until("vCenter is known", func() bool { return p.state().Known })
		f(t, w, p)
	})
}

// scanning begins a full inventory read, and returns once its first page has arrived.
func (p *process) scanning() (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- p.reader.Scan(context.Background()) }()
	time.Sleep(time.Second)
	return done
}

func TestAReadOfEverythingTakesAsLongAsPagesComeAndDelaysNoOtherRead(t *testing.T) {
	inLongReads(t, &slowPages{others: time.Minute}, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.do(actionOn(plan.PowerOn, vm))
		began, ended := time.Now(), p.scanning()
		w.must(w.PowerOff("web-0"))
		p.until("the member is seen to be off", func() bool { return p.state().VMs[0].Power == plan.PoweredOff })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the power-off was seen after %s; want at most 3s, while the full read continues", took)
		}
		if err := <-ended; err != nil || time.Since(began) < 3*time.Minute {
			t.Errorf("the full read ended after %s with the error %v; want at least 3m, and none", time.Since(began), err)
		}
	})
}

// vCenter collects all objects before the first page, which may take minutes.
func TestAReadOfEverythingWaitsForItsFirstPage(t *testing.T) {
	pages := &slowPages{first: 4 * time.Minute}
	inLongReads(t, pages, func(t *testing.T, w *world, p *process) {
		began := time.Now()
		w.must(p.reader.Scan(t.Context()))
		if took := time.Since(began); took < pages.first || took > pages.first+5*time.Second {
			t.Errorf("the full read took %s; want from %s to 5s more", took, pages.first)
		}
		if n := len(pages.reads()); n != 2 {
			t.Errorf("%d reads were begun, want the one at the start and this one", n)
		}
	})
}

// The periodic full reads, for which no step waits, must leave vCenter time between their calls.
func TestThePeriodicReadOfEverythingIsSpreadOut(t *testing.T) {
	for _, c := range []struct{ page, pause time.Duration }{{100 * time.Millisecond, 400 * time.Millisecond}, {5 * time.Second, time.Second}} {
		t.Run(c.page.String(), func(t *testing.T) {
			pages := &slowPages{first: c.page, others: c.page}
			inLongReads(t, pages, func(t *testing.T, _ *world, _ *process) {
				time.Sleep(10 * time.Minute)
				reads := pages.reads()
				if len(reads) != 2 {
					t.Fatalf("%d reads, want the one at the start and one since", len(reads))
				}
				for i, least := range []time.Duration{c.page, c.page + c.pause} {
					for k, began := range reads[i][1:] {
						if apart := began.Sub(reads[i][k]); len(reads[i]) < 4 || apart < least || apart > least+c.pause/4 {
							t.Errorf("read %d: page %d of %d began %s after the one before, want %s", i, k+1, len(reads[i]), apart, least)
						}
					}
				}
			})
		})
	}
}

func TestAPageThatCameLateBringsNothingBack(t *testing.T) {
	inLongReads(t, &slowPages{others: time.Minute}, func(t *testing.T, w *world, p *process) {
		ended := p.scanning() // the simulator's pages are as of the first one
		refs := map[string]string{}
		for _, vm := range w.VMs() {
			refs[vm.Name] = vm.Ref.Value
		}
		w.must(w.Destroy("other-25"))
		w.must(w.Rename("other-26", "renamed"))
		late, err := w.AddVM("/DC0/vm", "late")
		w.must(err)
		must.Succeed(t, <-ended)
		if _, _, known := p.inventory.Holder(refs["other-25"]); known {
			t.Error("the full read brought back a VM that was destroyed while the read ran")
		}
		for ref, want := range map[string]string{refs["other-26"]: "/DC0/vm/renamed", late.Value: "/DC0/vm/late"} {
			if _, path, _ := p.inventory.Holder(ref); path != want {
				t.Errorf("%q, not %s", path, want)
			}
		}
	})
}
