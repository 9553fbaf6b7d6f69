package tasks

import (
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// recentOf are the properties that show a recent task's kind, user, object and state. vCenter may have hundreds of recent tasks, and the
// whole info of each, with its result and error, is several times as large.
func recentOf(info *types.TaskInfo) session.Properties {
	return session.Properties{
		session.To(taskState, &info.State),
		session.To(taskKind, &info.DescriptionId),
		session.Taking(taskReason, func(v types.TaskReasonUser) { info.Reason = &v }),
		session.Taking(taskEntity, func(v types.ManagedObjectReference) { info.Entity = &v }),
		session.To(taskParent, &info.ParentTaskKey),
	}
}

// Recent returns vCenter's recent tasks, as far as the account can see them, with their keys, states, descriptions, reasons, entities and
// parents.
func Recent(ctx context.Context, s *session.Session) ([]types.TaskInfo, error) {
	objects, err := session.ReadObjects(ctx, s, RecentSpec(s))
	return infosOf(objects), err
}

// Clones returns the clones of the server's account that are queued or running.
func Clones(ctx context.Context, s *session.Session) (running []string, err error) {
	objects, err := session.ReadObjects(ctx, s, RecentSpec(s))
	return ClonesIn(objects, s.User), err
}

// RecentSpec reads what ClonesIn needs of vCenter's recent tasks.
func RecentSpec(s *session.Session) types.PropertyFilterSpec {
	return types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: *s.Vim.ServiceContent.TaskManager, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "TaskManager", Path: "recentTask"}}}},
		PropSet: []types.PropertySpec{{Type: "Task", PathSet: recentOf(new(types.TaskInfo)).Paths()}},
	}
}

// infosOf returns the tasks among objects.
func infosOf(objects []session.Object) (infos []types.TaskInfo) {
	for _, o := range objects {
		info := types.TaskInfo{Task: o.Ref}
		if o.Into(recentOf(&info)); info.State != "" {
			infos = append(infos, info)
		}
	}
	return infos
}

// ClonesIn returns the clones of that user that are queued or running, among objects that RecentSpec has read.
func ClonesIn(objects []session.Object, user string) (running []string) {
	infos := infosOf(objects)
	for i := range infos {
		if Cloning(&infos[i], user) {
			running = append(running, infos[i].Task.Value)
		}
	}
	return running
}

// Unfinished reports whether a task is queued or running.
func Unfinished(info *types.TaskInfo) bool {
	return info.State == types.TaskInfoStateQueued || info.State == types.TaskInfoStateRunning
}

// clone is the kind of the task of CloneVM_Task.
const clone = "VirtualMachine.clone"

// Cloning reports whether a task is an unfinished clone of that user: "VirtualMachine.clone" in vCenter,
// "VirtualMachine.cloneVm" in its simulator.
func Cloning(info *types.TaskInfo, user string) bool {
	if info.DescriptionId != clone && info.DescriptionId != "VirtualMachine.cloneVm" {
		return false
	}
	if !Unfinished(info) {
		return false
	}
	return ByUser(info, user)
}

// ByUser reports whether a task is that user's.
func ByUser(info *types.TaskInfo, user string) bool {
	reason, is := info.Reason.(*types.TaskReasonUser)
	return is && strings.EqualFold(reason.UserName, user)
}

// The kinds of tasks that take a VM down, and that power it on, by TaskInfo.descriptionId: all are in the list of a recorded vCenter 8.0.1, and
// in govmomi's capture of another, simulator/vpx/task_manager.go. Datacenter.PowerOnMultiVM_Task is Datacenter.powerOnVm, whose entity is the
// datacenter (testdata/recorded, of 2022), and begins a Datacenter.ExecuteVmPowerOnLRO for each VM (recorded in 2015,
// ManageIQ/integration_tests), whose entity is the VM. Drm.ExecuteVmPowerOnLRO is a power-on of a VM to a driver of OpenStack's nova.
var (
	TakingDown = []string{"VirtualMachine.powerOff", "VirtualMachine.destroy"}
	PoweringOn = []string{"VirtualMachine.powerOn", "Datacenter.powerOnVm", "Datacenter.ExecuteVmPowerOnLRO", "Drm.ExecuteVmPowerOnLRO"}
)

// Of returns the unfinished tasks of those kinds that change a VM, or may change it: a task of the VM's datacenter does not name the VMs that it
// powers on. They are known when it has begun a task for each VM, so Of returns it only before, and only if it is that user's; undecided reports
// whether it returned one.
func Of(infos []types.TaskInfo, vm types.ManagedObjectReference, user string, kinds ...string) (of []types.ManagedObjectReference, undecided bool) {
	parents := map[string]bool{}
	for i := range infos {
		parents[infos[i].ParentTaskKey] = true
	}
	for i := range infos {
		info := &infos[i]
		if info.Entity == nil || !Unfinished(info) || !slices.Contains(kinds, info.DescriptionId) {
			continue
		}
		unsaid := info.Entity.Type == "Datacenter" && ByUser(info, user) && !parents[info.Task.Value]
		if unsaid || *info.Entity == vm {
			of, undecided = append(of, info.Task), undecided || unsaid
		}
	}
	return of, undecided
}
