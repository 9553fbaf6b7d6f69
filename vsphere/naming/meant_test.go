package naming

import (
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestAnObjectIsPickedByWhatItsNameMeantBefore(t *testing.T) {
	field := Setting{Word: "network", Flag: "spec.networks", Missing: vcfault.ReasonNetworkNotFound, Ambiguous: vcfault.ReasonNetworkAmbiguous}
	a, b, c := object("Network", "network-1", "/DC0/network/a/web", ""), object("Network", "network-2", "/DC0/network/b/web", ""), object("Network", "network-3", "/DC0/network/c/web", "")
	renamed := object("Network", "network-1", "/DC0/network/a/old", "")
	means := func(o Candidate, ignored ...Candidate) *v1alpha1.NamedObject {
		x := v1alpha1.NamedObject{Field: field.Flag, Name: "web", Object: o.Ref.String()}
		for _, i := range ignored {
			x.Ignored = append(x.Ignored, v1alpha1.IgnoredObject{Object: i.Ref.String(), Path: i.Path})
		}
		return &x
	}
	for what, x := range map[string]struct {
		before *v1alpha1.NamedObject
		all    []Candidate
		name   string
		want   *v1alpha1.NamedObject // nil: refused
	}{
		"the only one":                                   {nil, []Candidate{a}, "web", means(a)},
		"two, and nothing is known":                      {nil, []Candidate{a, b}, "web", nil},
		"two, one was meant":                             {means(b), []Candidate{a, b}, "web", means(b, a)},
		"it lost the name, another got it":               {means(a), []Candidate{renamed, b}, "web", means(b)},
		"it is gone":                                     {means(a), []Candidate{b}, "web", means(b)},
		"it lost the name, two got it":                   {means(a), []Candidate{renamed, b, c}, "web", nil},
		"it lost the name, an ignored one has it":        {means(a, b), []Candidate{renamed, b}, "web", nil},
		"so does a new one":                              {means(a, b), []Candidate{renamed, b, c}, "web", means(c, b)},
		"more were ignored than are listed":              {means(a, b, b, b, b, b), []Candidate{renamed, c}, "web", nil},
		"the ignored one is gone":                        {means(a, b), []Candidate{a}, "web", means(a)},
		"another field's record":                         {&v1alpha1.NamedObject{Field: "spec.template", Name: "web", Object: b.Ref.String()}, []Candidate{a, b}, "web", nil},
		"a path needs no record":                         {nil, []Candidate{a, b}, "/DC0/network/b/web", &v1alpha1.NamedObject{}},
		"nor does a moRef":                               {nil, []Candidate{a, b}, "Network:network-2", &v1alpha1.NamedObject{}},
		"the end of a path is a name, too":               {nil, []Candidate{a, b}, "b/web", &v1alpha1.NamedObject{Field: field.Flag, Name: "b/web", Object: b.Ref.String()}},
		"a record of an object that never had this name": {means(c), []Candidate{a, object("Network", "network-3", "/DC0/network/c/db", "")}, "web", means(a)},
	} {
		m := NewMeant(nil)
		if x.before != nil {
			m = NewMeant([]v1alpha1.NamedObject{*x.before})
		}
		i, err := field.Pick(m, "", x.name, x.all, Matching(x.name, x.all))
		switch {
		case x.want == nil:
			if e := vcfault.Classify("", err); e == nil || e.Reason != field.Ambiguous || !strings.Contains(e.Message, "spec.networks to") || len(m.Now()) > 0 {
				t.Errorf("%s: picked %d, with the error %v, and noted %+v; want it refused, and told what to write", what, i, err, m.Now())
			}
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case x.want.Object == "" && (len(m.Now()) > 0 || x.all[i].Ref != b.Ref):
			t.Errorf("%s: picked %v, and noted %+v; want %v, and nothing noted", what, x.all[i].Ref, m.Now(), b.Ref)
		case x.want.Object == "":
		case x.before != nil && x.before.Equal(x.want) && len(m.Now()) > 0 || (x.before == nil || !x.before.Equal(x.want)) && (len(m.Now()) != 1 || !m.Now()[0].Equal(x.want)) || x.all[i].Ref.String() != x.want.Object:
			t.Errorf("%s: picked %v, and noted %+v; want %+v", what, x.all[i].Ref, m.Now(), x.want)
		}
	}
}
