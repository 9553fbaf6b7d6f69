package inventory

import (
	"fmt"
	"slices"
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// docker0 and similar interfaces have the same address on every machine, so no endpoint may have it.
func TestAnAddressWithoutAnAdapterIsNotTheMembers(t *testing.T) {
	t.Parallel()
	nics := []vim.GuestNicInfo{
		{DeviceConfigId: -1, IpAddress: []string{"172.17.0.1"}},
		{DeviceConfigId: 4000, IpAddress: []string{"192.168.10.20"}},
	}
	for primary, want := range map[string][]string{"172.17.0.1": {"192.168.10.20"}, "2001:db8::20": {"192.168.10.20"}, "": {"192.168.10.20"}} {
		if got := AddressesOf(primary, nics); !slices.Equal(got, want) {
			t.Errorf("with %q as the primary one: %v; want %v", primary, got, want)
		}
	}
	if got := AddressesOf("172.17.0.1", nics[:1]); got != nil {
		t.Errorf("while the adapter has no address: %v", got)
	}
	if got := AddressesOf("192.168.10.20", nil); !slices.Equal(got, []string{"192.168.10.20"}) {
		t.Errorf("of a guest that reports no adapters: %v; want %v", got, []string{"192.168.10.20"})
	}
}

func TestMembersAreReachedByTheirStaticAddressThenByTheFirstNetwork(t *testing.T) {
	t.Parallel()
	nic := func(key int32, ips ...string) vim.GuestNicInfo {
		return vim.GuestNicInfo{DeviceConfigId: key, IpAddress: ips}
	}
	nics := []vim.GuestNicInfo{nic(4001, "10.1.0.7", "10.1.0.8"), nic(-1, "172.17.0.1"), nic(4000, "192.168.0.9", "fd00::9", "fe80::1")}
	const prepared = `{"networks":true,"digest":"x"}`
	for name, c := range map[string]struct {
		primary string
		stamp   stamp.Stamp
		want    []string
	}{
		"without networks":     {"10.1.0.8", stamp.Stamp{}, []string{"10.1.0.8", "10.1.0.7", "192.168.0.9", "fd00::9"}},
		"DHCP":                 {"10.1.0.8", stamp.Stamp{Prepared: prepared}, []string{"192.168.0.9", "fd00::9", "10.1.0.8", "10.1.0.7"}},
		"before it is on":      {"10.1.0.8", stamp.Stamp{Prepared: plan.Unprepared + prepared}, []string{"192.168.0.9", "fd00::9", "10.1.0.8", "10.1.0.7"}},
		"static on the second": {"192.168.0.9", stamp.Stamp{Addresses: ",10.1.0.7", Prepared: prepared}, []string{"10.1.0.7", "192.168.0.9", "fd00::9", "10.1.0.8"}},
		"static, customized":   {"10.1.0.8", stamp.Stamp{Addresses: "192.168.0.9 fd00::9,10.1.0.7"}, []string{"192.168.0.9", "fd00::9", "10.1.0.7", "10.1.0.8"}},
		"not taken yet":        {"", stamp.Stamp{Addresses: "192.168.0.77"}, []string{"192.168.0.9", "fd00::9", "10.1.0.7", "10.1.0.8"}},
		"docker0":              {"172.17.0.1", stamp.Stamp{Prepared: prepared}, []string{"192.168.0.9", "fd00::9", "10.1.0.7", "10.1.0.8"}},
	} {
		if got := addressesInOrder(AddressesOf(c.primary, nics), addressesOfFirst(nics), &c.stamp); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

func TestGuestAddressesAreInOrderAndOnlyThoseThatCanBeReached(t *testing.T) {
	t.Parallel()
	nics := []vim.GuestNicInfo{
		{IpAddress: []string{"10.0.0.9", "fe80::1", "169.254.3.4", "127.0.0.1", "2001:db8::1"}},
		{IpConfig: &vim.NetIpConfigInfo{IpAddress: []vim.NetIpConfigInfoIpAddress{{IpAddress: "10.0.0.5"}, {IpAddress: "10.0.0.9"}, {IpAddress: "::1"}}}},
	}
	for primary, want := range map[string][]string{
		"":          {"10.0.0.9", "2001:db8::1", "10.0.0.5"},
		"10.0.0.5":  {"10.0.0.5", "10.0.0.9", "2001:db8::1"},
		"10.0.0.1":  {"10.0.0.9", "2001:db8::1", "10.0.0.5"},
		"fe80::1":   {"10.0.0.9", "2001:db8::1", "10.0.0.5"},
		"not an ip": {"10.0.0.9", "2001:db8::1", "10.0.0.5"},
	} {
		if got := AddressesOf(primary, nics); !slices.Equal(got, want) {
			t.Errorf("with %q: %v, not %v", primary, got, want)
		}
	}
	if got := AddressesOf("127.0.0.1", []vim.GuestNicInfo{{IpAddress: []string{"169.254.1.1", "224.0.0.1", "0.0.0.0", "::", "ff02::1", "fe80::1", "::1", "10.0.0.7"}}}); !slices.Equal(got, []string{"10.0.0.7"}) {
		t.Errorf("the usable addresses are %v, want 10.0.0.7 alone", got)
	}
	if got := AddressesOf("", nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// Another guest can take a virtual IP at any time, and a guest drops a temporary address after a day: both kinds come last. An address whose
// state says that the guest does not use it is left out.
func TestAVirtualOrTemporaryAddressComesLastAndAnUnusedOneNotAtAll(t *testing.T) {
	t.Parallel()
	type address = vim.NetIpConfigInfoIpAddress
	for name, c := range map[string]struct {
		primary string
		reports []address
		want    []string
	}{
		"a virtual IP after its own":          {"10.0.0.20", []address{{IpAddress: "10.0.0.20", PrefixLength: 24}, {IpAddress: "10.0.0.5", PrefixLength: 32}}, []string{"10.0.0.20", "10.0.0.5"}},
		"a virtual IP before its own":         {"172.17.0.1", []address{{IpAddress: "10.0.0.5", PrefixLength: 32}, {IpAddress: "10.0.0.20", PrefixLength: 24}}, []string{"10.0.0.20", "10.0.0.5"}},
		"a virtual IP that is the primary":    {"10.0.0.5", []address{{IpAddress: "10.0.0.5", PrefixLength: 32}, {IpAddress: "10.0.0.20", PrefixLength: 24}}, []string{"10.0.0.20", "10.0.0.5"}},
		"a virtual IP with the usual prefix":  {"", []address{{IpAddress: "10.0.0.20", PrefixLength: 24}, {IpAddress: "10.0.0.5", PrefixLength: 24}}, []string{"10.0.0.20", "10.0.0.5"}},
		"a virtual IPv6 address":              {"", []address{{IpAddress: "fd00::5", PrefixLength: 128}, {IpAddress: "fd00::20", PrefixLength: 64}}, []string{"fd00::20", "fd00::5"}},
		"one by DHCPv6":                       {"", []address{{IpAddress: "fd00::5", PrefixLength: 128, Origin: "dhcp"}, {IpAddress: "fd00::20", PrefixLength: 64}}, []string{"fd00::5", "fd00::20"}},
		"its only address has no network":     {"", []address{{IpAddress: "203.0.113.7", PrefixLength: 32}}, []string{"203.0.113.7"}},
		"a temporary address":                 {"fd00::77", []address{{IpAddress: "fd00::77", PrefixLength: 64, Origin: "random"}, {IpAddress: "fd00::20", PrefixLength: 64, Origin: "linklayer"}}, []string{"fd00::20", "fd00::77"}},
		"states":                              {"10.0.0.1", []address{{IpAddress: "10.0.0.1", State: "duplicate"}, {IpAddress: "10.0.0.2", State: "tentative"}, {IpAddress: "10.0.0.3", State: "deprecated"}, {IpAddress: "10.0.0.4", State: "invalid"}, {IpAddress: "10.0.0.5", State: "inaccessible"}, {IpAddress: "10.0.0.6", State: "unknown"}, {IpAddress: "10.0.0.7", State: "preferred"}, {IpAddress: "10.0.0.8"}}, []string{"10.0.0.6", "10.0.0.7", "10.0.0.8"}},
		"none of its addresses is usable yet": {"10.0.0.1", []address{{IpAddress: "10.0.0.1", State: "tentative"}}, nil},
	} {
		nic := vim.GuestNicInfo{DeviceConfigId: 4000, IpConfig: &vim.NetIpConfigInfo{IpAddress: c.reports}}
		for _, a := range c.reports {
			nic.IpAddress = append(nic.IpAddress, a.IpAddress)
		}
		if got := AddressesOf(c.primary, []vim.GuestNicInfo{{DeviceConfigId: -1, IpAddress: []string{"172.17.0.1"}}, nic}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

func TestAStaticAddressThatAGuestDoesNotReportIsNotTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reports, given, want []string }{
		"taken":                {[]string{"10.0.0.7", "fd00::7"}, []string{"10.0.0.7"}, nil},
		"another":              {[]string{"192.168.77.50"}, []string{"10.0.0.7"}, []string{"10.0.0.7"}},
		"the second not":       {[]string{"10.0.0.7", "192.168.77.50"}, []string{"10.0.0.7", "10.1.0.7"}, []string{"10.1.0.7"}},
		"the second not yet":   {[]string{"10.0.0.7"}, []string{"10.0.0.7", "10.1.0.7", "fd00::7"}, nil},
		"and a virtual IP":     {[]string{"10.0.0.7", "10.0.0.5"}, []string{"10.0.0.7", "fd00::7"}, nil},
		"another IPv6 address": {[]string{"10.0.0.7", "fd00::99"}, []string{"10.0.0.7", "fd00::7"}, []string{"fd00::7"}},
		"it reports nothing":   {nil, []string{"10.0.0.7"}, nil},
		"it was given nothing": {[]string{"10.0.0.7"}, nil, nil},
	} {
		if got := untakenAddresses(c.reports, c.given); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

// Guests can report any text as an address: firstAddresses must return only addresses that Kubernetes accepts, each once.
func FuzzGuestAddresses(f *testing.F) {
	for _, text := range []string{"10.0.0.7", "fe80::1%eth0", "::ffff:10.0.0.7", "127.0.0.1", "224.0.0.1", "x", "", "2001:db8::7"} {
		f.Add(text, "10.0.0.7", "2001:DB8::7", int32(4000))
	}
	f.Fuzz(func(t *testing.T, primary, one, two string, device int32) {
		all := AddressesOf(primary, []vim.GuestNicInfo{{DeviceConfigId: device, IpAddress: []string{one, two},
			IpConfig: &vim.NetIpConfigInfo{IpAddress: []vim.NetIpConfigInfoIpAddress{{IpAddress: two}, {IpAddress: one}}}}})
		usable := plan.UsableIPs(all)
		if len(usable) != len(all) {
			t.Fatalf("of %q only %v can be used", all, usable)
		}
		for i, text := range all {
			if usable[i].String() != text || slices.Contains(all[:i], text) {
				t.Fatalf("%q has a text that is no address in its usual form, or one twice", all)
			}
		}
	})
}

func TestAMemberHasItsStaticAddressesAndTenOthers(t *testing.T) {
	t.Parallel()
	var four, six []string
	for i := range 12 {
		four, six = append(four, fmt.Sprintf("10.0.0.%d", i)), append(six, fmt.Sprintf("fd00::%d", i))
	}
	for name, c := range map[string]struct{ ips, static, want []string }{
		"none":                              {nil, nil, nil},
		"ten":                               {four[:10], nil, four[:10]},
		"eleven":                            {four[:11], nil, four[:10]},
		"twelve of each family":             {slices.Concat(four, six), nil, append(slices.Clone(four[:9]), six[0])},
		"the other family first":            {slices.Concat(six, four), nil, append(slices.Clone(six[:9]), four[0])},
		"both families among the first":     {slices.Concat(four[:5], six), nil, slices.Concat(four[:5], six[:5])},
		"static ones last":                  {slices.Concat(six, four), four[10:], slices.Concat(six[:9], four[:1], four[10:])},
		"static ones first, and ten others": {slices.Concat(four[:2], six[:10]), four[:2], slices.Concat(four[:2], six[:10])},
		"twelve static ones":                {slices.Concat(four, six[:3]), four, slices.Concat(four, six[:3])},
	} {
		if got := firstAddresses(c.ips, c.static); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}
