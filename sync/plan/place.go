package plan

import (
	"math"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// ZoneOf returns the zone of the member with that ordinal; empty if the spec has no zones. The zone depends on the ordinal alone, so a
// replacement runs in the zone of its predecessor.
func ZoneOf(spec *v1alpha1.VmGroupSpec, ordinal int32) string {
	zones := spec.Placement.Zones
	if len(zones) == 0 {
		return ""
	}
	return zones[int(ordinal)%len(zones)]
}

// AddressesOf returns the static addresses of the member with that ordinal, for each of spec.networks; nil if no network has
// any. ok is false if a network has no address for that ordinal.
func AddressesOf(spec *v1alpha1.VmGroupSpec, ordinal int32) (all []StaticAddresses, ok bool) {
	static := slices.ContainsFunc(spec.Networks, func(n v1alpha1.Network) bool { return n.IPv4 != nil || n.IPv6 != nil })
	if !static {
		return nil, true
	}
	all, ok = make([]StaticAddresses, len(spec.Networks)), true
	take := func(from *v1alpha1.Addresses) (texts []string) {
		if from == nil {
			return nil
		}
		addresses, has := from.At(int(ordinal))
		if !has {
			ok = false
			return nil
		}
		for _, address := range addresses {
			texts = append(texts, address.String())
		}
		return texts
	}
	for i := range spec.Networks {
		n := &spec.Networks[i]
		all[i] = StaticAddresses{IPv4: take(n.IPv4), IPv6: take(n.IPv6)}
	}
	return all, ok
}

// AddressCount returns how many ordinals have addresses; math.MaxInt32 if none are static.
func AddressCount(spec *v1alpha1.VmGroupSpec) int {
	n := math.MaxInt32
	for i := range spec.Networks {
		for _, from := range []*v1alpha1.Addresses{spec.Networks[i].IPv4, spec.Networks[i].IPv6} {
			if from != nil {
				n = min(n, from.Count())
			}
		}
	}
	return n
}

// AddressText returns a member's addresses as its stamp records them: those of one adapter separated by a space, adapters by
// a comma.
func AddressText(all []StaticAddresses) string {
	var parts []string
	for _, a := range all {
		parts = append(parts, strings.Join(slices.Concat(a.IPv4, a.IPv6), " "))
	}
	return strings.Join(parts, ",")
}

// AddressesIn returns the static addresses that a stamp records (VM.Addresses), by adapter.
func AddressesIn(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
}

// Seconds returns a number of seconds of a spec, or the default if it is not set.
func Seconds(s *int32, otherwise int32) time.Duration {
	if s != nil {
		otherwise = *s
	}
	return time.Duration(otherwise) * time.Second
}

// MembersIn counts the members, and the standby members, that belong to a zone; all of them if the spec has no zones.
func MembersIn(spec *v1alpha1.VmGroupSpec, zone string) (n int) {
	for ordinal := range (&v1alpha1.VmGroup{Spec: *spec}).Replicas() + spec.Standby {
		if ZoneOf(spec, ordinal) == zone {
			n++
		}
	}
	return n
}
