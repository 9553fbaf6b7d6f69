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
		for _, vm := range n.listed(uid, g) {
			if s := &g.refs[vm.MoRef].Stamp; s.Cluster == cluster && s.Namespace == namespace && s.Name == name {
				found = append(found, uid)
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

// ListGroups lists the groups of a cluster that have VMs, by namespace, name and UID; known is false while the inventory is unknown.
func (n *Inventory) ListGroups(cluster string) (groups []plan.Listed, known bool) {
	n.mu.RLock()
	for uid, g := range n.objects.groups {
		listed := n.listed(uid, g)
		if len(listed) == 0 {
			continue
		}
		s := &g.refs[listed[0].MoRef].Stamp
		if vms := inUse(listed); s.Cluster == cluster && len(vms) > 0 {
			groups = append(groups, plan.Listed{Ref: plan.Ref{Namespace: s.Namespace, Name: s.Name, UID: uid}, VMs: vms})
		}
	}
	known = n.known
	n.mu.RUnlock()
	slices.SortFunc(groups, func(a, b plan.Listed) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(string(a.UID), string(b.UID)))
	})
	return groups, known
}

// listed returns the VMs of a group that are known to be the group's, or that are in the group's folder below the server's own: the stamp of any
// other VM may be forged. The caller holds mu.
func (n *Inventory) listed(uid types.UID, g *group) []plan.VM {
	unproven := func(vm plan.VM) bool {
		if is := n.Evidence.isProven(uid, vm.ID()); is || n.Evidence.isStray(uid, vm.ID()) {
			return !is || vm.IsTemplate
		}
		s := &g.refs[vm.MoRef].Stamp
		return n.folders.own == nil || vm.Folder == "" || vm.Folder != n.objects.places.below(n.folders.own.Root, s.Namespace, s.Name)
	}
	if !slices.ContainsFunc(g.vms, unproven) {
		return g.vms
	}
	return slices.DeleteFunc(slices.Clone(g.vms), unproven)
}

// inUse returns the VMs that are neither in quarantine nor standby members. It does not change vms.
func inUse(vms []plan.VM) []plan.VM {
	unused := func(vm plan.VM) bool { return !vm.Quarantined.IsZero() || vm.IsStandby() }
	if !slices.ContainsFunc(vms, unused) {
		return vms
	}
	return slices.DeleteFunc(slices.Clone(vms), unused)
}

// HasMembers reports whether a group has VMs (listed), whatever cluster their stamps name. While the server doesn't know its own folder, any VM with the
// group's stamp counts.
func (n *Inventory) HasMembers(uid types.UID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	g := n.objects.groups[uid]
	return g != nil && (n.folders.own == nil && len(g.vms) > 0 || len(n.listed(uid, g)) > 0)
}

// MemberNames returns the names of the VMs with a group's stamp, without the strays.
func (n *Inventory) MemberNames(uid types.UID) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var names []string
	if g := n.objects.groups[uid]; g != nil {
		for i := range g.vms {
			if !n.Evidence.isStray(uid, g.vms[i].ID()) {
				names = append(names, g.vms[i].Name)
			}
		}
	}
	return names
}

// MemberRefs returns the VMs with the stamp of the group with that UID, without the strays.
func (n *Inventory) MemberRefs(uid types.UID) (refs []vim.ManagedObjectReference) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if g := n.objects.groups[uid]; g != nil {
		for moRef, m := range g.refs {
			if !n.Evidence.IsStray(m) {
				refs = append(refs, VMRef(moRef))
			}
		}
	}
	return refs
}
