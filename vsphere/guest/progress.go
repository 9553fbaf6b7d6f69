package guest

import (
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// CustomizationOf returns the progress of a guest's customization. vCenter reports it since 7.0.2 ([doc] GuestInfo.customizationInfo); the
// task that cloned the VM does not show it.
func CustomizationOf(info *types.GuestInfoCustomizationInfo) (c plan.Customization) {
	switch types.GuestInfoCustomizationStatus(info.CustomizationStatus) {
	case types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_PENDING:
		c.State = plan.CustomizationPending
	case types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_RUNNING:
		c.State = plan.CustomizationRunning
	case types.GuestInfoCustomizationStatusTOOLSDEPLOYPKG_FAILED:
		c.State, c.Error = plan.CustomizationFailed, vcfault.Steady(info.ErrorMsg)
		if info.EndTime != nil {
			c.Ended = info.EndTime.UTC()
		}
	}
	return c
}
