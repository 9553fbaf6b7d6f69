package check

import (
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

func TestCheckWarnsAboutLimitsAndReservationsOfATemplate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, vctest.New(t))
		w.Must(w.ToVM("ubuntu"))
		w.Must(w.Reconfigure("ubuntu", types.VirtualMachineConfigSpec{
			CpuAllocation:    &types.ResourceAllocationInfo{Limit: types.NewInt64(-1)},
			MemoryAllocation: &types.ResourceAllocationInfo{Limit: types.NewInt64(512)}, MemoryReservationLockedToMax: types.NewBool(true)}))
		w.Must(w.ToTemplate("ubuntu"))
		r := w.checked(nil, Options{Templates: []string{"ubuntu"}})
		r.only("resource limits", "reserved memory")
		r.has("resource limits", Warn, "limited to 512 MB of memory", "remove the limit")
		r.has("reserved memory", Warn, "reserves all its memory", "with that much free memory")
	})
}
