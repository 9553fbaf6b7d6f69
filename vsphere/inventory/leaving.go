package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// unstampedDelay is the time after which a VM whose stamp was removed counts as gone. vCenter's stream reports other changes much sooner.
const unstampedDelay = 5 * time.Second

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
	id, reused, isCopy := plan.VMID{MoRef: r.MoRef, InstanceUUID: r.InstanceUUID}, false, false
	if m := n.objects.members[r.MoRef]; m != nil {
		if sameVM(r.InstanceUUID, m.InstanceUUID) {
			return m.Stamp.UID != uid
		}
		reused = true
	} else if x, found := n.objects.unmanaged[r.MoRef]; found {
		if x.unreadable || sameVM(r.InstanceUUID, x.instanceUUID) {
			return !x.unreadable && (ask.Finalizing || x.unstampedAt.IsZero() || time.Since(x.unstampedAt) >= unstampedDelay)
		}
		if n.renumbers(uid, r, &x, ask.Preview) {
			return false
		}
		reused, isCopy = true, x.copyOf.proof == proof{uid, r.InstanceUUID}
	}
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	if n.requests.missing.isDone(id) {
		return true
	}
	if ask.Preview {
		return false
	}
	if reused {
		n.missLocked(recordedMissing(uid, r, true, isCopy))
		return false
	}
	if _, asked := n.requests.awaited[r.MoRef]; n.want != nil && !asked && (kept || n.requests.missing.find(id) == nil) {
		n.requests.awaited[r.MoRef] = awaited{uid, *r, kept}
		n.want(r.MoRef)
	}
	return false
}

// miss records that a member left the inventory. The caller holds mu for writing.
func (n *Inventory) miss(old *Member, reused, copied bool) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	if vm := old.Stamp.Onto(old.VM); !vm.Quarantined.IsZero() || vm.IsStandby() { // it is off, so it can't run unnoticed; if it returns, its stamp identifies it
		if !copied {
			n.requests.missing.finish(plan.VMID{MoRef: old.MoRef, InstanceUUID: old.InstanceUUID}, plan.Actor{})
		}
		return
	}
	n.missLocked(Missing{UID: old.Stamp.UID, Host: old.Host, SeenAt: old.ReadAt, Reused: reused, Copied: copied,
		File:     old.File,
		Vanished: plan.Vanished{MoRef: old.MoRef, InstanceUUID: old.InstanceUUID, Name: old.Name, Ordinal: old.Stamp.Ordinal}})
}

// missLocked records a VM as missing, unless the cause of its removal is known, or it exists with another moRef. The caller holds mu and
// requests.mu.
func (n *Inventory) missLocked(m Missing) {
	if n.requests.missing.isDone(m.id()) || n.requests.missing.find(m.id()) != nil {
		return
	}
	if g := n.objects.groups[m.UID]; g != nil && m.InstanceUUID != "" {
		for _, other := range g.refs {
			if other.InstanceUUID == m.InstanceUUID && other.MoRef != m.MoRef && n.requests.isProven(m.UID, other.MoRef, other.InstanceUUID) {
				n.requests.missing.finish(m.id(), plan.Actor{})
				return
			}
		}
	}
	m.Since, m.asked = time.Now(), true
	n.requests.missing.put(&m)
	if n.lost != nil {
		n.lost()
	}
}

// hasMoved reports whether the record of a VM in another vCenter is over: another record is the VM's now. Nothing is asked about such a VM: here, its
// moRef is another's, or none's. One in quarantine or on standby is awaited as long as the operator says so. The caller holds mu.
func (n *Inventory) hasMoved(uid types.UID, r *v1alpha1.Member, kept bool, ask *plan.Query) bool {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	if g := n.objects.groups[uid]; g != nil {
		for ref, m := range g.refs {
			if m.InstanceUUID == r.InstanceUUID && n.requests.isProven(uid, ref, r.InstanceUUID) {
				return true
			}
		}
	}
	if kept {
		return !ask.Awaits
	}
	m := recordedMissing(uid, r, false, false)
	if n.requests.missing.find(m.id()) == nil && !ask.Preview {
		m.How = "it was in vCenter " + plan.VCenterOf(r.MoRef) + ", and in this one nothing is shown to be it"
		m.Since, m.asked = time.Now(), true
		n.requests.missing.put(&m)
	}
	return false
}

// answerWanted notifies the groups that had asked for a VM of which nothing was known before this reading. The caller holds mu.
func (n *Inventory) answerWanted(r Reading, w *changes) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	if len(n.requests.awaited) == 0 {
		return
	}
	answer := func(ref string) (a awaited, asked bool) {
		if a, asked = n.requests.awaited[ref]; asked {
			delete(n.requests.awaited, ref)
			w.fire[a.uid] = true
		}
		return a, asked
	}
	for i := range r.Machines {
		answer(r.Machines[i].MoRef)
	}
	for _, ref := range r.Gone {
		if a, asked := answer(ref); asked && a.kept {
			n.requests.missing.finish(plan.VMID{MoRef: ref, InstanceUUID: a.recorded.InstanceUUID}, plan.Actor{})
		} else if asked {
			n.missLocked(recordedMissing(a.uid, &a.recorded, false, false))
		}
	}
}

// renumbers reports whether the VM that has a member's moRef and a copy of its stamp is that member, or it isn't known yet whether it is. The caller
// holds mu.
func (n *Inventory) renumbers(uid types.UID, r *v1alpha1.Member, x *unmanagedVM, preview bool) bool {
	of := proof{uid, r.InstanceUUID}
	if x.copyOf.proof != of || r.InstanceUUID == "" {
		return false
	}
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	e := &n.requests.evidence
	a, read := e.arrivals[r.MoRef]
	switch read = read && a.instanceUUID == x.instanceUUID; {
	case !read && !preview:
		n.seekLocked(Sought{VMID: plan.VMID{MoRef: r.MoRef, InstanceUUID: x.instanceUUID}, UID: uid, Patient: true, Copy: true})
	case read && !plan.Renumbered(a.Had, "", "", r.InstanceUUID, x.copyOf.present):
		return false
	case read && !preview && n.want != nil && e.renumbered[r.MoRef] != (renumbered{of, x.instanceUUID, r.VMPathName}):
		e.renumbered[r.MoRef] = renumbered{of, x.instanceUUID, r.VMPathName}
		n.want(r.MoRef) // which shows its .vmx file; then it is a member again
	}
	return true
}
