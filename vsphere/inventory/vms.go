package inventory

import "k8s.io/apimachinery/pkg/types"

// Holder returns the inventory path of an object and, if the object is a member, the member. It tells, for example, which object has a name that a
// clone needs. known is false if the object is gone or unknown.
func (n *Inventory) Holder(moRef string) (m *Member, path string, known bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if m := n.objects.members[moRef]; m != nil {
		return m, n.objects.places.path(m.Parent, m.Name), true
	}
	if p, found := n.objects.places.byRef[moRef]; found {
		return nil, n.objects.places.path(p.Parent, p.Name), true
	}
	x, found := n.objects.unmanaged[moRef]
	return nil, n.objects.places.path(x.parent, x.name), found && (!x.unreadable || x.unknown)
}

// CopyOf returns the instanceUuid in the stamp of a VM whose own instanceUuid is another, if the stamp is a group's; empty otherwise.
func (n *Inventory) CopyOf(moRef string, uid types.UID) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if of := n.objects.unmanaged[moRef].copyOf; of.uid == uid {
		return of.instanceUUID
	}
	return ""
}

// IsUnmanaged reports whether a VM is known to be no group's member.
func (n *Inventory) IsUnmanaged(moRef string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	x, found := n.objects.unmanaged[moRef]
	return found && !x.unreadable
}

// IsGone reports whether an object is known to be gone.
func (n *Inventory) IsGone(moRef string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.gone.has(moRef)
}

// Member returns the VM with that moRef if it is a member of any group. It is immutable.
func (n *Inventory) Member(moRef string) *Member {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.members[moRef]
}
