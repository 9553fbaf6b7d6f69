package removalcause

import (
	"context"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// The events of a VM's creation, and of its power-ons. No property says whether a VM was
// ever on (runtime.bootTime is cleared at power-off). vCenter keeps events for 30 days by default, so it is certain that a VM was
// never on only if the event of its creation still exists.
var (
	madeEvents = []string{"VmClonedEvent", "VmCreatedEvent", "VmDeployedEvent"}
	onEvents   = []string{"VmStartingEvent", "VmPoweredOnEvent", "DrsVmPoweredOnEvent", "VmResumingEvent"}
)

// Life reports whether vCenter's events have a VM's creation, and a power-on.
func Life(ctx context.Context, calls inventory.Caller, moRef string) (made, on bool, err error) {
	if made, err = hadEvents(ctx, calls, moRef, madeEvents); err == nil {
		on, err = hadEvents(ctx, calls, moRef, onEvents)
	}
	return made, on, err
}

// hadEvents reports whether vCenter has any of these events of a VM.
func hadEvents(ctx context.Context, calls inventory.Caller, moRef string, kinds []string) (had bool, err error) {
	err = calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
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
