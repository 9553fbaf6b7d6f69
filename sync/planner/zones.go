package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Members are spread evenly over spec.placement.zones. The zone is a function of the ordinal, so a member that is
// replaced under its ordinal keeps it; evenness depends on which ordinals exist.

// picker picks the ordinals for new members.
type picker struct {
	v         *view
	load      []int   // members by zone, as they will be
	next      []int32 // by zone: all lower ones of that zone are taken
	addresses int     // ordinals from this one on have no static address
}

// pickOrdinals returns a picker that counts the members that stay.
func (v *view) pickOrdinals() *picker {
	zones := max(1, len(v.Group.Spec.Placement.Zones))
	p := &picker{v: v, load: v.zoneLoad(zones, func(m *member) bool { return m.retire == "" && !m.leaves }),
		next: make([]int32, zones), addresses: plan.AddressCount(&v.Group.Spec)}
	for zone := range p.next {
		p.next[zone] = int32(zone)
	}
	for _, ordinal := range v.arriving {
		p.load[int(ordinal)%zones]++
	}
	return p
}

// pick returns the lowest free ordinal of the zone that will have the fewest members, preferring ordinals that have a
// static address.
func (p *picker) pick() int32 {
	best := -1
	for zone := range p.next {
		p.next[zone] = p.v.freeOrdinal(p.next[zone], int32(len(p.next)))
		if best < 0 || p.before(zone, best) {
			best = zone
		}
	}
	ordinal := p.next[best]
	p.load[best]++
	p.next[best] += int32(len(p.next))
	return ordinal
}

func (p *picker) before(a, b int) bool {
	hasA, hasB := int(p.next[a]) < p.addresses, int(p.next[b]) < p.addresses
	switch {
	case hasA != hasB:
		return hasA
	case p.load[a] != p.load[b]:
		return p.load[a] < p.load[b]
	}
	return p.next[a] < p.next[b]
}

// zoneLoad counts members by zone.
func (v *view) zoneLoad(zones int, counts func(*member) bool) []int {
	load := make([]int, zones)
	for i := range v.members {
		if m := &v.members[i]; counts(m) {
			load[int(m.Ordinal)%zones]++
		}
	}
	return load
}

// keepZonesEven changes the order in which members go: among those of equal rank, one of the fullest zone
// comes first.
func (v *view) keepZonesEven(order, rank []int) {
	zones := len(v.Group.Spec.Placement.Zones)
	if zones < 2 {
		return
	}
	load := v.zoneLoad(zones, func(*member) bool { return true })
	zoneOf := func(i int) int { return int(v.members[i].Ordinal) % zones }
	for n := range order {
		first := n
		for i := n + 1; i < len(order) && rank[order[i]] == rank[order[n]]; i++ {
			if load[zoneOf(order[i])] > load[zoneOf(order[first])] {
				first = i
			}
		}
		chosen := order[first]
		copy(order[n+1:first+1], order[n:first])
		order[n] = chosen
		load[zoneOf(chosen)]--
	}
}
