package world

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Guard is the lock that the simulator takes around a call of a wrapped object: the world lock and then the object's own. A call that only
// begins a task takes the world lock for reading: its writers may sleep (the simulator's Task.Wait does) with object locks held, and
// waiting for those does not block durably (lock.go).
type Guard struct {
	world   *World
	Ctx     *simulator.Context
	Method  string
	object  *types.ManagedObjectReference // nil: the call takes its own locks
	write   bool                          // the call itself changes the inventory
	release func()
}

// Guard returns a guard for one call of a method, which protects no object yet.
func (w *World) Guard(ctx *simulator.Context, method string) *Guard {
	return &Guard{world: w, Ctx: ctx, Method: method}
}

// Protect makes the guard protect an object; write means that the call itself changes the inventory.
func (g *Guard) Protect(object types.ManagedObjectReference, write bool) {
	g.object, g.write = &object, write
}

// Lock implements sync.Locker.
func (g *Guard) Lock() {
	if g.object == nil {
		return
	}
	if g.write {
		g.world.Lock()
	} else {
		g.world.RLock()
	}
	g.release = g.world.Objects.AcquireLock(g.Ctx, *g.object)
}

// Unlock implements sync.Locker.
func (g *Guard) Unlock() {
	if g.object == nil {
		return
	}
	if g.write {
		g.world.Mark(*g.object) // the simulator does not announce all changes
	}
	g.release()
	if g.write {
		g.world.Unlock()
	} else {
		g.world.RUnlock()
	}
}
