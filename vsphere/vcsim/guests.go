package vcsim

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
)

// runsAt names the VM whose running guest reports an address.
func (v *VCenter) runsAt(address string) (vm string, runs bool) {
	v.world.RLock()
	defer v.world.RUnlock()
	ctx := v.world.Context()
	for _, e := range v.objects.All("VirtualMachine") {
		one := e.(*simulator.VirtualMachine)
		v.objects.WithLock(ctx, one.Self, func() {
			for _, nic := range one.Guest.Net {
				if nic.DeviceConfigId >= 0 && slices.Contains(nic.IpAddress, address) {
					vm, runs = one.Self.Value, true
				}
			}
		})
		if runs {
			return vm, true
		}
	}
	return "", false
}
