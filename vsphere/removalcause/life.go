package removalcause

import (
	"context"
	"reflect"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// The events of a VM's creation, and of its power-ons. No property shows whether a VM was
// ever on (runtime.bootTime is cleared at power-off). vCenter keeps events for 30 days by default, so a VM without an event of a power-on was
// certainly never on only if vCenter still has the event of its creation.
var (
	madeEvents = []string{"VmClonedEvent", "VmCreatedEvent", "VmDeployedEvent"}
	onEvents   = []string{"VmStartingEvent", "VmPoweredOnEvent", "DrsVmPoweredOnEvent", "VmResumingEvent"}
)

// Life reports whether vCenter has events of a VM's creation and of a power-on. If it has one of a power-on, made may be false.
func Life(ctx context.Context, calls inventory.Caller, moRef string) (made, on bool, err error) {
	err = calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		made, on = false, false
		return session.Events(ctx, s, types.EventFilterSpec{
			Entity:      session.OfVM(inventory.VMRef(moRef)),
			EventTypeId: slices.Concat(madeEvents, onEvents),
		}, func(e types.BaseEvent) bool {
			kind := reflect.TypeOf(e).Elem().Name()
			made, on = made || slices.Contains(madeEvents, kind), on || slices.Contains(onEvents, kind)
			return !on
		})
	})
	return made, on, err
}
