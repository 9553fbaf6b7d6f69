package check

import (
	"fmt"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// probe checks whether the server may ask the members of a group that wants that: whether it may ask anybody, and the first static address of
// each member.
func (c *checker) probe(check string, g *v1alpha1.VmGroup) bool {
	const remedy = "name the members' networks in --probe-networks (VMGROUP_PROBE_NETWORKS), or remove readiness.tcpSocket and httpGet"
	switch {
	case !g.Spec.Readiness.Probes():
		return true
	case c.MayProbe == nil:
		c.add(check+": readiness", Fail, "the server asks no member whether its service answers, so none becomes ready (ProbeRefused)", remedy)
		return false
	}
	for ordinal := range g.Replicas() {
		static, _ := plan.AddressesOf(&g.Spec, ordinal)
		var ips []string
		for _, pair := range static {
			ips = append(ips, pair.IPv4, pair.IPv6)
		}
		if address := plan.AskedAddress(ips); address.IsValid() && !c.MayProbe(address) {
			c.add(check+": readiness", Fail, fmt.Sprintf("%s has the address %s, which the server may not ask (ProbeRefused)", plan.MemberName(g.Name, ordinal), address), remedy)
			return false
		}
	}
	return true
}
