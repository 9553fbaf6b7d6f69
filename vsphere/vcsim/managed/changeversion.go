package managed

import (
	"fmt"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// BumpChangeVersion changes only the changeVersion of the VM with a path or name, as vCenter does when it rewrites a VM's configuration file.
func (v *Objects) BumpChangeVersion(where string) error {
	ref, err := v.Find(where)
	if err != nil {
		return fmt.Errorf("bump the changeVersion of %s: %w", where, err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	if vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine); ok {
		v.objects.AtomicUpdate(v.world.Context(), vm, []types.PropertyChange{{Name: "config.changeVersion", Val: laterVersion(vm)}})
	}
	return nil
}

// ShiftBootTime moves the bootTime of the powered-on VM with a path or name, as a vMotion to a host with another offset of its clock may.
func (v *Objects) ShiftBootTime(where string, by time.Duration) error {
	return v.changeVM("shift the boot time of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		if fault := mustBeOn(vm); fault != nil {
			return fault
		}
		boot := vm.Runtime.BootTime.Add(by)
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "runtime.bootTime", Val: boot}, {Name: "summary.runtime.bootTime", Val: boot}})
		return nil
	})
}
