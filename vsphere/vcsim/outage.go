package vcsim

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

// Down cuts all connections and resets every new one. What is under way goes on, unheard.
func (v *VCenter) Down() { v.gate.set(down) }

// Stall makes a black hole: connections are accepted, and nothing is answered until Up or Down.
func (v *VCenter) Stall() { v.gate.set(stalled) }

// Up ends an outage. Address, inventory, sessions and tasks are as before.
func (v *VCenter) Up() { v.gate.set(up) }

// Restart cuts all connections and forgets all sessions and tasks: the old sessions are NotAuthenticated,
// the old tasks ManagedObjectNotFound. What was running is still carried out, with no task to tell of
// it: a clone appears after the restart. Admin keeps its session.
func (v *VCenter) Restart() {
	v.Down()
	v.DropSessions()
	v.forgetTasks()
	v.Up()
}

func (v *VCenter) forgetTasks() {
	v.world.Lock()
	defer v.world.Unlock()
	ctx := v.world.context()
	for _, task := range v.objects.AllReference("Task") {
		v.objects.Remove(ctx, task.Reference())
	}
	for _, e := range v.objects.All("") {
		v.objects.WithLock(ctx, e.Reference(), func() { e.Entity().RecentTask = nil })
	}
	tm := v.taskManager()
	tm.Lock()
	defer tm.Unlock()
	v.objects.Update(ctx, tm, []types.PropertyChange{{Name: "recentTask", Val: []types.ManagedObjectReference{}}})
}

func (v *VCenter) taskManager() *simulator.TaskManager {
	content := v.objects.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content
	return v.objects.Get(*content.TaskManager).(*simulator.TaskManager)
}
