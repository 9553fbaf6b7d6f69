// Package underway tracks the running steps: which of them stand still, and where clones go. It promises that a step that stands still
// is reported until it makes progress or ends.
//
// Locks: Steps.mu is taken before those of packages inventory and tasks.
package underway

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
	// QuestionPatience is how long a step may wait for the answer to its VM's question before it gives its slot back. Nobody is at the
	// console at night; an operator who is there, and sees the condition, answers within a minute.
	QuestionPatience = time.Minute
	// ProgressPatience is the same for a task without progress: longer than vCenter takes for one percent of a
	// large clone (1 TB at 20 MB/s: 9 minutes).
	ProgressPatience = 10 * time.Minute
	// Every is how often a step is checked for that.
	Every = time.Minute
)

// Steps are the running steps, and their tasks.
type Steps struct {
	inventory *inventory.Inventory
	tasks     *tasks.Tasks
	// changed makes the loop plan a group again.
	changed func(group apitypes.UID)

	mu    sync.Mutex
	steps map[apitypes.UID]map[string]*step // by group and Action.VM
}

// step is a running step. Its group's other steps are for other VMs.
type step struct {
	op    plan.Op
	moRef string
	began time.Time
	task  types.ManagedObjectReference // the newest
	host  string                       // chosen for a clone
}

// New returns Steps without any step.
func New(n *inventory.Inventory, t *tasks.Tasks, changed func(group apitypes.UID)) *Steps {
	return &Steps{inventory: n, tasks: t, changed: changed, steps: map[apitypes.UID]map[string]*step{}}
}

// Begin adds a step until ends is called. While it stands still, its group is planned again now and then: its slot is free.
func (u *Steps) Begin(group apitypes.UID, a plan.Action) (ends func()) {
	s := &step{op: a.Op, moRef: a.MoRef, began: time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.steps[group] == nil {
		u.steps[group] = map[string]*step{}
	}
	u.steps[group][a.VM] = s
	var look *time.Timer
	look = time.AfterFunc(Every, func() {
		u.mu.Lock()
		on := u.steps[group][a.VM] == s
		stands := on && u.standstill(s) != nil
		if on {
			look.Reset(Every)
		}
		u.mu.Unlock()
		if stands {
			u.changed(group)
		}
	})
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		look.Stop()
		if u.steps[group][a.VM] == s {
			delete(u.steps[group], a.VM)
		}
		if len(u.steps[group]) == 0 {
			delete(u.steps, group)
		}
	}
}

// TakingAway reports whether a step of any group takes something away, so that a group may be gone soon.
func (u *Steps) TakingAway() bool {
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

// Await notes the task that a step waits for; vm is its Action.VM.
func (u *Steps) Await(group apitypes.UID, vm string, task types.ManagedObjectReference) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.steps[group][vm]; s != nil {
		s.task = task
	}
}

// Place chooses a host for a clone, and notes it. choose gets how many of the group's running clones go onto which hosts, by
// moRef, and returns one, or nil.
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

// Stalled returns a group's steps that stand still, by Action.VM, and why; nil if there are none.
func (u *Steps) Stalled(group apitypes.UID) (all map[string]plan.Fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for vm, s := range u.steps[group] {
		fault := u.standstill(s)
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

// standstill returns why a step stands still; nil if it does not. The caller holds mu.
func (u *Steps) standstill(s *step) *plan.Fault {
	if m := u.inventory.Member(s.moRef); m != nil && m.Question != "" && time.Since(s.began) >= QuestionPatience {
		return &vcfault.New(vcfault.ReasonQuestionPending, true, "The VM waits for an answer in vCenter: %s", m.Question).Fault
	}
	if s.task.Value != "" && u.tasks.Still(s.task) >= ProgressPatience {
		return &vcfault.New(vcfault.ReasonTaskStalled, true,
			"vCenter's task for it has made no progress for %d minutes: look in vCenter's list of tasks what it waits for, or cancel it there.", int(ProgressPatience.Minutes())).Fault
	}
	return nil
}
