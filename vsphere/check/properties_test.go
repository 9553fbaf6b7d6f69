package check

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
)

func TestEachPropertyThatIsReadIsUsed(t *testing.T) {
	t.Parallel()
	sessiontest.Table[templateInfo]{Kind: session.VMType, Of: (*templateInfo).properties,
		Otherwise: []string{"tpm", "newTPM", "disks", "nics", "iso", "manualMAC", "space"}}.Check(t)
	sessiontest.Table[trialState]{Kind: session.VMType, Of: (*trialState).properties}.Check(t)
}
