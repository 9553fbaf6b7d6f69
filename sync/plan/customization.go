package plan

import (
	"time"
)

// Customization is the progress of a guest's customization (spec.customizationSpec); zero if the customization is done, if there is none,
// or if vCenter doesn't say.
type Customization struct {
	State CustomizationState
	// Error is why it failed, in the guest's words, and Ended when.
	Error string
	Ended time.Time
}

// CustomizationState is the state of an unfinished or failed customization.
type CustomizationState string

// The states of an unfinished or failed customization (vSphere's GuestInfoCustomizationStatus).
const (
	CustomizationPending CustomizationState = "pending"
	CustomizationRunning CustomizationState = "running"
	CustomizationFailed  CustomizationState = "failed"
)
