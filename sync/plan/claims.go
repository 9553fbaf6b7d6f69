package plan

import (
	"fmt"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Claim is a range of static addresses that a group gives to its members in a network.
type Claim struct {
	datacenter, network, text string
	addresses                 v1alpha1.Range
}

// ClaimsOf returns the valid ranges of a group's networks.
func ClaimsOf(g *v1alpha1.VmGroup) (all []Claim) {
	for i := range g.Spec.Networks {
		n := &g.Spec.Networks[i]
		for _, a := range []*v1alpha1.Addresses{n.IPv4, n.IPv6} {
			if a == nil {
				continue
			}
			for _, ranges := range [][]string{a.Ranges, a.AdditionalRanges} {
				for _, text := range ranges {
					if r, err := v1alpha1.ParseRange(text); err == nil {
						all = append(all, Claim{g.Spec.Placement.Datacenter, n.Network, text, r})
					}
				}
			}
		}
	}
	return all
}

// SharedClaim says which range of a group overlaps a range of another group, which whose describes; empty if none does.
func SharedClaim(mine, theirs []Claim, whose string) string {
	for i := range mine {
		a := &mine[i]
		for j := range theirs {
			if b := &theirs[j]; a.sameNetwork(b) && a.addresses.Overlaps(b.addresses) {
				return Printable(fmt.Sprintf("%s in the network %s: %s also has addresses of this range", a.text, a.network, whose))
			}
		}
	}
	return ""
}

// sameNetwork reports whether two claims are about one network, as far as the specs tell: each names the network by its name, its inventory
// path, or the end of the path, and may put the network's type before that ("Network:web"). If neither text is the end of the other, or if the
// types differ, the networks count as different, because they may be isolated from each other.
func (c *Claim) sameNetwork(o *Claim) bool {
	kind, a := typed(c.network)
	other, b := typed(o.network)
	if kind != "" && other != "" && kind != other {
		return false
	}
	if a == b && strings.HasPrefix(a, "/") {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	return c.datacenter == o.datacenter && (a == b || a != "" && strings.HasSuffix(b, "/"+a) && !strings.HasPrefix(a, "/"))
}

// LastName is the last part of the text that names the network: claims about one network have the same.
func (c *Claim) LastName() string {
	_, name := typed(c.network)
	return name[strings.LastIndexByte(name, '/')+1:]
}

// typed splits the type of a network from the text that names one; kind is empty if the text has none.
func typed(network string) (kind, name string) {
	for _, kind := range []string{"Network", "DistributedVirtualPortgroup", "OpaqueNetwork"} {
		if name, has := strings.CutPrefix(network, kind+":"); has {
			return kind, name
		}
	}
	return "", network
}
