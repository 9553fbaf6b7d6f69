package vcsim

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"
)

// taskOrder is a fault that tests have ordered for tasks.
type taskOrder struct {
	repeats
	kind  Kind
	match func(name string) bool
	fault types.BaseMethodFault
}

// FailTask makes that many tasks of a kind end in a fault, after their latency; times 0: all of them.
// match is given the name of the VM (of a clone: the new one), folder or cluster; nil: any. A ShutdownGuest
// that fails is a guest that does not halt.
func (v *managedObjects) FailTask(kind Kind, match func(vmName string) bool, fault types.BaseMethodFault, times int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.orders = append(v.orders, &taskOrder{kind: kind, match: match, fault: fault, repeats: newRepeats(times)})
}

// HealTasks withdraws what FailTask ordered.
func (v *managedObjects) HealTasks() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.orders = nil
}

// failure is what is ordered for a task; nil: nothing.
func (v *managedObjects) failure(kind Kind, name string) types.BaseMethodFault {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.orders, func(o *taskOrder) bool {
		return o.kind == kind && (o.match == nil || o.match(name)) && o.take()
	})
	if i < 0 {
		return nil
	}
	return v.orders[i].fault
}
