package vsphere

import (
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Config says which vCenter to use, with which account, and where in it.
type Config struct {
	session.Config
	inventory.Selection
	// Changed is called, from any goroutine, when something of the group with that UID changed; "" means all
	// groups. It must not block. It may be nil.
	Changed func(types.UID)
	// Leased reports whether the step for that Action.VM of the group with that UID may continue now. Steps ask right before each of
	// their calls. If it is nil, they always continue.
	Leased func(uid types.UID, vm string) bool
}
