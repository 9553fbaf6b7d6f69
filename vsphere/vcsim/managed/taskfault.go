package managed

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// taskOrder is a fault that tests have ordered for tasks.
type taskOrder struct {
	world.Repeats
	kind  Kind
	match func(name string) bool
	fault types.BaseMethodFault
}

// FailTask makes that many tasks of a kind end in a fault, after their latency; times 0: all of them.
// match is given the name of the VM (of a clone: the new one), folder or cluster; nil: any. A ShutdownGuest
// that fails is a guest that does not halt.
func (v *Objects) FailTask(kind Kind, match func(vmName string) bool, fault types.BaseMethodFault, times int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.orders = append(v.orders, &taskOrder{kind: kind, match: match, fault: fault, Repeats: world.NewRepeats(times)})
}

// HealTasks withdraws what FailTask ordered.
func (v *Objects) HealTasks() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.orders = nil
}

// failure is what is ordered for a task; nil: nothing.
func (v *Objects) failure(kind Kind, name string) types.BaseMethodFault {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.orders, func(o *taskOrder) bool {
		return o.kind == kind && (o.match == nil || o.match(name)) && o.Take()
	})
	if i < 0 {
		return nil
	}
	return v.orders[i].fault
}
