package vsphere

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestAMemberMovedAndRenamedIsStillKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		vm := p.member(0)
		w.must(w.Rename("web-0", "renamed"))
		w.must(w.Move("renamed", "/DC0/vm"))
		p.until("the new name and place are seen", func() bool {
			m := p.inventory.member(vm.MoRef)
			return m.Name == "renamed" && m.Parent == p.inventory.settings.vmFolder.Value
		})
		if s := p.sight(vm.MoRef); len(s.VMs) != 1 || s.VMs[0].Ordinal != 0 || len(s.Gone) != 0 {
			t.Fatalf("it is no member any more: %+v", s)
		}
	})
}

func TestAMemberDeletedByHandIsGoneWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		vm := p.member(0)
		told := p.told(web.UID)
		began := time.Now()
		w.must(w.Destroy("web-0"))
		p.until("it is gone", func() bool { return slices.Equal(p.sight(vm.MoRef).Gone, []string{vm.MoRef}) })
		if took := time.Since(began); took > time.Second {
			t.Errorf("that took %s", took)
		}
		if p.told(web.UID) == told {
			t.Error("nobody was told")
		}
	})
}

func TestAPowerOffByHandIsSeenWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		vm := p.member(0)
		p.do(step(plan.PowerOn, vm))
		began := time.Now()
		w.must(w.PowerOff("web-0"))
		p.until("it is off", func() bool { return p.sight().VMs[0].Power == plan.PoweredOff })
		if took := time.Since(began); took > time.Second {
			t.Errorf("that took %s", took)
		}
	})
}

func TestABulkReadDropsTheDeadAndReadsTheLiving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		vm := p.member(0)
		dead := []vim.ManagedObjectReference{vmRef("vm-100001"), vmRef("vm-100002"), vmRef("vm-100003")}
		if err := p.reader.read(context.Background(), append(dead, vmRef(vm.MoRef), w.Unmanaged)...); err != nil {
			t.Fatal(err)
		}
		s := p.sight("vm-100001", "vm-100002", "vm-100003", vm.MoRef)
		if len(s.Gone) != 3 || len(s.VMs) != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestARecordedMemberThatNothingIsKnownOfIsReadBeforeItIsCalledGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t).start()
		if s := p.sight("vm-100001"); len(s.Gone) != 0 {
			t.Fatal("it is called gone without a read")
		}
		p.until("a read has confirmed it", func() bool { return len(p.sight("vm-100001").Gone) == 1 })
		if p.told(web.UID) == 0 {
			t.Error("the group was not told")
		}
	})
}

func TestAScanRepairsWhatTheStreamMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		vm := p.member(0)
		p.inventory.Publish(Reading{VCenter: p.inventory.from(), Gone: []string{vm.MoRef}}) // as if it were
		if len(p.sight().VMs) != 0 {
			t.Fatal("it was to be forgotten")
		}
		if err := p.reader.scan(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := p.sight(vm.MoRef); len(s.VMs) != 1 || len(s.Gone) != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestAReadThatIsAwaitedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		p.stop()
		if err := p.reader.read(context.Background(), w.Unmanaged); err == nil {
			t.Error("it reads after the end")
		}
	})
}

func TestGuestAddressesAreInOrderAndOnlyThoseThatCanBeReached(t *testing.T) {
	t.Parallel()
	nics := []vim.GuestNicInfo{
		{IpAddress: []string{"10.0.0.9", "fe80::1", "169.254.3.4", "127.0.0.1", "2001:db8::1"}},
		{IpConfig: &vim.NetIpConfigInfo{IpAddress: []vim.NetIpConfigInfoIpAddress{{IpAddress: "10.0.0.5"}, {IpAddress: "10.0.0.9"}, {IpAddress: "::1"}}}},
	}
	for primary, want := range map[string][]string{
		"":          {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
		"10.0.0.9":  {"10.0.0.9", "10.0.0.5", "2001:db8::1"},
		"10.0.0.1":  {"10.0.0.1", "10.0.0.5", "10.0.0.9", "2001:db8::1"},
		"fe80::1":   {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
		"not an ip": {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
	} {
		if got := addresses(primary, nics); !slices.Equal(got, want) {
			t.Errorf("with %q: %v, not %v", primary, got, want)
		}
	}
	if got := addresses("", nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// The stream tells of no change that was undone before it looked.
func TestAPowerOnThatIsUndoneAtOnceIsSeenAsUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		vm := p.member(0)
		for range 5 {
			p.do(step(plan.PowerOn, vm))
			w.must(w.PowerOff("web-0"))
			vctest.Eventually(t, "it is seen to be off", func() bool { return p.sight().VMs[0].Power == plan.PoweredOff })
		}
	})
}

// A session that has ended is no reason to think that members cannot be reached.
func TestAReadWithoutASessionFailsAndSaysNothingOfTheObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start()
		vm := p.member(0)
		s, err := p.client.Session(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		w.DropSessions()
		for _, refs := range [][]vim.ManagedObjectReference{{vmRef(vm.MoRef)}, {vmRef(vm.MoRef), w.Unmanaged}} {
			if objects, err := session.Retrieve(context.Background(), s, fullSpec(refs)); !vcfault.NotAuthenticated(err) {
				t.Errorf("got %v, %+v", err, objects)
			}
		}
		if err := p.reader.read(context.Background(), vmRef(vm.MoRef)); err != nil || !p.sight().VMs[0].Reachable {
			t.Errorf("%v, %+v", err, p.sight().VMs)
		}
	})
}
