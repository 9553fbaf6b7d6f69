package plan

import (
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// This file says which VM is meant, and what became of those that vCenter no longer shows. A VM that it shows is a VM; spec.adopt names a Candidate. The
// status has a record type for each of its lists (v1alpha1.Member, StandbyMember, Quarantined, GivenUp, Stray), because each is for another reader.

// VMID identifies a VM for its lifetime. A moRef alone doesn't, because a vCenter that was restored from a backup reuses moRefs.
// InstanceUUID is empty if unknown.
type VMID struct{ MoRef, InstanceUUID string }

// Is reports whether two records can be of one VM: they have the same moRef, and no different instanceUuids.
func (id VMID) Is(other VMID) bool {
	return id.MoRef == other.MoRef && (id.InstanceUUID == "" || other.InstanceUUID == "" || id.InstanceUUID == other.InstanceUUID)
}

// ID identifies the VM.
func (vm *VM) ID() VMID { return VMID{vm.MoRef, vm.InstanceUUID} }

// IDOf identifies the VM of a recorded member.
func IDOf(m *v1alpha1.Member) VMID { return VMID{m.MoRef, m.InstanceUUID} }

// Gone is a VM that a group no longer has.
type Gone struct {
	MoRef, InstanceUUID string
	// By is who destroyed the VM: this process, or a user that vCenter's events name.
	By Actor
}

// Actor is who did something in vCenter. User is the account, empty if vCenter's events don't name it. Ours reports whether the account is
// the server's: this process did it (then User is empty), or another process or person with that account.
type Actor struct {
	User string
	Ours bool
}

// Departed indexes Gone by moRef, because groups of a thousand members look up each member.
type Departed map[string][]*Gone

// Departed returns Gone, indexed by moRef.
func (s *VCenterState) Departed() Departed {
	all := make(Departed, len(s.Gone))
	for i := range s.Gone {
		all[s.Gone[i].MoRef] = append(all[s.Gone[i].MoRef], &s.Gone[i])
	}
	return all
}

// Has reports whether a VM recorded with that identity is gone.
func (d Departed) Has(id VMID) bool {
	_, is := d.As(id)
	return is
}

// As is Has, and returns who destroyed it.
func (d Departed) As(id VMID) (by Actor, is bool) {
	for _, x := range d[id.MoRef] {
		if x.shows(id) {
			return x.By, true
		}
	}
	return Actor{}, false
}

// shows reports whether a recorded VM is gone. A record with an instanceUuid needs more than an entry of Gone that has only the moRef: another VM may
// have had that.
func (x *Gone) shows(id VMID) bool {
	return x.MoRef == id.MoRef && (id.InstanceUUID == "" || x.InstanceUUID == id.InstanceUUID)
}

// IsGone is Departed.Has for a single VM.
func (s *VCenterState) IsGone(moRef, instanceUUID string) bool {
	return slices.ContainsFunc(s.Gone, func(x Gone) bool { return x.shows(VMID{moRef, instanceUUID}) })
}

// Vanished is a member that vCenter no longer has and that may still run.
type Vanished struct {
	MoRef, InstanceUUID, Name string
	Ordinal                   int32
	// How says what removed the VM from vCenter's inventory, as far as vCenter's events tell; empty while the server reads the events.
	How string
}

// ID identifies the VM.
func (x *Vanished) ID() VMID { return VMID{x.MoRef, x.InstanceUUID} }

// Removed is a member that was destroyed with the server's account, and when this process learned of it. The zero value is none.
type Removed struct {
	Name, MoRef string
	At          time.Time
}

// Records index what a status and vCenter say about the members of a group, to look up many vanished members.
type Records struct {
	byMoRef map[string][]*v1alpha1.Member
	shown   map[int32]bool // ordinals of recorded members that vCenter shows
}

// RecordsOf returns the records of members in a status, and of the VMs that vCenter shows.
func RecordsOf(recorded []v1alpha1.Member, vms []VM) Records {
	r := Records{make(map[string][]*v1alpha1.Member, len(recorded)), make(map[int32]bool, len(recorded))}
	here := make(map[string][]VMID, len(vms)) // by moRef
	for i := range vms {
		here[vms[i].MoRef] = append(here[vms[i].MoRef], vms[i].ID())
	}
	for i := range recorded {
		m := &recorded[i]
		r.byMoRef[m.MoRef] = append(r.byMoRef[m.MoRef], m)
		if slices.ContainsFunc(here[m.MoRef], IDOf(m).Is) {
			r.shown[m.Ordinal] = true
		}
	}
	return r
}

// Has reports whether the status lists a vanished member.
func (r *Records) Has(x *Vanished) bool { return slices.ContainsFunc(r.byMoRef[x.MoRef], x.Is) }

// Supersede reports whether another VM has become the member that x was: the status lists that VM and not x, and vCenter shows it.
func (r *Records) Supersede(x *Vanished) bool { return !r.Has(x) && r.shown[x.Ordinal] }

// Is reports whether a recorded member is the vanished member.
func (x *Vanished) Is(m *v1alpha1.Member) bool { return x.ID().Is(IDOf(m)) }
