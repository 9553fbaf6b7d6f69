package inventory

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// requests has what groups asked for since the last rescan, and what they need from vCenter for it. forgetRequests drops requests that are not
// repeated.
type requests struct {
	mu sync.Mutex
	// requesters are the groups that asked for a folder since the last forgetRequesters, by namespace and name; formerRequesters are those that
	// asked in the period before.
	requesters, formerRequesters map[placeKey]requester
	placements                   map[plan.Home]*GroupFolder // without that of the settings
	awaited                      map[string]awaited         // VMs that the reader was asked to read
	unreported                   map[string]bool            // objects that the stream may not have reported: see unwatched
	missing                      missingSet
	evidence                     evidence
	adoptions                    map[types.UID]*adoption
	adoptCandidates              map[string]*adoptCandidate // unmanaged VMs that a group wants to adopt
	previews                     map[string]previewReading  // VMs that were read for a preview, by moRef
	ruleRequests                 map[types.UID]bool         // groups that asked for DRS rules since the last rescan
	ruleChecks                   map[types.UID]ruleCheck    // whether a group's rules are off
}

// awaited is a VM that the reader was asked to read, with its record in the group's status.
type awaited struct {
	uid      types.UID
	recorded v1alpha1.Member
	kept     bool // in quarantine
}

func (q *requests) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requesters, q.formerRequesters = map[placeKey]requester{}, map[placeKey]requester{}
	q.placements, q.awaited, q.unreported = map[plan.Home]*GroupFolder{}, map[string]awaited{}, map[string]bool{}
	q.evidence = newEvidence()
	q.missing = missingSet{destroyed: map[string]bool{}, all: map[plan.VMID]*Missing{}, byMoRef: map[string][]*Missing{}, by: map[string]plan.Actor{}, removed: map[types.UID]plan.Removed{}}
	q.adoptions, q.adoptCandidates = map[types.UID]*adoption{}, map[string]*adoptCandidate{}
	q.previews = map[string]previewReading{}
	q.ruleRequests, q.ruleChecks = map[types.UID]bool{}, map[types.UID]ruleCheck{}
}

// noteRequest notes which group a folder concerns, and whether it wants DRS rules.
func (q *requests) noteRequest(ref plan.Ref, placement plan.Home, rules bool) {
	q.mu.Lock()
	q.requesters[placeKey{ref.Namespace, ref.Name}] = requester{ref.UID, placement}
	if rules {
		q.ruleRequests[ref.UID] = true
	}
	q.mu.Unlock()
}

// requesterOf returns the group that recently asked for the folder of that name.
func (q *requests) requesterOf(namespace, name string) (requester, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, found := q.requesters[placeKey{namespace, name}]
	if !found {
		a, found = q.formerRequesters[placeKey{namespace, name}]
	}
	return a, found
}

// forgetRequesters drops groups that did not ask since the last time, and placements that no group asks for.
func (q *requests) forgetRequesters() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requesters, q.formerRequesters = q.formerRequesters, q.requesters
	clear(q.requesters)
	clear(q.ruleRequests)
	clear(q.ruleChecks)
	if len(q.placements) == 0 {
		return
	}
	used := map[plan.Home]bool{}
	for _, a := range q.formerRequesters {
		used[a.placement] = true
	}
	for placement := range q.placements {
		if !used[placement] {
			delete(q.placements, placement)
		}
	}
}

// expectReport notes objects that the stream should report. unwatched returns those that it does not.
func (q *requests) expectReport(moRefs ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, moRef := range moRefs {
		q.unreported[moRef] = true
	}
}

// isAwaited reports whether a VM of which nothing is known is being read. The caller holds Inventory.mu.
func (q *requests) isAwaited(r *v1alpha1.Member) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, is := q.awaited[r.MoRef]
	return is
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

// putAdoptCandidate keeps what was read of an unmanaged VM, if a group wants to adopt it. The caller holds Inventory.mu.
func (q *requests) putAdoptCandidate(m *Machine, w *changes) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.adoptCandidates[m.MoRef]
	if c == nil || !m.Whole || c.machine != nil && reflect.DeepEqual(c.machine, m) {
		return
	}
	kept := *m
	c.machine = &kept
	for uid := range c.groups {
		w.fire[uid] = true
	}
}

// dropAdoptCandidate drops a VM that became a member or is gone. The caller holds Inventory.mu.
func (q *requests) dropAdoptCandidate(ref string, w *changes) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.adoptCandidates[ref]; c != nil {
		delete(q.adoptCandidates, ref)
		for uid := range c.groups {
			w.fire[uid] = true
		}
	}
}

// forgetAdoptCandidates drops the candidates that no group asked for since its last call, and all answers: groups that still exist ask again.
// The caller holds Inventory.mu.
func (q *requests) forgetAdoptCandidates() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ref, c := range q.adoptCandidates {
		if !c.used {
			delete(q.adoptCandidates, ref)
		}
		c.used = false
	}
	clear(q.adoptions)
}

// dropUnasked drops the requests that groups have not repeated. Groups that still exist ask again at their next hook call. The caller holds
// Inventory.mu.
func (q *requests) dropUnasked() {
	q.forgetRequesters()
	q.forgetAdoptCandidates()
	q.forgetMissing()
}

// wholeRefs returns the moRefs of the VMs that are always read whole: all members of all groups, and the VMs that may
// become members.
func (n *Inventory) wholeRefs() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	refs := slices.Collect(maps.Keys(n.objects.members))
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	return slices.AppendSeq(refs, maps.Keys(n.requests.adoptCandidates))
}

// unwatched returns the members, the places, and the VMs whose owner is unclear, that the stream has not reported and that were not read
// for that reason. VMs with an unclear owner include those that a group's status names and that are hidden from the server's account.
// unwatched considers only the objects of expectReport: those that are new, or have left the stream.
func (n *Inventory) unwatched(seen watched) []vim.ManagedObjectReference {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.requests.mu.Lock()
	defer n.requests.mu.Unlock()
	var refs []vim.ManagedObjectReference
	for moRef := range n.requests.unreported {
		ref := VMRef(moRef)
		if p, is := n.objects.places.byRef[moRef]; is {
			ref.Type = p.Kind
		} else if n.objects.members[moRef] == nil && !n.objects.unreadable[moRef] {
			delete(n.requests.unreported, moRef)
			continue
		}
		switch {
		case seen.entered[moRef]:
			delete(n.requests.unreported, moRef)
		case !seen.checked[moRef]:
			refs = append(refs, ref)
		}
	}
	return refs
}
