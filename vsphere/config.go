package vsphere

import (
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Config says which vCenter to use, as whom, and what of it.
type Config struct {
	session.Config
	inventory.Selection
	// Changed is called, from any goroutine, when something of the group with that UID changed; "" means all
	// groups. It must not block. It may be nil.
	Changed func(types.UID)
	// Leased reports whether the step for that Action.VM of the group with that UID may go on now. Steps ask right before each of
	// their calls. It may be nil: then they always go on.
	Leased func(uid types.UID, vm string) bool
}
