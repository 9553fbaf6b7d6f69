package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// objects has the last reading of each object of vCenter: the VMs, by moRef, by group and by template name, the places, and the clusters.
// Inventory.mu guards it.
type objects struct {
	members    map[string]*Member
	groups     map[types.UID]*group
	unmanaged  map[string]unmanagedVM
	unreadable map[string]bool     // the unmanaged VMs whose owner is unclear
	templates  map[string][]string // moRefs by name, as people write it
	places     *places
	clusters   clusters
	gone       goneSet[string]
	unknown    int // VMs with a stamp of a version that this server does not know
}

func newObjects() objects {
	return objects{members: map[string]*Member{}, groups: map[types.UID]*group{}, unmanaged: map[string]unmanagedVM{}, unreadable: map[string]bool{},
		templates: map[string][]string{}, places: newPlaces(0)}
}

// Member is a VM with a valid stamp.
type Member struct {
	Machine // its InstanceUUID is that in the stamp, which identifies the member
	Stamp   stamp.Stamp
	ReadAt  time.Time // when the reading began that showed it
	// Own is its config.instanceUuid: another one if vCenter changed it.
	Own string
}

// ID identifies a VM as far as it was read; a member by the instanceUuid in its stamp.
func (m *Machine) ID() plan.VMID { return plan.VMID{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID} }

// group is the members of one group.
type group struct {
	refs    map[string]*Member
	vms     []plan.VM // immutable
	version uint64    // changes whenever one of its members was read
}

// unmanagedVM is a VM that is no group's member.
type unmanagedVM struct {
	name, parent string
	template     bool
	contents     string // the fingerprint of a template's disks
	host         string // of a template: its moRef
	// unreadable reports whether the VM's owner is unclear, because its configuration is unreadable or its stamp has an unknown version.
	unreadable bool
	// unknown reports whether the VM's stamp has an unknown version.
	unknown bool
	// unstampedAt is when a reading first showed the VM without its stamp; zero if no reading showed a stamp.
	unstampedAt time.Time
	// instanceUUID distinguishes the VM from a later one with the same moRef; empty if unknown.
	instanceUUID string
	// copyOf is what the VM's stamp says, if the VM's instanceUuid is not the stamp's.
	copyOf copied
}

// machine returns the name and place of a known VM. The caller holds mu.
func (o *objects) machine(ref string) unmanagedVM {
	if m := o.members[ref]; m != nil {
		return unmanagedVM{name: m.Name, parent: m.Parent, template: m.Template, contents: m.Contents, host: m.HostRef}
	}
	return o.unmanaged[ref]
}

// free returns the names that no known object in a folder has. vCenter compares names without case. The caller
// holds mu.
func (o *objects) free(folder string, names []string) (free []string) {
	if folder == "" || len(names) == 0 {
		return nil
	}
	var taken []string
	look := func(parent, name string) {
		if parent == folder {
			taken = append(taken, naming.Unescape(name))
		}
	}
	for _, m := range o.members {
		look(m.Parent, m.Name)
	}
	for _, x := range o.unmanaged {
		look(x.parent, x.name)
	}
	for _, p := range o.places.byRef {
		look(p.Parent, p.Name)
	}
	for _, name := range names {
		if !slices.ContainsFunc(taken, func(t string) bool { return strings.EqualFold(t, name) }) {
			free = append(free, name)
		}
	}
	return free
}

// leave removes a VM from its group. The caller holds mu.
func (o *objects) leave(ref string, w *changes) {
	old := o.members[ref]
	if old == nil {
		return
	}
	o.unlistTemplate(ref, old, w)
	delete(o.members, ref)
	delete(o.groups[old.Stamp.UID].refs, ref)
	w.groups[old.Stamp.UID] = true
}

// dropUnmanaged forgets an unmanaged VM. The caller holds mu.
func (o *objects) dropUnmanaged(ref string, w *changes) {
	x, had := o.unmanaged[ref]
	if !had {
		return
	}
	delete(o.unmanaged, ref)
	delete(o.unreadable, ref)
	w.tree = true
	o.unlist(ref, x.name, x.template, w)
	if x.unknown {
		o.unknown--
	}
}

// asCandidate returns a place with its path. The caller holds mu.
func (o *objects) asCandidate(p Place) naming.Candidate {
	return naming.Candidate{Path: o.places.path(p.Parent, p.Name), Ref: vim.ManagedObjectReference{Type: p.Kind, Value: p.MoRef}}
}

// listTemplate adds a VM to the templates by name, if it is a template. The caller holds mu.
func (o *objects) listTemplate(ref, name string, template bool, w *changes) {
	if !template {
		return
	}
	name = naming.Unescape(name)
	o.templates[name] = append(o.templates[name], ref)
	w.tree, w.fire[""] = true, true
}

// unlistTemplate removes a member from the templates by name, if it is a template. The caller holds mu.
func (o *objects) unlistTemplate(ref string, m *Member, w *changes) {
	if m != nil {
		o.unlist(ref, m.Name, m.Template, w)
	}
}

// unlist removes a VM from the templates by name, if it is a template. The caller holds mu.
func (o *objects) unlist(ref, name string, template bool, w *changes) {
	if !template {
		return
	}
	name = naming.Unescape(name)
	left := slices.DeleteFunc(o.templates[name], func(r string) bool { return r == ref })
	if o.templates[name] = left; len(left) == 0 {
		delete(o.templates, name)
	}
	w.tree, w.fire[""] = true, true
}

// proof is the group that a VM was shown to belong to, and the VM's instanceUuid.
type proof struct {
	uid          types.UID
	instanceUUID string
}

// copied is what the stamp of a copy says: whose it is, and the instanceUuid that vCenter had changed to.
type copied struct {
	proof
	present string
}

// copyOf returns what the stamp of a copy says; zero if the VM is none.
func copyOf(m *Machine, owner stamp.Owner) copied {
	if owner != stamp.Unmanaged || m.StampText == "" {
		return copied{}
	}
	s, err := stamp.Decode(m.StampText)
	if err != nil {
		return copied{}
	}
	return copied{proof{s.UID, s.InstanceUUID}, s.Present}
}

// clusters are the clusters as last read, with the DRS rules of groups in them.
type clusters struct {
	known   bool
	version uint64 // counts the changes
	byRef   map[string]Cluster
	of      map[string]string  // the moRef of a cluster, by the moRef of its host
	ruled   map[types.UID]bool // groups that have rules or VM groups in a cluster
}

func compareVMs(a, b plan.VM) int {
	return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
}
