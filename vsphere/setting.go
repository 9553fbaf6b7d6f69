package vsphere

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/vim25/types"
)

// setting is one that names something in vCenter.
type setting struct {
	word, flag string
	// missing and ambiguous are the reasons of its faults.
	missing, ambiguous string
}

var (
	datacenterSetting = setting{"datacenter", "--datacenter", ReasonDatacenterNotFound, ReasonDatacenterAmbiguous}
	poolSetting       = setting{"cluster or resource pool", "--pool", ReasonPoolNotFound, ReasonPoolAmbiguous}
	datastoreSetting  = setting{"datastore", "--datastore", ReasonDatastoreNotFound, ReasonDatastoreAmbiguous}
)

// choice is something that a setting may name.
type choice struct {
	path string // "/DC0/host/C0"
	ref  types.ManagedObjectReference
}

// named tells whether name, a whole inventory path or the end of one, names the choice.
func (c choice) named(name string) bool {
	return c.path == name || strings.HasSuffix(c.path, "/"+strings.Trim(name, "/")) && !strings.HasPrefix(name, "/")
}

// choose gives the index of the one candidate that is named; an empty name takes the only one there is.
func (s setting) choose(name string, all []choice) (int, error) {
	var fits []int
	for i, c := range all {
		if name == "" || c.named(name) {
			fits = append(fits, i)
		}
	}
	there := func(indices []int) string {
		var names []string
		for _, i := range indices {
			names = append(names, all[i].path)
		}
		return listing(names)
	}
	switch {
	case len(fits) == 1:
		return fits[0], nil
	case len(fits) > 1 && name == "":
		return 0, faultf(s.ambiguous, true, "There is more than one %s: set %s to one of %s.", s.word, s.flag, there(fits))
	case len(fits) > 1:
		return 0, faultf(s.ambiguous, true, "More than one %s is called %q: set %s to one of %s.", s.word, name, s.flag, there(fits))
	case len(all) == 0 && name == "":
		return 0, faultf(s.missing, true, "vCenter shows its user no %s: make one, or grant the user the right to see it.", s.word)
	case len(all) == 0:
		return 0, faultf(s.missing, true, "vCenter shows its user no %s, and so not %q of %s: make it, or grant the right to see it.", s.word, name, s.flag)
	}
	every := make([]int, len(all))
	for i := range all {
		every[i] = i
	}
	return 0, faultf(s.missing, true, "There is no %s %q: set %s to one of %s.", s.word, name, s.flag, there(every))
}

// listingMost bounds how many names a message lists.
const listingMost = 10

// listing gives names in order, for a message.
func listing(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	more := ""
	if n := len(names) - listingMost; n > 0 {
		names, more = names[:listingMost], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ") + more
}

// found tells a search that found nothing from one that failed.
func found[T any](all []T, err error) ([]T, error) {
	var none *find.NotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	return all, err
}
