package managed

import (
	"fmt"

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
