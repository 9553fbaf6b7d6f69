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
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestAMemberDestroyedByAnOperatorIsGoneWithinASecond(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		notified := p.notified(web.UID)
		began := time.Now()
		w.must(w.Destroy("web-0"))
		p.until("the destroyed VM is gone", func() bool { return len(p.state(vm.MoRef).Gone) == 1 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("the destroyed VM was gone after %s; want at most 1s", took)
		}
		if p.notified(web.UID) == notified {
			t.Error("the group was not notified of the destroyed VM")
		}
	})
}

func TestAPowerOffByAnOperatorIsSeenWithinASecond(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		p.do(actionOn(plan.PowerOn, vm))
		began := time.Now()
		w.must(w.PowerOff("web-0"))
		p.until("the member is seen to be off", func() bool { return p.state().VMs[0].Power == plan.PoweredOff })
		if took := time.Since(began); took > time.Second {
			t.Errorf("the power-off was seen after %s; want at most 1s", took)
		}
	})
}

func TestABulkReadDropsDestroyedVMsAndReadsTheOthers(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		dead := []vim.ManagedObjectReference{inventory.VMRef("vm-100001"), inventory.VMRef("vm-100002"), inventory.VMRef("vm-100003")}
		must.Succeed(t, p.reader.Read(context.Background(), append(dead, inventory.VMRef(vm.MoRef), w.Unmanaged)...))
		for _, ref := range dead {
			if !p.inventory.IsGone(ref.Value) {
				t.Errorf("%s is not known to be gone", ref.Value)
			}
		}
		if s := p.state(vm.MoRef); len(s.VMs) != 1 || len(s.Gone)+len(s.Vanished) != 0 {
			t.Fatalf("got the state %+v; want one VM, and none gone or vanished", s)
		}
	})
}

func TestAnUnknownRecordedMemberIsReadAndVCentersEventsAreQueried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newWorld(t).start()
		if s := p.state("vm-100001"); len(s.Gone) != 0 || len(s.Vanished) != 1 || s.Vanished[0].How != "" {
			t.Fatalf("got the state %+v; want none gone, and one vanished VM whose cause is unknown before the read", s)
		}
		p.until("the cause of the VM's vanishing is known", func() bool { s := p.state("vm-100001"); return len(s.Vanished) == 1 && s.Vanished[0].How != "" })
		if s := p.state("vm-100001"); len(s.Gone) != 0 || p.notified(web.UID) < 2 {
			t.Errorf("%v are gone, and the group was notified %d times; want none gone, and at least 2", s.Gone, p.notified(web.UID))
		}
	})
}

// The stream does not show a change that was reverted before its read.
func TestAPowerOnThatIsUndoneAtOnceIsSeenAsUndone(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		for range 5 {
			p.do(actionOn(plan.PowerOn, vm))
			w.must(w.PowerOff("web-0"))
			vctest.Eventually(t, "the member is seen to be off", func() bool { return p.state().VMs[0].Power == plan.PoweredOff })
		}
	})
}

// From a session that has ended the server must not conclude that members are unreachable or gone.
func TestAReadWithoutASessionFailsAndReportsNoObject(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent=%t", silent), func(t *testing.T) { readsWithoutASession(t, silent) })
	}
}

func readsWithoutASession(t *testing.T, silent bool) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.member(0)
		if silent {
			w.EmptyReadsWithoutSession()
		}
		s, err := p.client.Session(context.Background())
		must.Succeed(t, err)
		w.DropSessions()
		for _, refs := range [][]vim.ManagedObjectReference{{inventory.VMRef(vm.MoRef)}, {inventory.VMRef(vm.MoRef), w.Unmanaged}} {
			if objects, err := session.Retrieve(context.Background(), s, whole(refs)); !vcfault.NotAuthenticated(err) {
				t.Errorf("got the error %v, and the objects %+v; want that the session is not authenticated", err, objects)
			}
		}
		if running, err := tasks.Clones(context.Background(), s); !vcfault.NotAuthenticated(err) {
			t.Errorf("got the running clones %v, and the error %v; want that the session is not authenticated", running, err)
		}
		if err := p.reader.Read(context.Background(), inventory.VMRef(vm.MoRef)); err != nil || !p.state().VMs[0].Reachable {
			t.Errorf("got the error %v, and the members %+v; want the first one reachable", err, p.state().VMs)
		}
	})
}

// whole is a filter of two properties of VMs.
func whole(refs []vim.ManagedObjectReference) vim.PropertyFilterSpec {
	spec := vim.PropertyFilterSpec{PropSet: []vim.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"name", "config.instanceUuid"}}}}
	for _, ref := range refs {
		spec.ObjectSet = append(spec.ObjectSet, vim.ObjectSpec{Obj: ref})
	}
	return spec
}
