package plan

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// A record of another vCenter must never name a VM of this one, and the record of a VM that is here must always do so.
func TestTheRecordsOfAGroupThatMovedNameTheirVCenter(t *testing.T) {
	group := func(word, in string, moRefs ...string) *v1alpha1.VmGroup {
		g := &v1alpha1.VmGroup{Status: v1alpha1.VmGroupStatus{VCenterUUID: in}}
		g.Annotations = map[string]string{v1alpha1.AnnotationMovedTo: word}
		for _, moRef := range moRefs {
			g.Status.Members = append(g.Status.Members, v1alpha1.Member{MoRef: moRef})
			g.Status.Disks = append(g.Status.Disks, v1alpha1.PersistentDisk{MoRef: moRef})
			g.Status.Quarantined = append(g.Status.Quarantined, v1alpha1.Quarantined{MoRef: moRef})
			g.Status.Standby = append(g.Status.Standby, v1alpha1.StandbyMember{MoRef: moRef})
			g.Status.GivenUp = append(g.Status.GivenUp, v1alpha1.GivenUp{MoRef: moRef})
			g.Status.Strays = append(g.Status.Strays, v1alpha1.Stray{MoRef: moRef})
		}
		return g
	}
	for name, c := range map[string]struct {
		word, in, connected string
		moRef, want         string
	}{
		"no word":                         {"", "old", "new", "vm-1", "vm-1"},
		"the word for another":            {"other", "old", "new", "vm-1", "vm-1"},
		"moved":                           {"new", "old", "new", "vm-1", "vm-1:old"},
		"moved before":                    {"new", "new", "new", "vm-1", "vm-1"},
		"moved before, and still missing": {"new", "new", "new", "vm-1:old", "vm-1:old"},
		"moved again, and missing since":  {"newer", "new", "newer", "vm-1:old", "vm-1:old"},
		"moved again":                     {"newer", "new", "newer", "vm-1", "vm-1:new"},
		"back":                            {"old", "new", "old", "vm-1:old", "vm-1"},
		"back, of one that the other vCenter has": {"old", "new", "old", "vm-1", "vm-1:new"},
		"of an unknown vCenter":                   {"new", "", "new", "vm-1", "vm-1"},
		"a disk that no VM has":                   {"new", "old", "new", "", ""},
		"vCenter is unknown":                      {"", "old", "", "vm-1", "vm-1"},
	} {
		g := group(c.word, c.in, c.moRef)
		s := &Moved(g, c.connected).Status
		for _, got := range []string{s.Members[0].MoRef, s.Disks[0].MoRef, s.Quarantined[0].MoRef, s.Standby[0].MoRef, s.GivenUp[0].MoRef, s.Strays[0].MoRef} {
			if got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
		if g.Status.Members[0].MoRef != c.moRef || g.Status.VCenterUUID != c.in {
			t.Errorf("%s: the group itself has changed", name)
		}
		if ask := queryOf(g, false).In(c.connected); ask.Recorded[0].MoRef != c.want || ask.RecordedIn != s.VCenterUUID || len(ask.Recorded) != 3 || ask.Awaits != (c.word == c.connected && c.word != "") {
			t.Errorf("%s: the query is %+v", name, ask)
		}
	}
}
