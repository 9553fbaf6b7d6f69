package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// Evidence has what was decided and found out about VMs with a group's stamp. weigh.go collects it for plan.Weigh, which decides whether such a VM is
// the group's. Package arrival reads vCenter's events of those that neither a status nor a task of this process shows to be a group's.
type Evidence struct {
	changed func(types.UID)
	// seek is called when a VM's arrival is to be found out; nil without package arrival, which does that.
	seek func()

	mu sync.Mutex
	// proofs has the VMs that were shown to be a group's, by moRef. A VM stays the group's as long as it has the same instanceUuid and group.
	proofs map[string]proof
	// making has the clones that this process began. Nobody else knows the instanceUuid of one before its VM exists: so the first VM with it, and with the
	// group's stamp, is that clone, even if the reply or the task was lost.
	making goneSet[proof]
	// strays are the VMs that were weighed last as strays, and not pending, by moRef.
	strays map[string]proof
	// arrivals are the answers of vCenter's events, and sought the VMs whose events are to be read, by moRef.
	arrivals map[string]arrival
	sought   map[string]*Sought
	// renumbered are the VMs of which vCenter changed the instanceUuid (plan.Renumbered), by moRef.
	renumbered map[string]renumbered
	// homes has the group of each folder that this process saw at a group's path, by moRef. It stays when the folder is moved or renamed.
	homes map[string]types.UID
}

// renumbered is what a VM's stamp says, the instanceUuid that vCenter has for it, and the .vmx file in the member's record.
type renumbered struct {
	proof
	own, file string
}

type arrival struct {
	instanceUUID string
	plan.Arrival
}

// Sought is a VM whose arrival is to be found out.
type Sought struct {
	plan.VMID
	// UID is that of the group of which the VM has the stamp.
	UID types.UID
	// Since is when a group first asked. Patient reports whether to ask again for a while if vCenter has no event: it may store events late.
	Since   time.Time
	Patient bool
	// Copy reports whether the VM has a copy of a member's stamp: which instanceUuids it had is to be found out.
	Copy bool
}

// reset forgets everything, because vCenter is another one.
func (e *Evidence) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proofs, e.making, e.strays = map[string]proof{}, goneSet[proof]{}, map[string]proof{}
	e.arrivals, e.sought, e.renumbered = map[string]arrival{}, map[string]*Sought{}, map[string]renumbered{}
	e.homes = map[string]types.UID{}
}

// forget forgets a VM or folder that left vCenter.
func (e *Evidence) forget(moRef string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.proofs, moRef)
	delete(e.strays, moRef)
	delete(e.arrivals, moRef)
	delete(e.sought, moRef)
	delete(e.renumbered, moRef)
	delete(e.homes, moRef)
}

// setHome records that a folder is at a group's path.
func (e *Evidence) setHome(folder string, uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.homes[folder] = uid
}

// wasHome reports whether a folder was at a group's path while this process ran.
func (e *Evidence) wasHome(folder string, uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.homes[folder] == uid
}

// Making records that this process is about to clone a VM with that instanceUuid for a group.
func (e *Evidence) Making(uid types.UID, instanceUUID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.making.add(proof{uid, instanceUUID})
}

// Made records that a task of this process made a VM, or adopted it, for a group.
func (e *Evidence) Made(uid types.UID, id plan.VMID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	is := proof{uid, id.InstanceUUID}
	e.making.drop(is)
	e.proofs[id.MoRef] = is
}

// OnSought makes the inventory call sought, which must not block, whenever a VM's arrival is to be found out. Call it before anything is published.
func (e *Evidence) OnSought(sought func()) { e.seek = sought }

// Sought lists the VMs whose arrivals are to be found out.
func (e *Evidence) Sought() (all []Sought) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sought {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Sought) int { // those in groups' folders first: they may be members
		if a.Patient != b.Patient {
			return cmp.Compare(oneIf(b.Patient), oneIf(a.Patient))
		}
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.MoRef, b.MoRef))
	})
	return all
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// seekArrival asks for the arrival of a VM.
func (e *Evidence) seekArrival(s Sought) {
	e.mu.Lock()
	now := e.sought[s.MoRef]
	known := now != nil && now.VMID == s.VMID
	switch {
	case known:
		now.Patient, now.Copy = now.Patient || s.Patient, now.Copy || s.Copy
	case e.seek != nil: // the check asks nobody
		s.Since = time.Now()
		e.sought[s.MoRef] = &s
	}
	e.mu.Unlock()
	if !known && e.seek != nil {
		e.seek()
	}
}

// Tell records how a VM came into vCenter's inventory.
func (e *Evidence) Tell(s Sought, a plan.Arrival) {
	a.Read = true
	e.mu.Lock()
	now := e.sought[s.MoRef]
	same := now != nil && now.VMID == s.VMID
	if same {
		delete(e.sought, s.MoRef)
		e.arrivals[s.MoRef] = arrival{s.InstanceUUID, a}
	}
	e.mu.Unlock()
	if same {
		e.changed(s.UID)
	}
}

// arrivalOf returns how a VM came into vCenter's inventory; zero if that was not found out.
func (e *Evidence) arrivalOf(id plan.VMID) plan.Arrival {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a := e.arrivals[id.MoRef]; a.instanceUUID == id.InstanceUUID {
		return a.Arrival
	}
	return plan.Arrival{}
}

// renumber records that vCenter changed the instanceUuid of a VM, and reports whether that is new.
func (e *Evidence) renumber(moRef string, is renumbered) (fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fresh = e.renumbered[moRef] != is
	e.renumbered[moRef] = is
	return fresh
}

// isRenumbered reports whether a copy, of which all properties were read, is the member whose stamp it has.
func (e *Evidence) isRenumbered(m *Machine, of copied) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	is, a := e.renumbered[m.MoRef], e.arrivals[m.MoRef]
	if !m.Whole || is.proof != of.proof || is.own != m.InstanceUUID || a.instanceUUID != m.InstanceUUID {
		return false
	}
	if !plan.Renumbered(a.Had, m.File, is.file, of.instanceUUID, of.present) {
		a.Had = nil
		e.arrivals[m.MoRef] = a
		return false
	}
	return true
}

// isProven reports whether a VM was shown to be a group's.
func (e *Evidence) isProven(uid types.UID, id plan.VMID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proofs[id.MoRef] == proof{uid, id.InstanceUUID}
}

// isStray reports whether a VM with a group's stamp was last found to be a stray.
func (e *Evidence) isStray(uid types.UID, id plan.VMID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.strays[id.MoRef] == proof{uid, id.InstanceUUID}
}

// IsStray reports whether a member was last found to be a stray.
func (e *Evidence) IsStray(m *Member) bool { return e.isStray(m.Stamp.UID, m.ID()) }

// prove records that a VM is a group's.
func (e *Evidence) prove(uid types.UID, id plan.VMID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proofs[id.MoRef] = proof{uid, id.InstanceUUID}
	delete(e.strays, id.MoRef)
	delete(e.sought, id.MoRef)
}

// setStray records that a VM is a stray, and reports whether that is new.
func (e *Evidence) setStray(uid types.UID, id plan.VMID) (fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	is := proof{uid, id.InstanceUUID}
	fresh = e.strays[id.MoRef] != is
	e.strays[id.MoRef] = is
	return fresh
}

// provenOf returns a group without the VMs that are not known to be its own; the group itself if there are none.
func (e *Evidence) provenOf(uid types.UID, g *group) *group {
	e.mu.Lock()
	defer e.mu.Unlock()
	unproven := func(moRef string, m *Member) bool { return e.proofs[moRef] != proof{uid, m.InstanceUUID} }
	for ref, m := range g.refs {
		if unproven(ref, m) {
			some := *g
			some.refs = maps.Clone(g.refs)
			maps.DeleteFunc(some.refs, unproven)
			return &some
		}
	}
	return g
}

// split separates the VMs of a group that are shown to be the group's by this process, or by the group's status (listed), from the others. It returns
// vms itself if there are no others. A preview does not remember what it finds. split calls listed with its lock held.
func (e *Evidence) split(uid types.UID, vms []plan.VM, preview bool, listed func(*plan.VM) bool) (ours, others []plan.VM) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var shown []bool
	for i := range vms {
		vm := &vms[i]
		id := proof{uid, vm.InstanceUUID}
		is := e.proofs[vm.MoRef] == id
		if !is && e.making.has(id) {
			e.making.drop(id)
			e.proofs[vm.MoRef], is = id, true
		}
		if !is {
			if is = listed(vm); is && !preview {
				e.proofs[vm.MoRef] = id
			}
		}
		if is = is && !vm.IsTemplate; is {
			delete(e.strays, vm.MoRef)
		}
		if !is && shown == nil {
			shown = make([]bool, len(vms))
			for j := range i {
				shown[j] = true
			}
		}
		if shown != nil {
			shown[i] = is
		}
	}
	if shown == nil {
		return vms, nil
	}
	for i := range vms {
		if shown[i] {
			ours = append(ours, vms[i])
		} else {
			others = append(others, vms[i])
		}
	}
	return ours, others
}

// ownerOf returns a VM's owner. old is its previous state, so that an unchanged stamp is not decoded again.
func (e *Evidence) ownerOf(m *Machine, old *Member) (stamp.Stamp, stamp.Owner) {
	if m.Readable && m.StampText != "" && old != nil && old.StampText == m.StampText && old.Own == m.InstanceUUID {
		return old.Stamp, stamp.Ours
	}
	has, owner := stamp.Read(m.StampText, m.InstanceUUID, m.Readable)
	if of := copyOf(m, owner); of != (copied{}) && e.isRenumbered(m, of) {
		if has, err := stamp.Decode(m.StampText); err == nil {
			return has, stamp.Ours
		}
	}
	return has, owner
}
