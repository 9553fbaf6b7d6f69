// Package naming finds the vCenter object that a setting or a field of a spec names, by its name or inventory path. If no object or more than
// one matches, its error lists those that can be named. It has no state.
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
	// Missing and Ambiguous are the reasons of the faults if no object, or more than one, has the name.
	Missing, Ambiguous string
}

// Candidate is an object that a setting can name.
type Candidate struct {
	Path string // "/DC0/host/C0"
	Ref  types.ManagedObjectReference
}

// named reports whether name, a whole inventory path or the end of one, names the candidate. vCenter writes a '/' within a name as %2f in
// paths; users can write either.
func (c Candidate) named(name string) bool {
	for _, path := range []string{c.Path, Unescape(c.Path)} {
		if path == name || strings.HasSuffix(path, "/"+strings.Trim(name, "/")) && !strings.HasPrefix(name, "/") {
			return true
		}
	}
	return false
}

// Matching returns the indices of the candidates with that name; an empty name matches all.
func Matching(name string, all []Candidate) (fits []int) {
	for i, c := range all {
		if name == "" || c.named(name) {
			fits = append(fits, i)
		}
	}
	return fits
}

// Choose returns the index of the only candidate with that name; an empty name matches all candidates. It returns the error of Refuse if
// none matches, or more than one.
func (s Setting) Choose(name string, all []Candidate) (int, error) {
	fits := Matching(name, all)
	if len(fits) == 1 {
		return fits[0], nil
	}
	return 0, s.Refuse(name, all, fits)
}

// Refuse returns the fault for a name that no candidate matches, or more than one. fits are the indices of those that match.
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
