package inventory

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// adoptionOf returns the candidates that the entries name. It keeps the answer until the inventory changes. The caller holds mu.
func (n *Inventory) adoptionOf(ref plan.Ref, at *GroupFolder, entries []string) []plan.Candidate {
	if len(entries) == 0 {
		return nil
	}
	last := n.adoptions.answerTo(ref.UID)
	if last != nil && last.version == n.version && last.ref == ref && last.at == at && slices.Equal(last.entries, entries) {
		return last.candidates
	}
	a := &adoption{version: n.version, ref: ref, at: at, entries: slices.Clone(entries), candidates: n.adopter.candidatesOf(ref, at, entries, n.whole)}
	n.adoptions.keepAnswer(ref.UID, a)
	return a.candidates
}

// AdoptableNow checks that a group can adopt a VM that was just read.
func (n *Inventory) AdoptableNow(ref plan.Ref, moRef string) (*Machine, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.folders.own == nil {
		return nil, vcfault.ForRetry(plan.ReasonInventoryNotRead, "vCenter's inventory is being read.")
	}
	asked, _ := n.requesters.of(ref.Namespace, ref.Name)
	at := n.folders.groupFolder(asked.placement, n.Meanings.Of(asked.uid))
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

// whole returns a VM of which all properties were read. If they were not, whole returns nil and asks for a read: the group is notified of its
// result, and of every later change. The caller holds mu.
func (n *Inventory) whole(uid types.UID, moRef string) *Machine {
	if m := n.objects.members[moRef]; m != nil {
		return &m.Machine
	}
	m, fresh := n.adoptions.ask(uid, moRef)
	if fresh && n.want != nil {
		n.want(moRef)
	}
	return m
}

// wholeForPreview is whole for a preview: it asks for no read. The caller holds mu.
func (n *Inventory) wholeForPreview(_ types.UID, moRef string) *Machine {
	if m := n.objects.members[moRef]; m != nil {
		return &m.Machine
	}
	return n.adoptions.known(moRef)
}

// ReadForPreview reads all properties of the VMs that a group would adopt, unless they were read before. Only previews see the result, for
// previewFor: the inventory does not change.
func (r *Reader) ReadForPreview(ctx context.Context, ref plan.Ref, home plan.Home, entries []string) error {
	refs := r.inventory.unreadForPreview(ref, home, entries)
	if len(refs) == 0 {
		return nil
	}
	var x Reading
	if err := r.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		x = Reading{guestNetworks: r.inventory.guestNetworks}
		return readRefs(ctx, s, refs, &x)
	}); err != nil {
		return err
	}
	r.inventory.adoptions.putPreviews(x.Machines, time.Now())
	return nil
}

// unreadForPreview returns the VMs that a group can name in spec.adopt and of which a preview knows too little.
func (n *Inventory) unreadForPreview(ref plan.Ref, home plan.Home, entries []string) (refs []vim.ManagedObjectReference) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.known || n.folders.own == nil {
		return nil
	}
	n.adopter.candidatesOf(ref, n.folders.groupFolder(home, n.Meanings.Of(ref.UID)), entries, func(group types.UID, moRef string) *Machine {
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

// VMsAt returns the inventory paths of the VMs, without templates, that match a pattern of paths, in which * stands for any text without a slash. The
// path of a folder stands for all VMs in it. It is for operators only, as plainVM is.
func (n *Inventory) VMsAt(pattern string) (paths []string, err error) {
	if _, err := path.Match(pattern, ""); err != nil || !strings.HasPrefix(pattern, "/") {
		return nil, fmt.Errorf("%q: must be an inventory path or a pattern of one, such as '/DC0/vm/legacy/web-*'", pattern)
	}
	pattern = strings.TrimSuffix(pattern, "/")
	n.mu.RLock()
	defer n.mu.RUnlock()
	look := func(x unmanagedVM) {
		if x.template {
			return
		}
		folder := n.objects.places.path(x.parent, "")
		at := n.objects.places.path(x.parent, x.name)
		if match, _ := path.Match(pattern, at); match || strings.TrimSuffix(folder, "/") == pattern {
			paths = append(paths, at)
		}
	}
	for _, x := range n.objects.unmanaged {
		look(x)
	}
	for ref := range n.objects.members {
		look(n.objects.machine(ref))
	}
	slices.Sort(paths)
	return paths, nil
}
