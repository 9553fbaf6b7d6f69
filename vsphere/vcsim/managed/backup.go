package managed

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Backup is the state that a backup of vCenter preserves.
type Backup struct {
	key int32
	vms map[types.ManagedObjectReference]bool
}

// Backup takes a backup.
func (v *Objects) Backup() *Backup {
	v.world.Lock()
	defer v.world.Unlock()
	b := &Backup{key: v.newestKey(v.adminContext()), vms: map[types.ManagedObjectReference]bool{}}
	for _, e := range v.objects.All("VirtualMachine") {
		b.vms[e.Reference()] = true
	}
	return b
}

// ForgetSince removes VMs and events newer than a backup, and returns the VMs. Their moRefs and event keys are reused.
func (v *Objects) ForgetSince(b *Backup) (vms []types.ManagedObjectReference) {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.adminContext()
	v.reused = nil
	for _, e := range v.objects.All("VirtualMachine") {
		if vm := e.(*simulator.VirtualMachine); !b.vms[vm.Self] {
			v.reused, vms = append(v.reused, vm.Self.Value), append(vms, vm.Self)
			v.removeVM(ctx, vm)
		}
	}
	slices.Sort(v.reused)
	newest := v.newestKey(ctx)
	v.mu.Lock()
	v.events.lost = append(v.events.lost, span{b.key, newest})
	v.mu.Unlock()
	return vms
}

// renumbered gives a new VM a moRef that a restore has freed, if there is one. The caller holds the world lock.
func (v *Objects) renumbered(ctx *simulator.Context, vm *simulator.VirtualMachine) *simulator.VirtualMachine {
	if len(v.reused) == 0 {
		return vm
	}
	moRef := v.reused[0]
	v.reused = v.reused[1:]
	v.removeVM(ctx, vm)
	d := v.removedVMs[len(v.removedVMs)-1]
	v.forgetRemoved(d)
	host := v.objects.Get(*vm.Runtime.Host).(*simulator.HostSystem)
	again := v.addVM(ctx, d, v.objects.Get(d.folder).(*simulator.Folder), host, moRef)
	v.post(ctx, &types.VmCreatedEvent{VmEvent: v.vmEvent(again)})
	return again
}
