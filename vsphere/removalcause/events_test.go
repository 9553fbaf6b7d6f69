package removalcause

import (
	"math"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// event fills in what the events of these tests share: they are about web-0 (vm-7) on esx-1, at noon, and by alice.
func event(key int32, e types.BaseEvent) types.BaseEvent {
	*e.GetEvent() = types.Event{Key: key, ChainId: 100, CreatedTime: noon, UserName: "alice",
		Vm:   &types.VmEventArgument{Vm: inventory.VMRef("vm-7"), EntityEventArgument: types.EntityEventArgument{Name: "web-0"}},
		Host: &types.HostEventArgument{EntityEventArgument: types.EntityEventArgument{Name: "esx-1"}}}
	return e
}

// task returns the event of a task of this kind, such as VirtualMachine.destroy.
func task(kind string) types.BaseEvent {
	return event(1, &types.TaskEvent{Info: types.TaskInfo{DescriptionId: kind}})
}

func TestWhatTheEventsOfAChainMean(t *testing.T) {
	removed := event(2, &types.VmRemovedEvent{})
	for _, c := range []struct {
		event     types.BaseEvent
		chain     []types.BaseEvent
		destroyed bool
		how       string
	}{
		{removed, []types.BaseEvent{task("VirtualMachine.destroy"), removed}, true, "it was destroyed by alice"},
		{removed, []types.BaseEvent{task("Folder.destroy"), removed}, true, "it was destroyed by alice"},
		{removed, []types.BaseEvent{task("VirtualApp.destroy"), removed}, true, "it was destroyed by alice"},
		{removed, []types.BaseEvent{task("VirtualMachine.unregister"), removed}, false, "it was unregistered by alice"},
		{removed, []types.BaseEvent{task("HostSystem.destroy"), event(3, &types.HostRemovedEvent{})}, false, "its host esx-1 was removed from the inventory by alice"},
		{removed, []types.BaseEvent{task("ClusterComputeResource.destroy"), removed}, false, "it was removed from the inventory by alice (ClusterComputeResource.destroy)"},
		{removed, []types.BaseEvent{task("Folder.unregisterAndDestroy")}, false, "it was removed from the inventory by alice (Folder.unregisterAndDestroy)"},
		{removed, nil, false, "it was removed from the inventory by alice"},
		{event(2, &types.EventEx{EventTypeId: migrated}), nil, false, "it was migrated to another vCenter by alice"},
		{event(2, &types.HostRemovedEvent{}), nil, false, "its host esx-1 was removed from the inventory by alice"},
	} {
		if got := read(c.event, c.chain, &session.Session{User: "bob"}); got.Destroyed != c.destroyed || got.How != c.how || c.destroyed && got.By != (plan.Actor{User: "alice"}) {
			t.Errorf("%T: got the cause %+v; want %q, and that alice destroyed the VM: %t", c.event, got, c.how, c.destroyed)
		}
	}
	if got := read(removed, []types.BaseEvent{task("VirtualMachine.destroy")}, &session.Session{User: "Alice"}); !got.By.Ours {
		t.Errorf("got the cause %+v; want a destruction by the server's own account, in whatever case", got)
	}
}

func TestTheLastEventOfAVMCountsAndItsOwnBeforeItsHosts(t *testing.T) {
	m := inventory.Missing{Vanished: plan.Vanished{MoRef: "vm-7", Name: "web-0"}, Host: "esx-1", SeenAt: noon}
	own, host := event(2, &types.VmRemovedEvent{}), event(9, &types.HostRemovedEvent{})
	other := event(8, &types.VmRemovedEvent{})
	other.GetEvent().Vm.Name = "other" // a VM that got the moRef after vCenter was restored from a backup
	early := event(7, &types.HostRemovedEvent{})
	early.GetEvent().CreatedTime = noon.Add(-time.Hour)
	cloned := event(10, &types.VmDeployedEvent{})
	for i, c := range []struct {
		events []types.BaseEvent
		want   types.BaseEvent
	}{
		{[]types.BaseEvent{host, own}, own},
		{[]types.BaseEvent{own, host}, own},
		{[]types.BaseEvent{host}, host},
		{[]types.BaseEvent{early}, nil},
		{[]types.BaseEvent{other}, nil},
		{[]types.BaseEvent{own, event(5, &types.EventEx{EventTypeId: migrated})}, nil},
		{nil, nil},
		{[]types.BaseEvent{cloned, own, host}, nil}, // from before the VM was made
		{[]types.BaseEvent{cloned, event(12, &types.VmRemovedEvent{}), host}, nil},
	} {
		if i == 8 {
			c.want = c.events[1]
		}
		got := lastOf(c.events, m)
		if i == 5 {
			if _, is := got.(*types.EventEx); !is {
				t.Errorf("case %d: got the event %+v; want the EventEx of the migration", i, got)
			}
		} else if got != c.want {
			t.Errorf("case %d: got the event %+v; want %+v", i, got, c.want)
		}
	}
}

// The arrival of the VM that has the moRef now says nothing about the one that had it before. A VM with the moRef and the stamp may be the member.
func TestAVMThatHasTheMoRefOfAnotherSaysNothingAboutItsRemoval(t *testing.T) {
	m := inventory.Missing{Vanished: plan.Vanished{MoRef: "vm-7", Name: "web-0"}, Host: "esx-1", SeenAt: noon, Reused: true}
	own, other := event(2, &types.VmRemovedEvent{}), event(3, &types.VmCreatedEvent{})
	other.GetEvent().Vm.Name = "other"
	if got := lastOf([]types.BaseEvent{own, other}, m); got != own {
		t.Errorf("got the event %+v; want the removal", got)
	}
	m.Copied = true
	if got := lastOf([]types.BaseEvent{own, other, event(4, &types.HostRemovedEvent{})}, m); got != nil {
		t.Errorf("got the event %+v of a VM that is there", got)
	}
}

// Keys are int32. After the largest key, vCenter continues with the most negative one (vcenter-event-broker-appliance#809).
func TestEventKeysThatOverflowKeepTheirOrder(t *testing.T) {
	m := inventory.Missing{Vanished: plan.Vanished{MoRef: "vm-7", Name: "web-0"}, SeenAt: noon}
	first, second := event(math.MaxInt32, &types.VmRemovedEvent{}), event(math.MinInt32, &types.VmRemovedEvent{})
	for _, later := range []time.Duration{0, time.Second, -time.Microsecond} { // vCenter stores times in milliseconds, and often a microsecond too early
		second.GetEvent().CreatedTime = noon.Add(later)
		for _, events := range [][]types.BaseEvent{{first, second}, {second, first}} {
			if got := lastOf(events, m); got != second {
				t.Errorf("with the second event %s after the first, got %+v; want the second", later, got)
			}
		}
	}
}
