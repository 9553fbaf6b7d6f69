package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// allowing returns an inventory whose groups in the namespace shop can adopt VMs in /DC0/vm/legacy.
func allowing() *filled {
	s := newFilled()
	s.adopter.cluster, s.adopter.adoptFrom = "test", newAdoptFolders([]AdoptRule{{Namespace: "shop", Folder: "/DC0/vm/legacy"}})
	s.Publish(Reading{VCenter: "vc", Places: []Place{{"legacy", "Folder", "legacy", "vm"}, {"deep", "Folder", "deep", "legacy"},
		{"legacy2", "Folder", "legacy2", "vm"}, {"legacy1", "Folder", "legacy", "vm1"}, {"lost", "Folder", "lost", "nowhere"}}})
	s.notified, s.asked = nil, nil
	return s
}

func old(moRef, name, parent string) Machine {
	return Machine{VM: plan.VM{MoRef: moRef, Name: name, Folder: parent, ChangeVersion: "7", Reachable: true}, Parent: parent, Readable: true,
		InstanceUUID: "id-" + moRef, Whole: true}
}

func stamped(m Machine, change func(*stamp.Stamp)) Machine {
	s := stamp.Stamp{Cluster: "test", Namespace: "shop", Name: "web", UID: "uid-former", Ordinal: 3, InstanceUUID: m.InstanceUUID}
	change(&s)
	m.StampText = s.Encode()
	return m
}

// adopt queries twice, and reads the VMs that the first query asks for before the second one.
func (s *filled) adopt(machines []Machine, entries ...string) []plan.Candidate {
	ask := plan.Query{Adopt: entries}
	s.publish(machines...)
	s.State(web, ask)
	s.publish(machines...)
	return s.State(web, ask).Candidates
}

func TestAnEntryIsAPathOrAMoRefOfExactlyOneVMThatCanBeAdopted(t *testing.T) {
	t.Parallel()
	unreadable, light := old("vm-9", "dark", "legacy"), template("vm-8", "tmpl", "legacy")
	unreadable.Readable, unreadable.Unreachable = false, "inaccessible"
	off := old("vm-14", "off", "legacy")
	off.Reachable, off.Unreachable = false, "disconnected"
	machines := []Machine{old("vm-1", "a", "legacy"), old("vm-2", "b", "deep"), old("vm-3", "c", "legacy2"), old("vm-4", "d", "legacy1"),
		old("vm-5", "x%2fy", "legacy"), old("vm-6", "twin", "legacy"), old("vm-7", "twin", "legacy"), light, unreadable,
		old("vm-10", "e", "vm"), old("vm-11", "f", "lost"), old("vm-12", "g", "web"), off}
	for _, c := range []struct{ entry, moRef, reason, says string }{
		{"/DC0/vm/legacy/a", "vm-1", "", ""},
		{"DC0/vm/legacy/a", "vm-1", "", ""},
		{"legacy/a", "vm-1", "", ""},
		{"vm-1", "vm-1", "", ""},
		{"legacy/deep/b", "vm-2", "", ""},
		{"/DC0/vm/legacy/x%2fy", "vm-5", "", ""},
		{"a", "", vcfault.ReasonAdoptNotFound, "moRef"},
		{"", "", vcfault.ReasonAdoptNotFound, "moRef"},
		{"/", "", vcfault.ReasonAdoptNotFound, "inventory path"},
		{"legacy/", "", vcfault.ReasonAdoptNotFound, "inventory path"},
		{"vm-99", "", vcfault.ReasonAdoptNotFound, "vm-99"},
		{"/DC0/vm/legacy/z", "", vcfault.ReasonAdoptNotFound, "/DC0/vm/legacy/z"},
		{"legacy/twin", "", vcfault.ReasonAdoptAmbiguous, "vm-6, vm-7"},
		{"vm-6", "vm-6", "", ""},
		{"/DC1/vm/legacy/d", "", vcfault.ReasonAdoptNotFound, "can be adopted"},
		{"vm-4", "", vcfault.ReasonAdoptNotFound, "can be adopted"},
		{"legacy2/c", "", vcfault.ReasonAdoptNotFound, "can be adopted"},
		{"vm-3", "", vcfault.ReasonAdoptNotFound, "--adopt-from"},
		{"/DC0/vm/e", "", vcfault.ReasonAdoptNotFound, "--adopt-from"},
		{"vm-11", "", vcfault.ReasonAdoptNotFound, "can be adopted"}, // the VM's folder is unknown
		{"vm-12", "", vcfault.ReasonAdoptNotFound, "--adopt-from"},
		{"legacy/tmpl", "", vcfault.ReasonAdoptTemplate, "/DC0/vm/legacy/tmpl"},
		{"vm-9", "", vcfault.ReasonAdoptUnreadable, "inaccessible"},
		{"vm-14", "", vcfault.ReasonAdoptUnreadable, "disconnected"},
	} {
		s := allowing()
		got := s.adopt(machines, c.entry)
		switch {
		case len(got) != 1 || got[0].Entry != c.entry || got[0].MoRef != c.moRef || got[0].Ordinal != -1 || got[0].Done:
			t.Errorf("%q: %+v", c.entry, got)
		case c.reason == "" && (got[0].Fault != nil || got[0].ChangeVersion != "7" || got[0].Folder == "" || got[0].Name == ""):
			t.Errorf("%q: %+v, %+v", c.entry, got[0], got[0].Fault)
		case c.reason != "" && (got[0].Fault == nil || got[0].Fault.Reason != c.reason || !got[0].Fault.NeedsOperator || !strings.Contains(got[0].Fault.Message, c.says)):
			t.Errorf("%q: %+v, not %s with %q", c.entry, got[0].Fault, c.reason, c.says)
		}
	}
}

func TestByDefaultNothingCanBeAdoptedAndARuleIsForItsNamespace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules []AdoptRule
		may   bool
	}{
		{nil, false},
		{[]AdoptRule{{Namespace: "bank", Folder: "/DC0/vm/legacy"}}, false},
		{[]AdoptRule{{Namespace: "bank", Folder: "/DC0/vm"}, {Namespace: "*", Folder: "/DC0/vm/legacy/"}}, true},
		{[]AdoptRule{{Namespace: "shop", Folder: "/DC0/vm"}}, true},
		{[]AdoptRule{{Namespace: "shop", Folder: "/DC0/vm/legacy/a"}}, false},
		{[]AdoptRule{{Namespace: "shop", Folder: "/DC0/vm/leg"}}, false},
	} {
		s := allowing()
		s.adopter.adoptFrom = newAdoptFolders(c.rules)
		got := s.adopt([]Machine{old("vm-1", "a", "legacy")}, "vm-1")[0]
		if (got.Fault == nil) != c.may || !c.may && len(s.asked) > 0 {
			t.Errorf("%v: %+v, asked for %v", c.rules, got.Fault, s.asked)
		}
	}
}

func TestOnlyAFormerIncarnationsStampCanBeOverwritten(t *testing.T) {
	t.Parallel()
	vm := old("vm-1", "a", "legacy")
	copied := func(s *stamp.Stamp) { s.InstanceUUID = "another" }
	garbled, newer := vm, vm
	garbled.StampText, newer.StampText = "{", `{"v":99}`
	for _, c := range []struct {
		what, cluster string
		machine       Machine
		ordinal       int32
		says          string
	}{
		{"none", "test", vm, -1, ""},
		{"a former incarnation's", "test", stamped(vm, func(*stamp.Stamp) {}), 3, ""},
		{"a copy of a former incarnation's", "test", stamped(vm, copied), 3, ""},
		{"a copy of our own", "test", stamped(vm, func(s *stamp.Stamp) { s.UID = web.UID; copied(s) }), 3, ""},
		{"one of another cluster", "test", stamped(vm, func(s *stamp.Stamp) { s.Cluster = "prod" }), 0, "web-3 of the group shop/web in the cluster prod"},
		{"one of no cluster", "test", stamped(vm, func(s *stamp.Stamp) { s.Cluster = "" }), 0, "web-3 of the group shop/web:"},
		{"one of no cluster, nor have we one", "", stamped(vm, func(s *stamp.Stamp) { s.Cluster = "" }), 0, "--cluster-id"},
		{"one of another group", "test", stamped(vm, func(s *stamp.Stamp) { s.Name = "db" }), 0, "db-3 of the group shop/db"},
		{"one of another namespace", "test", stamped(vm, func(s *stamp.Stamp) { s.Namespace = "bank" }), 0, "group bank/web"},
		{"a copy of another group's", "test", stamped(vm, func(s *stamp.Stamp) { s.Name = "db"; copied(s) }), 0, "a copy of db-3"},
		{"a garbled one", "test", garbled, 0, stamp.Key},
		{"a newer one", "test", newer, 0, "newer version"},
	} {
		s := allowing()
		s.adopter.cluster = c.cluster
		got := s.adopt([]Machine{c.machine}, "legacy/a")[0]
		if c.says == "" {
			if got.Fault != nil || got.Ordinal != c.ordinal || got.Done {
				t.Errorf("%s: %+v, %+v", c.what, got, got.Fault)
			}
		} else if got.Fault == nil || got.Fault.Reason != vcfault.ReasonAdoptStamped || !got.Fault.NeedsOperator || !strings.Contains(got.Fault.Message, c.says) {
			t.Errorf("%s: %+v", c.what, got.Fault)
		}
	}
}

func TestAnEntryIsDoneWhileItsVMIsTheGroups(t *testing.T) {
	t.Parallel()
	s := allowing()
	adopted := stamped(old("vm-1", "web-3", "web"), func(st *stamp.Stamp) { st.UID, st.Former.Entry = web.UID, "legacy/a" })
	got := s.adopt([]Machine{adopted, old("vm-2", "a", "legacy")}, "legacy/a", "vm-1", "/DC0/vm/vm-operator/shop/web/web-3", "/DC0/vm/legacy/a")
	for i, c := range got {
		if done := i < 3; c.Done != done || done && (c.MoRef != "vm-1" || c.Ordinal != 3) || c.Fault != nil {
			t.Errorf("entry %d is %+v with the fault %v, want no fault, and done to be %t", i, c, c.Fault, done)
		}
	}
	s.Publish(Reading{VCenter: "vc", Gone: []string{"vm-1"}})
	if c := s.State(web, plan.Query{Adopt: []string{"legacy/a"}}).Candidates[0]; c.Done || c.MoRef != "vm-2" {
		t.Errorf("got the candidate %+v after the member was removed; want vm-2, not adopted", c)
	}
}

func TestTwoEntriesForOneVMAreAFault(t *testing.T) {
	t.Parallel()
	got := allowing().adopt([]Machine{old("vm-1", "a", "legacy")}, "legacy/a", "vm-1")
	if got[0].Fault != nil || got[1].Fault == nil || got[1].Fault.Reason != vcfault.ReasonAdoptAmbiguous || !strings.Contains(got[1].Fault.Message, "legacy/a") {
		t.Errorf("the faults are %v and %v, want one for the second entry that names the first", got[0].Fault, got[1].Fault)
	}
}

func TestACandidateIsReadOnceAndItsGroupIsNotifiedThenAndWhenItChanges(t *testing.T) {
	t.Parallel()
	s := allowing()
	ask := plan.Query{Adopt: []string{"legacy/a"}}
	light := old("vm-1", "a", "legacy")
	light.Whole, light.ChangeVersion = false, ""
	s.publish(light)
	for range 3 {
		c := s.State(web, ask).Candidates[0]
		if c.Fault == nil || c.Fault.Reason != vcfault.ReasonAdoptReading || !c.Fault.Transient || c.Fault.NeedsOperator {
			t.Fatalf("the fault is %+v, want a transient AdoptReading", c.Fault)
		}
	}
	if !slices.Equal(s.asked, []string{"vm-1"}) {
		t.Errorf("the inventory asked for reads of %v; want %v", s.asked, []string{"vm-1"})
	}
	for _, version := range []string{"7", "8"} {
		s.notified = nil
		m := old("vm-1", "a", "legacy")
		m.ChangeVersion = version
		s.publish(m)
		if !slices.Equal(s.notified, []types.UID{web.UID}) {
			t.Errorf("the groups %v were notified; want %v", s.notified, []types.UID{web.UID})
		}
		if c := s.State(web, ask).Candidates[0]; c.Fault != nil || c.ChangeVersion != version {
			t.Errorf("the candidate is %+v with the fault %v, want the changeVersion %s and no fault", c, c.Fault, version)
		}
	}
	s.notified = nil
	s.publish(light) // by a scan that began before the change
	if c := s.State(web, ask).Candidates[0]; c.ChangeVersion != "8" || len(s.notified) > 0 {
		t.Errorf("%+v, notified %v", c, s.notified)
	}
}

func TestAGroupThatStopsAskingIsForgottenByTheSecondScan(t *testing.T) {
	t.Parallel()
	s := allowing()
	s.adopt([]Machine{old("vm-1", "a", "legacy")}, "legacy/a")
	scan := Reading{VCenter: "vc", Complete: true, Places: somePlaces(), Machines: []Machine{old("vm-1", "a", "vm")}}
	for i, want := range []int{1, 0} {
		s.Publish(scan)
		if n := s.Count().Candidates; n != want {
			t.Errorf("after %d scans more is kept of %d unmanaged VMs; want %d", i+1, n, want)
		}
	}
}

func TestAnAnswerAboutAdoptionIsRememberedUntilSomethingChanges(t *testing.T) {
	t.Parallel()
	s := allowing()
	first := s.adopt([]Machine{old("vm-1", "a", "legacy")}, "legacy/a")
	again := s.State(web, plan.Query{Adopt: []string{"legacy/a"}}).Candidates
	if &first[0] != &again[0] {
		t.Error("the second query looked the entry up again")
	}
	s.Publish(Reading{VCenter: "vc", Places: []Place{{"legacy", "Folder", "older", "vm"}}})
	if c := s.State(web, plan.Query{Adopt: []string{"legacy/a"}}).Candidates[0]; c.Fault == nil || c.Fault.Reason != vcfault.ReasonAdoptNotFound {
		t.Errorf("got the candidate %+v after its folder was renamed; want %s", c, vcfault.ReasonAdoptNotFound)
	}
	other := plan.Ref{Namespace: "bank", Name: "web", UID: web.UID}
	if c := s.State(other, plan.Query{Adopt: []string{"older/a"}}).Candidates[0]; c.Fault == nil || c.Fault.Reason != vcfault.ReasonAdoptNotFound {
		t.Errorf("of another namespace: %+v", c)
	}
}

func BenchmarkStateOfAGroupThatAdoptedAHundred(b *testing.B) {
	n := many()
	n.adopter.adoptFrom = newAdoptFolders([]AdoptRule{{Namespace: "*", Folder: "/DC0/vm"}})
	ask := plan.Query{Template: "ubuntu"}
	for i := range 100 {
		ask.Adopt = append(ask.Adopt, "/DC0/vm/unmanaged-"+strings.Repeat("1", 1+i%4))
	}
	ref := plan.Ref{Namespace: "shop", Name: "web", UID: "uid-500"}
	b.ReportAllocs()
	for b.Loop() {
		if s := n.State(ref, ask); len(s.Candidates) != 100 {
			b.Fatalf("%+v", s)
		}
	}
}

// The message must reveal nothing about a VM that no rule allows: neither whether the VM exists, nor its place, kind or group.
func TestAllVMsThatNoRuleAllowsGetTheSameMessage(t *testing.T) {
	t.Parallel()
	secret := stamped(old("vm-3", "crown", "legacy2"), func(s *stamp.Stamp) { s.Namespace, s.Name = "bank", "vault" })
	machines := []Machine{old("vm-1", "a", "legacy"), secret, old("vm-4", "d", "legacy1"), template("vm-5", "tmpl", "legacy2"),
		old("vm-6", "twin", "legacy2"), old("vm-7", "twin", "legacy2")}
	for _, namespace := range []string{"shop", "none"} {
		s := allowing()
		s.publish(machines...)
		seen := map[plan.Fault]bool{}
		for _, entry := range []string{"vm-3", "vm-4", "vm-5", "vm-99", "/DC0/vm/legacy2/crown", "/DC0/vm/legacy2/none", "legacy2/twin", "/DC1/vm/legacy/d"} {
			ref := plan.Ref{Namespace: namespace, Name: "web", UID: "uid-" + types.UID(namespace)}
			got := s.State(ref, plan.Query{Adopt: []string{entry}}).Candidates[0]
			if got.Fault == nil || got.MoRef != "" || got.Name != "" || got.Folder != "" || !strings.Contains(got.Fault.Message, strconv.Quote(entry)) {
				t.Fatalf("%s: %+v", entry, got)
			}
			same := *got.Fault
			same.Message = strings.ReplaceAll(same.Message, strconv.Quote(entry), "…")
			seen[same] = true
		}
		if len(seen) != 1 || len(s.asked) > 0 {
			t.Errorf("%s: %d sentences, asked for %v: %v", namespace, len(seen), s.asked, seen)
		}
	}
}

func TestAVMThatIsNoTemplateLooksLikeOneThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newFilled()
	s.publish(template("vm-1", "ubuntu", "vm"), old("vm-2", "web-0", "web"))
	look := func(name string) string {
		return strings.ReplaceAll(fmt.Sprintf("%+v", s.State(web, plan.Query{Template: name}).Template), name, "…")
	}
	if there, none := look("web-0"), look("none"); there != none {
		t.Errorf("%s\n%s", there, none)
	}
}

func TestEverySearchEndsThoughPlacesContainEachOther(t *testing.T) {
	p := newPlaces(2)
	p.put(Place{MoRef: "a", Kind: "Folder", Name: "a", Parent: "b"})
	p.put(Place{MoRef: "b", Kind: "Folder", Name: "b", Parent: "a"})
	if p.datacenter("a") != "" || p.names("a") != nil || len(p.path("a", "x")) > 3*deepest {
		t.Errorf("the datacenter is %q, the names are %v, want none; the path is %q, want at most %d names", p.datacenter("a"), p.names("a"), p.path("a", "x"), deepest)
	}
}
