// Package naming finds the object of vCenter that a setting or a field of a spec names, by its name or inventory path, and lists the
// existing ones if that is not exactly one. It has no state.
package naming

import (
	"net/url"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Setting is a flag of the server, or a field of a spec, that names something in vCenter.
type Setting struct {
	Word, Flag string
	// Missing and Ambiguous are the reasons of its faults.
	Missing, Ambiguous string
}

// Candidate is an object that a setting can name.
type Candidate struct {
	Path string // "/DC0/host/C0"
	Ref  types.ManagedObjectReference
}

// named reports whether name, a whole inventory path or the end of one, names the candidate. In a path '/' within a name is
// %2f; people can write it as they see it.
func (c Candidate) named(name string) bool {
	for _, path := range []string{c.Path, Unescape(c.Path)} {
		if path == name || strings.HasSuffix(path, "/"+strings.Trim(name, "/")) && !strings.HasPrefix(name, "/") {
			return true
		}
	}
	return false
}

// Matching returns the indices of the candidates that are named; an empty name names all.
func Matching(name string, all []Candidate) (fits []int) {
	for i, c := range all {
		if name == "" || c.named(name) {
			fits = append(fits, i)
		}
	}
	return fits
}

// Choose returns the index of the one candidate that is named; an empty name takes the only one there is.
func (s Setting) Choose(name string, all []Candidate) (int, error) {
	fits := Matching(name, all)
	if len(fits) == 1 {
		return fits[0], nil
	}
	return 0, s.Refuse(name, all, fits)
}

// Refuse says why no single candidate can be chosen: none is named, or several are.
func (s Setting) Refuse(name string, all []Candidate, fits []int) *vcfault.Error {
	there := func(indices []int) string {
		var names []string
		for _, i := range indices {
			names = append(names, all[i].Path)
		}
		return vcfault.Listing(names)
	}
	switch {
	case len(fits) > 0 && name == "":
		return vcfault.ForOperator(s.Ambiguous, "There is more than one %s: set %s to one of %s.", s.Word, s.Flag, there(fits))
	case len(fits) > 0:
		return vcfault.ForOperator(s.Ambiguous, "More than one %s is called %q: set %s to one of %s.", s.Word, name, s.Flag, there(fits))
	case len(all) == 0 && name == "":
		return vcfault.ForOperator(s.Missing, "vCenter shows its user no %s: create one, or grant the user the privilege to see it.", s.Word)
	case len(all) == 0:
		return vcfault.ForOperator(s.Missing, "vCenter shows its user no %s, so %q of %s cannot be found: create it, or grant the privilege to see it.", s.Word, name, s.Flag)
	}
	every := make([]int, len(all))
	for i := range all {
		every[i] = i
	}
	return vcfault.ForOperator(s.Missing, "There is no %s %q: set %s to one of %s.", s.Word, name, s.Flag, there(every))
}

// Last returns the name at the end of an inventory path, as people write it.
func Last(path string) string {
	return Unescape(path[strings.LastIndexByte(path, '/')+1:])
}

// Unescape returns a name as people write it: vCenter stores '/', '\' and '%' in names as %2f, %5c and %25.
func Unescape(name string) string {
	if !strings.Contains(name, "%") {
		return name
	}
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}
