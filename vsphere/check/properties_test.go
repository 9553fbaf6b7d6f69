package check

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
)

func TestEachPropertyThatIsReadIsUsed(t *testing.T) {
	t.Parallel()
	sessiontest.Table[templateInfo]{Kind: session.VMType, Of: (*templateInfo).properties,
		Samples:   map[string]any{"config.version": "vmx-19"},
		Otherwise: []string{"Source.Snapshots", "tpm", "newTPM", "disks", "nics", "iso", "manualMAC", "space"}}.Check(t)
	sessiontest.Table[trialState]{Kind: session.VMType, Of: (*trialState).properties}.Check(t)
}
