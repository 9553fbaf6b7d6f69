package tell

import (
	"fmt"
	"iter"
	"net/netip"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner/children"
)

// sharedAddresses names the members whose guests report the same address, of the addresses that are published; empty if there are none.
// guests yields the members' names and what their guests report.
//
// Guests that are cloned from a template whose /etc/machine-id is not empty all ask for the same DHCP lease, whatever their MAC
// addresses are, and get the same address (kubermatic/operating-system-manager#253, rancher/rancher#38998, aws/eks-anywhere#940,
// vmware/terraform-provider-vsphere#516). Everything looks well but the network. The status reports it, and nothing is done about it: the
// guests are as they were made.
func sharedAddresses(guests iter.Seq2[string, []string]) string {
	first := map[netip.Addr]string{}
	holders := map[netip.Addr][]string{}
	var order []netip.Addr
	for name, ips := range guests {
		for _, four := range []bool{true, false} {
			ip := children.FirstAddress(ips, four)
			other, seen := first[ip]
			switch {
			case !ip.IsValid():
				continue
			case !seen:
				first[ip] = name
				continue
			case len(holders[ip]) == 0:
				order, holders[ip] = append(order, ip), []string{other}
			}
			holders[ip] = append(holders[ip], name)
		}
	}
	var all []string
	for _, ip := range order {
		all = append(all, fmt.Sprintf("%s (%s)", ip, plan.AtMost(holders[ip], 10)))
	}
	return plan.AtMost(all, 3)
}
