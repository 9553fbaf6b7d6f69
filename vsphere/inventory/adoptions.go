package inventory

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// adoptions has the unmanaged VMs that groups want to adopt, and the answers of which ones they can. Both are forgotten if no group asks again.
type adoptions struct {
	mu         sync.Mutex
	answers    map[types.UID]*adoption
	candidates map[string]*adoptCandidate // by moRef
	previews   map[string]previewReading  // VMs that were read for a preview, by moRef
}

// adoptCandidate is an unmanaged VM that groups want to adopt. The inventory keeps more of it than of other unmanaged VMs.
type adoptCandidate struct {
	machine *Machine // immutable; nil until it was read whole
	groups  map[types.UID]bool
	used    bool // a group asked for it since the last forgetUnasked
}

// adoption has the candidates that a group's entries of spec.adopt name in one version of the inventory.
type adoption struct {
	version    uint64
	ref        plan.Ref
	at         *GroupFolder
	entries    []string
	candidates []plan.Candidate
}

// previewReading is an unmanaged VM of which all properties were read for a preview.
type previewReading struct {
	machine *Machine
	at      time.Time
}

const (
	// previewFor is how long a previewReading is used, and previewsMost bounds their number.
	previewFor   = 10 * time.Second
	previewsMost = 2 * v1alpha1.MaxReplicas
)

// reset forgets everything, because vCenter is another one.
func (x *adoptions) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answers, x.candidates, x.previews = map[types.UID]*adoption{}, map[string]*adoptCandidate{}, map[string]previewReading{}
}

// answerTo returns the last answer to a group, or nil.
func (x *adoptions) answerTo(uid types.UID) *adoption {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answers[uid]
}

// keepAnswer keeps an answer to a group.
func (x *adoptions) keepAnswer(uid types.UID, a *adoption) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answers[uid] = a
}

// forgetAnswer drops the answer to a group.
func (x *adoptions) forgetAnswer(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.answers, uid)
}

// ask returns a candidate of which all properties were read, or nil. From now on it is read whole, and the group is notified of the result, and of
// every later change. fresh reports whether no group asked for it before.
func (x *adoptions) ask(uid types.UID, moRef string) (m *Machine, fresh bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, known := x.candidates[moRef]
	if !known {
		c = &adoptCandidate{groups: map[types.UID]bool{}}
		x.candidates[moRef] = c
	}
	c.used, c.groups[uid] = true, true
	return c.machine, !known
}

// known returns a VM of which all properties were read, as a candidate or for a preview; nil if there is none.
func (x *adoptions) known(moRef string) *Machine {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.candidates[moRef]; c != nil && c.machine != nil {
		return c.machine
	}
	if g := x.previews[moRef]; time.Since(g.at) < previewFor {
		return g.machine
	}
	return nil
}

// put keeps what was read of an unmanaged VM, if a group wants to adopt it.
func (x *adoptions) put(m *Machine, w *changes) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.candidates[m.MoRef]
	if c == nil || !m.Whole || c.machine != nil && reflect.DeepEqual(c.machine, m) {
		return
	}
	kept := *m
	c.machine = &kept
	for uid := range c.groups {
		w.fire[uid] = true
	}
}

// drop drops a VM that became a member or is gone.
func (x *adoptions) drop(ref string, w *changes) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.candidates[ref]; c != nil {
		delete(x.candidates, ref)
		for uid := range c.groups {
			w.fire[uid] = true
		}
	}
}

// forgetUnasked drops the candidates that no group asked for since its last call, and all answers: groups that still exist ask again.
func (x *adoptions) forgetUnasked() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for ref, c := range x.candidates {
		if !c.used {
			delete(x.candidates, ref)
		}
		c.used = false
	}
	clear(x.answers)
}

// putPreviews keeps what was read for a preview.
func (x *adoptions) putPreviews(all []Machine, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.previews, func(_ string, g previewReading) bool { return now.Sub(g.at) >= previewFor })
	for i := range all {
		if len(x.previews) < previewsMost {
			x.previews[all[i].MoRef] = previewReading{&all[i], now}
		}
	}
}

// refs returns the moRefs of the candidates.
func (x *adoptions) refs() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.candidates))
}
