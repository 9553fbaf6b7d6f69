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

// restamp records in a member's stamp what the running step did to it, or reverts that, if nobody changed
// the VM since it was read, and waits for the read of it. It needs no lease: the record is true whichever replica acts by now.
func (c calls) restamp(ctx context.Context, m *inventory.Member, change func(*stamp.Stamp)) error {
	stamp := m.Stamp
	change(&stamp)
	return c.withoutLease().writeStamp(ctx, m.MoRef, m.ChangeVersion, stamp.Encode())
}

// writeStamp sets the text of a VM's stamp; "" removes it.
func (c calls) writeStamp(ctx context.Context, moRef, changeVersion, text string) error {
	return c.writeStampAnd(ctx, moRef, changeVersion, text, types.VirtualMachineConfigSpec{})
}

// writeStampAnd sets the text of a VM's stamp, and changes the rest of its configuration with it.
func (c calls) writeStampAnd(ctx context.Context, moRef, changeVersion, text string, config types.VirtualMachineConfigSpec) error {
	config.ChangeVersion = changeVersion
	config.ExtraConfig = append([]types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: text}}, config.ExtraConfig...)
	if err := c.reconfigure(ctx, inventory.VMRef(moRef), config); err != nil {
		return err
	}
	return c.reader.Read(ctx, inventory.VMRef(moRef))
}

// stampAfter returns the member's stamp as a step leaves it that marks it, or takes its mark off.
func stampAfter(m *inventory.Member, a plan.Action) stamp.Stamp {
	vm, next := m.Stamp.Onto(m.VM), m.Stamp
	vm.Restamp(&a, stamp.Time(time.Now()))
	next.Marked, next.Why, next.MarkedAt, next.Generation = vm.Marked, vm.Why, vm.MarkedAt, vm.Generation
	next.Quarantined, next.Shutdown = vm.Quarantined, vm.Shutdown
	return next
}
