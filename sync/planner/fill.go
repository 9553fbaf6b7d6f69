package planner

import (
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// fill decides what replaces missing members: VMs from quarantine, adopted VMs, standby members, or clones, in this order. It waits for standby
// members that will soon be fit. During an update the group can have maxSurge members more than replicas.
func (d *decision) fill() {
	keep, rolling, dying := d.sets.ordinals+len(d.arriving), false, 0
	for i := range d.sets.members {
		m := &d.sets.members[i]
		if m.nominated != "" || m.leaves() {
			keep--
		}
		dying += int(oneIf(m.leaves() && m.nominated == plan.MarkReasonHealing && m.MarkedForRemoval()))
		rolling = rolling || m.nominated != "" && m.nominated != plan.MarkReasonHealing
	}
	if d.facts.hasPersistentDisks() {
		d.clone(min(len(d.missingOrdinals()), d.facts.want-d.sets.ordinals-len(d.arriving))) // members from replicas on are removed first
		return
	}
	helpers := d.helpers()
	most := d.facts.want
	if rolling || helpers > 0 {
		most += d.facts.policy.Surge
	}
	elsewhere := d.clonedElsewhere()
	need, room := d.facts.want+helpers-keep-elsewhere, most-d.sets.ordinals-len(d.arriving)-elsewhere
	count := min(need, room)
	used := d.bringBack(count)
	used += d.adopt(max(0, min(count-used, d.facts.want-d.sets.ordinals-len(d.arriving)-elsewhere)))
	used += d.promote(min(need, room+dying) - used) // a successor of an unhealthy member does not wait until that member is gone
	d.clone(elsewhere + count - used - min(max(0, count-used), d.soonFit()))
}

// clonedElsewhere is how many members another replica is cloning: their clones here failed because of that. They are tried again until the members
// are there, and no other VM takes their place: the group would have a member too many. A clone that is left from a larger spec is none of them.
func (d *decision) clonedElsewhere() (n int) {
	most := d.facts.wantAll() + d.facts.policy.Surge
	for _, p := range d.facts.Pending {
		n += int(oneIf(p.Op == plan.Clone && p.State != plan.Running && !p.Standby && p.Fault.Reason == plan.ReasonCloneRunning && int(p.Ordinal) < most && !d.taken(p.Ordinal)))
	}
	return n
}
