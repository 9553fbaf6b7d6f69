package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// awaitPower waits for the running tasks that change a VM's power, and then reads it. Another replica
// may have begun one before this one set or withdrew the VM's mark; until it ends, the VM's state shows nothing of it. A datacenter's
// task that powers VMs on does not say which, so awaitPower waits for each one of our user, and then for tasks of the VM that it began.
func (v *VCenter) awaitPower(ctx context.Context, vm types.ManagedObjectReference, kinds ...string) error {
	for range 2 {
		var under []types.ManagedObjectReference
		many := false
		err := v.Call(ctx, func(ctx context.Context, s *session.Session) error {
			infos, err := tasks.Recent(ctx, s)
			under, many = nil, false
			for i := range infos {
				info := &infos[i]
				if !tasks.Unfinished(info) || !slices.Contains(kinds, info.DescriptionId) {
					continue
				}
				of := info.DescriptionId == tasks.PoweringOnMany && tasks.ByUser(info, s.User)
				if many = many || of; of || info.Entity != nil && *info.Entity == vm {
					under = append(under, info.Task)
				}
			}
			return err
		})
		if err != nil || len(under) == 0 {
			return err
		}
		for _, task := range under {
			_, _ = v.tasks.Wait(ctx, task, "") // its result does not matter here: the read tells
		}
		if err := v.reader.Read(ctx, vm); err != nil || !many {
			return err
		}
	}
	return nil
}
