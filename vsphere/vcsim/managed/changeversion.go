package managed

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Drift changes only the changeVersion of the VM with a path or name, as vCenter does when it rewrites a VM's configuration file.
func (v *Objects) Drift(where string) error {
	ref, err := v.Find(where)
	if err != nil {
		return fmt.Errorf("drift %s: %w", where, err)
	}
	v.world.Lock()
	defer v.world.Unlock()
	if vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine); ok {
		v.objects.AtomicUpdate(v.world.Context(), vm, []types.PropertyChange{{Name: "config.changeVersion", Val: laterVersion(vm)}})
	}
	return nil
}
