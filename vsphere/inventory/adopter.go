package inventory

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// adopter finds out which VMs a group can adopt.
type adopter struct {
	objects  *objects
	evidence *Evidence
	// cluster is the server's --cluster-id: a stamp of another cluster keeps a VM from being adopted. adoptFrom are the folders from which
	// VMs can be adopted. Both are immutable.
	cluster   string
	adoptFrom adoptFolders
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
			if !a.evidence.IsStray(m) {
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
		if m != nil && m.Stamp.UID == ref.UID && !a.evidence.IsStray(m) {
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
		c.VM = &m.VM
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
