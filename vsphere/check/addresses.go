package check

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/policy"
)

// addresses checks that a group has a static address for each of its members, and reports whether it has. One that an update lacks is a
// warning: everything else works without.
func (c *checker) addresses(check string, g *v1alpha1.VmGroup) bool {
	count, members := plan.AddressCount(&g.Spec), int(g.Replicas()+g.Spec.Standby)
	surge := policy.Of(&g.Spec, int(g.Replicas())).Surge
	seen := fmt.Sprintf("spec.networks has static addresses for %d members", count)
	switch {
	case count < members:
		c.add(check+": networks", Fail, fmt.Sprintf("%s, and replicas and standby are %d together (AddressesExhausted)", seen, members), "add some to the ranges")
		return false
	case count < members+surge:
		c.add(check+": networks", Warn, fmt.Sprintf("%s, and an update has up to %d (AddressesExhausted)", seen, members+surge),
			"add some to the ranges, or set update.maxSurge to "+fmt.Sprint(count-members))
	}
	return true
}
