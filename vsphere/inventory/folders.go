package inventory

import (
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// OwnFolder returns where groups have their folders according to the settings; nil if unknown.
func (n *Inventory) OwnFolder() *GroupFolder {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.folders.own
}

// ForgetRoot declares that the root folder does not exist: SetSettings was given its closest existing ancestor.
func (n *Inventory) ForgetRoot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	own := *n.folders.own
	own.Root = ""
	n.folders.own = &own
}

// ExistingFolder returns the datacenter of groups' folders, and the moRef of the deepest folder on the path to them that exists.
func (n *Inventory) ExistingFolder(at *GroupFolder) (in naming.Candidate, folder string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	dc := n.objects.places.byRef[at.datacenter]
	in = naming.Candidate{Path: n.objects.places.path(dc.Parent, dc.Name), Ref: vim.ManagedObjectReference{Type: "Datacenter", Value: at.datacenter}}
	folder = at.VMFolder
	for _, name := range at.Path {
		next := n.objects.places.below(folder, name)
		if next == "" {
			break
		}
		folder = next
	}
	return in, folder
}

// Below finds a folder by the names that lead to it.
func (n *Inventory) Below(moRef string, names ...string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.places.below(moRef, names...)
}

// DatacenterAbove returns the datacenter that a place is in.
func (n *Inventory) DatacenterAbove(moRef string) (in naming.Candidate, found bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for p := range n.objects.places.above(moRef) {
		if p.Kind == "Datacenter" {
			return n.objects.asCandidate(p), true
		}
	}
	return naming.Candidate{}, false
}

// FolderAt returns a folder with its path, for people.
func (n *Inventory) FolderAt(moRef string) naming.Candidate {
	n.mu.RLock()
	defer n.mu.RUnlock()
	p := n.objects.places.byRef[moRef]
	return naming.Candidate{Path: n.objects.places.path(p.Parent, p.Name), Ref: FolderRef(moRef)}
}

// FoldersNamed returns the paths of the folders whose names begin with a prefix.
func (n *Inventory) FoldersNamed(prefix string) (paths []string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, p := range n.objects.places.byRef {
		if p.Kind == "Folder" && strings.HasPrefix(naming.Unescape(p.Name), prefix) {
			paths = append(paths, n.objects.places.path(p.Parent, p.Name))
		}
	}
	return paths
}

// GroupFolderFor returns the place of the folder of a group with that placement, or why it can't have one.
func (n *Inventory) GroupFolderFor(ref plan.Ref, placement plan.Home) (*GroupFolder, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	switch {
	case n.unfit != nil:
		return nil, &vcfault.Error{Fault: *n.unfit}
	case n.folders.own == nil:
		return nil, vcfault.ForRetry(plan.ReasonInventoryNotRead, "vCenter's inventory is being read.")
	}
	f := n.folders.groupFolder(placement, n.Meanings.Of(ref.UID))
	if fault := f.refusal(ref); fault != nil {
		return nil, &vcfault.Error{Fault: *fault}
	}
	return f, nil
}

// IsFolderOf reports whether a folder has the name of the group's folder, and its parent that of the namespace's folder.
func (n *Inventory) IsFolderOf(name, parent string, ref plan.Ref) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return strings.EqualFold(name, ref.Name) && strings.EqualFold(n.objects.places.byRef[parent].Name, ref.Namespace)
}
