package inventory

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// ruleRequests are the groups that want DRS rules, and whether the rules of groups are off. Both are forgotten if the groups don't ask again.
type ruleRequests struct {
	mu      sync.Mutex
	wanting map[types.UID]bool      // groups that asked for DRS rules since the last forgetUnasked
	checks  map[types.UID]ruleCheck // whether a group's rules are off
}

// reset forgets everything, because vCenter is another one.
func (q *ruleRequests) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wanting, q.checks = map[types.UID]bool{}, map[types.UID]ruleCheck{}
}

// note notes that a group wants DRS rules.
func (q *ruleRequests) note(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wanting[uid] = true
}

// all returns the groups that want DRS rules.
func (q *ruleRequests) all() []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.wanting))
}

// lastCheck returns the last check of a group's rules.
func (q *ruleRequests) lastCheck(uid types.UID) (last ruleCheck, known bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, known = q.checks[uid]
	return last, known
}

// keepCheck keeps a check of a group's rules.
func (q *ruleRequests) keepCheck(uid types.UID, c ruleCheck) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.checks[uid] = c
}

// forgetCheck makes the rules of a group be checked again.
func (q *ruleRequests) forgetCheck(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.checks, uid)
}

// forgetUnasked drops all groups and checks: groups that still exist ask again at their next hook call.
func (q *ruleRequests) forgetUnasked() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.wanting)
	clear(q.checks)
}

// ruleCheck records whether a group's rules are off, for one version of its members and of the clusters.
type ruleCheck struct {
	group, clusters uint64
	request         plan.Rules
	off             bool
}

func (c *ruleCheck) isOf(group, clusters uint64, request plan.Rules) bool {
	return c.group == group && c.clusters == clusters && c.request.Equal(request)
}
