package naming

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Meant is what the names in a group's spec meant so far (by its status, which only this server writes), and what they mean now. A nil Meant knows and notes
// nothing. A Meant can't be used by several goroutines.
type Meant struct {
	before, now []v1alpha1.NamedObject
}

// NewMeant returns what names meant before; it doesn't change before.
func NewMeant(before []v1alpha1.NamedObject) *Meant { return &Meant{before: before} }

// Now returns what names mean that were looked up, as far as it differs from what they meant before.
func (m *Meant) Now() []v1alpha1.NamedObject { return m.now }

// Pick returns the index of the object that a name in a group's spec means, and notes it. fits are the indices of those that have the name, and that fit best. A
// name keeps its meaning as long as that object has the name, so that nobody changes or stops a group by giving another object the name. An object that was
// ignored until then doesn't take its place: whoever gave it the name may have waited for that. Otherwise, the error is that of Refuse.
func (s Setting) Pick(m *Meant, zone, name string, all []Candidate, fits []int) (int, error) {
	var before *v1alpha1.NamedObject
	if m != nil {
		before = Recorded(m.before, s.Flag, zone, name)
	}
	i := Still(before, name, all)
	if i < 0 {
		i = Next(before, all, fits)
	}
	switch {
	case i >= 0:
		m.note(s.Flag, zone, name, all, fits, i)
		return i, nil
	case before != nil && len(fits) == 1:
		return 0, s.Ignored(name, all[fits[0]])
	}
	return 0, s.Refuse(name, all, fits)
}

// Still returns the index of the object that a name meant before, if that still has the name; otherwise -1.
func Still(before *v1alpha1.NamedObject, name string, all []Candidate) int {
	return slices.IndexFunc(all, func(c Candidate) bool {
		return before != nil && c.Ref.String() == before.Object && len(Matching(name, []Candidate{c})) > 0
	})
}

// Which returns the index of the object that a name means, of those of all, which have the name; otherwise -1. fits are the indices of those that fit best.
func Which(before *v1alpha1.NamedObject, all []Candidate, fits []int) int {
	if i := slices.IndexFunc(all, func(c Candidate) bool { return before != nil && c.Ref.String() == before.Object }); i >= 0 {
		return i
	}
	return Next(before, all, fits)
}

// Next returns the index of the only one of fits that wasn't ignored, while another object had the name; otherwise -1.
func Next(before *v1alpha1.NamedObject, all []Candidate, fits []int) int {
	if before != nil && len(before.Ignored) >= v1alpha1.MaxIgnored { // perhaps not all are listed
		return -1
	}
	left := slices.DeleteFunc(slices.Clone(fits), func(i int) bool {
		return before != nil && slices.ContainsFunc(before.Ignored, func(x v1alpha1.IgnoredObject) bool { return x.Object == all[i].Ref.String() })
	})
	if len(left) != 1 {
		return -1
	}
	return left[0]
}

// Ignored returns the fault for a name that only an object has that was ignored so far.
func (s Setting) Ignored(name string, by Candidate) *vcfault.Error {
	return vcfault.ForOperator(s.Ambiguous, "The %s that %q meant no longer has this name. %s has it, which this group ignored or did not look for until then: set %s to its path if it is meant now.", s.Word, name, by.Path, s.Flag)
}

// Recorded returns what the name in a field means by a list; nil if the list doesn't say that. Zone is empty for names that mean the same in all zones.
func Recorded(list []v1alpha1.NamedObject, field, zone, name string) *v1alpha1.NamedObject {
	for i := range list {
		if o := &list[i]; o.Field == field && o.Zone == zone && o.Name == name {
			return o
		}
	}
	return nil
}

// Meaning is the record that a name means the object at i of all, which has the name as the objects at fits have. Nothing is recorded of a path from the root
// folder or a moRef, which nobody else can take.
func Meaning(field, zone, name string, all []Candidate, fits []int, i int) (o v1alpha1.NamedObject, recorded bool) {
	o = v1alpha1.NamedObject{Field: field, Zone: zone, Name: name, Object: all[i].Ref.String()}
	for _, other := range fits {
		if other != i && len(o.Ignored) < v1alpha1.MaxIgnored {
			o.Ignored = append(o.Ignored, v1alpha1.IgnoredObject{Object: all[other].Ref.String(), Path: all[other].Path})
		}
	}
	return o, name != "" && !strings.HasPrefix(name, "/") && name != o.Object
}

func (m *Meant) note(field, zone, name string, all []Candidate, fits []int, i int) {
	if m == nil {
		return
	}
	found, recorded := Meaning(field, zone, name, all, fits, i)
	if b := Recorded(m.before, field, zone, name); !recorded || b != nil && b.Equal(&found) {
		return
	}
	m.now = append(slices.DeleteFunc(m.now, func(old v1alpha1.NamedObject) bool { return old.IsOf(&found) }), found)
}

// RefOf returns the reference in a text of its type and moRef; zero if it is none.
func RefOf(object string) types.ManagedObjectReference {
	kind, moRef, _ := strings.Cut(object, ":")
	return types.ManagedObjectReference{Type: kind, Value: moRef}
}
