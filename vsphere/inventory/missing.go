package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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

	asked bool // whether its group asked for it since the last forgetMissing
}

func (m *Missing) id() plan.VMID { return plan.VMID{MoRef: m.MoRef, InstanceUUID: m.InstanceUUID} }

// missingSet has the missing VMs, and those that no longer are. requests.mu guards it.
type missingSet struct {
	all map[plan.VMID]*Missing
	// byMoRef has the VMs of all by their moRef, which several VMs can have had.
	byMoRef map[string][]*Missing
	// done are the VMs that are not looked for any more: destroyed, back with another moRef, or gone while in quarantine, on standby or released.
	// Each has two keys: moRef and instanceUuid, and the moRef alone.
	done goneSet
	// by has who destroyed a VM, by the keys of done.
	by map[string]plan.Actor
	// destroyed are those of done, by moRef and instanceUuid, that were destroyed.
	destroyed map[string]bool
	// removed is, for each group, the last member that another process of the server destroyed.
	removed map[types.UID]plan.Removed
}

func (s *missingSet) isDone(id plan.VMID) bool { return s.done.has(id.MoRef + "/" + id.InstanceUUID) }

func (s *missingSet) destroyer(id plan.VMID) plan.Actor { return s.by[id.MoRef+"/"+id.InstanceUUID] }

// finish records that a VM is no longer missing. by is who destroyed it; zero if it was not destroyed, or if that is not known.
func (s *missingSet) finish(id plan.VMID, by plan.Actor) {
	s.drop(id)
	for _, key := range []string{id.MoRef + "/" + id.InstanceUUID, id.MoRef + "/"} {
		forgotten := s.done.add(key)
		delete(s.by, forgotten)
		delete(s.destroyed, forgotten)
		if by != (plan.Actor{}) {
			s.by[key] = by
		}
	}
}

// destroy records that a VM was destroyed, and by whom; zero if that is not known.
func (s *missingSet) destroy(id plan.VMID, by plan.Actor) {
	s.finish(id, by)
	s.destroyed[id.MoRef+"/"+id.InstanceUUID] = true
}

func (s *missingSet) put(m *Missing) {
	s.all[m.id()] = m
	s.byMoRef[m.MoRef] = append(s.byMoRef[m.MoRef], m)
}

func (s *missingSet) drop(id plan.VMID) {
	delete(s.all, id)
	left := slices.DeleteFunc(s.byMoRef[id.MoRef], func(m *Missing) bool { return m.id() == id })
	if s.byMoRef[id.MoRef] = left; len(left) == 0 {
		delete(s.byMoRef, id.MoRef)
	}
}

// find returns the missing VM that a status records. An older server's status has no instanceUuid: then find goes by the moRef alone.
func (s *missingSet) find(id plan.VMID) *Missing {
	if id.InstanceUUID != "" {
		return s.all[id]
	}
	if named := s.byMoRef[id.MoRef]; len(named) > 0 {
		return named[0]
	}
	return nil
}

// sameVM reports whether a recorded and a read instanceUuid can be one VM's. A record without one can be of any VM.
func sameVM(recorded, read string) bool { return recorded == "" || recorded == read }

// recordedMissing returns a missing member that is known only from its group's status.
func recordedMissing(uid types.UID, r *v1alpha1.Member, reused, copied bool) Missing {
	seen := r.BootTime.Time
	if r.Ready && r.LastTransitionTime.After(seen) { // one that became unready may have left before that was noticed
		seen = r.LastTransitionTime.Time
	}
	return Missing{UID: uid, Host: r.Host, File: r.VMPathName, Reused: reused, Copied: copied, SeenAt: seen,
		Vanished: plan.Vanished{MoRef: r.MoRef, InstanceUUID: r.InstanceUUID, Name: r.NameInVCenter(), Ordinal: r.Ordinal}}
}

// forgetFormer records that a VM left vCenter after its stamp was removed: it is no longer a member, so it is not missing. The caller holds
// mu.
func (q *requests) forgetFormer(id plan.VMID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.missing.finish(id, plan.Actor{})
}

// returned notifies the group of a missing VM when a VM with its instanceUuid appears. With the same moRef it is that VM. With another one, Weigh
// decides, if it has the group's stamp; without a stamp, it is that VM if it has the same .vmx file. returned reports whether there is such a missing
// VM. The caller holds mu.
func (q *requests) returned(m *Machine, w *changes) (some bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, missing := range q.missing.all {
		if id.InstanceUUID == m.InstanceUUID {
			some, w.fire[missing.UID] = true, true
		}
		switch {
		case id.InstanceUUID != m.InstanceUUID:
		case id.MoRef == m.MoRef:
			q.missing.drop(id)
		case m.StampText == "" && m.File != "" && m.File == missing.File:
			q.missing.finish(id, plan.Actor{})
		}
	}
	return some
}

// vanishedOf returns the missing VMs of a group, by ordinal, and forgets those that are superseded. vms are the group's. The caller holds
// mu.
func (q *requests) vanishedOf(uid types.UID, ask *plan.Query, vms []plan.VM) (all []plan.Vanished) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var records *plan.Records
	for id, m := range q.missing.all {
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
			q.missing.drop(id)
		}
	}
	slices.SortFunc(all, func(a, b plan.Vanished) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), strings.Compare(a.MoRef, b.MoRef))
	})
	return all
}

// removedFor is how long a removal by another process is remembered: longer than any lease, after which a call decides anyway.
const removedFor = time.Hour

// forgetMissing drops VMs whose groups did not ask since the last time.
func (q *requests) forgetMissing() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, m := range q.missing.all {
		if !m.asked {
			q.missing.drop(id)
		}
		m.asked = false
	}
	maps.DeleteFunc(q.missing.removed, func(_ types.UID, r plan.Removed) bool { return time.Since(r.At) > removedFor })
}

// OnMissing makes the inventory call lost, which must not block, whenever a VM is found missing. Call it before anything is published.
func (n *Inventory) OnMissing(lost func()) { n.lost = lost }

// Missing lists the missing VMs that were in this vCenter.
func (n *Inventory) Missing() []Missing {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	all := make([]Missing, 0, len(n.requests.missing.all))
	for _, m := range n.requests.missing.all {
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
func (n *Inventory) Decide(m Missing, c Cause) {
	n.requests.mu.Lock()
	now := n.requests.missing.all[m.id()]
	same := now == nil || !c.Destroyed && now.How == c.How
	switch {
	case same:
	case c.Destroyed:
		n.requests.missing.destroy(m.id(), c.By)
		if c.By.Ours {
			n.requests.missing.removed[m.UID] = plan.Removed{Name: m.Name, MoRef: m.MoRef, At: time.Now()}
		}
	default:
		now.How = c.How
	}
	n.requests.mu.Unlock()
	if !same {
		n.changed(m.UID)
	}
}

// Destroyed records that this server has destroyed a VM.
func (n *Inventory) Destroyed(id plan.VMID) {
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	n.requests.missing.destroy(id, plan.Actor{Ours: true})
	maps.DeleteFunc(n.requests.missing.removed, func(_ types.UID, r plan.Removed) bool { return r.MoRef == id.MoRef })
}

// destroyer returns who destroyed a VM; zero if that is not known. The caller holds Inventory.mu.
func (q *requests) destroyer(r *v1alpha1.Member) plan.Actor {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.missing.destroyer(plan.VMID{MoRef: r.MoRef, InstanceUUID: r.InstanceUUID})
}

// lastRemoved returns the last member of a group that another process of the server destroyed. The caller holds Inventory.mu.
func (q *requests) lastRemoved(uid types.UID) plan.Removed {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.missing.removed[uid]
}
