// This file decides which of the addresses that a guest reports become the member's addresses, and in which order. It has no lock.

package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// AddressesOf returns the addresses of a guest's adapters that can be used, in the order in which the guest reports them, with two exceptions.
// The primary address comes first. Addresses that the guest may lose soon come last:
//
//   - /32 and /128: a virtual IP that keepalived or similar software moves between guests (vmware/open-vm-tools#736 shows one). DHCPv6 gives
//     a /128, too: the address's origin then is dhcp, and it keeps its place.
//   - a temporary address, which IPv6 changes daily (RFC 8981; its origin in vim25 is random)
//
// AddressesOf leaves out addresses whose state says that the guest does not use them, or not yet (vim25 NetIpConfigInfoIpAddressStatus):
// tentative, duplicate, deprecated, invalid, inaccessible. It also leaves out link-local and loopback addresses, which Kubernetes refuses as
// endpoints, and the primary address if no adapter of the VM has it: VMware Tools may report docker0's or a CNI bridge's
// (vmware/open-vm-tools#93, #100, #373). If Tools report no adapter at all, as may happen while a guest runs
// (kubernetes/cloud-provider-vsphere#307), AddressesOf keeps the primary address.
func AddressesOf(primary string, nics []types.GuestNicInfo) []string {
	var all []netip.Addr
	had := map[netip.Addr]bool{}
	configs := map[netip.Addr]types.NetIpConfigInfoIpAddress{}
	add := func(text string) {
		if ip, ok := usable(text); ok && !had[ip] {
			all, had[ip] = append(all, ip), true
		}
	}
	for _, nic := range nics {
		if nic.DeviceConfigId < 0 { // no adapter of the VM ([doc] GuestNicInfo)
			continue
		}
		for _, text := range nic.IpAddress {
			add(text)
		}
		if nic.IpConfig == nil {
			continue
		}
		for _, config := range nic.IpConfig.IpAddress {
			add(config.IpAddress)
			if ip, ok := usable(config.IpAddress); ok {
				configs[ip] = config
			}
		}
	}
	if len(nics) == 0 {
		add(primary)
	}
	all = slices.DeleteFunc(all, func(ip netip.Addr) bool { return isUnused(configs[ip].State) })
	first, _ := usable(primary)
	rank := func(ip netip.Addr) int {
		config := configs[ip]
		switch {
		case config.Origin == string(types.NetIpConfigInfoIpAddressOriginRandom):
			return 3
		case int(config.PrefixLength) == ip.BitLen() && config.Origin != string(types.NetIpConfigInfoIpAddressOriginDhcp):
			return 2
		case ip == first:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return cmp.Compare(rank(a), rank(b)) })
	var texts []string
	for _, ip := range all {
		texts = append(texts, ip.String())
	}
	return texts
}

// isUnused reports whether a guest does not use an address in that state, or not yet. An address with no state or an unknown one is used.
func isUnused(state string) bool {
	switch types.NetIpConfigInfoIpAddressStatus(state) {
	case types.NetIpConfigInfoIpAddressStatusTentative, types.NetIpConfigInfoIpAddressStatusDuplicate, types.NetIpConfigInfoIpAddressStatusDeprecated,
		types.NetIpConfigInfoIpAddressStatusInvalid, types.NetIpConfigInfoIpAddressStatusInaccessible:
		return true
	}
	return false
}

func usable(text string) (ip netip.Addr, ok bool) {
	ip, err := netip.ParseAddr(text)
	ip = ip.Unmap().WithZone("")
	return ip, err == nil && ip.IsGlobalUnicast()
}

// addressesOfFirst returns the addresses of the adapter that was added first: it has the lowest key.
func addressesOfFirst(nics []types.GuestNicInfo) []string { return AddressesOf("", firstAdapter(nics)) }

// firstAdapter returns what the guest reports of the adapter with the lowest key.
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

// addressesInOrder sorts a member's addresses for its status: first the static ones, by adapter; then those of the first of spec.networks;
// then the rest in their order. first are the addresses of the first adapter. The order does not change when a guest reports another primary
// address.
func addressesInOrder(ips, first []string, s *stamp.Stamp) []string {
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

// addressesMost bounds the addresses of a member beside its static ones, which the spec bounds: a VM can have ten adapters. The status of
// 1,000 members then has at most 0.4 MB of what guests report, of the 1.5 MiB that etcd takes in one request.
const addressesMost = 10

// firstAddresses returns a member's static addresses and the first others that its guest reports, in their order, and at least one of each
// family: the member's endpoint is the first of a family. A guest can report thousands: a Kubernetes node in IPVS mode has one for each
// Service.
func firstAddresses(ips, static []string) []string {
	if len(ips) <= addressesMost {
		return ips
	}
	isStatic := func(ip string) bool { return slices.Contains(static, ip) }
	others := slices.DeleteFunc(slices.Clone(ips), isStatic)
	if len(others) <= addressesMost {
		return ips
	}
	first := others[:addressesMost]
	for _, ip := range others[addressesMost:] {
		if !slices.ContainsFunc(first, func(has string) bool { return family(has) == family(ip) }) {
			first[addressesMost-1] = ip
			break
		}
	}
	kept := make([]string, 0, len(ips)-len(others)+addressesMost)
	for _, ip := range ips {
		if isStatic(ip) || slices.Contains(first, ip) {
			kept = append(kept, ip)
		}
	}
	return kept
}

// untakenAddresses returns the static addresses that a guest does not report, although it reports other addresses of their family that the
// server did not give it. A guest that reports no address of a family may report one later, so none of that family is untaken.
func untakenAddresses(ips, static []string) (untaken []string) {
	var others [2]bool // of IPv4, of IPv6
	for _, ip := range ips {
		if !slices.Contains(static, ip) {
			others[family(ip)] = true
		}
	}
	for _, ip := range static {
		if others[family(ip)] && !slices.Contains(ips, ip) {
			untaken = append(untaken, ip)
		}
	}
	return untaken
}

func family(ip string) int {
	if strings.Contains(ip, ":") {
		return 1
	}
	return 0
}

// addressesWithin drops addresses that are in none of the networks; without networks, it keeps all. Software in a guest can report any
// address, and clients in Kubernetes would connect to it.
func addressesWithin(networks []netip.Prefix, addresses []string) []string {
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

// questionText returns a VM's question for people: its messages in the session's language where vCenter has them (only "on servers that
// support localization", VirtualMachineQuestionInfo.message), otherwise its text, which begins with the message's id; and the choices.
func questionText(q *types.VirtualMachineQuestionInfo) string {
	var texts, choices []string
	for _, m := range q.Message {
		if m.Text != "" {
			texts = append(texts, m.Text)
		}
	}
	if len(texts) == 0 {
		texts = []string{q.Text}
	}
	for _, c := range q.Choice.ChoiceInfo {
		if c == nil { // of a type that govmomi doesn't know
			continue
		}
		if d := c.GetElementDescription(); d.Label != "" {
			choices = append(choices, d.Label)
		} else {
			choices = append(choices, d.Key)
		}
	}
	text := vcfault.Steady(strings.Join(texts, " "))
	if text == "" {
		text = "a question without a text"
	}
	if len(choices) > 0 {
		text += " " + vcfault.Steady("(choices: "+plan.AtMost(choices, 10)+")")
	}
	return text
}
