package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Networks are the networks in which the server is allowed to probe members.
type Networks struct {
	Allowed []netip.Prefix
	// Own are the server's own addresses, which are refused in any network: services that listen there may trust local clients.
	Own []netip.Addr
}

// Allow reports whether an address can be probed. Loopback, link-local (where clouds have their metadata service, 169.254.169.254),
// multicast and unspecified addresses are refused in any network; so are the addresses in never, and those that embed an IPv4 address.
func (n *Networks) Allow(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || !a.IsGlobalUnicast() || slices.Contains(n.Own, a) || embedsIPv4(a) {
		return false
	}
	contains := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(n.Allowed, contains) && !slices.ContainsFunc(never, contains)
}

// never are addresses that lead to another host than their network suggests: to an IPv4 address that they embed, or to a cloud's metadata
// service or agent, which trusts its clients. Each cloud documents its own; most are link-local.
var never = []netip.Prefix{
	netip.MustParsePrefix("::/96"),              // IPv4-compatible (RFC 4291, 2.5.5.1)
	netip.MustParsePrefix("::ffff:0:0:0/96"),    // IPv4-translated, SIIT (RFC 2765)
	netip.MustParsePrefix("64:ff9b::/96"),       // NAT64 (RFC 6052)
	netip.MustParsePrefix("64:ff9b:1::/48"),     // NAT64 for local use (RFC 8215)
	netip.MustParsePrefix("2001::/32"),          // Teredo (RFC 4380)
	netip.MustParsePrefix("2002::/16"),          // 6to4 (RFC 3056)
	netip.MustParsePrefix("192.88.99.0/24"),     // the relays of 6to4 (RFC 3068)
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS: fd00:ec2::254, and its other services on instances
	netip.MustParsePrefix("fd20:ce::/32"),       // Google Cloud: fd20:ce::254
	netip.MustParsePrefix("fd00:c1::/32"),       // Oracle Cloud: fd00:c1::a9fe:a9fe
	netip.MustParsePrefix("fd00:42::42/128"),    // Scaleway
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's WireServer
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud Classic
}

// embedsIPv4 reports whether an address embeds an IPv4 address whatever network it is in: a mapped one (::ffff:0:0/96), and one of ISATAP,
// whose interface identifier is ::[02]00:5efe:<IPv4> (RFC 5214, 6.1).
func embedsIPv4(a netip.Addr) bool {
	b := a.As16()
	return a.Is4In6() || a.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// ParseNetworks parses networks such as 10.0.0.0/8.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || p != p.Masked() {
			return nil, fmt.Errorf("%q is not a network, such as 10.0.0.0/8 or fd00::/8", text)
		}
		all = append(all, p)
	}
	return all, nil
}
