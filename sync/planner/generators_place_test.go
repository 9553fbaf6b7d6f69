package planner_test

import (
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// addressesOf is a member's addresses as its stamp has them.
func addressesOf(o *plan.Observed, ordinal int32) string {
	all, _ := plan.AddressesOf(&o.Group.Spec, ordinal)
	return plan.AddressText(all)
}

// features draws every field of the spec about placement, user data, networks and discovery.
func features(t *rapid.T, o *plan.Observed) {
	s, one := &o.Group.Spec, func(label string, n int) bool { return rapid.IntRange(0, n-1).Draw(t, label) == 0 }
	if one("has user data", 4) {
		s.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
		o.Related = plan.Related{UserData: "#cloud-config", Digest: "0a1b"}
	}
	if one("has a service", 3) {
		s.Service = &v1alpha1.Service{DrainSeconds: rapid.SampledFrom([]int32{0, 30, 120}).Draw(t, "drain")}
	}
	if one("has zones", 4) {
		s.Placement.Zones = []string{"east", "west", "north"}[:rapid.IntRange(1, 3).Draw(t, "zones")]
	}
	if one("has tags", 4) {
		s.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop"}}
	}
	if s.Deletion.QuarantineSeconds == 0 && len(s.Adopt) == 0 && one("has persistent disks", 4) {
		s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
	}
	if one("has networks", 4) {
		s.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.99"}, PrefixLength: 24}}}
		if one("has additional addresses", 3) {
			s.Networks[0].IPv4.AdditionalRanges = []string{"10.0.0.110-10.0.0.199"}
		}
	}
	s.Placement.AntiAffinity = rapid.SampledFrom([]v1alpha1.AntiAffinity{"", "", v1alpha1.AntiAffinityPreferred, v1alpha1.AntiAffinityRequired}).Draw(t, "anti-affinity")
	if one("has a host group", 4) {
		s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"site-a"}, // one fits any zones
			Rule: rapid.SampledFrom([]v1alpha1.HostRule{v1alpha1.HostRulePreferred, v1alpha1.HostRuleRequired}).Draw(t, "host rule")}
	}
	o.State.RulesOff = plan.RulesOf(s).Wanted() && one("rules are off", 2)
}

func isOne(is bool) int {
	if is {
		return 1
	}
	return 0
}
