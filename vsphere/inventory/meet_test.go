package inventory

import (
	"net/netip"
	"slices"
	"testing"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

func TestAFolderInTheServersOwnIsRefusedInAnyCase(t *testing.T) {
	t.Parallel()
	for folder, free := range map[string]bool{"vm-operator/shop": false, "VM-Operator/shop": false, "VM-OPERATOR/SHOP/web": false, "vm-operators": true} {
		s := newFilled()
		fault := s.State(web, plan.Query{Home: plan.Home{Folder: folder}}).Fault
		if refused := fault != nil && fault.Reason == vcfault.ReasonHomeForbidden; refused == free {
			t.Errorf("%s: %+v", folder, fault)
		}
	}
}

func TestAFolderIsFoundInAnyCaseAndTheExactOneFirst(t *testing.T) {
	t.Parallel()
	p := newPlaces(4)
	p.put(Place{MoRef: "a", Kind: "Folder", Name: "Shop", Parent: "root"})
	if p.below("root", "shop") != "a" || p.below("root", "SHOP") != "a" || p.below("root", "shops") != "" {
		t.Error("it is not found")
	}
	p.put(Place{MoRef: "b", Kind: "Folder", Name: "shop", Parent: "root"})
	if p.below("root", "shop") != "b" || p.below("root", "Shop") != "a" {
		t.Error("the exact one does not come first")
	}
	p.drop("b")
	p.put(Place{MoRef: "a", Kind: "Folder", Name: "Shop", Parent: "root"})
	if p.below("root", "shop") != "a" {
		t.Error("it is no longer found")
	}
}

// The group quarantine of the namespace web has its folder at teams/shop/web/quarantine, where the group web of the namespace shop
// has its quarantine, if the one has its home in teams/shop and the other in teams.
func TestAGroupNamedQuarantineDoesNotShareAnothersQuarantine(t *testing.T) {
	t.Parallel()
	places := []Place{{"teams", "Folder", "teams", "vm"}, {"teams-shop", "Folder", "shop", "teams"}, {"teams-web", "Folder", "web", "teams-shop"},
		{"theirs", "Folder", "quarantine", "teams-web"}}
	other := plan.Ref{Namespace: "web", Name: "quarantine", UID: "uid-other"}
	look := func(s *filled) *plan.Fault {
		return s.State(other, plan.Query{Home: plan.Home{Folder: "teams/shop"}}).Fault
	}
	s := newFilled()
	s.Publish(Reading{VCenter: "vc", Places: places})
	if fault := look(s); fault != nil {
		t.Errorf("without another group: %+v", fault)
	}
	s.State(web, plan.Query{Home: plan.Home{Folder: "teams"}})
	if fault := look(s); fault == nil || fault.Reason != vcfault.ReasonHomeForbidden || !fault.NeedsOperator {
		t.Errorf("beside a group that asks: %+v", fault)
	}
	s = newFilled()
	s.Publish(Reading{VCenter: "vc", Places: places})
	s.publish(stamped(old("vm-1", "web-0", "teams-web"), func(st *stamp.Stamp) { st.UID = web.UID }))
	if fault := look(s); fault == nil || fault.Reason != vcfault.ReasonHomeForbidden {
		t.Errorf("beside a group that has members: %+v", fault)
	}
	if fault := s.State(plan.Ref{Namespace: "shop", Name: "quarantine", UID: "uid-third"}, plan.Query{}).Fault; fault != nil {
		t.Errorf("a group of that name elsewhere is as it was: %+v", fault)
	}
}

func TestAddressesOfGuestsAreWithinTheNetworksThatTheFlagAllows(t *testing.T) {
	t.Parallel()
	vm := stamped(old("vm-1", "web-0", "web"), func(st *stamp.Stamp) { st.UID = web.UID })
	vm.IPs = []string{"10.0.0.7", "192.168.1.1", "fd00::7", "2001:db8::1"}
	for _, c := range []struct {
		networks []netip.Prefix
		want     []string
	}{
		{nil, vm.IPs},
		{[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, []string{"10.0.0.7", "fd00::7"}},
		{[]netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}, nil},
	} {
		s := newFilled()
		s.guestNetworks = c.networks
		s.publish(vm)
		if got := s.look().VMs[0].IPs; !slices.Equal(got, c.want) {
			t.Errorf("%v: %v", c.networks, got)
		}
	}
}
