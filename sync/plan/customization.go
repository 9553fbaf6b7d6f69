package plan

import (
	"time"
)

// Customization is how far vCenter got with the customization of a guest (spec.customizationSpec); zero if it is done, there was none,
// or vCenter does not say.
type Customization struct {
	State CustomizationState
	// Error is why it failed, in the guest's words, and Ended when.
	Error string
	Ended time.Time
}

// CustomizationState is a state in which a customization is not done.
type CustomizationState string
