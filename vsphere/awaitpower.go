package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// awaitPower waits for tasks of a VM that are under way and change its power, and reads it then. Another replica
// may have begun one before this one marked the VM, or took the mark off; until it has ended the VM shows as it was. A datacenter's task
// that powers VMs on does not say which; so each of our user's is awaited, and then those of the VM that it may have begun.
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
			_, _ = v.tasks.Wait(ctx, task) // how it ended is the other's matter: the read tells
		}
		if err := v.reader.Read(ctx, vm); err != nil || !many {
			return err
		}
	}
	return nil
}
