package vsphere

import (
	"time"

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
	// Started is called when vCenter has started a task of the step for that Action.VM of the group with that UID, which it had queued
	// for so long. It must not block. It is not called for every task, and may be nil.
	Started func(uid types.UID, vm string, queued time.Duration)
	// Over is called when the task of a step that takes something away should have ended, though that is not known yet, and with false if
	// it has not, or another one follows. It must not block, nor call a VCenter; it may be nil.
	Over func(uid types.UID, vm string, over bool)
	// Leased reports whether the step for that Action.VM of the group with that UID may continue now. Steps ask right before each of
	// their calls. If it is nil, they always continue.
	Leased func(uid types.UID, vm string) bool
}
