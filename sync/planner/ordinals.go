// This file picks ordinals for new members.

package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// picker returns a picker of ordinals that has counted no member.
func (d *decision) picker() *zonePicker {
	evenly := len(d.facts.Group.Spec.Placement.Zones)
	if d.facts.hasPersistentDisks() {
		evenly = 1
	}
	return newZonePicker(evenly, plan.AddressCount(&d.facts.Group.Spec), d.taken)
}

// pickOrdinals returns a picker that counts the members that are neither removed nor replaced.
func (d *decision) pickOrdinals() *zonePicker {
	p := d.picker()
	for i := range d.sets.members {
		if m := &d.sets.members[i]; m.nominated == "" && !m.leaves() && !m.duplicate {
			p.Count(m.Ordinal)
		}
	}
	for _, ordinal := range d.arriving {
		p.Count(ordinal)
	}
	return p
}

// nextPlace picks the next free ordinal whose addresses, if it has static ones, no member has; false if there is none.
func (f *facts) nextPlace(ordinals *zonePicker) (ordinal int32, ok bool) {
	var taken takenAddresses
	for {
		ordinal = ordinals.Pick()
		given, ok := plan.AddressesOf(&f.Group.Spec, ordinal)
		if !ok || len(given) == 0 {
			return ordinal, ok
		}
		if taken == nil {
			taken = takenAddressesOf(f.State.VMs)
		}
		if !taken.ByOther(ordinal, plan.AddressText(given)) {
			return ordinal, true
		}
	}
}
