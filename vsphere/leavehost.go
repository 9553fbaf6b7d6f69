// This file moves a member that is off, and that DRS does not place, away from a host that can't run it.

package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// mayBeHostsState reports whether the state of a VM's host may be why vCenter refused to power the VM on.
func mayBeHostsState(err error) bool {
	return vcfault.Has[types.BaseInvalidState](err) && !vcfault.Has[*types.InvalidPowerState](err)
}

// leaveHost moves a member that is off to another host of its cluster, if its own is in maintenance mode or in standby, and the other can run it: it has
// the member's datastores and networks. moved is false if there is none. Without DRS, vCenter would leave the member there: the server chose its host, or
// vCenter did because none could run it, when the member was cloned.
func (p power) leaveHost(ctx context.Context, m *inventory.Member) (moved bool, err error) {
	cluster, known := p.inventory.UnplacedClusterOf(m.HostRef)
	if !known {
		return false, nil
	}
	var to *types.ManagedObjectReference
	err = p.Call(ctx, func(ctx context.Context, s *session.Session) error {
		var now refused
		if err := now.read(ctx, s, p.vm()); err != nil || !now.maintained && now.standby != string(types.HostStandbyModeIn) {
			return err
		}
		var datastores, networks []types.ManagedObjectReference
		if _, err := session.ReadProps(ctx, s, p.vm(), session.Refs("datastore", &datastores), session.Refs("network", &networks)); err != nil {
			return err
		}
		all, err := hosts.Read(ctx, s, types.ManagedObjectReference{Type: "ClusterComputeResource", Value: cluster})
		all = slices.DeleteFunc(all, func(h hosts.Host) bool { return h.Ref.Value == m.HostRef || !h.Mounts(datastores) })
		to = p.capacity.Choose(all, p.inventory.MembersByHost(p.ref.UID), nil, networks)
		return err
	})
	if err != nil || to == nil {
		return false, err
	}
	_, err = p.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.RelocateVM_Task(ctx, s.Vim, &types.RelocateVM_Task{This: p.vm(), Spec: types.VirtualMachineRelocateSpec{Host: to}})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return err == nil, err
}
