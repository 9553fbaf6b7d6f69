package inventory

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// datacenterField is what spec.placement.datacenter names.
var datacenterField = naming.Setting{Word: "datacenter", Flag: "spec.placement.datacenter", Missing: vcfault.ReasonDatacenterNotFound, Ambiguous: vcfault.ReasonDatacenterAmbiguous}

// parsePlacement parses a placement that plan.Home.String wrote into a stamp. A ':' in a datacenter's name ends the name: the
// placement is then not found, and nothing is done.
func parsePlacement(text string) plan.Home {
	datacenter, folder, _ := strings.Cut(text, ":")
	return plan.Home{Datacenter: datacenter, Folder: folder}
}

// folders finds where groups have their folders. Inventory.mu guards it.
type folders struct {
	objects  *objects
	requests *requests
	settings *Settings
	own      *GroupFolder // of the settings, or of the last settings that could be looked up; nil before the first
}

// GroupFolder is the place in this vCenter where groups with a placement have their folders, when it was looked up. It is immutable.
type GroupFolder struct {
	placement plan.Home
	// datacenter is the moRef of the datacenter in which templates are looked for, name its name, for people, and VMFolder the moRef of its VM
	// folder.
	datacenter, name, VMFolder string
	// Root is the moRef of the folder that contains <namespace>/<group>; empty while there is none. Path are the names that lead from VMFolder
	// to it.
	Root string
	Path []string
	// reserved is the namespace whose groups can't have this placement, because their folders would contain the server's own folder.
	reserved string
	fault    *plan.Fault
}

// sameAs compares the results of two lookups without Root, because the stream reports the content of a new root folder anyway.
func (f *GroupFolder) sameAs(same *GroupFolder) bool {
	return f.datacenter == same.datacenter && f.name == same.name && f.VMFolder == same.VMFolder && equalFault(f.fault, same.fault)
}

// refusal returns why a group can't have its folder at f; nil if it can.
func (f *GroupFolder) refusal(ref plan.Ref) *plan.Fault {
	if f.fault == nil && f.reserved != "" && strings.EqualFold(f.reserved, ref.Namespace) {
		return forbidden(f.placement.Folder)
	}
	return f.fault
}

func forbidden(folder string) *plan.Fault {
	return &vcfault.ForOperator(vcfault.ReasonHomeForbidden,
		"The folder %q of spec.placement.folder would mix the group's folder with those in the server's own folder: set spec.placement.folder to a path outside of that (--folder), or remove it.", folder).Fault
}

// requester is a group that asks for a folder, and the placement of that folder.
type requester struct {
	uid       types.UID
	placement plan.Home
}

// placementOf returns the placement of a group's folder. If the stamp of a VM that is the group's has another placement than the group asks for, the
// stamp's counts: names are the lock of the ordinals only as long as all VMs of a group are in one folder.
func placementOf(ours []plan.VM, asked plan.Home) plan.Home {
	text := asked.String()
	for i := range ours {
		if ours[i].Home != text {
			return parsePlacement(ours[i].Home)
		}
	}
	return asked
}

// groupFolder returns where the folders of a placement are. The settings must be known. The caller holds mu.
func (fs *folders) groupFolder(placement plan.Home) *GroupFolder {
	if placement == (plan.Home{}) {
		return fs.own
	}
	fs.requests.mu.Lock()
	f := fs.requests.placements[placement]
	fs.requests.mu.Unlock()
	if f == nil {
		f = fs.lookUp(placement, nil)
	}
	return f
}

// keepPlacement keeps the result of a lookup for groupFolder, until a place changes. The caller holds mu.
func (fs *folders) keepPlacement(f *GroupFolder) {
	fs.requests.mu.Lock()
	defer fs.requests.mu.Unlock()
	if f != fs.own && fs.requests.placements[f.placement] == nil {
		fs.requests.placements[f.placement] = f
	}
}

// lookUp finds a placement among the known places. old is the result of the last lookup, or nil: its datacenter is used again, even if it was
// renamed since, or another one has its name now. The caller holds mu.
func (fs *folders) lookUp(placement plan.Home, old *GroupFolder) *GroupFolder {
	f := &GroupFolder{placement: placement}
	if placement.Datacenter == "" {
		f.datacenter, f.name, f.VMFolder = fs.own.datacenter, fs.own.name, fs.own.VMFolder
	} else if kept, is := fs.objects.keptDatacenter(old); is {
		f.datacenter, f.name, f.VMFolder = old.datacenter, kept, old.VMFolder
	} else if err := fs.objects.lookUpDatacenter(f); err != nil {
		f.fault = &err.Fault
		return f
	}
	if f.Path = fs.pathOf(placement.Folder); f.Path == nil {
		f.fault = forbidden(placement.Folder)
		return f
	}
	if here := len(f.Path); here < len(fs.own.Path) && slices.EqualFunc(f.Path, fs.own.Path[:here], strings.EqualFold) {
		f.reserved = fs.own.Path[here]
	}
	f.Root = f.VMFolder
	for i, name := range f.Path {
		f.Root = fs.objects.places.below(f.Root, name)
		if p, found := fs.objects.places.byRef[f.Root]; found && p.Kind != "Folder" {
			f.fault = &vcfault.ForOperator(vcfault.ReasonFolderNotFound, "%s is not a folder: set spec.placement.folder to a folder's path, or one that is free.",
				"/"+strings.Join(slices.Concat(fs.objects.places.names(f.VMFolder), f.Path[:i+1]), "/")).Fault
			return f
		}
	}
	return f
}

// pathOf returns the names that lead from a datacenter's VM folder to the folder that contains <namespace>/<group>: the path of the settings'
// folder, or spec.placement.folder followed by v1alpha1.GroupsFolder, a name that spec.placement.folder can't contain. So no group's folder can
// be inside another group's, where it could take a member's name: if one path were the beginning of another, both would have their first
// GroupsFolder at the same position, and so the same length. pathOf returns nil for a folder inside the settings' folder, because groups have
// their folders there without GroupsFolder, in every datacenter.
func (fs *folders) pathOf(folder string) []string {
	if folder == "" {
		return fs.own.Path
	}
	path, own := canonicalPath(strings.Split(strings.Trim(folder, "/"), "/")), len(fs.own.Path)
	if slices.EqualFunc(path, fs.own.Path, strings.EqualFold) {
		return fs.own.Path
	}
	if slices.ContainsFunc(path, v1alpha1.IsGroupsFolder) {
		return nil
	}
	if path = append(path, v1alpha1.GroupsFolder); len(path) > own && slices.EqualFunc(path[:own], fs.own.Path, strings.EqualFold) {
		return nil
	}
	return path
}

// keptDatacenter returns the name of the datacenter that a placement was found in before, if it still exists. The caller holds mu.
func (o *objects) keptDatacenter(old *GroupFolder) (name string, is bool) {
	if old == nil || old.datacenter == "" || old.VMFolder == "" {
		return "", false
	}
	p, is := o.places.byRef[old.datacenter]
	return naming.Unescape(p.Name), is
}

// lookUpDatacenter finds the datacenter of a placement and its VM folder, and sets them in f. The caller holds mu.
func (o *objects) lookUpDatacenter(f *GroupFolder) *vcfault.Error {
	var all []Place
	var candidates []naming.Candidate
	for _, p := range o.places.byRef {
		if p.Kind == "Datacenter" {
			all = append(all, p)
			candidates = append(candidates, naming.Candidate{Path: o.places.path(p.Parent, p.Name)})
		}
	}
	i, err := datacenterField.Choose(f.placement.Datacenter, candidates)
	if err != nil {
		return vcfault.Classify("", err)
	}
	f.datacenter, f.name = all[i].MoRef, naming.Unescape(all[i].Name)
	if f.VMFolder = o.places.vmFolder(f.datacenter); f.VMFolder == "" {
		return vcfault.ForOperator(vcfault.ReasonFolderNotFound, "The VM folder of the datacenter %s cannot be seen: grant vCenter's user the right to see it.", f.name)
	}
	return nil
}

// lookUpRoot looks the root folder up again by its path. Another folder has that path if the known one was removed, moved or renamed, and an
// operator or another replica created a new one. All replicas must use the folder at the path, because a name is a lock only within one
// folder. While no folder has the path, they use the moved one. The caller holds mu.
func (fs *folders) lookUpRoot(w *changes) {
	root := fs.objects.places.below(fs.own.VMFolder, fs.own.Path...)
	if p, found := fs.objects.places.byRef[root]; !found || p.Kind != "Folder" || root == fs.own.Root {
		return
	}
	own := *fs.own
	own.Root = root
	fs.own = &own
	if fs.settings != nil {
		site := *fs.settings
		site.Root = FolderRef(root)
		fs.settings = &site
	}
	w.fire[""] = true
}

// lookUpPlacements looks all placements up again, after places changed. The caller holds mu.
func (fs *folders) lookUpPlacements(w *changes) {
	if fs.own == nil {
		return
	}
	fs.lookUpRoot(w)
	fs.requests.mu.Lock()
	defer fs.requests.mu.Unlock()
	for placement, old := range fs.requests.placements {
		f := fs.lookUp(placement, old)
		if fs.requests.placements[placement] = f; !f.sameAs(old) {
			w.fire[""] = true
		}
	}
}

// isRoot reports whether a place is the folder that contains <namespace>/<group>, for the settings or for a placement that a group asked
// for. The caller holds mu.
func (fs *folders) isRoot(ref string) bool {
	if fs.own == nil || ref == "" {
		return false
	}
	if ref == fs.own.Root {
		return true
	}
	fs.requests.mu.Lock()
	defer fs.requests.mu.Unlock()
	for _, f := range fs.requests.placements {
		if f.Root == ref {
			return true
		}
	}
	return false
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
	f := n.folders.groupFolder(placement)
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

// vmFolder returns the VM folder of a datacenter: it is the only child of a datacenter that the server reads.
func (p *places) vmFolder(datacenter string) string {
	if ref := p.below(datacenter, "vm"); ref != "" {
		return ref
	}
	for _, x := range p.byRef {
		if x.Parent == datacenter && x.Kind == "Folder" {
			return x.MoRef
		}
	}
	return ""
}

// canonicalPath returns names as vCenter stores them: '%', '/' and '\' within a name are %25, %2f and %5c.
func canonicalPath(names []string) []string {
	canonical := make([]string, len(names))
	for i, name := range names {
		canonical[i] = escaper.Replace(naming.Unescape(name))
	}
	return canonical
}

var escaper = strings.NewReplacer("%", "%25", "/", "%2f", `\`, "%5c")
