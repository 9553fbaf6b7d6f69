package inventory

import "codeconnect.vmworld.com/vmgroup/sync/plan"

// NamespaceFolder returns the namespace's folder that holds a group's folder; empty if the parent is not one.
func (n *Inventory) NamespaceFolder(moRef string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	above := n.places.byRef[n.places.byRef[moRef].Parent]
	if above.Kind != "Folder" || n.isRoot(above.MoRef) || !n.isRoot(above.Parent) {
		return ""
	}
	return above.MoRef
}

// HasNeighbours reports whether another group of the namespace recently asked for its folder.
func (n *Inventory) HasNeighbours(ref plan.Ref) bool {
	n.interest.Lock()
	defer n.interest.Unlock()
	for _, asked := range []map[placeKey]requester{n.requesters, n.formerRequesters} {
		for at := range asked {
			if at.parent == ref.Namespace && at.name != ref.Name {
				return true
			}
		}
	}
	return false
}
