package vcfault

import (
	"fmt"
	"slices"
	"strings"
)

// Listing returns names in order, for a message.
func Listing(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	more := ""
	if n := len(names) - listingMost; n > 0 {
		names, more = names[:listingMost], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ") + more
}

// listingMost bounds how many names a message lists.
const listingMost = 10

// FirstFew returns the first few names, in order.
func FirstFew(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
