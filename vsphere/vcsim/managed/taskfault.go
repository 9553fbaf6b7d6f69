package managed

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// taskFault is a fault that FailTask injects.
type taskFault struct {
	world.Repeats
	kind  Kind
	match func(name string) bool
	fault types.BaseMethodFault
}

// FailTask makes this many tasks of a kind end in a fault after their latency; 0: all. match gets the name of the VM (of a clone: the new
// one), folder or cluster; nil: any. For ShutdownGuest, the guest does not halt.
func (v *Objects) FailTask(kind Kind, match func(vmName string) bool, fault types.BaseMethodFault, times int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.taskFaults = append(v.taskFaults, &taskFault{kind: kind, match: match, fault: fault, Repeats: world.NewRepeats(times)})
}

// HealTasks withdraws the faults of FailTask.
func (v *Objects) HealTasks() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.taskFaults = nil
}

// failure returns the fault to inject into a task, or nil.
func (v *Objects) failure(kind Kind, name string) types.BaseMethodFault {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.taskFaults, func(o *taskFault) bool {
		return o.kind == kind && (o.match == nil || o.match(name)) && o.Take()
	})
	if i < 0 {
		return nil
	}
	return v.taskFaults[i].fault
}
