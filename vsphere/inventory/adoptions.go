package inventory

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// adoptCandidate is an unmanaged VM that groups want to adopt. The inventory keeps more of it than of other unmanaged VMs.
type adoptCandidate struct {
	machine *Machine // immutable; nil until it was read whole
	groups  map[types.UID]bool
	used    bool // a group asked for it since the last forgetAdoptCandidates
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
