package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// The events of a VM's creation, and of its power-ons. No property says whether a VM was
// ever on (runtime.bootTime is cleared at power-off). vCenter keeps events for 30 days by default, so it is certain that a VM was
// never on only if the event of its creation still exists.
var (
	madeEvents = []string{"VmClonedEvent", "VmCreatedEvent", "VmDeployedEvent"}
	onEvents   = []string{"VmStartingEvent", "VmPoweredOnEvent", "DrsVmPoweredOnEvent", "VmResumingEvent"}
)

// neverOn returns nil if a VM is off and, according to vCenter's events, never was on; otherwise a fault: an operator has to decide.
func (v *VCenter) neverOn(ctx context.Context, a plan.Action, now *FreshVM) error {
	undecided := vcfault.New(plan.ReasonDuplicateMember, true, "Several VMs claim to be this member, and %s may have been in use: remove all but one.", a.VM)
	if now.power != types.VirtualMachinePowerStatePoweredOff {
		return undecided
	}
	made, on, err := v.lifeOf(ctx, a.MoRef)
	if err == nil && (!made || on) {
		return undecided
	}
	return err
}

// lifeOf reports whether vCenter's events have a VM's creation, and a power-on.
func (v *VCenter) lifeOf(ctx context.Context, moRef string) (made, on bool, err error) {
	if made, err = v.hadEvents(ctx, moRef, madeEvents); err == nil {
		on, err = v.hadEvents(ctx, moRef, onEvents)
	}
	return made, on, err
}

// hadEvents reports whether vCenter has any of these events of a VM.
func (v *VCenter) hadEvents(ctx context.Context, moRef string, kinds []string) (had bool, err error) {
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		res, err := methods.QueryEvents(ctx, s.Vim, &types.QueryEvents{This: *s.Vim.ServiceContent.EventManager, Filter: types.EventFilterSpec{
			Entity:      &types.EventFilterSpecByEntity{Entity: inventory.VMRef(moRef), Recursion: types.EventFilterSpecRecursionOptionSelf},
			EventTypeId: kinds,
		}})
		if err == nil {
			had = len(res.Returnval) > 0
		}
		return err
	})
	return had, err
}
