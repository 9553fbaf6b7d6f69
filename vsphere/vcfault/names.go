package vcfault

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Listing returns names in order, for a message: each once, and at most ten.
func Listing(names []string) string {
	return plan.AtMost(slices.Compact(slices.Sorted(slices.Values(names))), 10)
}

// FirstFew returns the first few names, in their order.
func FirstFew(names []string) string { return plan.AtMost(names, 5) }
