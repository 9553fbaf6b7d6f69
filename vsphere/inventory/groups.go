package inventory

import (
	"cmp"
	"slices"
	"strings"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Identify returns the UIDs of the groups whose members' stamps have this cluster, namespace and name, in order.
func (n *Inventory) Identify(cluster, namespace, name string) []types.UID {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var found []types.UID
	for uid, g := range n.objects.groups {
		if g.cluster == cluster && g.namespace == namespace && g.name == name {
			found = append(found, uid)
		}
	}
	slices.Sort(found)
	return found
}

// ListGroups lists the groups of a cluster that have VMs, by namespace, name and UID; known is false while the inventory is unknown.
func (n *Inventory) ListGroups(cluster string) (groups []plan.Listed, known bool) {
	n.mu.RLock()
	for uid, g := range n.objects.groups {
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

// inUse returns the VMs that are neither in quarantine nor standby members. It does not change vms.
func inUse(vms []plan.VM) []plan.VM {
	unused := func(vm plan.VM) bool { return !vm.Quarantined.IsZero() || vm.IsStandby() }
	if !slices.ContainsFunc(vms, unused) {
		return vms
	}
	return slices.DeleteFunc(slices.Clone(vms), unused)
}

// HasMembers reports whether VMs have a group's stamp, whatever cluster the stamp names.
func (n *Inventory) HasMembers(uid types.UID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	g := n.objects.groups[uid]
	return g != nil && len(g.refs) > 0
}

// Member returns the VM with that moRef if it is a member of any group. It is immutable.
func (n *Inventory) Member(moRef string) *Member {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.members[moRef]
}

// MemberNames returns the names of a group's VMs.
func (n *Inventory) MemberNames(uid types.UID) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var names []string
	if g := n.objects.groups[uid]; g != nil {
		for i := range g.vms {
			names = append(names, g.vms[i].Name)
		}
	}
	return names
}

// MemberRefs returns the VMs with the stamp of the group with that UID.
func (n *Inventory) MemberRefs(uid types.UID) (refs []vim.ManagedObjectReference) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if g := n.objects.groups[uid]; g != nil {
		for moRef := range g.refs {
			refs = append(refs, VMRef(moRef))
		}
	}
	return refs
}
