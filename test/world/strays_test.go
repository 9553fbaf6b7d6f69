package world

import (
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A stray is a VM with a group's stamp that the server neither made nor adopted: backup software restored it, or a stranger wrote the stamp. The server must
// not touch it. (Which VM is a stray, package inventory decides with plan.Weigh. In the model, plan.Weigh decides for strays only.)

// strays lists what happens in lives with strays. It is no harm to a group.
var strays = []kind{
	{"a backup of a VM is restored", 4, false, func(w *world, a, b int) {
		m := one(w.some(func(m *machine) bool { return m.uid != "" && !m.hidden }), a)
		if m == nil {
			return
		}
		x := w.vc.strayOf(m, b%5 == 0)
		x.arrival.How = []plan.Coming{plan.Created, plan.Cloned, plan.Registered}[b%3]
		x.Name = fmt.Sprint("restored-", x.MoRef)
		switch at := x.Created.Add(time.Second); b / 5 % 5 {
		case 0:
			x.Marked, x.MarkReason, x.MarkedAt = true, plan.MarkReasonUpdate, at
		case 1:
			x.Marked, x.MarkReason, x.MarkedAt, x.Quarantined = true, plan.MarkReasonScaleIn, at, at
		case 2:
			x.Standby = true
		case 3:
			x.Revision = "yesterday"
		}
		if b/25%3 > 0 {
			w.vc.power(x, true)
		}
		if b%4 == 0 { // a backup product that has the server's account
			x.arrival.Ours, x.arrival.User = true, "server"
			if x.Folder == elsewhere {
				x.arrival.Name = plan.MemberName("web", x.Ordinal)
			}
		}
	}},
	{"a stranger writes a stamp", 4, false, func(w *world, a, b int) {
		m := one(w.some(func(m *machine) bool { return m.uid != "" && !m.hidden }), a)
		if m == nil {
			return
		}
		x := w.vc.strayOf(m, false)
		x.Name = fmt.Sprint("own-", x.MoRef)
		if b%3 > 0 {
			x.InstanceUUID = "id-of-" + x.MoRef
		}
		b /= 3
		for n := range 2 { // one or two fields of another value
			forged[(b/max(1, n*len(forged)))%len(forged)](&x.VM)
		}
		if b%2 == 0 {
			w.vc.power(x, true)
		}
	}},
	{"vCenter's events of strays are read", 6, false, func(w *world, _, _ int) { w.readArrivals() }},
	{"a stray is powered on or off", 2, false, func(w *world, a, _ int) {
		if x := one(w.strays(), a); x != nil {
			w.vc.power(x, x.Power != plan.PoweredOn)
		}
	}},
	{"a member becomes a template", 1, true, func(w *world, a, _ int) {
		if m := one(w.some(func(m *machine) bool { return visible(m) && m.member(w.kube.uid()) && !m.tampered }), a); m != nil {
			w.vc.power(m, false)
			m.IsTemplate, m.faulty = true, true
			m.reconfigured()
		}
	}},
	{"templates are VMs again", 2, true, func(w *world, _, _ int) { w.untemplate() }},
	{"a stray is destroyed", 1, false, func(w *world, a, _ int) {
		if x := one(w.strays(), a); x != nil {
			w.vc.removes(x)
		}
	}},
}

// forged are other values that a stranger can write into each field of a member's stamp.
var forged = []func(*plan.VM){
	func(*plan.VM) {},
	func(vm *plan.VM) { vm.Created = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC) },
	func(vm *plan.VM) { vm.Created = time.Time{} },
	func(vm *plan.VM) { vm.Ordinal = 0 },
	func(vm *plan.VM) { vm.Ordinal++ },
	func(vm *plan.VM) { vm.Ordinal += 100 },
	func(vm *plan.VM) { vm.Generation = 0 },
	func(vm *plan.VM) { vm.Generation = math.MaxInt32 },
	func(vm *plan.VM) { vm.Revision = "another" },
	func(vm *plan.VM) { vm.VCenter = "another" },
	func(vm *plan.VM) { vm.Home = "DC0:elsewhere" },
	func(vm *plan.VM) { vm.Marked, vm.MarkReason = true, plan.MarkReasonScaleIn },
	func(vm *plan.VM) { vm.Marked, vm.MarkReason = true, plan.MarkReasonPowerCycle },
	func(vm *plan.VM) { vm.Quarantined = vm.Created },
	func(vm *plan.VM) { vm.Quarantined, vm.MarkReason = vm.Created, plan.MarkReasonDuplicate },
	func(vm *plan.VM) { vm.Standby = !vm.Standby },
	func(vm *plan.VM) { vm.Prepared = plan.Unprepared },
	func(vm *plan.VM) { vm.Former = plan.Former{Entry: "/DC0/vm/own", Name: "own", Folder: elsewhere} },
	func(vm *plan.VM) { vm.Shutdown = plan.Moment{At: vm.Created, Boot: vm.Created} },
	func(vm *plan.VM) { vm.Restarted = vm.Created },
	func(vm *plan.VM) { vm.Addresses = "10.0.0.1" },
}

// strayOf makes a stray with the stamp and the instanceUuid of a VM. It is off.
func (v *vcenter) strayOf(m *machine, inItsFolder bool) *machine {
	x := &machine{VM: m.VM, uid: m.uid, stray: true}
	x.MoRef, x.Power, x.BootTime, x.Folder, x.Tools, x.IPs = v.ref("vm"), plan.PoweredOff, time.Time{}, elsewhere, false, nil
	if inItsFolder && v.folder != "" && !v.removesFolder() {
		x.Folder = v.folder
	}
	x.File = "[ds] " + x.MoRef + "/" + x.MoRef + ".vmx"
	x.arrival = plan.Arrival{How: plan.Created, At: time.Now(), User: "somebody", Name: x.Name}
	x.reconfigured()
	v.vms = append(v.vms, x)
	return x
}

// readArrivals makes vCenter's events of all strays known.
func (w *world) readArrivals() {
	for _, x := range w.strays() {
		if !x.arrival.Read {
			x.arrival.Read = true
			x.changed()
		}
	}
}

// strays returns the group's strays that a replica has seen.
func (v *view) strays(uid types.UID) (all []plan.Stray) {
	for _, m := range v.vcenter.vms {
		g := v.vms[m.MoRef]
		if g == nil || g.gone || g.blind || g.uid != uid || !m.stray && !g.vm.IsTemplate {
			continue
		}
		vm := g.vm
		if !m.stray {
			_, x := plan.Weigh("web", &plan.Evidence{VM: &vm, Recorded: true})
			all = append(all, *x)
			continue
		}
		c := plan.Evidence{VM: &vm, InFolder: vm.Folder == v.folder && v.folder != "" || vm.Folder == v.quarantine && v.quarantine != "",
			Former: v.vcenter.fate(m), FormerFile: "[ds] web/web.vmx", Arrival: m.arrival}
		proof, x := plan.Weigh("web", &c)
		if x == nil {
			v.vcenter.violated("2: the evidence %s makes the stray %s the group's", proof, m.MoRef)
			continue
		}
		all = append(all, *x)
	}
	return all
}

// fate returns what became of the other VM with a stray's instanceUuid.
func (v *vcenter) fate(x *machine) (f plan.Fate) {
	for _, m := range v.vms {
		switch {
		case m.stray || m.InstanceUUID != x.InstanceUUID || m.again != nil:
		case m.away():
			f = plan.HasVanished
		case m.gone:
			f = plan.Destroyed
		default:
			return plan.Sought
		}
	}
	return f
}

// decideStrays has an operator do what the status asks for: strays that hold an ordinal are destroyed.
func (w *world) decideStrays() {
	w.readArrivals()
	for _, m := range w.vc.vms { // templates that the deletion of their group has kept, or keeps
		if m.IsTemplate && !m.gone && (m.uid != w.kube.uid() || w.kube.deleting()) {
			w.vc.removes(m)
		}
	}
	w.untemplate()
	for _, x := range w.strays() {
		if x.arrival.Ours {
			w.vc.removes(x)
		}
	}
}

// strays returns the strays that exist.
func (w *world) strays() (all []*machine) {
	for _, m := range w.vc.vms {
		if m.stray && !m.gone {
			all = append(all, m)
		}
	}
	return all
}

// untemplate has an admin convert templates back to VMs, but for those that the deletion of their group has kept, or keeps.
func (w *world) untemplate() {
	for _, m := range w.vc.vms {
		if m.IsTemplate && !m.gone && m.uid == w.kube.uid() && !w.kube.deleting() {
			m.IsTemplate = false
			m.reconfigured()
		}
	}
}

// checkStray checks that a step isn't for a stray, or for a VM that its replica knows to be a template.
func (s *step) checkStray() {
	if slices.ContainsFunc(s.vc.vms, func(m *machine) bool { return m.stray && m.MoRef == s.a.MoRef }) {
		s.violated("2: %s begins for a VM that the server neither made nor adopted", s)
	}
	if g := s.by.view.vms[s.a.MoRef]; g != nil && g.vm.IsTemplate {
		s.violated("2: %s begins for a template", s)
	}
}
