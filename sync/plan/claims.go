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

// ClaimsOf returns the ranges of a group's networks. Invalid ones are none.
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

// SharedClaim says which range of a group has addresses that another group has, too, described by whose; empty if there is none.
func SharedClaim(mine, theirs []Claim, whose string) string {
	for i := range mine {
		a := &mine[i]
		for j := range theirs {
			if b := &theirs[j]; a.sameNetwork(b) && a.addresses.Overlaps(b.addresses) {
				return Printable(fmt.Sprintf("%s in the network %s: %s has addresses of this range, too", a.text, a.network, whose))
			}
		}
	}
	return ""
}

// sameNetwork reports whether two claims are of one network, as far as their specs tell: they name it by its name, its inventory path, or the
// end of that. A name with which no other ends is taken for another network, which may be isolated from it.
func (c *Claim) sameNetwork(o *Claim) bool {
	a, b := c.network, o.network
	if a == b && strings.HasPrefix(a, "/") {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	return c.datacenter == o.datacenter && (a == b || a != "" && strings.HasSuffix(b, "/"+a) && !strings.HasPrefix(a, "/"))
}
