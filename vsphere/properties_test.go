package vsphere

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

func TestEachPropertyThatIsReadIsUsed(t *testing.T) {
	t.Parallel()
	sessiontest.Table[FreshVM]{Kind: session.VMType, Of: (*FreshVM).properties,
		Samples: map[string]any{session.OptionPath(stamp.Key): vim.OptionValue{Key: stamp.Key, Value: "stamp"}}}.Check(t)
	sessiontest.Table[hostRoom]{Kind: "HostSystem", Of: (*hostRoom).properties}.Check(t)
	sessiontest.Table[poolRoom]{Kind: "ResourcePool", Of: (*poolRoom).properties}.Check(t)
	sessiontest.Table[datastoreRoom]{Kind: "Datastore", Of: (*datastoreRoom).properties}.Check(t)
	sessiontest.Table[freshFolder]{Kind: "Folder", Of: (*freshFolder).properties, Otherwise: []string{"Seen"}}.Check(t)
	sessiontest.Table[refused]{Kind: session.VMType, Of: (*refused).properties, Otherwise: []string{"host", "reach", "maintained", "standby"}}.Check(t)
	sessiontest.Table[refused]{Kind: "HostSystem", Of: (*refused).ofHost,
		Otherwise: []string{"template", "connection", "power", "question", "consolidate", "paused", "snapshot", "faultTolerance"}}.Check(t)
}
