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
		t.Errorf("the removal's event has the key %d and the chain %d; want the chain of another event", e.Key, e.ChainId)
	}
	if task.ChainId != task.Key || task.Info.EventChainId != 0 || task.Info.State != types.TaskInfoStateQueued {
		t.Errorf("got the TaskEvent %+v; want the first of its chain, with the info from before the task ran", task)
	}
	var m inventory.Missing
	m.MoRef, m.Name = removed.GetEvent().Vm.Vm.Value, removed.GetEvent().Vm.Name
	if lastOf([]types.BaseEvent{task, removed}, m) != removed {
		t.Error("lastOf does not find the removal's event by moRef and name")
	}
	c := read(removed, []types.BaseEvent{task, removed}, &session.Session{User: `vsphere.local\USER3`})
	if !c.Destroyed || !c.By.Ours || c.By.User != `VSPHERE.LOCAL\user3` || c.How != `it was destroyed by VSPHERE.LOCAL\user3` {
		t.Errorf("the cause is %+v, want a destruction by the server's account", c)
	}
	folder := recorded.Event(t, "veba/events/TaskEvent-Folder.unregisterAndDestroy.json", "TaskEvent")
	if c := read(removed, []types.BaseEvent{folder}, &session.Session{User: "x"}); c.Destroyed || !strings.Contains(c.How, "Folder.unregisterAndDestroy") {
		t.Errorf("after the folder was unregistered, the cause is %+v; want no destruction, and the task's kind", c)
	}
}

func TestTheTasksThatDestroyVMsAreThoseOfARecordedVCenter(t *testing.T) {
	for _, kind := range slices.Concat(destroys, []string{"VirtualMachine.unregister"}) {
		if !slices.Contains(recorded.TaskKinds(t), kind) {
			t.Errorf("the recorded vCenter has no kind of task %s", kind)
		}
	}
}

// Events of hosts have the user name "User", and those of vSphere HA the empty one. Neither is an account.
func TestAnEventOfAHostNamesNoAccount(t *testing.T) {
	removed := event(2, &types.VmRemovedEvent{})
	for _, name := range []string{"User", ""} {
		removed.GetEvent().UserName = name
		if c := read(removed, []types.BaseEvent{task("VirtualMachine.destroy")}, &session.Session{User: name}); c.By.User != "" || c.By.Ours || c.How != "it was destroyed" {
			t.Errorf("with the user name %q, the cause is %+v; want a destruction by no account", name, c)
		}
	}
	if e := recorded.Event(t, "manageiq/events/EventEx-ha-vm-unprotected.yml", "").GetEvent(); session.UserOf(e) != "" {
		t.Errorf("got an account from the event %+v of vSphere HA; want none", e)
	}
}
