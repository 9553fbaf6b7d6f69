// Package inflight tracks the steps in flight, and reports those that are stalled until they progress or end.
//
// Locks: Steps.mu is taken before those of packages inventory and tasks.
package inflight

import (
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// QuestionTimeout is how long a step keeps its slot while its VM waits for an operator's answer. An operator on duty answers within a
	// minute; without one, the answer may take hours.
	QuestionTimeout = time.Minute
	// ProgressTimeout is the same for a task without progress. It is longer than vCenter takes for one percent of a large clone (1 TB at
	// 20 MB/s: 9 minutes).
	ProgressTimeout = 10 * time.Minute
	// StallInterval is how often a step is checked for a stall.
	StallInterval = time.Minute
)

// Steps tracks the running steps and their tasks.
type Steps struct {
	inventory *inventory.Inventory
	tasks     *tasks.Tasks
	// changed tells the loop to plan a group again.
	changed func(group apitypes.UID)

	mu    sync.Mutex
	steps map[apitypes.UID]map[string]*flight // by group and Action.Key
}

// flight is a running step. A group has at most one for each VM.
type flight struct {
	op    plan.Op
	moRef string
	began time.Time
	task  types.ManagedObjectReference // the last one that the step began
	host  string                       // the moRef of the host chosen for a clone
}

// New returns a Steps without steps.
func New(n *inventory.Inventory, t *tasks.Tasks, changed func(group apitypes.UID)) *Steps {
	return &Steps{inventory: n, tasks: t, changed: changed, steps: map[apitypes.UID]map[string]*flight{}}
}

// Begin tracks a step until ends is called. While the step is stalled, its slot is free for others, and its group is planned again every
// StallInterval.
func (u *Steps) Begin(group apitypes.UID, a plan.Action) (ends func()) {
	s := &flight{op: a.Op, moRef: a.MoRef, began: time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.steps[group] == nil {
		u.steps[group] = map[string]*flight{}
	}
	u.steps[group][a.Key] = s
	var look *time.Timer
	look = time.AfterFunc(StallInterval, func() {
		u.mu.Lock()
		on := u.steps[group][a.Key] == s
		stalled := on && u.stall(s) != nil
		if on {
			look.Reset(StallInterval)
		}
		u.mu.Unlock()
		if stalled {
			u.changed(group)
		}
	})
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		look.Stop()
		if u.steps[group][a.Key] == s {
			delete(u.steps[group], a.Key)
		}
		if len(u.steps[group]) == 0 {
			delete(u.steps, group)
		}
	}
}

// Removing reports whether any group has a step that removes a VM, disk or folder, so that another deletion may be about to end.
func (u *Steps) Removing() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, steps := range u.steps {
		for _, s := range steps {
			if s.op.TakesAway() && s.op != plan.ConfirmGone {
				return true
			}
		}
	}
	return false
}

// Await records the task that a step waits for. vm is the step's Action.Key.
func (u *Steps) Await(group apitypes.UID, vm string, task types.ManagedObjectReference) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.steps[group][vm]; s != nil {
		s.task = task
	}
}

// Place chooses a host for a clone, and records the choice. choose gets the number of the group's running clones by the moRef of their host, and
// returns a host, or nil.
func (u *Steps) Place(group apitypes.UID, vm string, choose func(on map[string]int) *types.ManagedObjectReference) {
	u.mu.Lock()
	defer u.mu.Unlock()
	on := map[string]int{}
	for _, s := range u.steps[group] {
		on[s.host]++
	}
	host := choose(on)
	if s := u.steps[group][vm]; s != nil && host != nil {
		s.host = host.Value
	}
}

// Stalled returns why a group's stalled steps are stalled, by Action.Key; nil if no step is.
func (u *Steps) Stalled(group apitypes.UID) (all map[string]plan.Fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for vm, s := range u.steps[group] {
		fault := u.stall(s)
		if fault == nil {
			continue
		}
		if all == nil {
			all = map[string]plan.Fault{}
		}
		all[vm] = *fault
	}
	return all
}

// stall returns why a step is stalled, or nil. The caller holds mu.
func (u *Steps) stall(s *flight) *plan.Fault {
	if m := u.inventory.Member(s.moRef); m != nil && m.Question != "" && time.Since(s.began) >= QuestionTimeout {
		return &vcfault.ForOperator(vcfault.ReasonQuestionPending, "The VM waits for an answer in vCenter: %s", m.Question).Fault
	}
	if s.task.Value != "" && u.tasks.Still(s.task) >= ProgressTimeout {
		return &vcfault.ForOperator(vcfault.ReasonTaskStalled,
			"vCenter's task has made no progress for %d minutes: find in vCenter's task list what it waits for, or cancel it there.", int(ProgressTimeout.Minutes())).Fault
	}
	return nil
}
