package inventory

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// Publish stores a reading, then notifies the groups that it changed something for.
func (n *Inventory) Publish(r Reading) {
	w := changes{groups: map[types.UID]bool{}, fire: map[types.UID]bool{}}
	var absent []string
	if r.Complete {
		absent = n.absentFrom(&r)
	}
	n.mu.Lock()
	if n.vcenter != r.VCenter {
		if n.vcenter != "" {
			n.clear() // it is another vCenter, so all moRefs are invalid
			n.known, n.folders.settings, n.folders.own = false, nil, nil
			w.fire[""] = true
		}
		n.vcenter = r.VCenter
	}
	for _, ref := range r.Gone {
		n.forget(ref, &w)
	}
	for _, ref := range r.Off {
		if old := n.objects.members[ref]; old != nil {
			m := old.Machine
			m.Power, m.BootTime, m.Tools, m.Reported, m.IPs = plan.PoweredOff, time.Time{}, false, false, nil
			n.put(&m, old.ReadAt, &w)
		}
	}
	for _, p := range n.folders.putPlaces(&r, &w) {
		n.unreported.expect(p.MoRef)
	}
	for i := range r.Machines {
		r.Machines[i].IPs = addressesWithin(n.guestNetworks, r.Machines[i].IPs)
		n.put(&r.Machines[i], r.Began, &w)
	}
	if r.Clusters != nil {
		n.putClusters(r.Clusters, &w)
	}
	if r.Complete {
		n.sweep(absent, r.Began, &w)
	}
	if w.places {
		n.folders.lookUpPlacements(&w)
	}
	for uid := range w.groups {
		if n.rebuild(uid) {
			w.fire[uid] = true
		}
	}
	if w.tree {
		n.answers.Store(&sync.Map{})
	}
	if w.tree || len(w.fire) > 0 {
		n.version++
	}
	n.answerAwaited(&r, &w)
	n.mu.Unlock()
	if w.fire[""] {
		n.changed("")
		return
	}
	for uid := range w.fire {
		n.changed(uid)
	}
}

// put stores one machine as a member or as an unmanaged VM. The caller holds mu.
func (n *Inventory) put(m *Machine, began time.Time, w *changes) {
	old := n.objects.members[m.MoRef]
	if !m.Readable && old != nil {
		kept := *old // the member exists but can't be reached, so it keeps its last facts
		kept.Reachable, kept.Unreachable = false, m.Unreachable
		n.objects.members[m.MoRef] = &kept
		n.objects.groups[kept.Stamp.UID].refs[m.MoRef] = &kept
		w.groups[kept.Stamp.UID] = true
		return
	}
	n.objects.gone.drop(m.MoRef)
	has, owner := n.Evidence.ownerOf(m, old)
	if old != nil && old.Own != m.InstanceUUID && !(owner == stamp.Ours && has.InstanceUUID == old.InstanceUUID) {
		// vCenter changed its instanceUuid, or was restored, and gave the moRef to another VM
		n.missMember(old, true, copyOf(m, owner).proof == proof{old.Stamp.UID, old.InstanceUUID})
		n.objects.leave(m.MoRef, w)
		old = nil
	}
	if owner != stamp.Ours {
		n.putOther(m, old, owner, w)
		return
	}
	n.putMember(m, old, has, began, w)
}

// putOther stores a VM that is not a member, or no longer one. The caller holds mu.
func (n *Inventory) putOther(m *Machine, old *Member, owner stamp.Owner, w *changes) {
	n.objects.leave(m.MoRef, w)
	x := unmanagedVM{name: m.Name, parent: m.Parent, template: m.Template, contents: m.Contents, instanceUUID: m.InstanceUUID,
		unreadable: owner == stamp.Unreadable || owner == stamp.UnknownVersion, unknown: owner == stamp.UnknownVersion, copyOf: copyOf(m, owner)}
	if m.Template {
		x.host = m.HostRef
	}
	if old != nil && !x.unreadable {
		x.unstampedAt = time.Now()
		time.AfterFunc(unstampedDelay, func() { n.changed(old.Stamp.UID) })
	}
	if !x.unreadable {
		if n.MissingVMs.returned(m, w) && !m.Whole && n.want != nil { // as an unmanaged VM, if it has that one's .vmx file
			n.want(m.MoRef)
		}
	}
	n.putUnmanaged(m.MoRef, x, w)
	n.adoptions.put(m, w)
}

// putMember stores a member. The caller holds mu.
func (n *Inventory) putMember(m *Machine, old *Member, has stamp.Stamp, began time.Time, w *changes) {
	if old != nil && old.Stamp.UID != has.UID {
		n.objects.leave(m.MoRef, w)
	}
	n.objects.dropUnmanaged(m.MoRef, w)
	n.adoptions.drop(m.MoRef, w)
	x := &Member{Machine: *m, Stamp: has, ReadAt: began, Own: m.InstanceUUID}
	x.InstanceUUID = has.InstanceUUID
	x.IPs, x.firstIPs = firstAddresses(addressesInOrder(m.IPs, m.firstIPs, &has), plan.AddressesIn(has.Addresses)), nil
	recall(x, old)
	if old == nil || old.Template != x.Template || x.Template && (old.Name != x.Name || old.Parent != x.Parent || old.Contents != x.Contents || old.HostRef != x.HostRef) {
		n.objects.unlistTemplate(m.MoRef, old, w)
		n.objects.listTemplate(m.MoRef, x.Name, x.Template, w)
	}
	n.objects.members[m.MoRef] = x
	g := n.objects.groups[has.UID]
	if g == nil {
		g = &group{refs: map[string]*Member{}}
		n.objects.groups[has.UID] = g
	}
	g.refs[m.MoRef] = x
	w.groups[has.UID] = true
	for ref, other := range g.refs { // vCenter has one VM with an instanceUuid: the hidden one was this VM, under its former moRef
		if other.Unreachable == hidden && other.Own == x.Own && ref != m.MoRef {
			n.forget(ref, w)
		}
	}
	if old == nil {
		n.MissingVMs.returned(&x.Machine, w)
		n.unreported.expect(m.MoRef)
	}
}

// forget drops a moRef that answered ManagedObjectNotFound. A member is missing from now on. The caller holds mu.
func (n *Inventory) forget(ref string, w *changes) {
	n.objects.gone.add(ref)
	if old := n.objects.members[ref]; old != nil {
		n.missMember(old, false, false)
	}
	if x := n.objects.unmanaged[ref]; !x.unstampedAt.IsZero() {
		n.MissingVMs.finish(plan.VMID{MoRef: ref, InstanceUUID: x.instanceUUID}) // it was no longer a member
	}
	n.objects.leave(ref, w)
	n.objects.dropUnmanaged(ref, w)
	n.adoptions.drop(ref, w)
	n.Evidence.forget(ref)
	n.folders.dropPlace(ref, w)
}

// putUnmanaged stores an unmanaged VM. The caller holds mu.
func (n *Inventory) putUnmanaged(ref string, x unmanagedVM, w *changes) {
	old, had := n.objects.unmanaged[ref]
	if had {
		x.unstampedAt = old.unstampedAt
	}
	if had && old == x {
		return
	}
	n.objects.dropUnmanaged(ref, w)
	n.objects.unmanaged[ref] = x
	w.tree = true // a plain VM's name is part of the answer about a template that is not found
	n.objects.listTemplate(ref, x.name, x.template, w)
	if x.unreadable {
		n.objects.unreadable[ref] = true
		n.unreported.expect(ref)
	}
	if x.unknown {
		n.objects.unknown++
	}
}

// absentFrom lists the known objects that a complete reading did not show. That takes long, so the caller holds no lock.
func (n *Inventory) absentFrom(r *Reading) (absent []string) {
	seen := make(map[string]bool, len(r.Machines)+len(r.Places))
	for i := range r.Machines {
		seen[r.Machines[i].MoRef] = true
	}
	for _, p := range r.Places {
		seen[p.MoRef] = true
	}
	for _, ref := range n.knownRefs() {
		if !seen[ref] && !r.Seen[ref] {
			absent = append(absent, ref)
		}
	}
	return absent
}

func (n *Inventory) knownRefs() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	refs := make([]string, 0, len(n.objects.members)+len(n.objects.unmanaged)+len(n.objects.places.byRef))
	refs = slices.AppendSeq(refs, maps.Keys(n.objects.members))
	refs = slices.AppendSeq(refs, maps.Keys(n.objects.unmanaged))
	return slices.AppendSeq(refs, maps.Keys(n.objects.places.byRef))
}

// sweep forgets the unmanaged VMs and places that a complete reading did not show, and hides the members. The caller holds mu.
func (n *Inventory) sweep(absent []string, began time.Time, w *changes) {
	for _, ref := range absent {
		if n.objects.members[ref] != nil {
			n.put(&Machine{VM: plan.VM{MoRef: ref, Unreachable: hidden}}, began, w)
			continue
		}
		n.objects.dropUnmanaged(ref, w)
		n.adoptions.drop(ref, w)
		n.folders.dropPlace(ref, w)
	}
	n.forgetUnasked()
}

// forgetUnasked forgets what no group has asked for since the last call. Groups that still exist ask again at their next hook call.
func (n *Inventory) forgetUnasked() {
	n.requesters.forgetUnasked()
	n.Meanings.forgetUnasked()
	n.ruleRequests.forgetUnasked()
	n.adoptions.forgetUnasked()
	n.MissingVMs.forgetUnasked()
}

// rebuild lists a group's VMs again and reports whether anything of them changed. The caller holds mu.
func (n *Inventory) rebuild(uid types.UID) bool {
	g := n.objects.groups[uid]
	was := g.vms
	n.rebuilds++
	g.version = n.rebuilds
	if len(g.refs) == 0 {
		delete(n.objects.groups, uid)
		return len(was) > 0
	}
	vms := make([]plan.VM, 0, len(g.refs))
	for _, m := range g.refs {
		vm := m.Stamp.Onto(m.VM)
		vm.IsTemplate = m.Machine.Template
		if m.Stamp.Now(m.Own) != m.Stamp {
			vm.Renumbered = m.Own
		}
		n.compare(&vm)
		vms = append(vms, vm)
	}
	slices.SortFunc(vms, compareVMs)
	if equalVMs(was, vms) {
		return false
	}
	g.vms = vms
	return true
}

// equalVMs compares all fields that VMs have, or will have: a change of a field left out here would go unnoticed. (Times
// are in UTC, from decodeMachine or a stamp, and have no monotonic part.)
func equalVMs(a, b []plan.VM) bool { return reflect.DeepEqual(a, b) }
