package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// Identify returns the groups of that cluster and name, by their members' stamps.
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

// HasMembers reports whether VMs have a group's stamp, of whichever cluster.
func (n *Inventory) HasMembers(uid types.UID) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	g := n.objects.groups[uid]
	return g != nil && len(g.refs) > 0
}

// wholeRefs returns the moRefs of the VMs that are always read whole: all members of all groups, and the VMs that may
// become members.
func (n *Inventory) wholeRefs() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	refs := slices.Collect(maps.Keys(n.objects.members))
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	return slices.AppendSeq(refs, maps.Keys(n.requests.adoptCandidates))
}

// IsUnmanaged reports whether a VM is known to be no group's member.
func (n *Inventory) IsUnmanaged(moRef string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	x, found := n.objects.unmanaged[moRef]
	return found && !x.unreadable
}

// fits reports whether everything that the settings name was found.
func (n *Inventory) fits() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.unfit == nil && n.folders.own != nil
}

// StampsUnknown returns how many VMs have a stamp of a version that this server does not know.
func (n *Inventory) StampsUnknown() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.unknown
}

// VCenter returns the instanceUuid of the vCenter that was read.
func (n *Inventory) VCenter() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.vcenter
}

// Settings returns what the settings name, or what is wrong with them.
func (n *Inventory) Settings() (*Settings, *plan.Fault) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.folders.settings, n.unfit
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

// Holder returns what an object is: a member, or the path of another object. known is false if it is gone or unknown.
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

// Below finds a folder by the names that lead to it.
func (n *Inventory) Below(moRef string, names ...string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.places.below(moRef, names...)
}

// IsGone reports whether an object is known to be gone.
func (n *Inventory) IsGone(moRef string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.gone.has(moRef)
}

// unwatched returns the members, the places, and the VMs whose owner is unclear, that the stream has not reported and that were not
// checked for that reason. The latter include VMs that a group's status names and that are hidden from our user. It looks only at those
// that are new, or left the stream, since it found them reported.
func (n *Inventory) unwatched(seen watched) []vim.ManagedObjectReference {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	var refs []vim.ManagedObjectReference
	for moRef := range n.requests.unheard {
		ref := VMRef(moRef)
		if p, is := n.objects.places.byRef[moRef]; is {
			ref.Type = p.Kind
		} else if n.objects.members[moRef] == nil && !n.objects.unreadable[moRef] {
			delete(n.requests.unheard, moRef)
			continue
		}
		switch {
		case seen.entered[moRef]:
			delete(n.requests.unheard, moRef)
		case !seen.checked[moRef]:
			refs = append(refs, ref)
		}
	}
	return refs
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

// Standing returns the datacenter of groups' folders, and the moRef of the deepest folder on the path to them that exists.
func (n *Inventory) Standing(at *GroupFolder) (in naming.Candidate, folder string) {
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

// Counts are how many VMs of each kind are known.
type Counts struct {
	Members, Unmanaged, Groups, Places int
	// StampsUnknown are VMs with a stamp of a version that this server does not know.
	StampsUnknown int
	// Candidates are the unmanaged VMs that a group wants to adopt.
	Candidates int
}

// Count counts what is known.
func (n *Inventory) Count() Counts {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	return Counts{len(n.objects.members), len(n.objects.unmanaged), len(n.objects.groups), len(n.objects.places.byRef), n.objects.unknown, len(n.requests.adoptCandidates)}
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

// FindTemplate finds a template as State does. others are the names of existing
// templates, and plain is the path of a VM of that name that is not a template.
func (n *Inventory) FindTemplate(at *GroupFolder, name string) (t plan.Template, others []string, plain string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.template(at, name), n.objects.otherTemplates(at), n.objects.plainVM(at, name)
}

// TemplatesIn lists the templates of a datacenter.
func (n *Inventory) TemplatesIn(at *GroupFolder) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.objects.otherTemplates(at)
}

// Clusters returns the clusters as last read.
func (n *Inventory) Clusters() []Cluster {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Collect(maps.Values(n.objects.clusters.byRef))
}

// OwnFolder returns where groups have their folders according to the settings; nil if unknown.
func (n *Inventory) OwnFolder() *GroupFolder {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.folders.own
}

// ForgetRoot declares that the root folder does not exist: the one that was set is a folder on the path to it.
func (n *Inventory) ForgetRoot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	own := *n.folders.own
	own.Root = ""
	n.folders.own = &own
}
