package inventory

import (
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// requester is a group that asks for a folder, and the placement of that folder.
type requester struct {
	uid       types.UID
	placement plan.Home
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
