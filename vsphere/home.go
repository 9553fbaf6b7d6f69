package vsphere

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// ReasonHomeForbidden says that spec.placement.folder would put a group's folder among those of the server's own folder.
const ReasonHomeForbidden = "HomeForbidden"

// placementSetting is what spec.placement.datacenter names.
var placementSetting = setting{"datacenter", "spec.placement.datacenter", ReasonDatacenterNotFound, ReasonDatacenterAmbiguous}

// parseHome reads a home as plan.Home.String writes it into a stamp. A ':' in a datacenter's name is taken for the end of
// it: the home is then looked for in vain, and nothing is done.
func parseHome(text string) plan.Home {
	datacenter, folder, _ := strings.Cut(text, ":")
	return plan.Home{Datacenter: datacenter, Folder: folder}
}

// lodging is where in this vCenter a home is, as the places were when it was looked up. It is not changed.
type lodging struct {
	home plan.Home
	// datacenter is a moRef, and its name is for people; templates are looked for in it. vmFolder is its VM folder.
	datacenter, name, vmFolder string
	// root is the moRef of the folder that holds <namespace>/<group>; empty while there is none. path are the names that
	// lead from vmFolder to it.
	root string
	path []string
	// reserved is the namespace whose groups may not live here: their folders would hold the server's own.
	reserved string
	fault    *plan.Fault
}

// finds compares what a lodging finds, but for the root: what is in a root that comes, comes by itself.
func (l *lodging) finds(same *lodging) bool {
	return l.datacenter == same.datacenter && l.name == same.name && l.vmFolder == same.vmFolder && equalFault(l.fault, same.fault)
}

// refuses tells why a group may not live there; nil if it may.
func (l *lodging) refuses(ref plan.Ref) *plan.Fault {
	if l.fault == nil && l.reserved != "" && strings.EqualFold(l.reserved, ref.Namespace) {
		return forbidden(l.home.Folder)
	}
	return l.fault
}

// refusal tells why a group may not live there; nil if it may. The caller holds mu.
func (n *Inventory) refusal(ref plan.Ref, l *lodging) *plan.Fault {
	if fault := l.refuses(ref); fault != nil {
		return fault
	}
	if ref.Name == plan.QuarantineFolder && n.isAnothersQuarantine(ref, l) {
		return &faultf(ReasonHomeForbidden, true,
			"The group's folder %s/%s would be the quarantine of another group: give the group another name, or set another spec.placement.folder.", ref.Namespace, ref.Name).Fault
	}
	return nil
}

// isAnothersQuarantine reports whether the folder that holds a group's is itself that of a group: one of another home, whose path
// ends with this one's namespace as the group's name. Such a group is known by its VMs in it, or because it asks.
func (n *Inventory) isAnothersQuarantine(ref plan.Ref, l *lodging) bool {
	above := n.places.below(l.root, ref.Namespace)
	if above == "" {
		return false
	}
	for _, m := range n.members {
		if m.Folder == above && m.stamp.UID != ref.UID {
			return true
		}
	}
	n.interest.Lock()
	asking := maps.Clone(n.askedBefore)
	maps.Copy(asking, n.asked)
	n.interest.Unlock()
	for at, a := range asking {
		if a.uid != ref.UID && n.places.below(n.lodging(a.home).root, at.parent, at.name) == above {
			return true
		}
	}
	return false
}

func forbidden(folder string) *plan.Fault {
	return &faultf(ReasonHomeForbidden, true,
		"The folder %q of spec.placement.folder would mix the group's folder with those in the server's own folder: set spec.placement.folder to a path outside of that (--folder), or leave it out.", folder).Fault
}

// asker is who asks for a group's folder, and where it looks for it.
type asker struct {
	uid  types.UID
	home plan.Home
}

// homeOf is where a group has its folder: where its VMs' stamps say, if one of them says otherwise than what is asked
// for. The name's lock is in one folder: it must not split.
func (g *group) homeOf(asked plan.Home) plan.Home {
	if g == nil || len(g.vms) == 0 {
		return asked
	}
	if g.homes == nil {
		return plan.Home{}
	}
	text := asked.String()
	for _, home := range g.homes {
		if home != text {
			return parseHome(home)
		}
	}
	return asked
}

// homesOf lists the homes that stamps name; nil if all name that of the server's settings, as nearly all do.
func homesOf(vms []plan.VM) []string {
	if !slices.ContainsFunc(vms, func(vm plan.VM) bool { return vm.Home != "" }) {
		return nil
	}
	var homes []string
	for i := range vms {
		if !slices.Contains(homes, vms[i].Home) {
			homes = append(homes, vms[i].Home)
		}
	}
	return homes
}

// lodging is where a home is. It is looked up once, until a place changes. The settings must be known.
func (n *Inventory) lodging(home plan.Home) *lodging {
	if home == (plan.Home{}) {
		return n.own
	}
	n.interest.Lock()
	defer n.interest.Unlock()
	l := n.homes[home]
	if l == nil {
		l = n.lookUp(home, nil)
		n.homes[home] = l
	}
	return l
}

// lookUp finds a home among the places that are known. A datacenter that was found before is the one that is meant, even
// if it was renamed since, or another one has its name now; old may be nil.
func (n *Inventory) lookUp(home plan.Home, old *lodging) *lodging {
	l := &lodging{home: home, datacenter: n.own.datacenter, name: n.own.name, vmFolder: n.own.vmFolder}
	if kept, is := n.keptDatacenter(old); is && home.Datacenter != "" {
		l.datacenter, l.name, l.vmFolder = old.datacenter, kept, old.vmFolder
	} else if home.Datacenter != "" {
		if err := n.lookUpDatacenter(l); err != nil {
			l.fault = &err.Fault
			return l
		}
	}
	l.path = n.own.path
	if home.Folder != "" {
		l.path = canonicalPath(strings.Split(strings.Trim(home.Folder, "/"), "/"))
	}
	if l.vmFolder == n.own.vmFolder {
		here, own := len(l.path), len(n.own.path)
		switch {
		case here > own && slices.EqualFunc(l.path[:own], n.own.path, strings.EqualFold):
			l.fault = forbidden(home.Folder)
			return l
		case here < own && slices.EqualFunc(l.path, n.own.path[:here], strings.EqualFold):
			l.reserved = n.own.path[here]
		}
	}
	l.root = l.vmFolder
	for i, name := range l.path {
		l.root = n.places.below(l.root, name)
		if p, found := n.places.byRef[l.root]; found && p.Kind != "Folder" {
			l.fault = &faultf(ReasonFolderNotFound, true, "%s is no folder: set spec.placement.folder to a path that is one, or is free.",
				"/"+strings.Join(slices.Concat(n.places.names(l.vmFolder), l.path[:i+1]), "/")).Fault
			return l
		}
	}
	return l
}

// keptDatacenter is the name of the datacenter that a home was found in before, if that is still there.
func (n *Inventory) keptDatacenter(old *lodging) (name string, is bool) {
	if old == nil || old.datacenter == "" || old.vmFolder == "" {
		return "", false
	}
	p, is := n.places.byRef[old.datacenter]
	return unescape(p.Name), is
}

func (n *Inventory) lookUpDatacenter(l *lodging) *Error {
	var all []Place
	var candidates []choice
	for _, p := range n.places.byRef {
		if p.Kind == "Datacenter" {
			all = append(all, p)
			candidates = append(candidates, choice{path: n.places.path(p.Parent, p.Name)})
		}
	}
	i, err := placementSetting.choose(l.home.Datacenter, candidates)
	if err != nil {
		return classify("", err)
	}
	l.datacenter, l.name = all[i].MoRef, unescape(all[i].Name)
	if l.vmFolder = n.places.vmFolder(l.datacenter); l.vmFolder == "" {
		return faultf(ReasonFolderNotFound, true, "The VM folder of the datacenter %s cannot be seen: grant vCenter's user the right to see it.", l.name)
	}
	return nil
}

// lookUpRoot finds the folder of all groups by its names when the one that was known is gone: another copy of the server,
// or a person, has made it anew.
func (n *Inventory) lookUpRoot(w *news) {
	if _, stands := n.places.byRef[n.own.root]; stands {
		return
	}
	root := n.places.below(n.own.vmFolder, n.own.path...)
	if p, found := n.places.byRef[root]; !found || p.Kind != "Folder" {
		return
	}
	own := *n.own
	own.root = root
	n.own = &own
	if n.site != nil {
		site := *n.site
		site.root = folderRef(root)
		n.site = &site
	}
	w.fire[""] = true
}

// lookUpHomes looks all homes up anew, after places changed.
func (n *Inventory) lookUpHomes(w *news) {
	if n.own == nil {
		return
	}
	n.lookUpRoot(w)
	n.interest.Lock()
	defer n.interest.Unlock()
	for home, old := range n.homes {
		l := n.lookUp(home, old)
		if n.homes[home] = l; !l.finds(old) {
			w.fire[""] = true
		}
	}
}

// isRoot tells whether a place is a folder that holds <namespace>/<group>, of the settings or of a home that somebody
// asked for.
func (n *Inventory) isRoot(ref string) bool {
	if n.own == nil || ref == "" {
		return false
	}
	if ref == n.own.root {
		return true
	}
	n.interest.Lock()
	defer n.interest.Unlock()
	for _, l := range n.homes {
		if l.root == ref {
			return true
		}
	}
	return false
}

// remember notes whom a group's folder concerns, and whether it wants DRS rules.
func (n *Inventory) remember(ref plan.Ref, home plan.Home, rules bool) {
	n.interest.Lock()
	n.asked[spot{ref.Namespace, ref.Name}] = asker{ref.UID, home}
	if rules {
		n.wishes[ref.UID] = true
	}
	n.interest.Unlock()
}

// whoAsked is who asked for a group's folder lately.
func (n *Inventory) whoAsked(namespace, name string) (asker, bool) {
	n.interest.Lock()
	defer n.interest.Unlock()
	a, found := n.asked[spot{namespace, name}]
	if !found {
		a, found = n.askedBefore[spot{namespace, name}]
	}
	return a, found
}

// forgetAskers drops those who did not ask since the time before, and the homes that nobody asks for.
func (n *Inventory) forgetAskers() {
	n.interest.Lock()
	defer n.interest.Unlock()
	n.asked, n.askedBefore = n.askedBefore, n.asked
	clear(n.asked)
	clear(n.wishes)
	clear(n.verdicts)
	if len(n.homes) == 0 {
		return
	}
	used := map[plan.Home]bool{}
	for _, a := range n.askedBefore {
		used[a.home] = true
	}
	for home := range n.homes {
		if !used[home] {
			delete(n.homes, home)
		}
	}
}

// abode is where a group of that home is to live, or why it may not.
func (n *Inventory) abode(ref plan.Ref, home plan.Home) (*lodging, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	switch {
	case n.unfit != nil:
		return nil, &Error{Fault: *n.unfit}
	case n.own == nil:
		return nil, faultf(plan.ReasonInventoryNotRead, false, "vCenter's inventory is being read.")
	}
	l := n.lodging(home)
	if fault := n.refusal(ref, l); fault != nil {
		return nil, &Error{Fault: *fault}
	}
	return l, nil
}

// isFolderOf tells whether a folder has the name of a group's, and is in one of the name of its namespace.
func (n *Inventory) isFolderOf(moRef string, ref plan.Ref) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	p := n.places.byRef[moRef]
	return strings.EqualFold(p.Name, ref.Name) && strings.EqualFold(n.places.byRef[p.Parent].Name, ref.Namespace)
}

// vmFolder is the VM folder of a datacenter: the one place in it, of the folders that are read.
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

// canonicalPath gives names as vCenter keeps them: '%', '/' and '\' within a name are %25, %2f and %5c.
func canonicalPath(names []string) []string {
	canonical := make([]string, len(names))
	for i, name := range names {
		canonical[i] = escaper.Replace(unescape(name))
	}
	return canonical
}

var escaper = strings.NewReplacer("%", "%25", "/", "%2f", `\`, "%5c")
