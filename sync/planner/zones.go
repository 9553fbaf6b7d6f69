// This file spreads members evenly over spec.placement.zones. The zone is a function of the ordinal, so a member that is replaced
// under its ordinal keeps it; evenness depends on which ordinals exist.

package planner

// zonePicker picks the ordinals for new members.
type zonePicker struct {
	load      []int   // members by zone, as they will be
	next      []int32 // by zone: all lower ones of that zone are taken
	addresses int     // ordinals from this one on have no static address
	taken     func(ordinal int32) bool
}

// newZonePicker returns a picker for so many zones (0 is one) that knows of no member yet. taken reports whether no new member can have
// an ordinal; those from addresses on have no static address.
func newZonePicker(zones, addresses int, taken func(ordinal int32) bool) *zonePicker {
	p := &zonePicker{load: make([]int, max(1, zones)), next: make([]int32, max(1, zones)), addresses: addresses, taken: taken}
	for zone := range p.next {
		p.next[zone] = int32(zone)
	}
	return p
}

// Count counts a member.
func (p *zonePicker) Count(ordinal int32) { p.load[int(ordinal)%len(p.load)]++ }

// Load returns how many members the zone of an ordinal has.
func (p *zonePicker) Load(ordinal int32) int { return p.load[int(ordinal)%len(p.load)] }

// Pick returns the lowest free ordinal of the zone that will have the fewest members, preferring ordinals that have a
// static address. It counts that member.
func (p *zonePicker) Pick() int32 {
	best := -1
	for zone := range p.next {
		for p.taken(p.next[zone]) {
			p.next[zone] += int32(len(p.next))
		}
		if best < 0 || p.before(zone, best) {
			best = zone
		}
	}
	ordinal := p.next[best]
	p.load[best]++
	p.next[best] += int32(len(p.next))
	return ordinal
}

func (p *zonePicker) before(a, b int) bool {
	hasA, hasB := int(p.next[a]) < p.addresses, int(p.next[b]) < p.addresses
	switch {
	case hasA != hasB:
		return hasA
	case p.load[a] != p.load[b]:
		return p.load[a] < p.load[b]
	}
	return p.next[a] < p.next[b]
}

// keepZonesEven changes the order in which members are removed: among members of equal rank, one of the fullest zone comes first. ordinals and
// rank are of all members, and order has the indices of those that can be removed.
func keepZonesEven(zones int, ordinals []int32, order, rank []int) {
	if zones < 2 {
		return
	}
	load, zoneOf := make([]int, zones), func(i int) int { return int(ordinals[i]) % zones }
	for i := range ordinals {
		load[zoneOf(i)]++
	}
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
