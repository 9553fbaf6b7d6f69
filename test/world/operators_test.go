package world

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// visible returns the VMs that an operator can see, and so can change.
func visible(m *machine) bool { return !m.hidden }

// operators lists what people do in vCenter, and accidents.
var operators = []kind{
	{"an operator powers off", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Power == plan.PoweredOn }), a); m != nil {
			m.faulty = true
			w.vc.power(m, false)
		}
	}},
	{"an operator powers on", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Power == plan.PoweredOff && !w.vc.locked(m) }), a); m != nil {
			w.vc.power(m, true)
			m.halts = false
		}
	}},
	{"an operator destroys", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(visible), a); m != nil {
			m.faulty = true
			w.vc.removes(m)
		}
	}},
	{"an operator renames", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(visible), a); m != nil && w.vc.named(m.Folder, "old-"+m.Name) == nil {
			m.Name, m.tampered = "old-"+m.Name, true
			m.reconfigured()
		}
	}},
	{"an operator moves", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(visible), a); m != nil && w.vc.named(elsewhere, m.Name) == nil {
			m.Folder, m.tampered = elsewhere, true
			m.changed()
		}
	}},
	{"an operator edits", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(visible), a); m != nil {
			m.reconfigured()
		}
	}},
	{"an operator makes a VM of a member's name", 1, true, func(w *world, a, _ int) {
		name := plan.MemberName("web", int32(a%5))
		if w.vc.folder != "" && w.vc.named(w.vc.folder, name) == nil && !w.removesFolder() {
			m := w.vc.add("", plan.Action{Op: plan.Clone, Key: name, Args: plan.CloneArgs{Folder: w.vc.folder}})
			m.foreign = true
		}
	}},
	{"an operator unregisters, and registers again", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(visible), a); m != nil {
			w.vc.removes(m)
			m.faulty, m.departed = true, true
			again := w.vc.comesBack(m)
			again.tampered, again.faulty = true, true
			w.vc.power(again, false)
		}
	}},
	{"a VM is hidden", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return !m.hidden && !m.tampered }), a); m != nil {
			m.hidden = true
			m.changed()
		}
	}},
	{"a hidden VM is shown", 3, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.hidden }), a); m != nil {
			m.hidden = false
			m.changed()
		}
	}},
	{"a VM's host is removed from the inventory", 3, true, func(w *world, a, _ int) {
		if m := one(w.some(w.isKnownToAll), a); m != nil {
			m.faulty, m.departed = true, true
			w.vc.removes(m)
		}
	}},
	{"the hosts are back", 2, true, func(w *world, _, _ int) { w.allComeBack() }},
	{"a guest fails", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Tools }), a); m != nil {
			m.Tools, m.IPs, m.faulty = false, nil, true
			m.changed()
		}
	}},
}

// removesFolder reports whether a folder is being removed. An operator must not move a VM into it then: the VM would leave the inventory with
// the folder, and no call of the server could prevent that.
func (w *world) removesFolder() bool {
	return slices.ContainsFunc(w.steps, func(s *step) bool { return s.phase == running && s.a.Op == plan.RemoveFolder })
}

// isKnownToAll reports whether every replica, and every parent that Metacontroller may still send, knows a member. Any other member that
// vanishes is forgotten if the replicas that saw it stop (docs/design.md, known limits). No clone of the member's ordinal may be running
// either, because only the member's name keeps that clone from being made.
func (w *world) isKnownToAll(m *machine) bool {
	uid := w.kube.uid()
	if !m.member(uid) || m.hidden || m.tampered {
		return false
	}
	knows := func(g *v1alpha1.VmGroup) bool {
		return g.UID != uid || slices.ContainsFunc(g.Status.Members, func(r v1alpha1.Member) bool { return r.InstanceUUID == m.InstanceUUID })
	}
	for _, g := range w.kube.versions[max(0, len(w.kube.versions)-1-stalest):] {
		if !knows(g) {
			return false
		}
	}
	for _, r := range w.replicas {
		if g := r.view.vms[m.MoRef]; g == nil || g.blind || g.gone || slices.ContainsFunc(r.waiting, func(c waitingCall) bool { return !knows(c.call.Group) }) {
			return false
		}
	}
	return !slices.ContainsFunc(w.steps, func(s *step) bool { return s.a.Op == plan.Clone && s.a.Ordinal == m.Ordinal })
}

// allComeBack brings back all VMs that are away.
func (w *world) allComeBack() {
	for _, m := range slices.Clone(w.vc.vms) {
		if m.away() {
			w.vc.comesBack(m)
		}
	}
}
