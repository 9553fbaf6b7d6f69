package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func (c calls) reconfigure(ctx context.Context, vm types.ManagedObjectReference, spec types.VirtualMachineConfigSpec) error {
	_, err := c.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.Vim, &types.ReconfigVM_Task{This: vm, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return err
}

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

// unchanged checks that a member's configuration is the one that the action was planned from.
func (st *step) unchanged(m *inventory.Member) error {
	if m.ChangeVersion == "" || st.action.ChangeVersion != "" && st.action.ChangeVersion != m.ChangeVersion {
		return changedMeanwhile()
	}
	return nil
}

func changedMeanwhile() *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Somebody else changed the VM meanwhile; the server reads it and tries again.")
}
