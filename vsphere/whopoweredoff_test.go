package vsphere

import (
	"context"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	pieces "codeconnect.vmworld.com/vmgroup/vsphere/vctest/recorded"
)

func TestVCentersEventsNameWhoPoweredOffAVM(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		p.do(plan.Action{Op: plan.CreateFolder})
		p.do(p.cloning(0))
		p.do(p.cloning(1))
		ctx, vms := context.Background(), p.state().VMs
		admin := object.NewVirtualMachine(w.Admin().Client, inventory.VMRef(vms[0].MoRef))
		for _, do := range []func(context.Context) (*object.Task, error){admin.PowerOn, admin.PowerOff} {
			task, err := do(ctx)
			w.Must(err)
			w.Must(task.Wait(ctx))
		}
		if who, err := p.Who(ctx, []string{vms[0].MoRef, vms[1].MoRef}); err != nil || len(who) != 1 || who[vms[0].MoRef].User == "" || who[vms[0].MoRef].Ours {
			t.Errorf("the VMs were powered off by %v, with the error %v; want one, by an account that is not the server's", who, err)
		}
		if who, err := p.Who(ctx, []string{"vm-none"}); err != nil || who["vm-none"].User != "" {
			t.Errorf("the VM that was never powered off was powered off by %v, with the error %v; want no account", who, err)
		}
		calls, began := w.Calls()["CreateCollectorForEvents"], time.Now()
		for _, of := range []string{vms[0].MoRef, "vm-1", "vm-2", "vm-3"} {
			if _, err := p.Who(ctx, []string{of}); err != nil {
				t.Error(err)
			}
		}
		if n := w.Calls()["CreateCollectorForEvents"] - calls; n != 3 || time.Since(began) < 3*time.Second-time.Millisecond {
			t.Errorf("%d calls in %s for one VM that is known and three that are not", n, time.Since(began))
		}
	})
}

// A host names the user "User" if it knows no account. Such an event must not replace the account of an earlier event.
func TestAPowerOffThatNoAccountDidHasNoActor(t *testing.T) {
	off := pieces.Event(t, "veba/events/VmPoweredOffEvent.json", "VmPoweredOffEvent")
	vm, user := off.GetEvent().Vm.Vm.Value, off.GetEvent().UserName
	by := newPoweredOff(&session.Session{User: `vsphere.local\administrator`})
	if by.note(off); by.who[vm] != (plan.Actor{User: user, Ours: true}) {
		t.Errorf("got the accounts %+v; want the server's own", by.who)
	}
	host := &vim.VmPoweredOffEvent{}
	host.Event = *off.GetEvent()
	host.UserName = "User"
	by = newPoweredOff(&session.Session{User: "User"})
	if by.note(host); len(by.who) != 0 {
		t.Errorf("got the accounts %+v; want none", by.who)
	}
}

// vCenter stores the times of events in milliseconds, often one microsecond short.
func TestOfTwoPowerOffsInOneMillisecondTheLaterOneCounts(t *testing.T) {
	by, at := newPoweredOff(&session.Session{User: "vmgroup"}), time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, e := range []struct {
		user string
		at   time.Time
	}{{"alice", at}, {"bob", at.Add(-time.Microsecond)}} {
		by.note(&vim.VmPoweredOffEvent{VmEvent: vim.VmEvent{Event: vim.Event{UserName: e.user, CreatedTime: e.at, Vm: &vim.VmEventArgument{Vm: inventory.VMRef("vm-1")}}}})
	}
	if by.who["vm-1"].User != "bob" {
		t.Errorf("got the accounts %+v; want bob for vm-1", by.who)
	}
}

// A host names "User" in its event of a guest that shut itself down.
func TestAGuestsShutdownIsNoOperatorsPowerOff(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		vm := p.running(0, true)
		w.Must(object.NewVirtualMachine(w.Admin().Client, inventory.VMRef(vm.MoRef)).ShutdownGuest(t.Context()))
		p.until("the member is seen to be off", func() bool { return p.vm(vm.MoRef).Power == plan.PoweredOff })
		if who, err := p.Who(t.Context(), []string{vm.MoRef}); err != nil || len(who) != 0 {
			t.Errorf("the VM was powered off by %v, with the error %v; want no account: the guest shut itself down", who, err)
		}
	})
}
