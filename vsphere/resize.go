package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// resize gives a member other CPUs and memory: while it runs if the plan says so (VirtualMachineConfigInfo's
// cpuHotAddEnabled and memoryHotAddEnabled), else while it is off.
func (v *VCenter) resize(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	if err := unchanged(m, a); err != nil {
		return err
	}
	if on := m.Power == plan.PoweredOn; on != a.Hot {
		return faultf(ReasonInvalidPowerState, false, "The VM is %s, so it cannot be changed like that; its state is read anew.", m.Power)
	}
	perSocket, err := v.readCores(ctx, vmRef(a.MoRef))
	if err != nil {
		return err
	}
	spec := types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion, NumCPUs: a.CPU, MemoryMB: a.MemoryMB}
	if fits := dividing(perSocket, a.CPU); fits != nil {
		if a.Hot { // cores per socket cannot change while a VM runs
			return faultf(ReasonHotAddRefused, false, "%d CPUs do not fill sockets of %d cores, which cannot change while the VM runs.", a.CPU, perSocket)
		}
		spec.NumCoresPerSocket = fits
	}
	if err := v.reconfigure(ctx, vmRef(a.MoRef), spec); err != nil {
		return sizeRefusal(a, err)
	}
	return v.reader.read(ctx, vmRef(a.MoRef))
}

// sizeRefusal tells a VM that cannot take the size from everything else that can go wrong. What vCenter refuses for the
// VM's own sake is a VmConfigFault (CpuHotPlugNotSupported, MemorySizeNotSupported, TooManyCpus and the like), a
// NotSupported or an InvalidArgument.
func sizeRefusal(a plan.Action, err error) error {
	faults, _ := faultsIn(err)
	for _, f := range faults {
		switch f.(type) {
		case types.BaseVmConfigFault, types.BaseNotSupported, types.BaseInvalidArgument:
		default:
			continue
		}
		why := classify("", err).Message
		if a.Hot {
			return faultf(ReasonHotAddRefused, false, "The running VM cannot be given %d CPUs and %d MB of memory. %s", a.CPU, a.MemoryMB, why)
		}
		return faultf(ReasonResizeRefused, true, "The VM cannot be given %d CPUs and %d MB of memory: change spec.cpu or spec.memory, or let it be replaced (update.resize). %s",
			a.CPU, a.MemoryMB, why)
	}
	return err
}
