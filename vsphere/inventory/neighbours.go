package inventory

import (
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

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

// IsRenamedFolder reports whether a folder is in the folder of the group's namespace, under a name that no group asked for.
func (n *Inventory) IsRenamedFolder(moRef string, ref plan.Ref) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	p := n.places.byRef[moRef]
	_, asked := n.requesterOf(ref.Namespace, strings.ToLower(p.Name))
	return !asked && p.Kind == "Folder" && n.isGroups(p) && strings.EqualFold(n.places.byRef[p.Parent].Name, ref.Namespace)
}

// HasPlace reports whether a folder is known to exist.
func (n *Inventory) HasPlace(moRef string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, found := n.places.byRef[moRef]
	return found
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
