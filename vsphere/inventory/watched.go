package inventory

import (
	"sync"

	"github.com/vmware/govmomi/vim25/types"
)

// watched are the objects that the stream has reported. It will report when they leave.
type watched struct {
	entered map[string]bool
	// checked are the objects that the stream did not report, and that were read for that reason.
	checked map[string]bool
}

// take notes the objects of an answer, and returns those that left.
func (w watched) take(set *types.UpdateSet) (left []string) {
	for _, filter := range set.FilterSet {
		for _, o := range filter.ObjectSet {
			if o.Kind == types.ObjectUpdateKindLeave {
				delete(w.entered, o.Obj.Value)
				left = append(left, o.Obj.Value)
				continue
			}
			w.entered[o.Obj.Value] = true
			delete(w.checked, o.Obj.Value)
		}
	}
	return left
}

// unreported are the objects that the stream may not have reported, by moRef: those that are new, or have left the stream.
type unreported struct {
	mu   sync.Mutex
	refs map[string]bool
}

// reset forgets everything, because vCenter is another one.
func (u *unreported) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refs = map[string]bool{}
}

// expect notes objects that the stream should report.
func (u *unreported) expect(moRefs ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, moRef := range moRefs {
		u.refs[moRef] = true
	}
}

// unwatched returns the objects that the stream has not reported and that were not read for that reason, and forgets those that it has reported, and
// those that known doesn't know. It calls known with its lock held.
func (u *unreported) unwatched(seen watched, known func(moRef string) (ref types.ManagedObjectReference, is bool)) (refs []types.ManagedObjectReference) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for moRef := range u.refs {
		ref, is := known(moRef)
		switch {
		case !is, seen.entered[moRef]:
			delete(u.refs, moRef)
		case !seen.checked[moRef]:
			refs = append(refs, ref)
		}
	}
	return refs
}
