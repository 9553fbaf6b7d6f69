package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// unstampedDelay is the time after which a VM whose stamp was removed counts as gone. vCenter's stream reports other changes much sooner.
const unstampedDelay = 5 * time.Second

// missMember records that a VM with a group's stamp left the inventory, if it was shown to be the group's: a stray isn't missing, nor a member when it is
// back. The caller holds mu for writing.
func (n *Inventory) missMember(old *Member, reused, copied bool) {
	if !n.Evidence.isProven(old.Stamp.UID, old.ID()) {
		return
	}
	if vm := old.Stamp.Onto(old.VM); !vm.Quarantined.IsZero() || vm.IsStandby() { // it is off, so it can't run unnoticed; if it returns, its stamp identifies it
		if !copied {
			n.MissingVMs.finish(old.ID())
		}
		return
	}
	n.miss(Missing{UID: old.Stamp.UID, Host: old.Host, SeenAt: old.ReadAt, Reused: reused, Copied: copied,
		File:     old.File,
		Vanished: plan.Vanished{MoRef: old.MoRef, InstanceUUID: old.InstanceUUID, Name: old.Name, Ordinal: old.Stamp.Ordinal}})
}

// miss records a VM as missing, unless the cause of its removal is known, or it exists with another moRef. The caller holds mu.
func (n *Inventory) miss(m Missing) {
	if n.MissingVMs.isDone(m.ID()) || n.MissingVMs.isMissing(m.ID()) {
		return
	}
	if g := n.objects.groups[m.UID]; g != nil && m.InstanceUUID != "" {
		for _, other := range g.refs {
			if other.InstanceUUID == m.InstanceUUID && other.MoRef != m.MoRef && n.Evidence.isProven(m.UID, other.ID()) {
				n.MissingVMs.finish(m.ID())
				return
			}
		}
	}
	n.MissingVMs.put(m)
}

// hasMoved reports whether the record of a VM in another vCenter is over: another record is the VM's now. Nothing is asked about such a VM: here, its
// moRef is another's, or none's. One in quarantine or on standby is awaited as long as the operator says so. The caller holds mu.
func (n *Inventory) hasMoved(uid types.UID, r *v1alpha1.Member, kept bool, ask *plan.Query) bool {
	if g := n.objects.groups[uid]; g != nil {
		for _, m := range g.refs {
			if m.InstanceUUID == r.InstanceUUID && n.Evidence.isProven(uid, m.ID()) {
				return true
			}
		}
	}
	if kept {
		return !ask.Awaits
	}
	if !ask.Preview {
		m := recordedMissing(uid, r, false, false)
		m.How = "it was in vCenter " + plan.VCenterOf(r.MoRef) + ", and in this one nothing is shown to be it"
		n.MissingVMs.putElsewhere(m)
	}
	return false
}

// isGone reports whether a VM that was the group's no longer is. It asks for a read if nothing is known of the VM, unless for a preview.
//
// A VM can lose its stamp because another replica, which is removing the group, has just released it. Before that, the other replica has
// marked another member, but vCenter may report changes of two VMs in any order. So isGone waits for unstampedDelay before the VM can be
// replaced, so that the mark is seen first. (Found by a randomized test: one member too many, at the end of a Retain.)
//
// kept reports whether the VM is recorded as one in quarantine. The caller holds mu.
func (n *Inventory) isGone(uid types.UID, r *v1alpha1.Member, kept bool, ask *plan.Query) bool {
	if plan.VCenterOf(r.MoRef) != "" {
		return n.hasMoved(uid, r, kept, ask)
	}
	id, reused, isCopy := plan.IDOf(r), false, false
	if m := n.objects.members[r.MoRef]; m != nil {
		if id.Is(m.ID()) {
			return m.Stamp.UID != uid
		}
		reused = true
	} else if x, found := n.objects.unmanaged[r.MoRef]; found {
		if x.unreadable || id.Is(plan.VMID{MoRef: r.MoRef, InstanceUUID: x.instanceUUID}) {
			return !x.unreadable && (ask.Finalizing || x.unstampedAt.IsZero() || time.Since(x.unstampedAt) >= unstampedDelay)
		}
		if n.renumbers(uid, r, &x, ask.Preview) {
			return false
		}
		reused, isCopy = true, x.copyOf.proof == proof{uid, r.InstanceUUID}
	}
	switch {
	case n.MissingVMs.isDone(id):
		return true
	case ask.Preview:
	case reused:
		n.miss(recordedMissing(uid, r, true, isCopy))
	case n.want != nil && (kept || !n.MissingVMs.isMissing(id)) && n.awaited.add(awaited{uid, *r, kept}):
		n.want(r.MoRef)
	}
	return false
}

// renumbers reports whether the VM that has a member's moRef and a copy of its stamp is that member, or it isn't known yet whether it is. The caller
// holds mu.
func (n *Inventory) renumbers(uid types.UID, r *v1alpha1.Member, x *unmanagedVM, preview bool) bool {
	of, id := proof{uid, r.InstanceUUID}, plan.VMID{MoRef: r.MoRef, InstanceUUID: x.instanceUUID}
	if x.copyOf.proof != of || r.InstanceUUID == "" {
		return false
	}
	switch a := n.Evidence.arrivalOf(id); {
	case !a.Read && !preview:
		n.Evidence.seekArrival(Sought{VMID: id, UID: uid, Patient: true, Copy: true})
	case a.Read && !plan.Renumbered(a.Had, "", "", r.InstanceUUID, x.copyOf.present):
		return false
	case a.Read && !preview && n.want != nil && n.Evidence.renumber(r.MoRef, renumbered{of, x.instanceUUID, r.VMPathName}):
		n.want(r.MoRef) // which shows its .vmx file; then it is a member again
	}
	return true
}

// answerAwaited notifies the groups that had asked for a VM of which nothing was known before this reading. The caller holds mu.
func (n *Inventory) answerAwaited(r *Reading, w *changes) {
	for i := range r.Machines {
		if a, asked := n.awaited.take(r.Machines[i].MoRef); asked {
			w.fire[a.uid] = true
		}
	}
	for _, ref := range r.Gone {
		a, asked := n.awaited.take(ref)
		switch {
		case !asked:
			continue
		case a.kept:
			n.MissingVMs.finish(plan.VMID{MoRef: ref, InstanceUUID: a.recorded.InstanceUUID})
		default:
			n.miss(recordedMissing(a.uid, &a.recorded, false, false))
		}
		w.fire[a.uid] = true
	}
}
