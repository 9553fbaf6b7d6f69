package vsphere

import (
	"context"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// recentTasks are those that vCenter lists of all that our user may see.
func recentTasks(ctx context.Context, s *session.Session) ([]types.TaskInfo, error) {
	objects, err := session.ReadObjects(ctx, s, types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: *s.Vim.ServiceContent.TaskManager, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "TaskManager", Path: "recentTask"}}}},
		PropSet: []types.PropertySpec{{Type: "Task", PathSet: []string{"info"}}},
	})
	var infos []types.TaskInfo
	for _, o := range objects {
		if info, is := session.LookUp[types.TaskInfo](o, "info"); is {
			info.Task = o.Ref
			infos = append(infos, info)
		}
	}
	return infos, err
}

// CloneTasks are the clones of our user that are queued or running.
func CloneTasks(ctx context.Context, s *session.Session) (running []string, err error) {
	infos, err := recentTasks(ctx, s)
	for i := range infos {
		if cloning(&infos[i], s.User) {
			running = append(running, infos[i].Task.Value)
		}
	}
	return running, err
}

func unfinished(info *types.TaskInfo) bool {
	return info.State == types.TaskInfoStateQueued || info.State == types.TaskInfoStateRunning
}

// cloning reports whether a task is an unfinished clone of that user: "VirtualMachine.clone" in vCenter,
// "VirtualMachine.cloneVm" in its simulator.
func cloning(info *types.TaskInfo, user string) bool {
	if info.DescriptionId != "VirtualMachine.clone" && info.DescriptionId != "VirtualMachine.cloneVm" {
		return false
	}
	if !unfinished(info) {
		return false
	}
	reason, is := info.Reason.(*types.TaskReasonUser)
	return is && strings.EqualFold(reason.UserName, user)
}

// awaitPower waits for tasks of a VM that are under way and change its power, and reads it then. Another replica
// may have begun one before this one marked the VM, or took the mark off; until it has ended the VM shows as it was.
func (v *VCenter) awaitPower(ctx context.Context, vm types.ManagedObjectReference, what string) error {
	var under []types.ManagedObjectReference
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		infos, err := recentTasks(ctx, s)
		under = nil
		for i := range infos {
			if info := &infos[i]; info.Entity != nil && *info.Entity == vm && info.DescriptionId == what && unfinished(info) {
				under = append(under, info.Task)
			}
		}
		return err
	})
	if err != nil || len(under) == 0 {
		return err
	}
	for _, task := range under {
		_, _ = v.tasks.Wait(ctx, task) // how it ended is the other's matter: the read tells
	}
	return v.reader.Read(ctx, vm)
}
