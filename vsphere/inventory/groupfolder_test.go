package inventory

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// abroad returns an inventory with a group's folder in a second datacenter, and with two datacenters that have one name.
func abroad() *filled {
	s := newFilled()
	s.Publish(Reading{VCenter: "vc", Places: []Place{{"teams", "Folder", "teams", "vm1"}, {"groups1", "Folder", "vmgroups", "teams"}, {"shop1", "Folder", "shop", "groups1"},
		{"web1", "Folder", "web", "shop1"}, {"q1", "Folder", plan.QuarantineFolder, "web1"}, {"app", "VirtualApp", "app", "vm"},
		{"north", "Folder", "north", "top"}, {"south", "Folder", "south", "top"}, {"twinA", "Datacenter", "twin", "north"},
		{"twinB", "Datacenter", "twin", "south"}, {"vmA", "Folder", "vm", "twinA"}, {"own1", "Folder", "vm-operator", "vm1"},
		{"shopOwn1", "Folder", "shop", "own1"}, {"webOwn1", "Folder", "web", "shopOwn1"},
		{"odd", "Folder", "50%25", "teams"}, {"odder", "Folder", "a%2fb", "odd"}, {"groupsOdd", "Folder", "vmgroups", "odder"}, {"shopOdd", "Folder", "shop", "groupsOdd"}, {"webOdd", "Folder", "web", "shopOdd"}}})
	s.publish(template("vm-1", "ubuntu", "vm"), template("vm-2", "ubuntu", "vm1"))
	s.notified, s.asked = nil, nil
	return s
}

func (s *filled) at(placement plan.Home) plan.VCenterState {
	return s.State(web, plan.Query{Template: "ubuntu", Home: placement})
}

func TestAGroupsFolderAndTemplateAreLookedUpInItsDatacenter(t *testing.T) {
	t.Parallel()
	s := abroad()
	for _, c := range []struct {
		home                           plan.Home
		folder, quarantine, datacenter string
	}{
		{plan.Home{}, "web", "", "DC0"},
		{plan.Home{Datacenter: "DC0"}, "web", "", "DC0"},
		{plan.Home{Folder: "vm-operator"}, "web", "", "DC0"},
		{plan.Home{Datacenter: "DC0", Folder: "vm-operator"}, "web", "", "DC0"},
		{plan.Home{Datacenter: "DC1", Folder: "teams"}, "web1", "q1", "DC1"},
		{plan.Home{Datacenter: "/DC1", Folder: "teams"}, "web1", "q1", "DC1"},
		{plan.Home{Datacenter: "DC1"}, "webOwn1", "", "DC1"},
		{plan.Home{Datacenter: "DC1", Folder: "teams/50%/a%2Fb"}, "webOdd", "", "DC1"},
		{plan.Home{Datacenter: "DC1", Folder: "teams/50%25/a%2fb"}, "webOdd", "", "DC1"},
		{plan.Home{Datacenter: "DC1", Folder: "none/yet"}, "", "", "DC1"},
		{plan.Home{Folder: "teams"}, "", "", "DC0"},
		{plan.Home{Datacenter: "north/twin", Folder: "teams"}, "", "", "twin"},
	} {
		for range 2 { // the second answer comes from the cache
			got := s.at(c.home)
			if got.Fault != nil || got.Folder != c.folder || got.Quarantine != c.quarantine || got.Template.Datacenter != c.datacenter {
				t.Errorf("%+v: %+v, %+v", c.home, got, got.Fault)
			}
			if want := map[string]string{"DC0": "vm-1", "DC1": "vm-2", "twin": ""}[c.datacenter]; got.Template.MoRef != want {
				t.Errorf("%+v: the template is %q, not %q", c.home, got.Template.MoRef, want)
			}
		}
	}
}

func TestADatastoreIsOneTargetHoweverItIsNamed(t *testing.T) {
	t.Parallel()
	s := abroad()
	none := *s.folders.settings
	own := none
	own.datastoreName = "fast"
	for _, c := range []struct {
		ask  plan.Query
		want string // the result with the datastore in the settings
		none string // the result without a datastore in the settings
	}{
		{plan.Query{}, "DC0/fast", ""},
		{plan.Query{Datastore: "fast"}, "DC0/fast", "DC0/fast"},
		{plan.Query{Datastore: "/DC0/datastore/cluster/fast"}, "DC0/fast", "DC0/fast"},
		{plan.Query{Datastore: "cluster/fast/", StoragePolicy: "gold"}, "DC0/fast", "DC0/fast"},
		{plan.Query{StoragePolicy: "gold"}, "", ""},
		{plan.Query{Datastore: "a%2fb"}, "DC0/a/b", "DC0/a/b"},
		{plan.Query{Home: plan.Home{Datacenter: "/DC0", Folder: "teams"}}, "DC0/fast", ""},
		{plan.Query{Home: plan.Home{Datacenter: "DC1"}}, "", ""},
		{plan.Query{Home: plan.Home{Datacenter: "DC1"}, Datastore: "fast"}, "DC1/fast", "DC1/fast"},
		{plan.Query{Home: plan.Home{Datacenter: "north/twin"}, Datastore: "fast"}, "north/twin/fast", "north/twin/fast"},
	} {
		s.SetSettings(&own, nil)
		if got := s.State(web, c.ask).Target; got != c.want {
			t.Errorf("%+v: %q; want %q", c.ask, got, c.want)
		}
		s.SetSettings(&none, nil)
		if got := s.State(web, c.ask).Target; got != c.none {
			t.Errorf("%+v, without a datastore in the settings: %q; want %q", c.ask, got, c.none)
		}
	}
}

func TestAnImpossiblePlacementAffectsOnlyItsGroup(t *testing.T) {
	t.Parallel()
	s := abroad()
	for _, c := range []struct {
		home   plan.Home
		reason string
		says   []string
	}{
		{plan.Home{Datacenter: "DC9"}, vcfault.ReasonDatacenterNotFound, []string{"spec.placement.datacenter", `"DC9"`, "/DC0, /DC1, /north/twin, /south/twin"}},
		{plan.Home{Datacenter: "twin"}, vcfault.ReasonDatacenterAmbiguous, []string{"spec.placement.datacenter", "/north/twin, /south/twin"}},
		{plan.Home{Datacenter: "south/twin"}, vcfault.ReasonFolderNotFound, []string{"twin"}}, // the account can't see the datacenter's VM folder
		{plan.Home{Folder: "vm-operator/shop"}, vcfault.ReasonHomeForbidden, []string{"spec.placement.folder", "vm-operator/shop"}},
		{plan.Home{Datacenter: "DC0", Folder: "vm-operator/x/y"}, vcfault.ReasonHomeForbidden, nil},
		{plan.Home{Datacenter: "DC1", Folder: "vm-operator/shop"}, vcfault.ReasonHomeForbidden, nil}, // the folder of groups that name only DC1
		{plan.Home{Folder: "teams/%76mgroups"}, vcfault.ReasonHomeForbidden, nil},
		{plan.Home{Folder: "app/x"}, vcfault.ReasonFolderNotFound, []string{"/DC0/vm/app ", "spec.placement.folder"}},
	} {
		got := s.at(c.home)
		if got.Fault == nil || got.Fault.Reason != c.reason || !got.Fault.NeedsOperator || !vctest.Mentions(got.Fault.Message, c.says...) || got.Folder != "" || !got.Known {
			t.Errorf("%+v: %+v, %+v", c.home, got, got.Fault)
		}
		if again := s.at(c.home); *again.Fault != *got.Fault {
			t.Errorf("%+v: %+v, then %+v", c.home, got.Fault, again.Fault)
		}
		s.Publish(Reading{VCenter: "vc", Places: []Place{{"other", "Folder", "other-" + c.reason, "vm"}}}) // makes the inventory look up everything again
		if again := s.at(c.home); again.Fault == nil || *again.Fault != *got.Fault {
			t.Errorf("%+v: %+v, and after another folder changed %+v", c.home, got.Fault, again.Fault)
		}
	}
	if got := s.at(plan.Home{}); got.Fault != nil || got.Folder != "web" {
		t.Errorf("another group: %+v", got)
	}
	s.Publish(Reading{VCenter: "vc", Places: []Place{{"groups", "Folder", "vmgroups", "root"}, {"deepShop", "Folder", "shop", "groups"}, {"deep", "Folder", "deep", "deepShop"}}})
	s.locate("dc", "DC0", "vm", "deep") // --folder vm-operator/vmgroups/shop/deep
	for namespace, refused := range map[string]bool{"shop": true, "bank": false} {
		got := s.State(plan.Ref{Namespace: namespace, Name: "deep", UID: "uid"}, plan.Query{Home: plan.Home{Folder: "vm-operator"}})
		if (got.Fault != nil) != refused {
			t.Errorf("above the server's own folder, in the namespace %s: %+v", namespace, got.Fault)
		}
	}
}

func TestAGroupKeepsThePlacementThatItsStampsName(t *testing.T) {
	t.Parallel()
	s := abroad()
	m := machine("uid-web", 0)
	away := plan.Home{Datacenter: "DC1", Folder: "teams"}
	stamp, err := stamp.Decode(m.StampText)
	must.Succeed(t, err)
	s.publish(m)
	if got := s.at(away); got.Folder != "web" {
		t.Errorf("got the state %+v; want the folder web, because the member's stamp has no home", got)
	}
	stamp.Home = away.String()
	m.StampText = stamp.Encode()
	s.publish(m)
	for _, asked := range []plan.Home{{}, away, {Datacenter: "DC9"}, {Folder: "teams"}} {
		if got := s.at(asked); got.Folder != "web1" || got.Fault != nil || got.Template.MoRef != "vm-2" {
			t.Errorf("asked for %+v: %+v", asked, got)
		}
	}
	s.publish(machine("uid-web", 1)) // a member of an older spec
	if got := s.at(away); got.Folder != "web" {
		t.Errorf("got the state %+v; want the folder web, because the older member's stamp has no home", got)
	}
	s.Publish(Reading{VCenter: "vc", Gone: []string{m.MoRef, machine("uid-web", 1).MoRef}})
	if got := s.at(away); got.Folder != "web1" {
		t.Errorf("got the state %+v; want the spec's folder web1, because the group has no members", got)
	}
}

func TestAPlacementKeyIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, placement := range []plan.Home{{}, {Datacenter: "DC1"}, {Folder: "a/b"}, {Datacenter: "/x/DC1", Folder: "a:b"}} {
		if got := parsePlacement(placement.String()); got != placement {
			t.Errorf("%+v became %+v", placement, got)
		}
	}
}

func TestAGroupIsNotifiedOfItsFolderInAnotherDatacenter(t *testing.T) {
	t.Parallel()
	s := abroad()
	placement := plan.Home{Datacenter: "DC1", Folder: "new/teams"}
	s.at(placement)
	publish := func(what string, r Reading, want ...types.UID) {
		t.Helper()
		s.notified, r.VCenter = nil, "vc"
		s.Publish(r)
		if !slices.Equal(s.notified, want) {
			t.Errorf("%s: notified %v, not %v", what, s.notified, want)
		}
	}
	publish("the folder and those that it is in come, in any order", Reading{Places: []Place{{"web2", "Folder", "web", "shop2"},
		{"shop2", "Folder", "shop", "groups2"}, {"groups2", "Folder", "vmgroups", "teams2"}, {"teams2", "Folder", "teams", "new"}, {"new", "Folder", "new", "vm1"}}}, web.UID)
	if got := s.at(placement); got.Folder != "web2" {
		t.Fatalf("the state is %+v, want the folder web2", got)
	}
	publish("its quarantine comes", Reading{Places: []Place{{"q2", "Folder", plan.QuarantineFolder, "web2"}}}, web.UID)
	publish("the same again", Reading{Places: []Place{{"web2", "Folder", "web", "shop2"}}})
	publish("an unknown folder goes", Reading{Places: []Place{{"x", "Folder", "x", "vm1"}}})
	publish("it goes", Reading{Gone: []string{"web2"}}, web.UID)
	publish("its datacenter is renamed: it is the same one", Reading{Places: []Place{{"dc1", "Datacenter", "DC7", "top"}}}, "")
	if got := s.at(placement); got.Fault != nil || got.Template.MoRef != "vm-2" {
		t.Errorf("the state is %+v, want the template vm-2 and no fault", got)
	}
	publish("and back", Reading{Places: []Place{{"dc1", "Datacenter", "DC1", "top"}}}, "")
	if got := s.at(placement); got.Fault != nil || got.Template.MoRef != "vm-2" {
		t.Errorf("the state is %+v, want the template vm-2 and no fault", got)
	}
	for range 2 { // scans
		s.Publish(Reading{VCenter: "vc", Complete: true, Places: somePlaces()})
	}
	if len(s.requesters.placements) != 0 {
		t.Errorf("the placements %v are remembered after two scans without a query; want none", s.requesters.placements)
	}
}

func TestVMsAreAdoptedFromTheGroupsOwnDatacenter(t *testing.T) {
	t.Parallel()
	s := allowing()
	s.adopter.adoptFrom = newAdoptFolders([]AdoptRule{{Namespace: "shop", Folder: "/DC0/vm/legacy"}, {Namespace: "shop", Folder: "/DC1/vm/legacy"}})
	here, there := old("vm-1", "a", "legacy"), old("vm-2", "a", "legacy1")
	s.publish(here, there)
	look := func(placement plan.Home) []plan.Candidate {
		return s.State(web, plan.Query{Home: placement, Adopt: []string{"legacy/a", "vm-1", "vm-2"}}).Candidates
	}
	away := plan.Home{Datacenter: "DC1", Folder: "teams"}
	look(plan.Home{})
	look(away)
	s.publish(here, there)
	got := look(away)
	if got[0].MoRef != "vm-2" || got[1].Fault == nil || got[1].Fault.Reason != vcfault.ReasonAdoptElsewhere || !strings.Contains(got[1].Fault.Message, "DC1") {
		t.Errorf("the candidates are %+v, and the second fault is %v, want vm-2, and AdoptElsewhere that names DC1", got, got[1].Fault)
	}
	if _, err := s.AdoptableNow(web, "vm-2"); err != nil {
		t.Error(err)
	}
	got = look(plan.Home{})
	if got[0].MoRef != "vm-1" || got[2].Fault == nil || got[2].Fault.Reason != vcfault.ReasonAdoptElsewhere {
		t.Errorf("the candidates are %+v, want vm-1, and AdoptElsewhere for the third", got)
	}
	if _, err := s.AdoptableNow(web, "vm-2"); vctest.ReasonOf(t, err) != vcfault.ReasonAdoptElsewhere {
		t.Error(err)
	}
}
