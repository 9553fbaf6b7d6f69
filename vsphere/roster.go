package vsphere

import (
	"cmp"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Roster lists all groups of our cluster that have VMs, as their stamps say: by namespace, name and UID. It is the same
// for every replica, whichever is called for a group. known is false while the inventory is not: the facts
// are then the last ones, or none. It is answered from memory.
func (v *VCenter) Roster() (groups []plan.Listed, known bool) {
	return v.inventory.roster(v.cfg.ClusterID)
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
