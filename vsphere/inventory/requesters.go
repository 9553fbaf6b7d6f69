package inventory

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// requester is a group that asks for a folder, and the placement of that folder.
type requester struct {
	uid       types.UID
	placement plan.Home
}

// requesters are the groups that ask for folders, and where the folders of their placements are. Both are forgotten if they are not asked for again.
type requesters struct {
	mu sync.Mutex
	// now are the groups that asked since the last forgetUnasked, by namespace and name, and before those that asked in the period before.
	now, before map[placeKey]requester
	// placements has the result of the last lookup of each placement, without that of the settings.
	placements map[plan.Home]*GroupFolder
}

// reset forgets everything, because vCenter is another one.
func (q *requesters) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now, q.before, q.placements = map[placeKey]requester{}, map[placeKey]requester{}, map[plan.Home]*GroupFolder{}
}

// note notes that a group asks for its folder.
func (q *requesters) note(ref plan.Ref, placement plan.Home) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now[placeKey{ref.Namespace, ref.Name}] = requester{ref.UID, placement}
}

// of returns the group that recently asked for the folder of that name.
func (q *requesters) of(namespace, name string) (a requester, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a, found = q.now[placeKey{namespace, name}]; !found {
		a, found = q.before[placeKey{namespace, name}]
	}
	return a, found
}

// forgetUnasked drops groups that did not ask since the last time, and placements that no group asks for.
func (q *requesters) forgetUnasked() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now, q.before = q.before, q.now
	clear(q.now)
	if len(q.placements) == 0 {
		return
	}
	used := map[plan.Home]bool{}
	for _, a := range q.before {
		used[a.placement] = true
	}
	for placement := range q.placements {
		if !used[placement] {
			delete(q.placements, placement)
		}
	}
}

// folderOf returns the result of the last lookup of a placement, or nil.
func (q *requesters) folderOf(placement plan.Home) *GroupFolder {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.placements[placement]
}

// keep keeps the result of a lookup until a place changes, or until a group says which datacenter is meant.
func (q *requesters) keep(f *GroupFolder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if old := q.placements[f.placement]; old == nil || old.datacenter == "" {
		q.placements[f.placement] = f
	}
}

// forgetFolders drops the results of all lookups.
func (q *requesters) forgetFolders() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.placements)
}

// lookUpAgain looks all placements up again, and reports whether any is elsewhere. It calls lookUp with its lock held.
func (q *requesters) lookUpAgain(lookUp func(placement plan.Home, old *GroupFolder) *GroupFolder) (moved bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for placement, old := range q.placements {
		f := lookUp(placement, old)
		q.placements[placement] = f
		moved = moved || !f.sameAs(old)
	}
	return moved
}

// haveRoot reports whether a folder is the root of a placement.
func (q *requesters) haveRoot(ref string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range q.placements {
		if f.Root == ref {
			return true
		}
	}
	return false
}
