package source

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
)

func TestEachPropertyOfATemplateThatIsReadIsUsed(t *testing.T) {
	t.Parallel()
	devices := vim.ArrayOfVirtualDevice{VirtualDevice: []vim.BaseVirtualDevice{&vim.VirtualDisk{}}}
	for _, kind := range []string{session.VMType, "VirtualMachineSnapshot"} {
		sessiontest.Table[Source]{Kind: kind, Of: (*Source).Properties, Samples: map[string]any{"config.version": "vmx-19", "config.hardware.device": devices},
			Otherwise: []string{"Snapshots"}}.Check(t)
	}
}
