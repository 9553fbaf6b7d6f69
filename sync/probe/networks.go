package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Networks are those that the server may ask members in.
type Networks struct {
	Allowed []netip.Prefix
	// Own are the server's own addresses, which are refused in any network: what listens there trusts those who run beside it.
	Own []netip.Addr
}

// Allow reports whether an address may be asked. Loopback, link-local (where clouds have their metadata service, 169.254.169.254), multicast
// and unspecified addresses never are. Nor are those that embed an IPv4 address (NAT64, RFC 6052; 6to4, RFC 3056), which lead elsewhere than
// their network says.
func (n *Networks) Allow(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is4In6() || !a.IsGlobalUnicast() || slices.Contains(n.Own, a) {
		return false
	}
	contains := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(n.Allowed, contains) && !slices.ContainsFunc(embedding, contains)
}

var embedding = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16")}

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
