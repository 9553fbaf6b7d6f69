package library

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestCutTakesALibraryAndAnItem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"golden/ubuntu": {"golden", "ubuntu"}, "a%2fb/c%2fd": {"a/b", "c/d"},
		"ubuntu": {}, "/golden": {}, "golden/": {}, "/DC0/vm/ubuntu": {}, "vm/golden/ubuntu": {}, "": {},
	} {
		library, item, is := Cut(text)
		if [2]string{library, item} != want || is != (want[0] != "") || Is(text) != is {
			t.Errorf("%q: %q, %q, %t", text, library, item, is)
		}
	}
}

// desk is a cache in a synctest bubble. Its readings fail with err.
type desk struct {
	*Cache
	guard         sync.Mutex
	takes         time.Duration // a reading
	err           error
	reads, called int
}

// fail makes all readings fail with err from now on.
func (d *desk) fail(err error) {
	d.guard.Lock()
	defer d.guard.Unlock()
	d.err = err
}

// counts returns how many readings there were, and how often groups were called.
func (d *desk) counts() (reads, called int) {
	d.guard.Lock()
	defer d.guard.Unlock()
	return d.reads, d.called
}

// newDesk runs a cache until the test ends.
func newDesk(t *testing.T) *desk {
	d := &desk{err: errors.New("not set")}
	d.Cache = New(func(context.Context, func(context.Context, *session.RESTSession) error) error {
		time.Sleep(d.takes)
		d.guard.Lock()
		defer d.guard.Unlock()
		d.reads++
		return d.err
	}, nil, func() {
		d.guard.Lock()
		defer d.guard.Unlock()
		d.called++
	}, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

// inABubble runs a test with a cache in a synctest bubble, in parallel with other tests.
func inABubble(t *testing.T, test func(t *testing.T, d *desk)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newDesk(t)) })
}

// look returns the template that a group sees. there says whether the inventory has the VM template.
func (d *desk) look(there bool) plan.Template { return d.lookAs("web", "golden/ubuntu", there) }

// lookAs is look of another group, for another item.
func (d *desk) lookAs(group types.UID, text string, there bool) plan.Template {
	t := plan.Template{Datacenter: "DC0"}
	d.Fill(group, &t, text, func(t *plan.Template) bool {
		if there {
			t.Paths = []string{"/DC0/vm/" + t.MoRef}
		}
		return there
	})
	return t
}

// answer sets the VM template that the cache has for the item.
func (d *desk) answer(moRef string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.items["golden/ubuntu"]
	x.known, x.fault = true, nil
	x.all, x.fits = []naming.Candidate{{Path: "golden/1", Ref: vim.ManagedObjectReference{Type: ItemType, Value: "1"}}}, []int{0}
	x.sources["1"] = &source{sought: true, found: Source{MoRef: moRef}, asked: time.Now()}
}

func TestAnItemIsReadOnceAMinuteWhileGroupsAskForItAndThenForgotten(t *testing.T) {
	inABubble(t, func(t *testing.T, d *desk) {
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, _ := d.counts(); n != 0 {
			t.Errorf("%d readings of nothing; want 0", n)
		}
		for range 300 { // a hook call each second
			d.look(false)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n, _ := d.counts(); n < 5 || n > 6 {
			t.Errorf("%d readings in five minutes", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if n, _ := d.counts(); n > 17 || len(d.items) != 0 {
			t.Errorf("%d readings, and %d items are kept", n, len(d.items))
		}
	})
}

func TestOnlyItemsThatGroupsNameAreRead(t *testing.T) {
	inABubble(t, func(t *testing.T, d *desk) {
		d.fail(vcfault.ForOperator(vcfault.ReasonTemplateNotFound, "none"))
		for n := range 100 {
			d.lookAs("a", fmt.Sprint("golden/", n), false)
			d.lookAs("b", "golden/0", false)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		before, _ := d.counts()
		for range 300 {
			d.lookAs("a", "golden/99", false)
			d.lookAs("b", "golden/0", false)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n, _ := d.counts(); n-before < 9 || n-before > 11 || len(d.items) != 2 {
			t.Errorf("%d readings of two items in five minutes, and %d items are kept", n-before, len(d.items))
		}
		d.lookAs("a", "/DC0/vm/ubuntu", false)
		d.Leave("b")
		synctest.Wait()
		if before, _ = d.counts(); len(d.items)+len(d.named) != 0 {
			t.Errorf("%d items are kept, and %d names", len(d.items), len(d.named))
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n, _ := d.counts(); n != before {
			t.Errorf("%d readings of items that no group names", n-before)
		}
	})
}

// Groups that name another item all the time don't delay the readings for others: each has one item to be read.
func TestGroupsThatNameOtherItemsAllTheTimeDelayNoOther(t *testing.T) {
	inABubble(t, func(t *testing.T, d *desk) {
		d.takes = 100 * time.Millisecond
		d.fail(vcfault.ForOperator(vcfault.ReasonTemplateNotFound, "none"))
		for n := range 1000 {
			for g := range 10 {
				d.lookAs(types.UID(fmt.Sprint("flood-", g)), fmt.Sprint("golden/", g, "-", n), false)
			}
			if n < 600 {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			if f := d.look(false).Fault; f.Reason == vcfault.ReasonTemplateNotFound {
				if took := time.Duration(n-600) * 50 * time.Millisecond; took > 10*time.Second {
					t.Errorf("the item of another group was read after %s; want at most 10 s", took)
				}
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error("the item of another group was not read in 20 s")
	})
}

// An item that no group names any more keeps the pause after a deployment that failed.
func TestAnItemThatNoGroupNamesKeepsThePauseOfItsDeployment(t *testing.T) {
	inABubble(t, func(t *testing.T, d *desk) {
		d.look(false)
		d.mu.Lock()
		d.items["golden/ubuntu"].sources["1"] = &source{failed: vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable, "no"), failures: 3}
		d.mu.Unlock()
		d.lookAs("web", "golden/other", false)
		time.Sleep(time.Minute)
		d.look(false)
		d.mu.Lock()
		defer d.mu.Unlock()
		if x := d.items["golden/ubuntu"]; x.sources["1"].failures != 3 || x.groups != 1 {
			t.Errorf("%d failures, named by %d groups; want 3 and 1", x.sources["1"].failures, x.groups)
		}
	})
}

func TestUnknownIsNotGone(t *testing.T) {
	inABubble(t, func(t *testing.T, d *desk) {
		d.fail(vcfault.ForRetry(vcfault.ReasonLibraryUnavailable, "down"))
		if f := d.look(true).Fault; f == nil || f.Reason != vcfault.ReasonLibraryReading || f.NeedsOperator {
			t.Errorf("before the first reading: %+v", f)
		}
		synctest.Wait()
		if f := d.look(true).Fault; f == nil || f.Reason != vcfault.ReasonLibraryUnavailable {
			t.Errorf("never read: %+v", f)
		}
		d.answer("vm-7")
		time.Sleep(10 * time.Minute)
		if x := d.look(true); x.MoRef != "vm-7" || x.Fault != nil || len(x.Paths) != 1 {
			t.Errorf("down after an answer: %+v", x)
		}
		synctest.Wait()
		_, was := d.counts()
		d.fail(vcfault.ForOperator(vcfault.ReasonTemplateNotFound, "gone"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if x := d.look(true); x.MoRef != "" || x.Fault == nil || x.Fault.Reason != vcfault.ReasonTemplateNotFound {
			t.Errorf("gone: %+v", x)
		}
		if _, n := d.counts(); n != was+1 {
			t.Errorf("groups were called %d times", n-was)
		}
	})
}

func TestAVMTemplateThatTheInventoryLacksIsReadAgainBeforeAnOperatorIsAsked(t *testing.T) {
	inABubble(t, func(t *testing.T, d *desk) {
		d.fail(vcfault.ForRetry(vcfault.ReasonLibraryUnavailable, "down"))
		d.look(true)
		synctest.Wait()
		d.answer("vm-7")
		d.look(true)
		synctest.Wait()
		before, _ := d.counts()
		for range 60 {
			if f := d.look(false).Fault; f == nil || f.NeedsOperator {
				t.Fatalf("got the fault %+v in the first minute; want one without an operator", f)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n, _ := d.counts(); n-before < 5 || n-before > 7 {
			t.Errorf("%d readings in the first minute", n-before)
		}
		time.Sleep(2 * time.Minute)
		if f := d.look(false).Fault; f == nil || !f.NeedsOperator || f.Reason != vcfault.ReasonLibraryItemUnusable {
			t.Errorf("got the fault %+v after three minutes; want %s, for an operator", f, vcfault.ReasonLibraryItemUnusable)
		}
		if x := d.look(true); x.Fault != nil || x.MoRef != "vm-7" {
			t.Errorf("got the template %+v although the inventory has the VM; want vm-7, without a fault", x)
		}
	})
}

func TestAPreviewReadsAnItemThatNoGroupAsksForOnceAndLeavesNoTrace(t *testing.T) {
	inABubble(t, func(t *testing.T, d *desk) {
		peek := func() *plan.Fault {
			x := plan.Template{Datacenter: "DC0"}
			d.Peek(&x, "golden/ubuntu", func(*plan.Template) bool { return false })
			return x.Fault
		}
		if f := peek(); f == nil || f.Reason != vcfault.ReasonLibraryReading {
			t.Errorf("the first preview got the fault %+v; want %s", f, vcfault.ReasonLibraryReading)
		}
		d.fail(vcfault.ForOperator(vcfault.ReasonTemplateNotFound, "none"))
		for range 100 {
			d.ReadForPreview(t.Context(), "golden/ubuntu", nil)
			if f := peek(); f == nil || f.Reason != vcfault.ReasonTemplateNotFound {
				t.Fatalf("the fault is %+v, want TemplateNotFound", f)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		if n, called := d.counts(); n != 1 || called != 0 || len(d.items) != 0 {
			t.Errorf("%d readings, %d groups called, %d items kept; want 1, 0 and 0", n, called, len(d.items))
		}
	})
}

func TestTheTemplateOfAnOVFHasAnotherNameForEachVersionAndItemThatFitsIntoVCenter(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 200)
	for want, o := range map[string]OVF{
		"vmgroup-ubuntu-24.04-2-3f2b9c1a":                            {ID: "3f2b9c1a-77aa", Name: "ubuntu-24.04", Version: "2"},
		"vmgroup-a-b-c-1-3f2b9c1b":                                   {ID: "3f2b9c1b-77aa", Name: `a/b%c`, Version: "1"},
		"vmgroup-" + strings.Repeat("ä", 80-8-11) + "-1-3f2b9c1b":    {ID: "3f2b9c1b-77aa", Name: long, Version: "1"},
		"vmgroup-" + strings.Repeat("ä", 80-8-14) + "-1000-3f2b9c1b": {ID: "3f2b9c1b-77aa", Name: long, Version: "1000"},
	} {
		if name := o.TemplateName(); name != want {
			t.Errorf("%q, not %q", name, want)
		}
	}
	if a, b := (&OVF{ID: "a", Version: "1"}).Fingerprint(), (&OVF{ID: "a", Version: "2"}).Fingerprint(); a == b || len(a) != 10 {
		t.Errorf("fingerprints %s and %s", a, b)
	}
}
