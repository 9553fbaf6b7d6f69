package hosts

import (
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session/sessiontest"
)

func TestEachPropertyOfAHostThatIsReadIsUsed(t *testing.T) {
	t.Parallel()
	sessiontest.Table[Host]{Kind: "HostSystem", Of: (*Host).properties, Otherwise: []string{"Ref"}}.Check(t)
}

func TestNoCloneGoesToAHostInStandby(t *testing.T) {
	t.Parallel()
	const connected, silent = types.HostSystemConnectionStateConnected, types.HostSystemConnectionStateNotResponding
	asleep := Host{Ref: types.ManagedObjectReference{Value: "host-1"}, connection: connected, power: types.HostSystemPowerStateStandBy}
	lost := Host{Ref: types.ManagedObjectReference{Value: "host-2"}, connection: silent, power: types.HostSystemPowerStateUnknown}
	awake := Host{Ref: types.ManagedObjectReference{Value: "host-3"}, connection: connected, power: types.HostSystemPowerStatePoweredOn}
	all := []Host{asleep, lost, awake}
	if got := new(Capacity).Choose(all, map[string]int{"host-3": 9}, nil, nil); got == nil || *got != awake.Ref {
		t.Errorf("got the host %v; want host-3, which alone is connected and on", got)
	}
	if got := new(Capacity).Choose(all[:2], nil, nil, nil); got != nil {
		t.Errorf("got the host %v; want none, because one is in standby and the other does not respond", got)
	}
}
