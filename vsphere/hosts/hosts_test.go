package hosts

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
)

func TestEachPropertyOfAHostThatIsReadIsUsed(t *testing.T) {
	t.Parallel()
	sessiontest.Table[Host]{Kind: "HostSystem", Of: (*Host).properties, Otherwise: []string{"Ref"}}.Check(t)
}
