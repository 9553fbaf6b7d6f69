package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// adoptCandidate is an unmanaged VM that groups want to adopt. The inventory keeps more of it than of other unmanaged VMs.
type adoptCandidate struct {
	machine *Machine // immutable; nil until it was read whole
	groups  map[types.UID]bool
	used    bool // a group asked for it since the last forgetAdoptCandidates
}

// adopter finds out which VMs a group can adopt.
type adopter struct {
	objects *objects
	// cluster is the server's --cluster-id: a stamp of another cluster keeps a VM from being adopted. adoptFrom are the folders from which
	// VMs can be adopted. Both are immutable.
	cluster   string
	adoptFrom adoptFolders
	// isStray is Inventory.IsStray.
	isStray func(*Member) bool
}

// adoption has the candidates that a group's entries of spec.adopt name in one version of the inventory.
type adoption struct {
	version    uint64
	ref        plan.Ref
	at         *GroupFolder
	entries    []string
	candidates []plan.Candidate
}

// adoptionOf returns the candidates that the entries name. It keeps the answer until the inventory changes. The caller holds mu.
func (n *Inventory) adoptionOf(ref plan.Ref, at *GroupFolder, entries []string) []plan.Candidate {
	if len(entries) == 0 {
		return nil
	}
	n.requests.mu.Lock()
	last := n.requests.adoptions[ref.UID]
	n.requests.mu.Unlock()
	if last != nil && last.version == n.version && last.ref == ref && last.at == at && slices.Equal(last.entries, entries) {
		return last.candidates
	}
	a := &adoption{version: n.version, ref: ref, at: at, entries: slices.Clone(entries), candidates: n.adopter.candidatesOf(ref, at, entries, n.whole)}
	n.requests.mu.Lock()
	n.requests.adoptions[ref.UID] = a
	n.requests.mu.Unlock()
	return a.candidates
}

// wholeVM returns a VM of which all properties were read, or nil. It is Inventory.whole or, for a preview, Inventory.wholeForPreview.
type wholeVM func(group types.UID, moRef string) *Machine

// candidatesOf returns a candidate for each entry, in their order. The caller holds mu.
func (a *adopter) candidatesOf(ref plan.Ref, at *GroupFolder, entries []string, whole wholeVM) []plan.Candidate {
	if len(entries) == 0 {
		return nil
	}
	adopted := map[string]*Member{} // by entry
	if g := a.objects.groups[ref.UID]; g != nil {
		for _, m := range g.refs {
			if !a.isStray(m) {
				adopted[m.Stamp.Former.Entry] = m
			}
		}
	}
	var open []string
	for _, entry := range entries {
		if adopted[entry] == nil {
			open = append(open, entry)
		}
	}
	found := a.objects.named(at, open)
	all := make([]plan.Candidate, 0, len(entries))
	first := map[string]string{} // the first entry that names a VM
	for _, entry := range entries {
		m, refs := adopted[entry], found[entry]
		if m == nil && len(refs) == 1 {
			m = a.objects.members[refs[0]]
		}
		if m != nil && m.Stamp.UID == ref.UID && !a.isStray(m) {
			all = append(all, plan.Candidate{Entry: entry, MoRef: m.MoRef, Name: m.Name, Folder: m.Folder, Ordinal: m.Stamp.Ordinal, Done: true})
			continue
		}
		c := plan.Candidate{Entry: entry, Ordinal: -1}
		refs = slices.DeleteFunc(refs, func(moRef string) bool { return !a.inReach(ref, at, moRef) })
		fault := a.single(ref, entry, refs, first)
		if fault == nil {
			fault = a.fill(&c, ref, at, refs[0], whole)
		}
		if fault != nil {
			c.Fault = &fault.Fault
		}
		all = append(all, c)
	}
	return all
}

// inReach reports whether a rule allows groups of a namespace to adopt a VM in its place, or the VM is in the group's own folder and has its stamp.
// The caller holds mu.
func (a *adopter) inReach(ref plan.Ref, in *GroupFolder, moRef string) bool {
	if m := a.objects.members[moRef]; m != nil && m.Stamp.UID == ref.UID && m.Folder != "" {
		folder := a.objects.places.below(in.Root, ref.Namespace, ref.Name)
		if m.Folder == folder || m.Folder == a.objects.places.below(folder, plan.QuarantineFolder) {
			return true
		}
	}
	return a.adoptFrom.Allow(ref.Namespace, a.objects.places.names(a.objects.machine(moRef).parent))
}

// outOfReach is the fault for every VM that no rule allows, whether it exists or not: a user must not be able to list vCenter's inventory by
// guessing names. entry is as the user wrote it.
func outOfReach(ref plan.Ref, entry string) *vcfault.Error {
	return vcfault.ForOperator(vcfault.ReasonAdoptNotFound,
		"No VM %q can be adopted from the namespace %s: name a VM in a folder that the server's --adopt-from allows for it, by its inventory path, such as /DC0/vm/legacy/web-a, or its moRef, such as vm-42.",
		entry, ref.Namespace)
}

// single returns a fault if an entry does not name exactly one VM, or the same one as another entry. refs are those in reach.
func (a *adopter) single(ref plan.Ref, entry string, refs []string, first map[string]string) *vcfault.Error {
	switch {
	case len(refs) == 0:
		return outOfReach(ref, entry)
	case len(refs) > 1:
		slices.Sort(refs)
		return vcfault.ForOperator(vcfault.ReasonAdoptAmbiguous, "%s names several VMs: replace it with the moRef of one of them: %s.", entry, vcfault.FirstFew(refs))
	case first[refs[0]] != "":
		return vcfault.ForOperator(vcfault.ReasonAdoptAmbiguous, "%s names the same VM as %s: remove one of them.", entry, first[refs[0]])
	}
	first[refs[0]] = entry
	return nil
}

// fill fills in a candidate from what is known of its VM, or returns why the group can't adopt it. The caller holds mu.
func (a *adopter) fill(c *plan.Candidate, ref plan.Ref, at *GroupFolder, moRef string, whole wholeVM) *vcfault.Error {
	m, ordinal, fault := a.adoptable(ref, at, moRef, whole)
	if fault == nil {
		c.MoRef, c.Name, c.Folder, c.ChangeVersion, c.Ordinal = m.MoRef, m.Name, m.Folder, m.ChangeVersion, ordinal
	}
	return fault
}

// adoptable checks that a group can adopt a VM that is not its own, and returns the ordinal that it had in a former
// incarnation of the group; -1 if it had none. It checks reach first: about a VM out of reach it reveals nothing. The caller holds mu.
func (a *adopter) adoptable(ref plan.Ref, in *GroupFolder, moRef string, whole wholeVM) (m *Machine, ordinal int32, fault *vcfault.Error) {
	x := a.objects.machine(moRef)
	at := a.objects.places.path(x.parent, x.name)
	switch {
	case !a.inReach(ref, in, moRef):
		return nil, -1, outOfReach(ref, moRef)
	case a.objects.places.datacenter(x.parent) != in.datacenter:
		return nil, -1, vcfault.ForOperator(vcfault.ReasonAdoptElsewhere, "The VM %s is not in the datacenter %s, where the group has its members: name one that is.", at, in.name)
	case x.unknown:
		return nil, -1, newerStamp(at)
	case x.template:
		return nil, -1, vcfault.ForOperator(vcfault.ReasonAdoptTemplate, "%s is a template: convert it to a VM, or name another.", at)
	}
	if m = whole(ref.UID, moRef); m == nil {
		return nil, -1, vcfault.ForRetry(vcfault.ReasonAdoptReading, "The VM %s is being read.", at)
	}
	if x.unreadable || !m.Readable || !m.Reachable {
		return nil, -1, vcfault.ForOperator(vcfault.ReasonAdoptUnreadable, "The configuration of the VM %s cannot be read now (%s): correct that in vCenter.", at, m.Unreachable)
	}
	ordinal, fault = a.formerOrdinal(ref, m, at)
	return m, ordinal, fault
}

// AdoptableNow checks that a group can adopt a VM that was just read.
func (n *Inventory) AdoptableNow(ref plan.Ref, moRef string) (*Machine, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.folders.own == nil {
		return nil, vcfault.ForRetry(plan.ReasonInventoryNotRead, "vCenter's inventory is being read.")
	}
	asked, _ := n.requests.requesterOf(ref.Namespace, ref.Name)
	at := n.folders.groupFolder(asked.placement)
	if fault := at.refusal(ref); fault != nil {
		return nil, &vcfault.Error{Fault: *fault}
	}
	if n.objects.members[moRef] == nil {
		if _, known := n.objects.unmanaged[moRef]; !known {
			return nil, outOfReach(ref, moRef)
		}
	}
	m, _, fault := n.adopter.adoptable(ref, at, moRef, n.whole)
	if fault != nil {
		return nil, fault
	}
	return m, nil
}

// formerOrdinal checks the stamp of a VM to adopt. One that a former incarnation of the group left, with
// the same cluster, namespace and name, can be overwritten, as after a restore of the group, or of VMs, from a backup.
func (a *adopter) formerOrdinal(ref plan.Ref, m *Machine, at string) (int32, *vcfault.Error) {
	if m.StampText == "" {
		return -1, nil
	}
	s, owner := stamp.Read(m.StampText, m.InstanceUUID, m.Readable)
	if owner == stamp.UnknownVersion {
		return -1, newerStamp(at)
	}
	if owner == stamp.Unmanaged { // garbled, or that of the VM that this one is a copy of
		var err error
		if s, err = stamp.Decode(m.StampText); err != nil {
			return -1, vcfault.ForOperator(vcfault.ReasonAdoptStamped, "The VM %s has a stamp that cannot be read: if no group needs it, remove the key %s from its configuration.", at, stamp.Key)
		}
	}
	of := fmt.Sprintf("%s of the group %s/%s", plan.MemberName(s.Name, s.Ordinal), s.Namespace, s.Name)
	if s.Cluster != "" {
		of += " in the cluster " + s.Cluster
	}
	if owner == stamp.Unmanaged {
		of = "a copy of " + of
	}
	switch {
	case owner == stamp.Ours && s.UID == ref.UID: // a stray
		return s.Ordinal, nil
	case s.Namespace != ref.Namespace || s.Name != ref.Name || s.Cluster != a.cluster:
		return -1, vcfault.ForOperator(vcfault.ReasonAdoptStamped, "The VM %s is %s: if it no longer is, remove the key %s from its configuration.", at, of, stamp.Key)
	case s.Cluster == "":
		return -1, vcfault.ForOperator(vcfault.ReasonAdoptStamped, "The VM %s is %s, of an unknown cluster: set --cluster-id for the future, and remove the key %s from its configuration if it is this group's.", at, of, stamp.Key)
	}
	return s.Ordinal, nil
}

func newerStamp(at string) *vcfault.Error {
	return vcfault.ForOperator(vcfault.ReasonAdoptStamped, "The VM %s has the stamp of a newer version of this server: name another.", at)
}

// whole returns a VM of which all properties were read. If they were not, whole returns nil and asks for a read: the group is notified of its
// result, and of every later change. The caller holds mu.
func (n *Inventory) whole(uid types.UID, moRef string) *Machine {
	if m := n.objects.members[moRef]; m != nil {
		return &m.Machine
	}
	n.requests.mu.Lock()
	c, known := n.requests.adoptCandidates[moRef]
	if !known {
		c = &adoptCandidate{groups: map[types.UID]bool{}}
		n.requests.adoptCandidates[moRef] = c
	}
	c.used, c.groups[uid] = true, true
	machine := c.machine
	n.requests.mu.Unlock()
	if !known && n.want != nil {
		n.want(moRef)
	}
	return machine
}

// wholeForPreview is whole for a preview: it asks for no read. The caller holds mu.
func (n *Inventory) wholeForPreview(_ types.UID, moRef string) *Machine {
	if m := n.objects.members[moRef]; m != nil {
		return &m.Machine
	}
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	if c := n.requests.adoptCandidates[moRef]; c != nil && c.machine != nil {
		return c.machine
	}
	if g := n.requests.previews[moRef]; time.Since(g.at) < previewFor {
		return g.machine
	}
	return nil
}

// previewReading is an unmanaged VM of which all properties were read for a preview.
type previewReading struct {
	machine *Machine
	at      time.Time
}

const (
	// previewFor is how long a previewReading is used, and previewsMost bounds their number.
	previewFor   = 10 * time.Second
	previewsMost = 2 * v1alpha1.MaxReplicas
)

// ReadForPreview reads all properties of the VMs that a group would adopt, unless they were read before. Only previews see the result, for
// previewFor: the inventory does not change.
func (r *Reader) ReadForPreview(ctx context.Context, ref plan.Ref, home plan.Home, entries []string) error {
	refs := r.inventory.unreadForPreview(ref, home, entries)
	if len(refs) == 0 {
		return nil
	}
	var x Reading
	if err := r.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		x = Reading{}
		return readRefs(ctx, s, refs, &x)
	}); err != nil {
		return err
	}
	n, now := r.inventory, time.Now()
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	maps.DeleteFunc(n.requests.previews, func(_ string, g previewReading) bool { return now.Sub(g.at) >= previewFor })
	for i := range x.Machines {
		if len(n.requests.previews) < previewsMost {
			n.requests.previews[x.Machines[i].MoRef] = previewReading{&x.Machines[i], now}
		}
	}
	return nil
}

// unreadForPreview returns the VMs that a group can name in spec.adopt and of which a preview knows too little.
func (n *Inventory) unreadForPreview(ref plan.Ref, home plan.Home, entries []string) (refs []vim.ManagedObjectReference) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.known || n.folders.own == nil {
		return nil
	}
	n.adopter.candidatesOf(ref, n.folders.groupFolder(home), entries, func(group types.UID, moRef string) *Machine {
		m := n.wholeForPreview(group, moRef)
		if m == nil {
			refs = append(refs, VMRef(moRef))
		}
		return m
	})
	return refs
}

// WatchCandidate makes the reader read a VM whole from now on, because a group wants to adopt it.
func (n *Inventory) WatchCandidate(ref plan.Ref, moRef string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.whole(ref.UID, moRef)
}
