package vsphere

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// atOnce carries out all these steps at once, and returns their errors.
func (p *process) atOnce(steps ...plan.Action) []error {
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	for i, a := range steps {
		all.Go(func() { errs[i] = p.Do(context.Background(), web, a) })
	}
	all.Wait()
	return errs
}

// reads returns how often vCenter is asked for objects during f.
func (w *world) reads(f func()) int {
	synctest.Wait()
	before := w.Calls()["RetrievePropertiesEx"]
	f()
	return w.Calls()["RetrievePropertiesEx"] - before
}

func TestStepsThatLookAtOnceShareOneRead(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		steps := []plan.Action{actionOn(plan.Destroy, p.member(0)), actionOn(plan.Destroy, p.member(1)), actionOn(plan.Destroy, p.member(2))}
		time.Sleep(5 * time.Second)
		if n := w.reads(func() { noneFailed(t, p.atOnce(steps...)) }); n != 1 {
			t.Errorf("three VMs that are destroyed at once are looked at in %d calls; want 1", n)
		}
		one := w.reads(func() { noneFailed(t, p.atOnce(plan.Action{Op: plan.ConfirmGone})) })
		confirm := plan.Action{Op: plan.ConfirmGone}
		if n := w.reads(func() { noneFailed(t, p.atOnce(confirm, confirm, confirm)) }); n > one || n == 0 {
			t.Errorf("one ConfirmGone took %d reads, and three at once %d; want at least one, and no more for three", one, n)
		}
	})
}

func noneFailed(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestNoStepFailsForAnObjectOfAnother(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		steps := []plan.Action{actionOn(plan.Destroy, p.member(0)), actionOn(plan.Destroy, p.member(1)), actionOn(plan.Destroy, p.member(2))}
		unreadable := inventory.VMRef(steps[0].MoRef)
		w.must(w.Destroy("web-1"))
		w.FailReadsOf(unreadable, &vim.SystemError{Reason: "vpxd"})
		for i, err := range p.atOnce(steps...) {
			if (err != nil) != (i == 0) {
				t.Errorf("the destruction of %s ended with %v; want an error for the unreadable one alone", steps[i].Key, err)
			}
		}
		if w.FailReadsOf(unreadable, nil); slices.Contains(w.Names(), "web-2") || !slices.Contains(w.Names(), "web-0") {
			t.Errorf("vCenter has the VMs %v; want web-0, which could not be read, and not web-2", w.Names())
		}
	})
}

// A shared read has no lease of its own, and an answer may come when the lease of one of its steps has ended.
func TestASharedAnswerCountsOnlyForAStepThatCanStillAct(t *testing.T) {
	inABubbleOf(t, func(w *world) *process {
		cfg := w.config()
		cfg.Leased = func(_ apitypes.UID, vm string) bool { return vm != "web-1" }
		v, err := New(cfg)
		w.must(err)
		return w.run(v)
	}, func(t *testing.T, w *world, p *process) {
		confirm := []plan.Action{{Op: plan.ConfirmGone, Key: "web-0"}, {Op: plan.ConfirmGone, Key: "web-1"}}
		for i, err := range p.atOnce(confirm...) {
			if e := vcfault.Classify("", err); (e != nil) != (i == 1) || i == 1 && e.Reason != vcfault.ReasonConcurrentAccess {
				t.Errorf("ConfirmGone of %s ended with %v; want %s for web-1 alone", confirm[i].Key, err, vcfault.ReasonConcurrentAccess)
			}
		}
	})
}

func TestGroupsThatGoOneAfterAnotherAreConfirmedTogether(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		var all sync.WaitGroup
		confirm := func(groups int, ended time.Time) int {
			time.Sleep(time.Millisecond) // a list that began when they ended doesn't count
			return w.reads(func() {
				for i := range groups {
					all.Go(func() {
						group := plan.Ref{Namespace: web.Namespace, Name: fmt.Sprint(web.Name, i), UID: apitypes.UID(fmt.Sprint(ended, i))}
						if err := p.Do(t.Context(), group, plan.Action{Op: plan.ConfirmGone, Args: plan.ConfirmArgs{Since: ended}}); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(20 * time.Millisecond)
				}
				all.Wait()
			})
		}
		// The steps share the list of running clones, and the full reads.
		if one, twenty := confirm(1, time.Now()), confirm(20, time.Now()); twenty > 20+3*one {
			t.Errorf("one ConfirmGone took %d reads, and twenty within half a second %d; want at most %d", one, twenty, 20+3*one)
		}
	})
}
