package vsphere

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Identify finds the groups of that cluster and name by their members' stamps.
func (n *Inventory) Identify(cluster, namespace, name string) []types.UID {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var found []types.UID
	for uid, g := range n.groups {
		if g.cluster == cluster && g.namespace == namespace && g.name == name {
			found = append(found, uid)
		}
	}
	slices.Sort(found)
	return found
}

// wholeRefs are the moRefs of the VMs that are always read whole: all members of all groups, and the VMs that may
// become members.
func (n *Inventory) wholeRefs() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	refs := slices.Collect(maps.Keys(n.members))
	n.interest.Lock()
	defer n.interest.Unlock()
	return slices.AppendSeq(refs, maps.Keys(n.adoptCandidates))
}

// isUnmanaged reports whether a VM is known to be nobody's member.
func (n *Inventory) isUnmanaged(moRef string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	x, found := n.unmanaged[moRef]
	return found && !x.unreadable
}

// fits reports whether what the settings name was found.
func (n *Inventory) fits() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.unfit == nil && n.own != nil
}

func (n *Inventory) stampsUnknown() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.unknown
}

// from is the vCenter that was read.
func (n *Inventory) from() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.vcenter
}

// settingsOrFault is what the settings name, or what is wrong with them.
func (n *Inventory) settingsOrFault() (*settings, *plan.Fault) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.settings, n.unfit
}

// member is the VM with that moRef if it is anybody's member. It is not changed afterwards.
func (n *Inventory) member(moRef string) *member {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.members[moRef]
}

// memberNames are the names of a group's VMs.
func (n *Inventory) memberNames(uid types.UID) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var names []string
	if g := n.groups[uid]; g != nil {
		for i := range g.vms {
			names = append(names, g.vms[i].Name)
		}
	}
	return names
}

// memberRefs are the VMs that bear the stamp of the group with that UID.
func (n *Inventory) memberRefs(uid types.UID) (refs []vim.ManagedObjectReference) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if g := n.groups[uid]; g != nil {
		for moRef := range g.refs {
			refs = append(refs, vmRef(moRef))
		}
	}
	return refs
}

// holder says what an object is: a member, or the path of something else. told is false if it is gone, or cannot
// be told.
func (n *Inventory) holder(moRef string) (m *member, path string, told bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if m := n.members[moRef]; m != nil {
		return m, n.places.path(m.Parent, m.Name), true
	}
	if p, found := n.places.byRef[moRef]; found {
		return nil, n.places.path(p.Parent, p.Name), true
	}
	x, found := n.unmanaged[moRef]
	return nil, n.places.path(x.parent, x.name), found && (!x.unreadable || x.unknown)
}

// below finds a folder by the names that lead to it.
func (n *Inventory) below(moRef string, names ...string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.places.below(moRef, names...)
}

// goneFor reports whether an object is known to be gone.
func (n *Inventory) goneFor(moRef string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.gone.has(moRef)
}

// unwatched are the members, the places, and the VMs that may be anybody's, that the stream has neither told of, nor were
// checked for that reason. Among the last are those that a group's status names and that are hidden from us.
func (n *Inventory) unwatched(seen watched) []vim.ManagedObjectReference {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var refs []vim.ManagedObjectReference
	look := func(kind, moRef string) {
		if !seen.entered[moRef] && !seen.checked[moRef] {
			refs = append(refs, vim.ManagedObjectReference{Type: kind, Value: moRef})
		}
	}
	for ref := range n.members {
		look("VirtualMachine", ref)
	}
	for ref := range n.unreadable {
		look("VirtualMachine", ref)
	}
	for ref, p := range n.places.byRef {
		look(p.Kind, ref)
	}
	return refs
}

func (n *Inventory) roster(cluster string) (groups []plan.Listed, known bool) {
	n.mu.RLock()
	for uid, g := range n.groups {
		if g.cluster != cluster {
			continue
		}
		if vms := inUse(g.vms); len(vms) > 0 {
			groups = append(groups, plan.Listed{Ref: plan.Ref{Namespace: g.namespace, Name: g.name, UID: uid}, VMs: vms})
		}
	}
	known = n.known
	n.mu.RUnlock()
	slices.SortFunc(groups, func(a, b plan.Listed) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)))
	})
	return groups, known
}

// inUse are the VMs that are not in quarantine. The slice that is given is not changed.
func inUse(vms []plan.VM) []plan.VM {
	quarantined := func(vm plan.VM) bool { return !vm.Quarantined.IsZero() }
	if !slices.ContainsFunc(vms, quarantined) {
		return vms
	}
	return slices.DeleteFunc(slices.Clone(vms), quarantined)
}
