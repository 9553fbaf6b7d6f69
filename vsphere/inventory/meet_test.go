package inventory

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
		t.Error("the folder Shop is not found as shop or SHOP, or it is found as shops")
	}
	p.put(Place{MoRef: "b", Kind: "Folder", Name: "shop", Parent: "root"})
	if p.below("root", "shop") != "b" || p.below("root", "Shop") != "a" {
		t.Error("of the folders Shop and shop, the one with the exact name does not come first")
	}
	p.drop("b")
	p.put(Place{MoRef: "a", Kind: "Folder", Name: "Shop", Parent: "root"})
	if p.below("root", "shop") != "a" {
		t.Error("the folder Shop is not found as shop after the folder shop was removed")
	}
}

// Wherever two groups have their folders, the path of one must not lead through the other's folder: the path's next folder would take a name
// there, such as web-1 or quarantine.
func TestNoFolderOfAGroupIsInAnothers(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"apps", "shop", "web", "web-1", "quarantine", "vm-operator", "VM-Operator", "vmgroups"})
	rapid.Check(t, func(t *rapid.T) {
		s := newFilled()
		s.folders.own.Path = rapid.SliceOfN(name, 1, 3).Draw(t, "--folder")
		groupAt := func(folder []string, namespace, group string) []string {
			at := s.folders.lookUp(plan.Home{Folder: strings.Join(folder, "/")}, nil)
			if at.refusal(plan.Ref{Namespace: namespace, Name: group, UID: "uid"}) != nil {
				return nil
			}
			return slices.Concat(at.Path, []string{namespace, group})
		}
		victim := groupAt(rapid.SliceOfN(name, 0, 3).Draw(t, "victim's folder"), name.Draw(t, "victim's namespace"), name.Draw(t, "victim"))
		// The other group's path begins with any part of the victim's path and continues with names of its own.
		path := slices.Concat(victim[:rapid.IntRange(0, len(victim)).Draw(t, "of the victim's path")], rapid.SliceOfN(name, 2, 4).Draw(t, "rest"))
		other := groupAt(path[:len(path)-2], path[len(path)-2], path[len(path)-1])
		if victim != nil && len(victim) < len(other) && slices.EqualFunc(victim, other[:len(victim)], strings.EqualFold) {
			t.Fatalf("%q is in %q, with --folder %q", other, victim, s.folders.own.Path)
		}
	})
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
			t.Errorf("%v: %v; want %v", c.networks, got, c.want)
		}
	}
}
