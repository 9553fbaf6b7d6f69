package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

// This file collects what is known of VMs with a group's stamp, for plan.Weigh, which decides whether they are the group's. Package arrival reads
// vCenter's events of those that neither a status nor a task of this process shows to be a group's.

// evidence has what was decided and found out. It belongs to requests, whose mu guards it.
type evidence struct {
	// proofs has the VMs that were shown to be a group's, by moRef. A VM stays the group's as long as it has the same instanceUuid and group.
	proofs map[string]proof
	// making has the instanceUuids of clones that this process began, with their groups. Nobody else knows such a uuid before its VM exists: so the first
	// VM with it, and with the group's stamp, is that clone, even if the reply or the task was lost.
	making goneSet
	// strays are the VMs that were weighed last as strays, and not pending, by moRef.
	strays map[string]proof
	// arrivals are the answers of vCenter's events, and sought the VMs whose events are to be read, by moRef.
	arrivals map[string]arrival
	sought   map[string]*Sought
	// renumbered are the VMs of which vCenter changed the instanceUuid (plan.Renumbered), by moRef.
	renumbered map[string]renumbered
}

func newEvidence() evidence {
	return evidence{proofs: map[string]proof{}, strays: map[string]proof{}, arrivals: map[string]arrival{}, sought: map[string]*Sought{}, renumbered: map[string]renumbered{}}
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

// forget forgets a VM that left vCenter. The caller holds requests.mu.
func (e *evidence) forget(moRef string) {
	delete(e.proofs, moRef)
	delete(e.strays, moRef)
	delete(e.arrivals, moRef)
	delete(e.sought, moRef)
	delete(e.renumbered, moRef)
}

func (q *requests) forgetEvidence(moRef string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.evidence.forget(moRef)
}

// Making records that this process is about to clone a VM with that instanceUuid for a group.
func (n *Inventory) Making(uid types.UID, instanceUUID string) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	n.requests.evidence.making.add(string(uid) + "/" + instanceUUID)
}

// isMade reports whether a VM is a clone that this process began, and records that. The caller holds mu.
func (q *requests) isMade(uid types.UID, vm *plan.VM) bool {
	key := string(uid) + "/" + vm.InstanceUUID
	if !q.evidence.making.has(key) {
		return false
	}
	q.evidence.making.drop(key)
	q.evidence.proofs[vm.MoRef] = proof{uid, vm.InstanceUUID}
	return true
}

// Made records that a task of this process made a VM, or adopted it, for a group.
func (n *Inventory) Made(uid types.UID, id plan.VMID) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	n.requests.evidence.making.drop(string(uid) + "/" + id.InstanceUUID)
	n.requests.evidence.proofs[id.MoRef] = proof{uid, id.InstanceUUID}
}

// OnSought makes the inventory call sought, which must not block, whenever a VM's arrival is to be found out. Call it before anything is published.
func (n *Inventory) OnSought(sought func()) { n.seek = sought }

// Sought lists the VMs whose arrivals are to be found out.
func (n *Inventory) Sought() (all []Sought) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	for _, s := range n.requests.evidence.sought {
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

// Tell records how a VM came into vCenter's inventory.
func (n *Inventory) Tell(s Sought, a plan.Arrival) {
	a.Read = true
	n.requests.mu.Lock()
	now := n.requests.evidence.sought[s.MoRef]
	same := now != nil && now.VMID == s.VMID
	if same {
		delete(n.requests.evidence.sought, s.MoRef)
		n.requests.evidence.arrivals[s.MoRef] = arrival{s.InstanceUUID, a}
	}
	n.requests.mu.Unlock()
	if same {
		n.changed(s.UID)
	}
}

// isRenumbered reports whether a copy, of which all properties were read, is the member whose stamp it has.
func (q *requests) isRenumbered(m *Machine, of copied) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	is, a := q.evidence.renumbered[m.MoRef], q.evidence.arrivals[m.MoRef]
	if !m.Whole || is.proof != of.proof || is.own != m.InstanceUUID || a.instanceUUID != m.InstanceUUID {
		return false
	}
	if !plan.Renumbered(a.Had, m.File, is.file, of.instanceUUID, of.present) {
		a.Had = nil
		q.evidence.arrivals[m.MoRef] = a
		return false
	}
	return true
}

// isProven reports whether a VM was shown to be a group's. The caller holds requests.mu.
func (q *requests) isProven(uid types.UID, moRef, instanceUUID string) bool {
	return q.evidence.proofs[moRef] == proof{uid, instanceUUID}
}

// IsStray reports whether a member was last found to be a stray.
func (n *Inventory) IsStray(m *Member) bool {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	return n.requests.isStray(m.Stamp.UID, m.MoRef, m.InstanceUUID)
}

func (q *requests) isStray(uid types.UID, moRef, instanceUUID string) bool {
	return q.evidence.strays[moRef] == proof{uid, instanceUUID}
}

// seekLocked asks for the arrival of a VM. The caller holds requests.mu.
func (n *Inventory) seekLocked(s Sought) {
	e := &n.requests.evidence
	if now := e.sought[s.MoRef]; now != nil && now.VMID == s.VMID {
		now.Patient, now.Copy = now.Patient || s.Patient, now.Copy || s.Copy
		return
	}
	if n.seek == nil { // the check asks nobody
		return
	}
	s.Since = time.Now()
	e.sought[s.MoRef] = &s
	n.seek()
}

// ownerOf returns a VM's owner. old is its previous state, so that an unchanged stamp is not decoded again. The caller holds Inventory.mu.
func (q *requests) ownerOf(m *Machine, old *Member) (stamp.Stamp, stamp.Owner) {
	if m.Readable && m.StampText != "" && old != nil && old.StampText == m.StampText && old.Own == m.InstanceUUID {
		return old.Stamp, stamp.Ours
	}
	has, owner := stamp.Read(m.StampText, m.InstanceUUID, m.Readable)
	if of := copyOf(m, owner); of != (copied{}) && q.isRenumbered(m, of) {
		if has, err := stamp.Decode(m.StampText); err == nil {
			return has, stamp.Ours
		}
	}
	return has, owner
}
