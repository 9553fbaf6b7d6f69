package vsphere

import (
	"cmp"
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/hardware"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// resize changes a member's CPUs and memory, and their reservations, limits and shares: while the VM is on if the plan says so
// (VirtualMachineConfigInfo's cpuHotAddEnabled and memoryHotAddEnabled), otherwise while it is off. The same change removes the mark of a power
// cycle.
func (st *step) resize(ctx context.Context) error {
	m, err := st.own()
	if err != nil {
		return err
	}
	if err := st.unchanged(m); err != nil {
		return err
	}
	to := plan.ArgsOf[plan.ResizeArgs](st.action.Args)
	if on := m.Power == plan.PoweredOn; on != to.Hot {
		return vcfault.ForRetry(vcfault.ReasonInvalidPowerState, "The VM is %s, so the server did not change its size; it reads the VM again.", m.Power)
	}
	spec := types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion, NumCPUs: to.CPU, MemoryMB: to.MemoryMB}
	if fits := hardware.Cores(m.CoresPerSocket, to.CPU); fits != nil && (to.Hot || !m.AutoCores) {
		if to.Hot { // cores per socket cannot change while a VM runs
			return vcfault.ForRetry(vcfault.ReasonHotAddRefused, "%d CPUs do not fill sockets of %d cores, which cannot change while the VM runs.", to.CPU, m.CoresPerSocket)
		}
		spec.NumCoresPerSocket = fits
	}
	next := stampAfter(m, st.action)
	next.ClonedFor = "" // its size is not that of its clone any more
	if to.Like != nil {
		if err := st.reallocate(ctx, &spec, *to.Like); err != nil {
			return err
		}
		next.Allocation = plan.AllocationOf(to.Like.Details().Spec)
	}
	if next != m.Stamp {
		spec.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: next.Encode()}}
	}
	if err := st.reconfigure(ctx, st.vm(), spec); err != nil {
		allocated := to.CPU == m.CPU && to.MemoryMB == m.MemoryMB
		if allocated && !vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOn) { // neither a power cycle nor a new clone would help
			return err
		}
		return SizeRefusal(st.action, err)
	}
	return st.reader.Read(ctx, st.vm())
}

// reallocate sets the reservations, limits and shares that a clone would have: those of the spec, and otherwise those of the template.
func (st *step) reallocate(ctx context.Context, spec *types.VirtualMachineConfigSpec, clone plan.Action) error {
	b, err := st.newCloneBuilder(st.ref, clone, clone.Folder())
	if err != nil {
		return err
	}
	if err := b.fillSource(ctx); err != nil {
		return err
	}
	hardware.Allocate(spec, &b.details.Spec.Hardware)
	if spec.MemoryReservationLockedToMax == nil {
		spec.MemoryReservationLockedToMax = types.NewBool(b.source.Locked)
	}
	spec.CpuAllocation = overlay(b.source.CPU, spec.CpuAllocation)
	if spec.MemoryAllocation = overlay(b.source.Memory, spec.MemoryAllocation); *spec.MemoryReservationLockedToMax {
		spec.MemoryAllocation.Reservation = nil // vCenter sets the reservation to the memory size
	}
	return nil
}

// overlay returns an allocation with the fields of set. A field that set lacks comes from the template, or else has vCenter's default for a new VM.
func overlay(template types.ResourceAllocationInfo, set *types.ResourceAllocationInfo) *types.ResourceAllocationInfo {
	all := types.ResourceAllocationInfo{Reservation: types.NewInt64(0), Limit: types.NewInt64(-1), Shares: &types.SharesInfo{Level: types.SharesLevelNormal}}
	for _, from := range []*types.ResourceAllocationInfo{&template, set} {
		if from == nil {
			continue
		}
		all.Reservation, all.Limit, all.Shares = cmp.Or(from.Reservation, all.Reservation), cmp.Or(from.Limit, all.Limit), cmp.Or(from.Shares, all.Shares)
	}
	return &all
}

// SizeRefusal explains the error of a VM that cannot have the size. vCenter then answers a VmConfigFault (CpuHotPlugNotSupported,
// MemorySizeNotSupported, TooManyCpus, …), a NotSupported or an InvalidArgument; for a running VM also that it must be off, or that the license
// does not include hot-add. SizeRefusal returns errors about resources, privileges and other tasks unchanged.
func SizeRefusal(a plan.Action, err error) error {
	e, to := vcfault.Classify("", err), plan.ArgsOf[plan.ResizeArgs](a.Args)
	refused := e.Reason == vcfault.ReasonInvalidConfiguration || e.Reason == vcfault.ReasonNotSupported
	switch {
	case to.Hot && (refused || e.Reason == vcfault.ReasonLicense || vcfault.AlreadyIn(err, types.VirtualMachinePowerStatePoweredOn)):
		return vcfault.ForRetry(vcfault.ReasonHotAddRefused, "The running VM cannot be given %d CPUs and %d MiB of memory. %s", to.CPU, to.MemoryMB, e.Message)
	case vcfault.Has[*types.CpuHotPlugNotSupported](err), vcfault.Has[*types.MemoryHotPlugNotSupported](err):
		// The VM was powered on a moment ago, which is no reason to replace it.
		return vcfault.ForRetry(vcfault.ReasonInvalidPowerState, "The VM is poweredOn, so the server did not change its size; it reads the VM again.")
	case refused:
		return vcfault.ForOperator(vcfault.ReasonResizeRefused, "The VM cannot be given %d CPUs and %d MiB of memory: change spec.cpu or spec.memory, or let it be replaced (update.resize). %s",
			to.CPU, to.MemoryMB, e.Message)
	}
	return err
}
