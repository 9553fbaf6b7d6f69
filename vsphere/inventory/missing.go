package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// A VM that is not found need not be destroyed: when a host is removed from the inventory, its VMs leave the inventory and continue to run. So
// a member is missing if vCenter answers ManagedObjectNotFound for it, or if its moRef names another VM, until package removalcause finds out
// whether it was destroyed or has vanished. It is no longer missing when a VM with its instanceUuid and stamp appears: a VM that returns has
// another moRef.

// Missing is a member that vCenter no longer has.
type Missing struct {
	plan.Vanished
	// UID is that of the member's group.
	UID types.UID
	// Host is the name of the member's last host; empty if not known.
	Host string
	// File is the datastore path of its .vmx file; empty if not known.
	File string
	// SeenAt is when the member was last known to be in the inventory: when it was last read. If this process never read it, SeenAt is the
	// latest of the times in its group's status at which it was there: its bootTime, or its lastTransitionTime if it is ready; zero if there
	// is none.
	SeenAt time.Time
	// Since is when the member was found missing.
	Since time.Time
	// Reused reports whether the member's moRef names another VM now, and Copied, whether that VM has the member's stamp, and may be the member: nothing
	// shows that vCenter changed its instanceUuid (plan.Renumbered).
	Reused, Copied bool

	asked bool // whether its group asked for it since the last forgetUnasked
}

// recordedMissing returns a missing member that is known only from its group's status.
func recordedMissing(uid types.UID, r *v1alpha1.Member, reused, copied bool) Missing {
	seen := r.BootTime.Time
	if r.Ready && r.LastTransitionTime.After(seen) { // one that became unready may have left before that was noticed
		seen = r.LastTransitionTime.Time
	}
	return Missing{UID: uid, Host: r.Host, File: r.VMPathName, Reused: reused, Copied: copied, SeenAt: seen,
		Vanished: plan.Vanished{MoRef: r.MoRef, InstanceUUID: r.InstanceUUID, Name: r.NameInVCenter(), Ordinal: r.Ordinal}}
}

// MissingVMs are the members that vCenter no longer has, and those that are not looked for any more.
type MissingVMs struct {
	changed func(types.UID)
	// lost is called when a VM is found missing; nil without package removalcause, which finds out why.
	lost func()

	mu  sync.Mutex
	all map[plan.VMID]*Missing
	// byMoRef has the VMs of all by their moRef, which several VMs can have had.
	byMoRef map[string][]*Missing
	// done are the VMs that are not looked for any more: destroyed, back with another moRef, or gone while in quarantine, on standby or released.
	// Each has two keys: its VMID, and the moRef alone.
	done goneSet[plan.VMID]
	// by has who destroyed a VM, by the keys of done.
	by map[plan.VMID]plan.Actor
	// destroyed are those of done that were destroyed.
	destroyed map[plan.VMID]bool
	// removed is, for each group, the last member that another process of the server destroyed.
	removed map[types.UID]plan.Removed
}

// reset forgets everything, because vCenter is another one.
func (s *MissingVMs) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.byMoRef, s.done = map[plan.VMID]*Missing{}, map[string][]*Missing{}, goneSet[plan.VMID]{}
	s.by, s.destroyed, s.removed = map[plan.VMID]plan.Actor{}, map[plan.VMID]bool{}, map[types.UID]plan.Removed{}
}

// isDone reports whether a VM is not looked for any more.
func (s *MissingVMs) isDone(id plan.VMID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done.has(id)
}

// isMissing reports whether a VM that a status records is missing.
func (s *MissingVMs) isMissing(id plan.VMID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(id) != nil
}

// destroyer returns who destroyed a VM; zero if that is not known.
func (s *MissingVMs) destroyer(id plan.VMID) plan.Actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[id]
}

// lastRemoved returns the last member of a group that another process of the server destroyed.
func (s *MissingVMs) lastRemoved(uid types.UID) plan.Removed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removed[uid]
}

// fateOf returns what became of a VM that vCenter does not show, and whether it is missing.
func (s *MissingVMs) fateOf(id plan.VMID) (fate plan.Fate, missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(id)
	switch {
	case s.destroyed[id]:
		return plan.Destroyed, m != nil
	case m != nil && m.How != "":
		return plan.HasVanished, true
	case m == nil && s.done.has(id):
		return plan.Left, false
	}
	return plan.Sought, m != nil
}

// each calls add with each VM that is missing, and with each that was destroyed, of which the file is unknown.
func (s *MissingVMs) each(add func(id plan.VMID, file string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, m := range s.all {
		add(id, m.File)
	}
	for id := range s.destroyed {
		add(id, "")
	}
}

// put records a VM as missing, unless it is recorded already or is not looked for any more.
func (s *MissingVMs) put(m Missing) {
	s.mu.Lock()
	fresh := !s.done.has(m.ID()) && s.find(m.ID()) == nil
	if fresh {
		s.add(m)
	}
	s.mu.Unlock()
	if fresh && s.lost != nil {
		s.lost()
	}
}

// putElsewhere records a VM of another vCenter as missing, unless it is recorded already. This vCenter's events say nothing about it.
func (s *MissingVMs) putElsewhere(m Missing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(m.ID()) == nil {
		s.add(m)
	}
}

// finish records that a VM is not looked for any more, although nothing shows that it was destroyed.
func (s *MissingVMs) finish(id plan.VMID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id, plan.Actor{})
}

// found records that a member that was missing under another moRef is there again.
func (s *MissingVMs) found(id plan.VMID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for missing := range s.all {
		if missing.InstanceUUID == id.InstanceUUID && missing.MoRef != id.MoRef {
			s.end(missing, plan.Actor{})
		}
	}
}

// returned notifies the group of a missing VM when a VM with its instanceUuid appears. With the same moRef it is that VM. With another one, Weigh
// decides, if it has the group's stamp; without a stamp, it is that VM if it has the same .vmx file. returned reports whether there is such a missing
// VM.
func (s *MissingVMs) returned(m *Machine, w *changes) (some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, missing := range s.all {
		if id.InstanceUUID == m.InstanceUUID {
			some, w.fire[missing.UID] = true, true
		}
		switch {
		case id.InstanceUUID != m.InstanceUUID:
		case id.MoRef == m.MoRef:
			s.drop(id)
		case m.StampText == "" && m.File != "" && m.File == missing.File:
			s.end(id, plan.Actor{})
		}
	}
	return some
}

// vanishedOf returns the missing VMs of a group, by ordinal, and forgets those that are superseded. vms are the group's.
func (s *MissingVMs) vanishedOf(uid types.UID, ask *plan.Query, vms []plan.VM) (all []plan.Vanished) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records *plan.Records
	for id, m := range s.all {
		if m.UID != uid {
			continue
		}
		if records == nil {
			of := plan.RecordsOf(ask.Recorded[:len(ask.Recorded)-ask.Kept], vms)
			records = &of
		}
		switch superseded := records.Supersede(&m.Vanished); {
		case !superseded:
			m.asked = m.asked || !ask.Preview
			all = append(all, m.Vanished)
		case !ask.Preview:
			s.drop(id)
		}
	}
	slices.SortFunc(all, func(a, b plan.Vanished) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
	})
	return all
}

// removedFor is how long a removal by another process is remembered: longer than any lease, after which a call decides anyway.
const removedFor = time.Hour

// forgetUnasked drops VMs whose groups did not ask since the last time.
func (s *MissingVMs) forgetUnasked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, m := range s.all {
		if !m.asked {
			s.drop(id)
		}
		m.asked = false
	}
	maps.DeleteFunc(s.removed, func(_ types.UID, r plan.Removed) bool { return time.Since(r.At) > removedFor })
}

// OnMissing makes the inventory call lost, which must not block, whenever a VM is found missing. Call it before anything is published.
func (s *MissingVMs) OnMissing(lost func()) { s.lost = lost }

// Missing lists the missing VMs that were in this vCenter.
func (s *MissingVMs) Missing() []Missing {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Missing, 0, len(s.all))
	for _, m := range s.all {
		if plan.VCenterOf(m.MoRef) == "" { // this vCenter's events are about its own
			all = append(all, *m)
		}
	}
	slices.SortFunc(all, func(a, b Missing) int {
		return cmp.Or(strings.Compare(a.MoRef, b.MoRef), strings.Compare(a.InstanceUUID, b.InstanceUUID))
	})
	return all
}

// Cause is why a VM left vCenter's inventory: it was destroyed, and by whom, or it has vanished. How is the reason as a text for users.
type Cause struct {
	Destroyed bool
	By        plan.Actor
	How       string
}

// Decide records why a missing VM left vCenter's inventory.
func (s *MissingVMs) Decide(m Missing, c Cause) {
	s.mu.Lock()
	now := s.all[m.ID()]
	same := now == nil || !c.Destroyed && now.How == c.How
	switch {
	case same:
	case c.Destroyed:
		s.destroy(m.ID(), c.By)
		if c.By.Ours {
			s.removed[m.UID] = plan.Removed{Name: m.Name, MoRef: m.MoRef, At: time.Now()}
		}
	default:
		now.How = c.How
	}
	s.mu.Unlock()
	if !same {
		s.changed(m.UID)
	}
}

// Destroyed records that this server has destroyed a VM.
func (s *MissingVMs) Destroyed(id plan.VMID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.destroy(id, plan.Actor{Ours: true})
	maps.DeleteFunc(s.removed, func(_ types.UID, r plan.Removed) bool { return r.MoRef == id.MoRef })
}

// find returns the missing VM that a status records. An older server's status has no instanceUuid: then find goes by the moRef alone. The caller
// holds mu.
func (s *MissingVMs) find(id plan.VMID) *Missing {
	if id.InstanceUUID != "" {
		return s.all[id]
	}
	if named := s.byMoRef[id.MoRef]; len(named) > 0 {
		return named[0]
	}
	return nil
}

// add records a VM as missing. The caller holds mu.
func (s *MissingVMs) add(m Missing) {
	m.Since, m.asked = time.Now(), true
	s.all[m.ID()] = &m
	s.byMoRef[m.MoRef] = append(s.byMoRef[m.MoRef], &m)
}

// drop forgets that a VM is missing. The caller holds mu.
func (s *MissingVMs) drop(id plan.VMID) {
	delete(s.all, id)
	left := slices.DeleteFunc(s.byMoRef[id.MoRef], func(m *Missing) bool { return m.ID() == id })
	if s.byMoRef[id.MoRef] = left; len(left) == 0 {
		delete(s.byMoRef, id.MoRef)
	}
}

// end records that a VM is not looked for any more. by is who destroyed it; zero if it was not destroyed, or if that is not known. The caller holds mu.
func (s *MissingVMs) end(id plan.VMID, by plan.Actor) {
	s.drop(id)
	for _, key := range []plan.VMID{id, {MoRef: id.MoRef}} {
		forgotten := s.done.add(key)
		delete(s.by, forgotten)
		delete(s.destroyed, forgotten)
		if by != (plan.Actor{}) {
			s.by[key] = by
		}
	}
}

// destroy records that a VM was destroyed, and by whom; zero if that is not known. The caller holds mu.
func (s *MissingVMs) destroy(id plan.VMID, by plan.Actor) {
	s.end(id, by)
	s.destroyed[id] = true
}
