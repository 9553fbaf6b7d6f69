// Package naming finds the vCenter object that a setting or a field of a spec names, by its name, its inventory path, its type or its moRef. If no
// object or more than one matches, its error lists texts that name one object each. It has no state.
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
	// Switched is the path of a port group with its distributed switch, "/DC0/network/DVS0/web"; empty for other objects.
	Switched string
	Ref      types.ManagedObjectReference
}

// ways are the ways to name an object, in the order in which Matching tries them. vCenter writes a '/' within a name as %2f in paths; users can
// write either.
var ways = []func(c *Candidate, name string) bool{
	func(c *Candidate, name string) bool { return name == "" || name == c.Ref.String() },
	func(c *Candidate, name string) bool { return name == c.Path },
	func(c *Candidate, name string) bool { return ends(c.Path, name) || ends(Unescape(c.Path), name) },
	func(c *Candidate, name string) bool {
		return ends(c.Switched, name) || ends(Unescape(c.Switched), name)
	},
}

// ends reports whether name is a path, or the end of it.
func ends(path, name string) bool {
	return path == name || strings.HasSuffix(path, "/"+strings.Trim(name, "/")) && !strings.HasPrefix(name, "/")
}

// Matching returns the indices of the candidates that a name names; an empty name names all. A name can be, and the first of these that is true of
// any candidate counts:
//
//   - an object's type and moRef: "Network:network-7"
//   - its inventory path, as vCenter writes it
//   - its inventory path or the end of it, such as its name
//   - the path of a port group with its switch, or the end of it: "DVS0/web"
//   - one of these after the object's type: "Network:web"
//
// A moRef without its type names nothing, because another object can have it as its name.
func Matching(name string, all []Candidate) []int {
	if fits := matching(name, all, ""); len(fits) > 0 {
		return fits
	}
	if kind, rest, _ := strings.Cut(name, ":"); rest != "" {
		return matching(rest, all, kind)
	}
	return nil
}

// matching returns the indices of the candidates of a type that a name without a type names. An empty kind is any type.
func matching(name string, all []Candidate, kind string) (fits []int) {
	for _, names := range ways {
		for i := range all {
			if (kind == "" || kind == all[i].Ref.Type) && names(&all[i], name) {
				fits = append(fits, i)
			}
		}
		if len(fits) > 0 {
			break
		}
	}
	return fits
}

// textsOf returns texts that name these candidates and no others of all: the path where that suffices, and else a way that tells more.
func textsOf(all []Candidate, indices []int) []string {
	paths := make(map[string]int, len(all))
	for i := range all {
		paths[all[i].Path]++
	}
	texts := make([]string, 0, len(indices))
	for _, i := range indices {
		if c := &all[i]; paths[c.Path] == 1 && whole(c.Path) {
			texts = append(texts, c.Path)
		} else {
			texts = append(texts, distinct(all, i))
		}
	}
	return texts
}

// distinct returns the first of several texts that names the candidate at i alone.
func distinct(all []Candidate, i int) string {
	c := &all[i]
	for _, text := range []string{c.Switched, c.Ref.Type + ":" + c.Path, c.Ref.Type + ":" + Last(c.Path)} {
		if fits := Matching(text, all); text != "" && len(fits) == 1 && fits[0] == i && whole(text) {
			return text
		}
	}
	return c.Ref.String()
}

// whole reports whether a list in a message shows all of a text. Nobody can use a text that is cut.
func whole(text string) bool { return vcfault.Listing([]string{text}) == text }

// Choose returns the index of the only candidate with that name; an empty name matches all candidates. It returns the error of Refuse if
// none matches, or more than one.
func (s Setting) Choose(name string, all []Candidate) (int, error) {
	fits := Matching(name, all)
	if len(fits) == 1 {
		return fits[0], nil
	}
	return 0, s.Refuse(name, all, fits)
}

// Refuse returns the fault for a name that no candidate matches, or more than one. fits are the indices of those that match. Each text that its
// message lists names one candidate.
func (s Setting) Refuse(name string, all []Candidate, fits []int) *vcfault.Error {
	there := func(indices []int) string { return vcfault.Listing(textsOf(all, indices)) }
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
