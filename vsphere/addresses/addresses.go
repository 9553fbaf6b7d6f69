// Package addresses decides which of the addresses that a guest reports a member is reached by, and in which order. It has no lock.
package addresses

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// Of returns the addresses of a guest's adapters, the primary one first and the others in order. Link-local and loopback ones are left
// out: Kubernetes takes no such endpoint. So is the primary one if no adapter of the VM has it: Tools may take docker0's for it, or a
// CNI bridge's (vmware/open-vm-tools#93, #100, #373). Only where they tell of no adapter at all, as may happen while a guest runs
// (kubernetes/cloud-provider-vsphere#307), nothing speaks against it.
func Of(primary string, nics []types.GuestNicInfo) []string {
	var all []netip.Addr
	add := func(text string) {
		if ip, ok := usable(text); ok && !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	for _, nic := range nics {
		if nic.DeviceConfigId < 0 { // no adapter of the VM ([doc] GuestNicInfo)
			continue
		}
		for _, text := range nic.IpAddress {
			add(text)
		}
		if nic.IpConfig != nil {
			for _, ip := range nic.IpConfig.IpAddress {
				add(ip.IpAddress)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	if len(nics) == 0 {
		add(primary)
	}
	if ip, ok := usable(primary); ok && slices.Contains(all, ip) {
		all = slices.DeleteFunc(all, func(x netip.Addr) bool { return x == ip })
		all = slices.Insert(all, 0, ip)
	}
	var texts []string
	for _, ip := range all {
		texts = append(texts, ip.String())
	}
	return texts
}

func usable(text string) (ip netip.Addr, ok bool) {
	ip, err := netip.ParseAddr(text)
	ip = ip.Unmap().WithZone("")
	return ip, err == nil && ip.IsGlobalUnicast()
}

// OfFirst returns those of the adapter that was added first, which has the lowest key.
func OfFirst(nics []types.GuestNicInfo) []string { return Of("", firstAdapter(nics)) }

// firstAdapter are the reports of that adapter.
func firstAdapter(nics []types.GuestNicInfo) (first []types.GuestNicInfo) {
	for _, nic := range nics {
		switch {
		case nic.DeviceConfigId < 0, len(first) > 0 && nic.DeviceConfigId > first[0].DeviceConfigId:
		case len(first) > 0 && nic.DeviceConfigId == first[0].DeviceConfigId:
			first = append(first, nic)
		default:
			first = []types.GuestNicInfo{nic}
		}
	}
	return first
}

// InOrder sorts a member's addresses as they are published: its static ones, by adapter; then those of the
// first of spec.networks; then the rest in their order. first are those of the first adapter. The order stays when guests report
// another primary address.
func InOrder(ips, first []string, s *stamp.Stamp) []string {
	if len(ips) < 2 || s.Addresses == "" && !plan.PreparationIn(s.Prepared).Networks {
		return ips
	}
	static := plan.AddressesIn(s.Addresses)
	rank := func(ip string) int {
		if i := slices.Index(static, ip); i >= 0 {
			return i
		}
		if slices.Contains(first, ip) {
			return len(static)
		}
		return len(static) + 1
	}
	ordered := slices.Clone(ips)
	slices.SortStableFunc(ordered, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return ordered
}

// Within drops addresses that are in none of the networks; without networks all stay. Software in a guest can
// report any address, and clients in Kubernetes would connect to it.
func Within(networks []netip.Prefix, addresses []string) []string {
	if len(networks) == 0 {
		return addresses
	}
	var kept []string
	for _, text := range addresses {
		ip, err := netip.ParseAddr(text)
		if err == nil && slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			kept = append(kept, text)
		}
	}
	return kept
}
