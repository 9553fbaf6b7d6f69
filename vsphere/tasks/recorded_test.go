package tasks

import (
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest/recorded"
)

func TestTheKindsOfTasksAreThoseOfARecordedVCenter(t *testing.T) {
	kinds := recorded.TaskKinds(t)
	if len(kinds) < 2000 {
		t.Fatalf("the recorded vCenter has %d kinds of tasks; want at least 2000", len(kinds))
	}
	ours := slices.Concat(TakingDown, PoweringOn, []string{clone})
	for _, k := range []vcsim.Kind{vcsim.Clone, vcsim.PowerOn, vcsim.PowerOff, vcsim.Reset, vcsim.Reconfigure, vcsim.Rename, vcsim.Destroy,
		vcsim.Relocate, vcsim.Upgrade, vcsim.CreateVM, vcsim.RegisterVM, vcsim.MoveInto, vcsim.RenameFolder, vcsim.DestroyFolder,
		vcsim.UnregisterAndDestroy, vcsim.RemoveSnapshots, vcsim.ImportVApp, vcsim.ReconfigureCluster, vcsim.PowerOnMulti, vcsim.PowerOnByDRS,
		vcsim.CreateDisk, vcsim.ExtendDisk, vcsim.DeleteDisk, vcsim.UpdateDiskMetadata} {
		ours = append(ours, string(k))
	}
	for _, k := range ours {
		if !slices.Contains(kinds, k) {
			t.Errorf("the recorded vCenter has no kind of task %s", k)
		}
	}
}

// The test builds the task of PowerOnMultiVM_Task from the event that ManageIQ recorded of such a task. The tasks of VMs are its children.
func TestADatacentersTaskConcernsAVMUntilItsTasksAreKnown(t *testing.T) {
	event, is := recorded.Event(t, "manageiq/events/TaskEvent-PowerOnMultiVM.yml", "").(*types.TaskEvent)
	if !is || event.Info.Name != "PowerOnMultiVM_Task" || event.Info.Entity.Type != "Datacenter" {
		t.Fatalf("the event is %+v, want a TaskEvent of PowerOnMultiVM_Task of a datacenter", event)
	}
	many := event.Info
	vm, other := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-1"}, types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-2"}
	below := func(kind string, of types.ManagedObjectReference, state types.TaskInfoState) types.TaskInfo {
		return types.TaskInfo{Task: types.ManagedObjectReference{Type: "Task", Value: "task-1"}, DescriptionId: kind, Entity: &of, State: state, Reason: many.Reason,
			ParentTaskKey: many.Key}
	}
	for _, c := range []struct {
		name      string
		infos     []types.TaskInfo
		user      string
		of        []string
		undecided bool
	}{
		{"of our user", []types.TaskInfo{many}, "ROOT", []string{many.Key}, true},
		{"of another user", []types.TaskInfo{many}, "vmgroup", nil, false},
		{"it is of this VM", []types.TaskInfo{many, below("Datacenter.ExecuteVmPowerOnLRO", vm, types.TaskInfoStateRunning)}, "root", []string{"task-1"}, false},
		{"and DRS's", []types.TaskInfo{many, below("Drm.ExecuteVmPowerOnLRO", vm, types.TaskInfoStateQueued)}, "root", []string{"task-1"}, false},
		{"of another VM", []types.TaskInfo{many, below("Datacenter.ExecuteVmPowerOnLRO", other, types.TaskInfoStateRunning)}, "root", nil, false},
		{"of another VM, which is on", []types.TaskInfo{many, below("Datacenter.ExecuteVmPowerOnLRO", other, types.TaskInfoStateSuccess)}, "root", nil, false},
		{"another's, of this VM", []types.TaskInfo{below("VirtualMachine.powerOn", vm, types.TaskInfoStateRunning)}, "vmgroup", []string{"task-1"}, false},
		{"it has ended", []types.TaskInfo{below("VirtualMachine.powerOn", vm, types.TaskInfoStateError)}, "root", nil, false},
	} {
		refs, undecided := Of(c.infos, vm, c.user, PoweringOn...)
		var of []string
		for _, ref := range refs {
			of = append(of, ref.Value)
		}
		if !slices.Equal(of, c.of) || undecided != c.undecided {
			t.Errorf("%s: %v %t, not %v %t", c.name, of, undecided, c.of, c.undecided)
		}
	}
	if of, _ := Of([]types.TaskInfo{many}, vm, "root", TakingDown...); of != nil {
		t.Errorf("the power-on of several VMs counts as a task that takes one down: %v", of)
	}
	off := recorded.Event(t, "manageiq/events/TaskEvent-power-off.yml", "").(*types.TaskEvent).Info
	if of, undecided := Of([]types.TaskInfo{off}, *off.Entity, "", TakingDown...); len(of) != 1 || undecided {
		t.Errorf("a power-off of the VM: %v, %t", of, undecided)
	}
}

// Tasks of extensions and schedules have no user name, and the case of an account's domain differs from task to task.
func TestRecordedTasksAreOfUsersInAnyCaseAndNoClones(t *testing.T) {
	var body methods.ReadNextTasksBody
	recorded.Body(t, "pyvmomi/tasks/ReadNextTasks-with-extensions.xml", &body)
	users := 0
	for _, info := range body.Res.Returnval {
		if info.DescriptionId == "" || info.Entity == nil || Cloning(&info, "x") {
			t.Errorf("the task is %+v, want a description and an entity, and no clone", info)
		}
		if reason, is := info.Reason.(*types.TaskReasonUser); is {
			if users++; !ByUser(&info, strings.ToUpper(reason.UserName)) || !ByUser(&info, strings.ToLower(reason.UserName)) {
				t.Errorf("ByUser is false for %s in upper or lower case; want true", reason.UserName)
			}
		} else if ByUser(&info, "") {
			t.Errorf("ByUser is true for the empty name and the task %+v of no user; want false", info)
		}
	}
	if users == 0 || users == len(body.Res.Returnval) {
		t.Errorf("%d of %d tasks are users'", users, len(body.Res.Returnval))
	}
}
