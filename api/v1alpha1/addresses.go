package v1alpha1

import (
	"errors"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"
)

// Range is an address range, both ends included.
//
// +kubebuilder:object:generate=false
type Range struct{ First, Last netip.Addr }

// ParseRange reads an address ("10.0.0.7") or a range of one family ("10.0.0.10-10.0.0.59"). The error names the accepted formats.
func ParseRange(text string) (Range, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errA := netip.ParseAddr(strings.TrimSpace(first))
	b, errB := netip.ParseAddr(strings.TrimSpace(last))
	switch {
	case errA != nil || errB != nil || a.Zone()+b.Zone() != "" || a.Is4In6() || b.Is4In6():
		return Range{}, errors.New("must be an address, such as 10.0.0.7, or a range of addresses, such as 10.0.0.10-10.0.0.59")
	case a.Is4() != b.Is4():
		return Range{}, errors.New("must be a range within one family, IPv4 or IPv6")
	case b.Less(a):
		return Range{}, errors.New("must be a range whose first address is not above its last")
	}
	return Range{a, b}, nil
}

// Overlaps reports whether an address is in both ranges.
func (r Range) Overlaps(o Range) bool { return !r.Last.Less(o.First) && !o.Last.Less(r.First) }

// Size returns the number of addresses in the range, at most math.MaxInt32.
func (r Range) Size() int {
	n := new(big.Int).Sub(number(r.Last), number(r.First))
	if n.Cmp(big.NewInt(math.MaxInt32-1)) >= 0 {
		return math.MaxInt32
	}
	return int(n.Int64()) + 1
}

// at returns the n-th address of the range, from 0. The range must have that many.
func (r Range) at(n int) netip.Addr {
	raw := new(big.Int).Add(number(r.First), big.NewInt(int64(n))).FillBytes(make([]byte, r.First.BitLen()/8))
	addr, _ := netip.AddrFromSlice(raw) // cannot fail: it has the length of an address
	return addr
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// Count returns how many ordinals the ranges have addresses for, at most math.MaxInt32. Invalid ranges are ignored.
func (a *Addresses) Count() int {
	n := count(a.Ranges)
	for i := range a.AdditionalRanges {
		n = min(n, count(a.AdditionalRanges[i:i+1]))
	}
	return n
}

func count(ranges []string) (n int) {
	for _, text := range ranges {
		if r, err := ParseRange(text); err == nil {
			n = min(n+r.Size(), math.MaxInt32)
		}
	}
	return n
}

// Overlap returns a range of a and a range of b that share an address, as the spec writes them. Invalid ranges are ignored.
func (a *Addresses) Overlap(b *Addresses) (mine, theirs string, is bool) {
	for _, mine := range slices.Concat(a.Ranges, a.AdditionalRanges) {
		r, err := ParseRange(mine)
		if err != nil {
			continue
		}
		for _, theirs := range slices.Concat(b.Ranges, b.AdditionalRanges) {
			if o, err := ParseRange(theirs); err == nil && !r.Last.Less(o.First) && !o.Last.Less(r.First) {
				return mine, theirs, true
			}
		}
	}
	return "", "", false
}

// At returns the addresses of the member with ordinal n: the n-th address (from 0) of all ranges together, and the n-th of each additional
// range. ok is false if one of them has fewer addresses.
func (a *Addresses) At(n int) (all []netip.Addr, ok bool) {
	first, ok := at(a.Ranges, n)
	all = append(all, first)
	for i := range a.AdditionalRanges {
		more, has := at(a.AdditionalRanges[i:i+1], n)
		all, ok = append(all, more), ok && has
	}
	return all, ok
}

func at(ranges []string, n int) (netip.Addr, bool) {
	for _, text := range ranges {
		r, err := ParseRange(text)
		if err != nil {
			continue
		}
		if size := r.Size(); n >= size {
			n -= size
			continue
		}
		return r.at(n), n >= 0
	}
	return netip.Addr{}, false
}

// WantsDHCP reports whether the adapter requests an IPv4 address by DHCP.
func (n *Network) WantsDHCP() bool {
	if n.DHCP != nil {
		return *n.DHCP
	}
	return n.IPv4 == nil && n.IPv6 == nil
}

// WantsAddress reports whether the adapter gets an address.
func (n *Network) WantsAddress() bool { return n.WantsDHCP() || n.IPv4 != nil || n.IPv6 != nil }
