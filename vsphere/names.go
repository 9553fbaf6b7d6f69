package vsphere

import (
	"fmt"
	"slices"
	"strings"
)

// listing gives names in order, for a message.
func listing(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	more := ""
	if n := len(names) - listingMost; n > 0 {
		names, more = names[:listingMost], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ") + more
}

// listingMost bounds how many names a message lists.
const listingMost = 10

// list names the first of them.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
