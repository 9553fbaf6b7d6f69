// This file writes a member's stamp.

package vsphere

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// restamp changes a member's stamp to record what the running step did, or to revert that record, and reads the member. It fails if the VM has
// changed since it was read. It needs no lease, because the record is true whichever replica acts next.
func (c calls) restamp(ctx context.Context, m *inventory.Member, change func(*stamp.Stamp)) error {
	stamp := m.Stamp
	change(&stamp)
	return c.withoutLease().writeStamp(ctx, m.MoRef, m.ChangeVersion, stamp.Encode())
}

// writeStamp sets the text of a VM's stamp; "" removes it.
func (c calls) writeStamp(ctx context.Context, moRef, changeVersion, text string) error {
	return c.writeStampAnd(ctx, moRef, changeVersion, text, types.VirtualMachineConfigSpec{})
}

// writeStampAnd sets the text of a VM's stamp together with other changes of its configuration, in one task.
func (c calls) writeStampAnd(ctx context.Context, moRef, changeVersion, text string, config types.VirtualMachineConfigSpec) error {
	config.ChangeVersion = changeVersion
	config.ExtraConfig = append([]types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: text}}, config.ExtraConfig...)
	if err := c.reconfigure(ctx, inventory.VMRef(moRef), config); err != nil {
		return err
	}
	return c.reader.Read(ctx, inventory.VMRef(moRef))
}

// bringUpToDate writes into a member's stamp what vCenter calls the VM now. Other steps read the stamp again before they change the VM, and act on no
// copy: so they come after this one.
func (st *step) bringUpToDate(ctx context.Context) error {
	m, err := st.own()
	if err != nil {
		return err
	}
	next := m.Stamp.Now(m.Own)
	if here := st.inventory.VCenter(); next.VCenter != "" && next.VCenter != here {
		next.VCenter, next.Former.Folder = here, "" // the moRef of a folder there
		if next.Tagged.MoRef != "" {
			next.Tagged.MoRef = "(in another vCenter)" // which kept the tags
		}
	}
	if next == m.Stamp {
		return nil // an earlier try or another replica wrote it
	}
	if err := st.unchanged(m); err != nil {
		return err
	}
	now, err := st.ReadFresh(ctx, st.vm())
	if err != nil {
		return err
	}
	if now.ChangeVersion != m.ChangeVersion || now.InstanceUUID != m.Own || now.Stamp != m.StampText {
		return errChanged()
	}
	return st.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode())
}

// stampAfter returns the member's stamp after a step that marks the member, or removes its mark.
func stampAfter(m *inventory.Member, a plan.Action) stamp.Stamp {
	vm, next := m.Stamp.Onto(m.VM), m.Stamp
	vm.Restamp(&a, stamp.Time(time.Now()))
	next.Marked, next.Why, next.MarkedAt, next.Generation = vm.Marked, vm.MarkReason, vm.MarkedAt, vm.Generation
	next.Quarantined, next.Shutdown = vm.Quarantined, vm.Shutdown
	return next
}
