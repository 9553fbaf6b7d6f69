package plan

import (
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// A spec names a network by its name, its inventory path, or the end of that.
func TestANetworkIsOneHoweverSpecsNameIt(t *testing.T) {
	claims := func(datacenter, network string) []Claim {
		g := &v1alpha1.VmGroup{}
		g.Spec.Placement.Datacenter = datacenter
		g.Spec.Networks = []v1alpha1.Network{{Network: network, IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.1-10.0.0.9"}}}}
		return ClaimsOf(g)
	}
	for _, c := range []struct {
		datacenter, network, otherDatacenter, other string
		one                                         bool
	}{
		{"", "web", "", "web", true},
		{"", "web", "", "/DC0/network/web", true},
		{"", "DVS0/web", "", "/DC0/network/DVS0/web", true},
		{"", "a%2fb", "", "/DC0/network/a%2fb", true},
		{"", "/DC0/network/web", "DC0", "/DC0/network/web", true},
		{"", "web", "", "Network:web", true},
		{"", "Network:web", "", "Network:/DC0/network/web", true},
		{"", "DistributedVirtualPortgroup:web", "", "OpaqueNetwork:web", false},
		{"", "web", "", "/DC0/network/cobweb", false},
		{"", "web", "", "db", false},
		{"", "/DC0/network/web", "", "/DC1/network/web", false},
		{"", "/web", "", "/DC0/network/web", false},
		{"DC0", "web", "DC1", "web", false},
		{"DC0", "web", "DC1", "/DC1/network/web", false},
	} {
		a, b := claims(c.datacenter, c.network), claims(c.otherDatacenter, c.other)
		for _, says := range []string{SharedClaim(a, b, "the group web"), SharedClaim(b, a, "the group web")} {
			if (says != "") != c.one {
				t.Errorf("%+v: %q", c, says)
			}
		}
		// whose names of things in vCenter another namespace must not learn
		if says := SharedClaim(a, b, "a group of another namespace"); c.one && c.network != c.other && strings.Contains(says, c.other) {
			t.Errorf("%+v: %s", c, says)
		}
	}
}
