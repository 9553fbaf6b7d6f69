package planner

import (
	"fmt"
	"net/netip"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// Guests that are cloned from a template whose /etc/machine-id is not empty all ask for the same DHCP lease, whatever their MAC
// addresses are, and get the same address (kubermatic/operating-system-manager#253, rancher/rancher#38998, aws/eks-anywhere#940,
// vmware/terraform-provider-vsphere#516). Everything looks well but the network. The status reports it, and nothing is done about it: the guests
// are as they were made.

// sharedAddresses names the members whose guests report the same address, of those that others are led to; empty if there are none.
func (v *view) sharedAddresses() string {
	first := make(map[netip.Addr]*member, len(v.members))
	holders := map[netip.Addr][]string{}
	var order []netip.Addr
	for i := range v.members {
		m := &v.members[i]
		if !m.Reachable || m.duplicate || m.Power != plan.PoweredOn || !m.Tools {
			continue
		}
		for _, four := range []bool{true, false} {
			ip := children.FirstAddress(m.IPs, four)
			switch other := first[ip]; {
			case !ip.IsValid():
				continue
			case other == nil:
				first[ip] = m
				continue
			case len(holders[ip]) == 0:
				order, holders[ip] = append(order, ip), []string{other.name}
			}
			holders[ip] = append(holders[ip], m.name)
		}
	}
	var all []string
	for _, ip := range order {
		all = append(all, fmt.Sprintf("%s (%s)", ip, plan.AtMost(holders[ip], 10)))
	}
	return plan.AtMost(all, 3)
}
