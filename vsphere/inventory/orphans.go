package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// Orphans are the VMs, by their paths, whose stamps name a group that doesn't exist. Strays are those that are not in that group's folder: the stamp
// of such a VM may be a copy, of a backup, or forged.
type Orphans struct {
	Of          plan.Ref
	VMs, Strays []string
}

// isOf reports whether a VM of a group has the stamp of a cluster.
func (g *group) isOf(cluster string) bool {
	for _, m := range g.refs {
		if m.Stamp.Cluster == cluster {
			return true
		}
	}
	return false
}

// OrphanedRules returns the DRS rules and VM groups of groups that don't exist, each with its cluster in vCenter and its name. A rule doesn't
// name the Kubernetes cluster of its group: OrphanedRules leaves out groups with VMs of another cluster. It calls exists with locks held.
func (n *Inventory) OrphanedRules(cluster string, exists func(plan.Ref) bool) (all []string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, c := range n.objects.clusters.byRef {
		add := func(kind, name string, uid apitypes.UID) {
			if g := n.objects.groups[uid]; g != nil && len(g.refs) > 0 && !g.isOf(cluster) {
				return
			}
			if uid != "" && !exists(plan.Ref{UID: uid}) {
				all = append(all, fmt.Sprintf("%s %q of %s", kind, name, c.Name))
			}
		}
		for _, r := range c.Rules {
			add("rule", r.Name, r.UID)
		}
		for _, g := range c.VMGroups {
			add("VM group", g.Name, g.UID)
		}
	}
	slices.Sort(all)
	return all
}

// Orphans returns the VMs of a cluster whose groups don't exist, and those folders of nonexistent groups in roots that contain no VM with a
// stamp. It calls exists with locks held.
func (n *Inventory) Orphans(cluster string, roots []string, exists func(plan.Ref) bool) (orphans []Orphans, folders []string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	inUse := map[string]bool{}
	all := map[plan.Ref]*Orphans{} // a forged stamp can have a group's UID and other names
	for uid, g := range n.objects.groups {
		for _, m := range g.refs {
			for p := range n.objects.places.above(m.Parent) {
				inUse[p.MoRef] = true
			}
			of := plan.Ref{Namespace: m.Stamp.Namespace, Name: m.Stamp.Name, UID: uid}
			if m.Stamp.Cluster != cluster || exists(of) {
				continue
			}
			if all[of] == nil {
				all[of] = &Orphans{Of: of}
			}
			if path := n.objects.places.path(m.Parent, m.Name); n.inFolderOf(m, roots) {
				all[of].VMs = append(all[of].VMs, path)
			} else {
				all[of].Strays = append(all[of].Strays, path)
			}
		}
	}
	for _, o := range all {
		slices.Sort(o.VMs)
		slices.Sort(o.Strays)
		orphans = append(orphans, *o)
	}
	for ref, p := range n.objects.places.byRef {
		in := n.objects.places.byRef[p.Parent]
		of := plan.Ref{Namespace: naming.Unescape(in.Name), Name: naming.Unescape(p.Name)}
		if p.Kind == "Folder" && slices.Contains(roots, in.Parent) && !inUse[ref] && !exists(of) {
			folders = append(folders, n.objects.places.path(p.Parent, p.Name))
		}
	}
	slices.SortFunc(orphans, func(a, b Orphans) int {
		return cmp.Or(strings.Compare(a.Of.String(), b.Of.String()), strings.Compare(string(a.Of.UID), string(b.Of.UID)))
	})
	slices.Sort(folders)
	return orphans, folders
}

// inFolderOf reports whether a VM is in the folder, or the quarantine folder, of the group that its stamp names. The caller holds mu.
func (n *Inventory) inFolderOf(m *Member, roots []string) bool {
	for _, root := range roots {
		folder := n.objects.places.below(root, m.Stamp.Namespace, m.Stamp.Name)
		if folder != "" && m.Parent != "" && (m.Parent == folder || m.Parent == n.objects.places.below(folder, plan.QuarantineFolder)) {
			return true
		}
	}
	return false
}
