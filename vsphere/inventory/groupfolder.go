package inventory

import (
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// datacenterField is what spec.placement.datacenter names.
var datacenterField = naming.Setting{Word: "datacenter", Flag: "spec.placement.datacenter", Missing: vcfault.ReasonDatacenterNotFound, Ambiguous: vcfault.ReasonDatacenterAmbiguous}

// folders finds where groups have their folders. Inventory.mu guards it.
type folders struct {
	objects    *objects
	requesters *requesters
	settings   *Settings
	// datacenters are all, during lookUpPlacements.
	datacenters []naming.Candidate
	own         *GroupFolder // of the settings, or of the last settings that could be looked up; nil before the first
}

// groupFolder returns where the folders of a placement are, of which a group's records say what names in it meant. The settings must be known. The caller
// holds mu.
func (fs *folders) groupFolder(placement plan.Home, recorded []v1alpha1.NamedObject) *GroupFolder {
	if placement == (plan.Home{}) {
		return fs.own
	}
	f := fs.requesters.folderOf(placement)
	if f != nil && f.datacenter != "" {
		return f
	}
	if before := naming.Recorded(recorded, datacenterField.Flag, "", placement.Datacenter); before != nil {
		was := naming.RefOf(before.Object).Value
		f = &GroupFolder{datacenter: was, VMFolder: fs.objects.places.vmFolder(was), meaning: *before, recorded: true}
	}
	return fs.lookUp(placement, f)
}

// keepPlacement keeps the result of a lookup for groupFolder, until a place changes. The caller holds mu.
func (fs *folders) keepPlacement(f *GroupFolder) {
	if f != fs.own {
		fs.requesters.keep(f)
	}
}

// lookUp finds a placement among the known places. old is the result of the last lookup, or nil: its datacenter is used again, even if it was
// renamed since, or another one has its name now, because members' names are a lock only within one folder. The caller holds mu.
func (fs *folders) lookUp(placement plan.Home, old *GroupFolder) *GroupFolder {
	f := &GroupFolder{placement: placement}
	if placement.Datacenter == "" {
		f.datacenter, f.name, f.VMFolder = fs.own.datacenter, fs.own.name, fs.own.VMFolder
	} else if kept, is := fs.objects.keptDatacenter(old); is {
		f.datacenter, f.name, f.VMFolder = old.datacenter, kept, old.VMFolder
	} else if err := fs.lookUpDatacenter(f, old); err != nil {
		f.fault = &err.Fault
		return f
	}
	f.meaning, f.recorded = fs.meaningOf(f)
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

// meaningOf is the record of what the name of a placement's datacenter means, if it is to be recorded. The caller holds mu.
func (fs *folders) meaningOf(f *GroupFolder) (means v1alpha1.NamedObject, recorded bool) {
	if f.placement.Datacenter == "" {
		return means, false
	}
	all := fs.allDatacenters()
	i := slices.IndexFunc(all, func(c naming.Candidate) bool { return c.Ref.Value == f.datacenter })
	if i < 0 {
		return means, false
	}
	return naming.Meaning(datacenterField.Flag, "", f.placement.Datacenter, all, naming.Matching(f.placement.Datacenter, all), i)
}

// allDatacenters is objects.datacenters, which all lookups of lookUpPlacements share. The caller holds mu.
func (fs *folders) allDatacenters() []naming.Candidate {
	if fs.datacenters != nil {
		return fs.datacenters
	}
	return fs.objects.datacenters()
}

// datacenters returns all datacenters, in the order of their moRefs. The caller holds mu.
func (o *objects) datacenters() (all []naming.Candidate) {
	for _, p := range o.places.byRef {
		if p.Kind == "Datacenter" {
			all = append(all, o.asCandidate(p))
		}
	}
	slices.SortFunc(all, func(a, b naming.Candidate) int { return strings.Compare(a.Ref.Value, b.Ref.Value) })
	return all
}

// lookUpDatacenter finds the datacenter of a placement and its VM folder, and sets them in f. old says what the name meant before; it can be nil. The caller
// holds mu.
func (fs *folders) lookUpDatacenter(f, old *GroupFolder) *vcfault.Error {
	all, name := fs.allDatacenters(), f.placement.Datacenter
	var meant *naming.Meant
	if old != nil && old.recorded {
		f.meaning, f.recorded = old.meaning, true
		meant = naming.NewMeant([]v1alpha1.NamedObject{old.meaning})
	}
	i, err := datacenterField.Pick(meant, "", name, all, naming.Matching(name, all))
	if err != nil {
		return vcfault.Classify("", err)
	}
	f.datacenter, f.name = all[i].Ref.Value, naming.Last(all[i].Path)
	if f.VMFolder = fs.objects.places.vmFolder(f.datacenter); f.VMFolder == "" {
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
	fs.datacenters = fs.objects.datacenters()
	defer func() { fs.datacenters = nil }()
	if fs.requesters.lookUpAgain(fs.lookUp) {
		w.fire[""] = true
	}
}

// isRoot reports whether a place is the folder that contains <namespace>/<group>, for the settings or for a placement that a group asked
// for. The caller holds mu.
func (fs *folders) isRoot(ref string) bool {
	if fs.own == nil || ref == "" {
		return false
	}
	return ref == fs.own.Root || fs.requesters.haveRoot(ref)
}

// target names the datastore or datastore cluster on which a group's clones are placed, by its datacenter and its name, which is unique there:
// the one in spec.placement or, in the settings' datacenter, that of the settings. It is empty if the template or a storage policy decides.
// The caller holds mu.
func (fs *folders) target(at *GroupFolder, ask *plan.Query) string {
	name := naming.Last(strings.TrimRight(ask.Datastore, "/"))
	if ask.Datastore == "" && ask.StoragePolicy == "" && at.datacenter == fs.own.datacenter && fs.settings != nil {
		name = fs.settings.datastoreName
	}
	if name == "" {
		return ""
	}
	return fs.objects.places.path(at.datacenter, name)[1:]
}

// putPlaces stores the places of a reading, and returns those that are new or have changed. The caller holds mu.
func (fs *folders) putPlaces(r *Reading, w *changes) (fresh []Place) {
	for _, p := range r.Places {
		old, had := fs.objects.places.byRef[p.MoRef]
		if had && old == p {
			continue
		}
		if had {
			fs.tellFolder(old, true, w)
		}
		fs.objects.gone.drop(p.MoRef)
		fs.objects.places.put(p)
		w.tree, w.places = true, true
		fresh = append(fresh, p)
	}
	if w.places {
		fs.lookUpPlacements(w)
		w.places = false
	}
	for _, p := range fresh { // after all places are stored, because a folder may come before its parent
		fs.tellFolder(p, false, w)
	}
	return fresh
}

// dropPlace removes a place, and notifies the groups that it concerns. The caller holds mu.
func (fs *folders) dropPlace(ref string, w *changes) {
	if p, had := fs.objects.places.byRef[ref]; had {
		fs.tellFolder(p, true, w)
		fs.objects.places.drop(ref)
		w.tree, w.places = true, true
	}
}

// isGroups reports whether a place is at the path of a group's folder. The caller holds mu.
func (fs *folders) isGroups(p Place) bool {
	above, found := fs.objects.places.byRef[p.Parent]
	return found && fs.isRoot(above.Parent)
}

// tellFolder notifies the groups that a new, moved or removed place concerns: one group if it is a
// group's folder; none if it is new, because its content is reported by itself; otherwise all. The caller holds mu.
func (fs *folders) tellFolder(p Place, ceased bool, w *changes) {
	if p.Name == plan.QuarantineFolder { // it concerns the group whose folder contains it
		if above, found := fs.objects.places.byRef[p.Parent]; found && fs.isGroups(above) {
			p = above
		}
	}
	if fs.isGroups(p) {
		if a, asked := fs.requesters.of(fs.objects.places.byRef[p.Parent].Name, p.Name); asked {
			w.fire[a.uid] = true
		}
	} else if ceased {
		w.fire[""] = true
	}
}
