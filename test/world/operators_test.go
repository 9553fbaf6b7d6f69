package world

import (
	"slices"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// inSight: an operator who cannot see a VM leaves it alone.
func inSight(m *machine) bool { return !m.hidden }

// operators are people at vCenter, and bad luck.
var operators = []kind{
	{"an operator powers off", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Power == plan.PoweredOn }), a); m != nil {
			m.faulty = true
			w.vc.power(m, false)
		}
	}},
	{"an operator powers on", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Power == plan.PoweredOff }), a); m != nil {
			w.vc.power(m, true)
			m.heeds = false
		}
	}},
	{"an operator destroys", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil {
			m.faulty = true
			w.vc.removes(m)
		}
	}},
	{"an operator renames", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil && w.vc.named(m.Folder, "old-"+m.Name) == nil {
			m.Name, m.tampered = "old-"+m.Name, true
			m.reconfigured()
		}
	}},
	{"an operator moves", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil && w.vc.named(elsewhere, m.Name) == nil {
			m.Folder, m.tampered = elsewhere, true
			m.changed()
		}
	}},
	{"an operator edits", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil {
			m.reconfigured()
		}
	}},
	{"an operator makes a VM of a member's name", 1, true, func(w *world, a, _ int) {
		name := plan.MemberName("web", int32(a%5))
		if w.vc.folder != "" && w.vc.named(w.vc.folder, name) == nil && !w.removesFolder() {
			m := w.vc.add("", plan.Action{Op: plan.Clone, VM: name, Folder: w.vc.folder})
			m.foreign = true
		}
	}},
	{"an operator unregisters, and registers again", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(inSight), a); m != nil {
			again := *m
			w.vc.removes(m)
			m.faulty = true
			again.MoRef, again.tampered, again.faulty = w.vc.ref("vm"), true, true
			w.vc.power(&again, false)
			w.vc.vms = append(w.vc.vms, &again)
		}
	}},
	{"a VM is hidden", 2, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return !m.hidden && !m.tampered }), a); m != nil {
			m.hidden = true
			m.changed()
		}
	}},
	{"a VM shows again", 3, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.hidden }), a); m != nil {
			m.hidden = false
			m.changed()
		}
	}},
	{"a guest falls sick", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return m.Tools }), a); m != nil {
			m.Tools, m.IPs, m.faulty = false, nil, true
			m.changed()
		}
	}},
}

// removesFolder: what comes into a folder while it is being removed is taken off the inventory with it, and no call can
// prevent that.
func (w *world) removesFolder() bool {
	return slices.ContainsFunc(w.steps, func(s *step) bool { return s.phase == underWay && s.a.Op == plan.RemoveFolder })
}
