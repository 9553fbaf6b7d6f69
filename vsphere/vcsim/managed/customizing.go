package managed

import (
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// customizing is how customizations go in guests that have VMware Tools; without, the simulator has them succeed at power-on. The
// world guards it.
//
// [doc] GuestInfo.customizationInfo (since 7.0.2): pending until the guest begins, at its first boot with Tools, then running, and at
// the end succeeded or failed, with what the guest says of it.
type customizing struct {
	due    map[types.ManagedObjectReference]bool
	fails  func(VM) bool
	saying string
}

// FailCustomizations has the customization of guests fail, where match says so, with the guest's words for it; nil: none fails. match
// is called with locks held: it must not call this vCenter.
func (v *Objects) FailCustomizations(match func(VM) bool, words string) {
	v.world.Lock()
	defer v.world.Unlock()
	v.fails, v.saying = match, words
}

// customizationIs has a guest that is yet to be customized get so far; where it is to fail, it does not succeed. The caller holds
// the world.
func (v *Objects) customizationIs(ctx *simulator.Context, vm *simulator.VirtualMachine, status types.GuestInfoCustomizationStatus) {
	info := types.GuestInfoCustomizationInfo{}
	due := v.due[vm.Self]
	if was := vm.Guest.CustomizationInfo; was != nil {
		info.StartTime = was.StartTime
		due = due || was.CustomizationStatus == string(types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_PENDING) ||
			was.CustomizationStatus == string(types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_RUNNING) // it left the inventory, and came back
	}
	if !due || !v.guest.Tools {
		return
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
			status, info.ErrorMsg = types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_FAILED, v.saying
		}
	}
	info.CustomizationStatus = string(status)
	v.report(ctx, vm, func(g *types.GuestInfo) { g.CustomizationInfo = &info })
}
