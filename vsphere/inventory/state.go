package inventory

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// State returns what is known of a group. It answers from memory, without a call or a wait, and with few allocations. It remembers that the
// group asked, and asks the reader to read the objects that the group needs and that were not read yet. For a preview, it does neither.
//
// A recorded VM counts as gone if it was destroyed, or if it was read and no longer has a valid stamp of the group: without the stamp it is an
// unmanaged VM, which the group never touches again. It does not count as gone while it is missing, nor while its owner is unclear, because
// its configuration is unreadable or its stamp has an unknown version.
func (n *Inventory) State(ref plan.Ref, ask plan.Query) plan.VCenterState {
	n.mu.RLock()
	defer n.mu.RUnlock()
	ask = ask.In(n.vcenter)
	s := plan.VCenterState{Known: n.known, UnknownSince: n.unknownSince, Fault: n.fault, VCenter: n.vcenter}
	g := n.objects.groups[ref.UID]
	var others []plan.VM
	if g != nil {
		s.VMs, others = n.split(ref.UID, g.vms, &ask)
		s.VMs = n.recorded(s.VMs, &ask)
	}
	placement := placementOf(s.VMs, ask.Home)
	named := ask.Names
	if ask.RecordedIn != n.vcenter {
		named = nil
	}
	if !ask.Preview {
		s.Names = n.Meanings.ask(ref.UID, named)
		n.requesters.note(ref, placement)
		if ask.Rules.Wanted() {
			n.ruleRequests.note(ref.UID)
		}
	}
	if !n.known {
		return s
	}
	if s.Fault == nil {
		s.Fault = n.unfit
	}
	if ask.RecordedIn == "" || ask.RecordedIn == n.vcenter {
		for i := range ask.Recorded {
			r := &ask.Recorded[i]
			if n.isGone(ref.UID, r, i >= len(ask.Recorded)-ask.Kept, &ask) {
				s.Gone = append(s.Gone, plan.Gone{MoRef: r.MoRef, InstanceUUID: r.InstanceUUID, By: n.MissingVMs.destroyer(plan.IDOf(r))})
			} else if n.awaited.has(r.MoRef) && i < len(ask.Recorded)-ask.Kept {
				s.Vanished = append(s.Vanished, recordedMissing(ref.UID, r, false, false).Vanished)
			}
		}
	}
	var at *GroupFolder
	if n.folders.own != nil {
		at = n.folders.groupFolder(placement, named)
	}
	if len(others) > 0 {
		s.VMs, s.Strays = n.weigh(ref, s.VMs, others, &ask, n.foldersOf(ref, at), at == nil)
		s.VMs = n.recorded(s.VMs, &ask)
	}
	s.Vanished = append(s.Vanished, n.MissingVMs.vanishedOf(ref.UID, &ask, s.VMs)...)
	s.LastRemoved = n.MissingVMs.lastRemoved(ref.UID)
	s.RulesOff = n.rulesOff(ref, g, &ask)
	if at == nil {
		s.FolderUnknown = true
		return s
	}
	if !ask.Preview {
		n.folders.keepPlacement(at)
	}
	if fault := at.refusal(ref); fault != nil {
		if s.Fault == nil {
			s.Fault = fault
		}
		return s
	}
	if s.Folder = n.objects.places.below(at.Root, ref.Namespace, ref.Name); s.Folder != "" && !ask.Preview {
		n.Evidence.setHome(s.Folder, ref.UID)
	}
	s.Quarantine = n.objects.places.below(s.Folder, plan.QuarantineFolder)
	s.Free = n.objects.free(s.Folder, ask.Taken)
	s.Target = n.folders.target(at, &ask)
	template, means := n.template(at, ask.Template, named)
	if before := naming.Recorded(named, datacenterField.Flag, "", at.placement.Datacenter); at.recorded && (before == nil || !before.Equal(&at.meaning)) {
		means = append(slices.Clone(means), at.meaning)
	}
	if s.Template = template; len(s.Names) == 0 {
		s.Names = means
	} else {
		s.Names = slices.Concat(s.Names, means)
	}
	if ask.Preview {
		s.Candidates = n.adopter.candidatesOf(ref, at, ask.Adopt, n.wholeForPreview)
		return s
	}
	s.Candidates = n.adoptionOf(ref, at, ask.Adopt)
	return s
}

// foldersOf returns the moRefs of a group's folder and of its quarantine folder, as far as they exist. The caller holds mu.
func (n *Inventory) foldersOf(ref plan.Ref, at *GroupFolder) (in []string) {
	if at == nil || at.refusal(ref) != nil {
		return nil
	}
	folder := n.objects.places.below(at.Root, ref.Namespace, ref.Name)
	for _, f := range []string{folder, n.objects.places.below(folder, plan.QuarantineFolder)} {
		if f != "" {
			in = append(in, f)
		}
	}
	return in
}
