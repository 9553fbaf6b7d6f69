package removalcause

import (
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest/recorded"
)

// A destroyed VM has a VmRemovedEvent in the chain of the task's event. A TaskEvent's chain is its own key.
func TestARecordedRemovalIsReadWithTheTaskOfItsChain(t *testing.T) {
	removed := recorded.Event(t, "veba/events/VmRemovedEvent.json", "VmRemovedEvent")
	task := recorded.Event(t, "manageiq/events/TaskEvent-destroy.yml", "").(*types.TaskEvent)
	if e := removed.GetEvent(); e.ChainId == e.Key || e.ChainId == 0 {
		t.Errorf("the event of the removal is in the chain of another: key %d, chain %d", e.Key, e.ChainId)
	}
	if task.ChainId != task.Key || task.Info.EventChainId != 0 || task.Info.State != types.TaskInfoStateQueued {
		t.Errorf("a TaskEvent is the first of its chain, and its info is as of before: %+v", task)
	}
	var m inventory.Missing
	m.MoRef, m.Name = removed.GetEvent().Vm.Vm.Value, removed.GetEvent().Vm.Name
	if lastOf([]types.BaseEvent{task, removed}, m) != removed {
		t.Error("it is not found by moRef and name")
	}
	c := read(removed, []types.BaseEvent{task, removed}, `vsphere.local\USER3`)
	if !c.Destroyed || !c.By.Ours || c.By.User != `VSPHERE.LOCAL\user3` || c.How != `it was destroyed by VSPHERE.LOCAL\user3` {
		t.Errorf("the cause is %+v, want a destruction by the server's account", c)
	}
	folder := recorded.Event(t, "veba/events/TaskEvent-Folder.unregisterAndDestroy.json", "TaskEvent")
	if c := read(removed, []types.BaseEvent{folder}, "x"); c.Destroyed || !strings.Contains(c.How, "Folder.unregisterAndDestroy") {
		t.Errorf("its folder was unregistered: %+v", c)
	}
}

func TestTheTasksThatDestroyVMsAreThoseOfARecordedVCenter(t *testing.T) {
	for _, kind := range slices.Concat(destroys, []string{"VirtualMachine.unregister"}) {
		if !slices.Contains(recorded.TaskKinds(t), kind) {
			t.Errorf("no vCenter calls a task %s", kind)
		}
	}
}

// Events of hosts name "User", and those of vSphere HA the empty name. Neither is an account.
func TestAnEventOfAHostNamesNoAccount(t *testing.T) {
	removed := event(2, &types.VmRemovedEvent{})
	for _, name := range []string{"User", ""} {
		removed.GetEvent().UserName = name
		if c := read(removed, []types.BaseEvent{task("VirtualMachine.destroy")}, name); c.By.User != "" || c.By.Ours || c.How != "it was destroyed" {
			t.Errorf("%q: %+v", name, c)
		}
	}
	if e := recorded.Event(t, "manageiq/events/EventEx-ha-vm-unprotected.yml", "").GetEvent(); session.UserOf(e) != "" {
		t.Errorf("vSphere HA is no account: %+v", e)
	}
}
