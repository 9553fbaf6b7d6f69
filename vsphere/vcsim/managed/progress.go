package managed

import "github.com/vmware/govmomi/vim25/types"

// SetProgress sets the progress in percent and the state of a task of BeginTask.
func (v *Objects) SetProgress(task types.ManagedObjectReference, percent int32, state types.TaskInfoState) {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.world.Context()
	if j, ok := v.objects.Get(task).(*job); ok {
		v.objects.WithLock(ctx, task, func() {
			v.objects.Update(ctx, j, []types.PropertyChange{{Name: "info.progress", Val: percent}, {Name: "info.state", Val: state}})
		})
	}
}
