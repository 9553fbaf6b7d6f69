package vsphere

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// reads reads objects, and fails if the reads do not end.
func (p *process) reads(refs ...vim.ManagedObjectReference) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.reader.Read(ctx, refs...); err != nil {
		p.t.Fatalf("the read of %d objects failed: %v", len(refs), err)
	}
}

func TestOneUnreadableObjectHidesNoOther(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]vim.BaseMethodFault{
		"no permission for the whole call": &vim.NoPermission{PrivilegeId: "System.Read"},
		"a system error":                   &vim.SystemError{Reason: "vpxd"},
		"an invalid property":              &vim.InvalidProperty{Name: "guest"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world, p *process) {
				good, bad := p.member(0), p.member(1)
				w.FailReadsOf(inventory.VMRef(bad.MoRef), fault)
				w.must(w.PowerOn("web-0"))
				p.reads(inventory.VMRef(good.MoRef), inventory.VMRef(bad.MoRef), w.Unmanaged)
				s := p.state(good.MoRef, bad.MoRef)
				if len(s.VMs) != 2 || s.VMs[0].Power != plan.PoweredOn || !s.VMs[0].Reachable || s.VMs[1].Reachable || len(s.Gone) > 0 {
					t.Errorf("got the state %+v; want %s on and reachable, %s unreachable, and none gone", s, good.MoRef, bad.MoRef)
				}
				must.Succeed(t, p.reader.Scan(context.Background()))
				if s = p.state(good.MoRef, bad.MoRef); len(s.VMs) != 2 || !s.VMs[0].Reachable || s.VMs[1].Reachable || len(s.Gone) > 0 || s.Folder == "" {
					t.Errorf("after a full read, got the state %+v; want %s reachable, %s unreachable, none gone, and the folder", s, good.MoRef, bad.MoRef)
				}
				two := w.start() // which has read nothing yet
				two.until("the new server knows web-0 alone", func() bool { s := two.state(); return s.Known && len(s.VMs) == 1 && s.VMs[0].Ordinal == 0 })

				w.FailReadsOf(inventory.VMRef(bad.MoRef), nil)
				must.Succeed(t, p.reader.Scan(context.Background()))
				if s = p.state(); len(s.VMs) != 2 || !s.VMs[1].Reachable {
					t.Errorf("once %s could be read, got the state %+v; want it reachable", bad.MoRef, s)
				}
			})
		})
	}
}

func TestAHostThatVanishesWhileItsVMsAreReadDelaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}})
		p := w.start()
		vm := p.member(0)
		host, err := w.Find("/DC0/host/DC0_C0/DC0_C0_H0")
		w.must(err)
		w.FailReadsOf(host, &vim.ManagedObjectNotFound{Obj: host})
		w.must(w.PowerOn("web-0"))
		p.reads(inventory.VMRef(vm.MoRef))
		if s := p.state(vm.MoRef); len(s.VMs) != 1 || s.VMs[0].Power != plan.PoweredOn || !s.VMs[0].Reachable || len(s.Gone) > 0 {
			t.Errorf("got the state %+v; want one VM, on and reachable, and none gone", s)
		}
	})
}

// An object that vCenter leaves out of an answer may be hidden, not gone.
func TestAMemberThatAnAnswerLeavesOutIsGoneOnlyIfAReadOfItAloneSaysSo(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		here, gone, hidden := p.member(0), p.member(1), p.member(2)
		w.must(w.Destroy("web-1"))
		w.Hide(inventory.VMRef(hidden.MoRef))
		before := w.Calls()["RetrievePropertiesEx"]
		p.reads(inventory.VMRef(here.MoRef), inventory.VMRef(gone.MoRef), inventory.VMRef(hidden.MoRef), inventory.VMRef("vm-100001"))
		if n := w.Calls()["RetrievePropertiesEx"] - before; n > 12 {
			t.Errorf("the reads of four VMs took %d calls; want at most 12", n)
		}
		var s plan.VCenterState
		p.until("the destroyed one is gone", func() bool {
			s = p.state(here.MoRef, gone.MoRef, hidden.MoRef)
			return s.IsGone(gone.MoRef, "")
		})
		if len(s.Gone) != 1 || len(s.Vanished) > 0 || len(s.VMs) != 2 || s.VMs[1].MoRef != hidden.MoRef || s.VMs[1].Reachable {
			t.Errorf("got the state %+v; want %s gone, %s unreachable but a member, and none vanished", s, gone.MoRef, hidden.MoRef)
		}
	})
}

// An operator may destroy hundreds of VMs at once, and the stream then reports all of them. The server must not take that for a fault of vCenter.
func TestHundredsOfVMsThatAreGoneKeepNoOtherFromBeingRead(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		refs := []vim.ManagedObjectReference{inventory.VMRef(vm.MoRef)}
		for i := range 300 {
			refs = append(refs, inventory.VMRef(fmt.Sprintf("vm-%d", 100000+i)))
		}
		w.must(w.PowerOn("web-0"))
		before := w.Calls()["RetrievePropertiesEx"]
		p.reads(refs...)
		if n := w.Calls()["RetrievePropertiesEx"] - before; n > len(refs)+10 {
			t.Errorf("the reads of %d objects took %d calls; want at most 10 more", len(refs), n)
		}
		if s := p.state(); len(s.VMs) != 1 || s.VMs[0].Power != plan.PoweredOn {
			t.Errorf("got the state %+v; want one VM that is on", s)
		}
	})
}

func TestNamedReadsArePublishedThoughTheScanFails(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		w.must(w.PowerOn("web-0"))
		root := w.Admin().ServiceContent.RootFolder
		w.FailReadsOf(root, &vim.SystemError{Reason: "vpxd"})
		ctx, cancel := context.WithCancel(context.Background())
		scanned := make(chan error, 1)
		go func() { scanned <- p.reader.Scan(ctx) }()
		p.reads(inventory.VMRef(vm.MoRef))
		if s := p.state(); len(s.VMs) != 1 || s.VMs[0].Power != plan.PoweredOn || s.Folder == "" {
			t.Errorf("got the state %+v; want one VM that is on, and the group's folder", s)
		}
		cancel()
		<-scanned
	})
}

func TestManyUnreadableObjectsCostFewCalls(t *testing.T) {
	thin.NotShort(t)
	inABubble(t, func(t *testing.T, w *world, p *process) {
		var refs []vim.ManagedObjectReference
		for i := range 150 {
			ref, err := w.AddVM("/DC0/vm", "other-"+string(rune('a'+i%26))+time.Duration(i).String())
			w.must(err)
			refs = append(refs, ref)
		}
		p.reads(refs...)
		w.FailReadsOf(refs[70], &vim.SystemError{})
		before := w.Calls()["RetrievePropertiesEx"]
		p.reads(refs...)
		if n := w.Calls()["RetrievePropertiesEx"] - before; n > 25 {
			t.Errorf("finding the unreadable one of 150 VMs took %d calls; want at most 25", n)
		}
	})
}

// https://github.com/vmware/govmomi/issues/1087
func TestAPoolThatIsDestroyedDoesNotKeepAnotherFromBeingFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Pools: 2})
		other, err := w.Find("/DC0/host/DC0_C0/Resources/DC0_C0_RP2")
		w.must(err)
		w.FailReadsOf(other, &vim.ManagedObjectNotFound{Obj: other})
		c := w.config()
		c.Pool = "DC0_C0_RP1"
		v, err := New(c)
		w.must(err)
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			w.FailReadsOf(other, nil)
		}()
		p := w.run(v)
		p.until("the pool is found", func() bool { s := p.state(); return s.Known && s.Fault == nil })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the pool was found after %s; want at most 10s", took)
		}
	})
}
