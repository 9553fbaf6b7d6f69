package check

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// world is a vCenter to check.
type world struct {
	*vctest.World
	t testing.TB
}

func worldOf(t testing.TB, w *vctest.World) *world { return &world{w, t} }

func (w *world) config() vsphere.Config {
	return vsphere.Config{Config: sessiontest.Config(w.World), Selection: inventory.Selection{ClusterID: "test"}}
}
