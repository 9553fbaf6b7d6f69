package vsphere

import (
	"errors"
	"strings"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// naming is a flag of the server, or a field of a spec, that names something in vCenter.
type naming struct {
	word, flag string
	// missing and ambiguous are the reasons of its faults.
	missing, ambiguous string
}

var (
	datacenterFlag = naming{"datacenter", "--datacenter", vcfault.ReasonDatacenterNotFound, vcfault.ReasonDatacenterAmbiguous}
	poolFlag       = naming{"cluster or resource pool", "--pool", vcfault.ReasonPoolNotFound, vcfault.ReasonPoolAmbiguous}
	datastoreFlag  = naming{"datastore", "--datastore", vcfault.ReasonDatastoreNotFound, vcfault.ReasonDatastoreAmbiguous}

	poolField      = naming{"cluster, host or resource pool", "spec.placement.pool", vcfault.ReasonPoolNotFound, vcfault.ReasonPoolAmbiguous}
	zonesField     = naming{"cluster, host or resource pool", "spec.placement.zones", vcfault.ReasonPoolNotFound, vcfault.ReasonPoolAmbiguous}
	datastoreField = naming{"datastore or datastore cluster", "spec.placement.datastore", vcfault.ReasonDatastoreNotFound, vcfault.ReasonDatastoreAmbiguous}
	networkField   = naming{"network", "spec.networks", vcfault.ReasonNetworkNotFound, vcfault.ReasonNetworkAmbiguous}
)

// candidate is something that a setting may name.
type candidate struct {
	path string // "/DC0/host/C0"
	ref  types.ManagedObjectReference
}

// named reports whether name, a whole inventory path or the end of one, names the choice. In a path '/' within a name is
// %2f; people may write it as they see it.
func (c candidate) named(name string) bool {
	for _, path := range []string{c.path, unescape(c.path)} {
		if path == name || strings.HasSuffix(path, "/"+strings.Trim(name, "/")) && !strings.HasPrefix(name, "/") {
			return true
		}
	}
	return false
}

// matching gives the indices of the candidates that are named; an empty name names all.
func matching(name string, all []candidate) (fits []int) {
	for i, c := range all {
		if name == "" || c.named(name) {
			fits = append(fits, i)
		}
	}
	return fits
}

// choose gives the index of the one candidate that is named; an empty name takes the only one there is.
func (s naming) choose(name string, all []candidate) (int, error) {
	fits := matching(name, all)
	if len(fits) == 1 {
		return fits[0], nil
	}
	return 0, s.refuse(name, all, fits)
}

// refuse says why not one of the candidates can be taken: none is named, or several are.
func (s naming) refuse(name string, all []candidate, fits []int) *vcfault.Error {
	there := func(indices []int) string {
		var names []string
		for _, i := range indices {
			names = append(names, all[i].path)
		}
		return vcfault.Listing(names)
	}
	switch {
	case len(fits) > 0 && name == "":
		return vcfault.New(s.ambiguous, true, "There is more than one %s: set %s to one of %s.", s.word, s.flag, there(fits))
	case len(fits) > 0:
		return vcfault.New(s.ambiguous, true, "More than one %s is called %q: set %s to one of %s.", s.word, name, s.flag, there(fits))
	case len(all) == 0 && name == "":
		return vcfault.New(s.missing, true, "vCenter shows its user no %s: make one, or grant the user the right to see it.", s.word)
	case len(all) == 0:
		return vcfault.New(s.missing, true, "vCenter shows its user no %s, and so not %q of %s: make it, or grant the right to see it.", s.word, name, s.flag)
	}
	every := make([]int, len(all))
	for i := range all {
		every[i] = i
	}
	return vcfault.New(s.missing, true, "There is no %s %q: set %s to one of %s.", s.word, name, s.flag, there(every))
}

// found tells a search that found nothing from one that failed.
func found[T any](all []T, err error) ([]T, error) {
	var none *find.NotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	return all, err
}
