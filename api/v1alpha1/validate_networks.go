package v1alpha1

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateNetworks(spec *field.Path, networks []Network) (errs field.ErrorList) {
	if len(networks) == 0 {
		return nil
	}
	path := spec.Child("networks")
	if len(networks) > MaxNetworks {
		return field.ErrorList{field.TooMany(path, len(networks), MaxNetworks)}
	}
	for i := range networks {
		errs = append(errs, networks[i].validate(path.Index(i))...)
	}
	if len(errs) == 0 {
		errs = append(validateGateways(path, networks), validateAdapters(path, networks)...)
	}
	return errs[:min(len(errs), maxReported)]
}

// validateGateways refuses two default routes of one family: netplan refuses the whole configuration of such a guest ("Conflicting default
// route declarations").
func validateGateways(path *field.Path, networks []Network) field.ErrorList {
	for _, of := range []family{ipv4, ipv6} {
		var all []string
		for i := range networks {
			if a := networks[i].addresses(of); a != nil && a.Gateway != "" {
				all = append(all, a.Gateway)
			}
		}
		if len(all) > 1 {
			return field.ErrorList{field.Invalid(path, strings.Join(all, ", "),
				"only one adapter can have an IPv4 gateway, and one an IPv6 gateway, because a guest has one default route of each: remove the others")}
		}
	}
	return nil
}

// validateAdapters refuses ranges that overlap between two entries of spec.networks: two adapters could get the same address.
func validateAdapters(path *field.Path, networks []Network) (errs field.ErrorList) {
	for i := range networks {
		for _, of := range []family{ipv4, ipv6} {
			for j := range i {
				if a, b := networks[i].addresses(of), networks[j].addresses(of); a != nil && b != nil {
					if mine, theirs, is := a.Overlap(b); is {
						errs = append(errs, field.Invalid(path.Index(i).Child(of.field, "ranges"), mine,
							fmt.Sprintf("must not have an address twice: it overlaps with %s of %s", theirs, path.Index(j))))
					}
				}
			}
		}
	}
	return errs
}

// addresses returns the adapter's addresses of a family; nil if it has none.
func (n *Network) addresses(of family) *Addresses {
	if of == ipv6 {
		return n.IPv6
	}
	return n.IPv4
}

func (n *Network) validate(path *field.Path) (errs field.ErrorList) {
	errs = append(errs, required(path, "network", n.Network, "name the network that the adapter is connected to", MaxInventoryPath)...)
	if n.DHCP != nil && *n.DHCP && n.IPv4 != nil {
		errs = append(errs, field.Invalid(path.Child("dhcp"), true,
			"an adapter has its IPv4 address from DHCP or from ipv4: remove one of them"))
	}
	errs = append(errs, n.IPv4.validate(path, ipv4)...)
	errs = append(errs, n.IPv6.validate(path, ipv6)...)
	return append(errs, n.validateDNS(path)...)
}

func (n *Network) validateDNS(path *field.Path) (errs field.ErrorList) {
	if len(n.Nameservers) > MaxNameservers {
		return field.ErrorList{field.TooMany(path.Child("nameservers"), len(n.Nameservers), MaxNameservers)}
	}
	if len(n.SearchDomains) > MaxNameservers {
		return field.ErrorList{field.TooMany(path.Child("searchDomains"), len(n.SearchDomains), MaxNameservers)}
	}
	for i, server := range n.Nameservers {
		if _, ok := parseAddress(server); !ok {
			errs = append(errs, field.Invalid(path.Child("nameservers").Index(i), bounded(server), "must be an IP address, such as 10.0.0.53"))
		}
	}
	for i, domain := range n.SearchDomains {
		if len(validation.IsDNS1123Subdomain(domain)) > 0 {
			errs = append(errs, field.Invalid(path.Child("searchDomains").Index(i), bounded(domain),
				"must be a DNS name in lower case, such as shop.example.com, of at most 253 characters"))
		}
	}
	return errs
}

// family is what differs between IPv4 and IPv6.
type family struct {
	field, name, other string
	bits               int32
}

var (
	ipv4 = family{"ipv4", "an IPv4 address", "an IPv6 one goes into ipv6", 32}
	ipv6 = family{"ipv6", "an IPv6 address", "an IPv4 one goes into ipv4", 128}
)

func (f family) has(a netip.Addr) bool { return a.BitLen() == int(f.bits) }

// validate checks the addresses of an adapter. All addresses must be in one network, because they have one prefix length and one gateway: a
// member outside could reach neither the other members nor the gateway. (The CRD's rules don't check that.) Ranges with fewer addresses
// than replicas are valid: if they weren't, kubectl scale or an autoscaler could make the spec invalid, and the server would stop all work
// on the group. The server doesn't clone members without an address, and the status says so (AddressesExhausted).
func (a *Addresses) validate(parent *field.Path, of family) (errs field.ErrorList) {
	if a == nil {
		return nil
	}
	path := parent.Child(of.field)
	if errs = between(path.Child("prefixLength"), a.PrefixLength, 1, of.bits); len(errs) > 0 {
		return errs
	}
	ranges, errs := parse(path.Child("ranges"), a.Ranges, MaxRanges, of)
	if len(a.Ranges) == 0 {
		errs = append(errs, field.Required(path.Child("ranges"), "name the addresses that members get, such as 10.0.0.10-10.0.0.59"))
	}
	more, wrong := parse(path.Child("additionalRanges"), a.AdditionalRanges, MaxAdditionalRanges, of)
	if errs = append(errs, wrong...); len(errs) > 0 {
		return errs
	}
	ranges = append(ranges, more...)
	network := netip.PrefixFrom(ranges[0].First, int(a.PrefixLength)).Masked()
	errs = append(errs, a.withinNetwork(path, ranges, network)...)
	errs = append(errs, a.overlap(path, ranges)...)
	errs = append(errs, a.validateGateway(path.Child("gateway"), of, ranges, network)...)
	return errs[:min(len(errs), maxReported)]
}

// text is the i-th range of all.
func (a *Addresses) text(i int) string {
	if i < len(a.Ranges) {
		return a.Ranges[i]
	}
	return a.AdditionalRanges[i-len(a.Ranges)]
}

// refuse returns an error about the i-th range of all.
func (a *Addresses) refuse(path *field.Path, i int, why string) *field.Error {
	list, at := path.Child("ranges"), i
	if i >= len(a.Ranges) {
		list, at = path.Child("additionalRanges"), i-len(a.Ranges)
	}
	return field.Invalid(list.Index(at), a.text(i), why)
}

// parse returns the ranges of a list, if all are valid.
func parse(path *field.Path, texts []string, most int, of family) (ranges []Range, errs field.ErrorList) {
	if len(texts) > most {
		return nil, field.ErrorList{field.TooMany(path, len(texts), most)}
	}
	for i, text := range texts {
		r, err := ParseRange(text)
		switch {
		case utf8.RuneCountInString(text) > MaxRange:
			errs = append(errs, field.TooLongCharacters(path.Index(i), text, MaxRange))
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), text, err.Error()))
		case !of.has(r.First):
			errs = append(errs, field.Invalid(path.Index(i), text, "must be "+of.name+": "+of.other))
		case !r.First.IsGlobalUnicast() || !r.Last.IsGlobalUnicast():
			errs = append(errs, field.Invalid(path.Index(i), text,
				"must be addresses for one machine each: not 0.0.0.0 or ::, nor loopback, link-local, multicast or broadcast"))
		}
		ranges = append(ranges, r)
	}
	return ranges, errs[:min(len(errs), maxReported)]
}

func (a *Addresses) withinNetwork(path *field.Path, ranges []Range, network netip.Prefix) (errs field.ErrorList) {
	for i, r := range ranges {
		switch {
		case !network.Contains(r.First) || !network.Contains(r.Last):
			errs = append(errs, a.refuse(path, i,
				fmt.Sprintf("must be in %s, the network of the first address: correct the range, or prefixLength", network)))
		case network.Addr().Is4() && network.Bits() < 31 && (r.First == network.Addr() || r.Last == broadcast(network)):
			errs = append(errs, a.refuse(path, i,
				fmt.Sprintf("must not contain %s and %s, which are not for machines: they are the network %s itself and its broadcast address",
					network.Addr(), broadcast(network), network)))
		case network.Addr().Is6() && network.Bits() < 127 && r.First == network.Addr(): // RFC 4291, 2.6.1; RFC 6164 for /127
			errs = append(errs, a.refuse(path, i,
				fmt.Sprintf("must not contain %s, which is not for a machine: it is the address of any router of the network %s", network.Addr(), network)))
		}
	}
	return errs
}

// broadcast is the last address of an IPv4 network.
func broadcast(network netip.Prefix) netip.Addr {
	raw := network.Addr().As4()
	for bit := network.Bits(); bit < 32; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(raw)
}

// overlap refuses ranges that share an address: two members would get it.
func (a *Addresses) overlap(path *field.Path, ranges []Range) (errs field.ErrorList) {
	order := make([]int, len(ranges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return ranges[i].First.Compare(ranges[j].First) })
	for n, reach := 1, 0; n < len(order); n++ {
		i, widest := order[n], order[reach]
		if !ranges[widest].Last.Less(ranges[i].First) {
			errs = append(errs, a.refuse(path, i, fmt.Sprintf("must not have an address twice: it overlaps with %s", a.text(widest))))
		}
		if ranges[widest].Last.Less(ranges[i].Last) {
			reach = n
		}
	}
	return errs
}

func (a *Addresses) validateGateway(path *field.Path, of family, ranges []Range, network netip.Prefix) field.ErrorList {
	if a.Gateway == "" {
		return nil
	}
	gateway, ok := parseAddress(a.Gateway)
	refuse := func(why string) field.ErrorList {
		return field.ErrorList{field.Invalid(path, bounded(a.Gateway), why)}
	}
	switch {
	case !ok:
		return refuse("must be an IP address, such as 10.0.0.1")
	case !of.has(gateway):
		return refuse("must be " + of.name + ": " + of.other)
	case of == ipv6 && gateway.IsLinkLocalUnicast(): // routers announce themselves with their link-local address
		return nil
	case !network.Contains(gateway):
		return refuse(fmt.Sprintf("must be in %s, the network of the members' addresses: correct it, or prefixLength", network))
	}
	for i, r := range ranges {
		if !gateway.Less(r.First) && !r.Last.Less(gateway) {
			return refuse(fmt.Sprintf("must not be in ranges: %s has it, and a member would get the gateway's address", a.text(i)))
		}
	}
	return nil
}

// parseAddress reads an IP address as an API server does: without a zone, and not an IPv4-mapped IPv6 address.
func parseAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Zone() == "" && !a.Is4In6()
}

// bounded shortens a text of any length to a value for an error.
func bounded(text string) string {
	if len(text) <= MaxDomain {
		return text
	}
	return strings.ToValidUTF8(text[:MaxDomain], "") + "..."
}
