package inventory

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
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
	if !ask.Preview {
		n.requests.noteRequest(ref, placement, ask.Rules.Wanted())
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
				s.Gone = append(s.Gone, plan.Gone{MoRef: r.MoRef, InstanceUUID: r.InstanceUUID, By: n.requests.destroyer(r)})
			} else if n.requests.isAwaited(r) && i < len(ask.Recorded)-ask.Kept {
				s.Vanished = append(s.Vanished, recordedMissing(ref.UID, r, false, false).Vanished)
			}
		}
	}
	var at *GroupFolder
	if n.folders.own != nil {
		at = n.folders.groupFolder(placement)
	}
	if len(others) > 0 {
		s.VMs, s.Strays = n.weigh(ref, s.VMs, others, &ask, n.foldersOf(ref, at), at == nil)
		s.VMs = n.recorded(s.VMs, &ask)
	}
	s.Vanished = append(s.Vanished, n.requests.vanishedOf(ref.UID, &ask, s.VMs)...)
	s.LastRemoved = n.requests.lastRemoved(ref.UID)
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
	s.Folder = n.objects.places.below(at.Root, ref.Namespace, ref.Name)
	s.Quarantine = n.objects.places.below(s.Folder, plan.QuarantineFolder)
	s.Free = n.objects.free(s.Folder, ask.Taken)
	s.Target = n.folders.target(at, &ask)
	if ask.Preview {
		s.Template, s.Candidates = n.objects.findTemplate(at, ask.Template), n.adopter.candidatesOf(ref, at, ask.Adopt, n.wholeForPreview)
		return s
	}
	s.Template, s.Candidates = n.template(at, ask.Template), n.adoptionOf(ref, at, ask.Adopt)
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

// unstampedDelay is the time after which a VM whose stamp was removed counts as gone. vCenter's stream reports other changes much sooner.
const unstampedDelay = 5 * time.Second

// isGone reports whether a VM that was the group's no longer is. It asks for a read if nothing is known of the VM, unless for a preview.
//
// A VM can lose its stamp because another replica, which is removing the group, has just released it. Before that, the other replica has
// marked another member, but vCenter may report changes of two VMs in any order. So isGone waits for unstampedDelay before the VM can be
// replaced, so that the mark is seen first. (Found by a randomized test: one member too many, at the end of a Retain.)
//
// kept reports whether the VM is recorded as one in quarantine. The caller holds mu.
func (n *Inventory) isGone(uid types.UID, r *v1alpha1.Member, kept bool, ask *plan.Query) bool {
	if plan.VCenterOf(r.MoRef) != "" {
		return n.hasMoved(uid, r, kept, ask)
	}
	id, reused, isCopy := plan.VMID{MoRef: r.MoRef, InstanceUUID: r.InstanceUUID}, false, false
	if m := n.objects.members[r.MoRef]; m != nil {
		if sameVM(r.InstanceUUID, m.InstanceUUID) {
			return m.Stamp.UID != uid
		}
		reused = true
	} else if x, found := n.objects.unmanaged[r.MoRef]; found {
		if x.unreadable || sameVM(r.InstanceUUID, x.instanceUUID) {
			return !x.unreadable && (ask.Finalizing || x.unstampedAt.IsZero() || time.Since(x.unstampedAt) >= unstampedDelay)
		}
		if n.renumbers(uid, r, &x, ask.Preview) {
			return false
		}
		reused, isCopy = true, x.copyOf.proof == proof{uid, r.InstanceUUID}
	}
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	if n.requests.missing.isDone(id) {
		return true
	}
	if ask.Preview {
		return false
	}
	if reused {
		n.missLocked(recordedMissing(uid, r, true, isCopy))
		return false
	}
	if _, asked := n.requests.awaited[r.MoRef]; n.want != nil && !asked && (kept || n.requests.missing.find(id) == nil) {
		n.requests.awaited[r.MoRef] = awaited{uid, *r, kept}
		n.want(r.MoRef)
	}
	return false
}

// templateKey is a template's name or path, and the moRef of the datacenter in which it is looked for.
type templateKey struct{ datacenter, wanted string }

// template finds a template by its name anywhere in the group's datacenter, or by its inventory path:
// "/dc/vm/folder/name", "dc/vm/folder/name", or "folder/name" below the datacenter's VM folder. A '/'
// within a name is written %2f. It keeps the answer until a template, a place or a plain VM changes. The caller holds mu.
func (n *Inventory) template(at *GroupFolder, wanted string) plan.Template {
	answers, key := n.answers.Load(), templateKey{at.datacenter, wanted}
	if t, found := answers.Load(key); found {
		return t.(plan.Template)
	}
	t := n.objects.findTemplate(at, wanted)
	answers.Store(key, t)
	return t
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

// Complete completes a template of which only the moRef is known, and reports whether that is a template in the inventory.
func (n *Inventory) Complete(t *plan.Template) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	x := n.objects.machine(t.MoRef)
	if x.template {
		t.Paths = []string{n.objects.places.path(x.parent, x.name)}
		n.objects.describe(t)
	}
	return x.template
}
