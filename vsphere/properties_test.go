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
	devices := vim.ArrayOfVirtualDevice{VirtualDevice: []vim.BaseVirtualDevice{&vim.VirtualDisk{}}}
	sessiontest.Table[FreshVM]{Kind: session.VMType, Of: (*FreshVM).properties,
		Samples: map[string]any{session.OptionPath(stamp.Key): vim.OptionValue{Key: stamp.Key, Value: "stamp"}}}.Check(t)
	sessiontest.Table[freshFolder]{Kind: "Folder", Of: (*freshFolder).properties, Otherwise: []string{"Seen"}}.Check(t)
	sessiontest.Table[cloneHost]{Kind: "HostSystem", Of: (*cloneHost).properties, Otherwise: []string{"ref"}}.Check(t)
	for _, kind := range []string{session.VMType, "VirtualMachineSnapshot"} {
		sessiontest.Table[source]{Kind: kind, Of: (*source).properties, Samples: map[string]any{"config.version": "vmx-19", "config.hardware.device": devices},
			Otherwise: []string{"snapshots"}}.Check(t)
	}
}
