package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/fate"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// neverOn returns nil if a VM is off and, according to vCenter's events, never was on; otherwise a fault: it is kept.
func (v *VCenter) neverOn(ctx context.Context, a plan.Action, now *FreshVM) error {
	undecided := vcfault.New(plan.ReasonDuplicateMember, false, "Another VM is %s, and this one may have been in use, so it is kept.", a.VM)
	if now.Power != types.VirtualMachinePowerStatePoweredOff {
		return undecided
	}
	made, on, err := fate.Life(ctx, v, a.MoRef)
	if err == nil && (!made || on) {
		return undecided
	}
	return err
}
