package vcsim

import (
	"github.com/vmware/govmomi/simulator"
)

// runsAt names the VM whose running guest has an address.
func (v *VCenter) runsAt(address string) (vm string, runs bool) {
	v.world.RLock()
	defer v.world.RUnlock()
	ctx := v.world.Context()
	for _, e := range v.objects.All("VirtualMachine") {
		one := e.(*simulator.VirtualMachine)
		v.objects.WithLock(ctx, one.Self, func() {
			if v.Objects.HasAddress(one, address) {
				vm, runs = one.Self.Value, true
			}
		})
		if runs {
			return vm, true
		}
	}
	return "", false
}
