package vcfault

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Listing returns sorted names for a message: each once, and at most ten.
func Listing(names []string) string {
	return plan.AtMost(slices.Compact(slices.Sorted(slices.Values(names))), 10)
}

// FirstFew returns at most five of the names, in their order.
func FirstFew(names []string) string { return plan.AtMost(names, 5) }
