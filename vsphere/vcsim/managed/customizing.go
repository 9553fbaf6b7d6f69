package managed

import (
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// customizing is the state of customizations in guests with VMware Tools. (Without Tools, the simulator reports success at power-on.) The
// world lock guards it.
//
// [doc] GuestInfo.customizationInfo (since 7.0.2): pending until the guest begins, at its first boot with Tools; then running; at the end
// succeeded or failed, with the guest's error message.
type customizing struct {
	due      map[types.ManagedObjectReference]bool
	fails    func(VM) bool
	errorMsg string
}

// FailCustomizations makes the customization fail in guests that match, with this error message. A nil match stops it. match is called with
// locks held and must not call this vCenter.
func (v *Objects) FailCustomizations(match func(VM) bool, errorMsg string) {
	v.world.Lock()
	defer v.world.Unlock()
	v.fails, v.errorMsg = match, errorMsg
}

// setCustomizationStatus reports the status of a customization that has not ended yet; success becomes failure as FailCustomizations says.
// The caller holds the world lock.
func (v *Objects) setCustomizationStatus(ctx *simulator.Context, vm *simulator.VirtualMachine, status types.GuestInfoCustomizationStatus) {
	if !v.due[vm.Self] || !v.guest.Tools {
		return
	}
	info := types.GuestInfoCustomizationInfo{}
	if was := vm.Guest.CustomizationInfo; was != nil {
		info.StartTime = was.StartTime
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	switch status {
	case types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_PENDING:
		info.StartTime = nil
	case types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_RUNNING:
		info.StartTime = &now
	default:
		delete(v.due, vm.Self)
		info.EndTime = &now
		if v.matches(ctx, v.fails, vm) {
			status, info.ErrorMsg = types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_FAILED, v.errorMsg
		}
	}
	info.CustomizationStatus = string(status)
	v.report(ctx, vm, func(g *types.GuestInfo) { g.CustomizationInfo = &info })
}
