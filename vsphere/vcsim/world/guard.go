package world

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Guard is what the simulator locks around a call of a wrapped object: the world, and then the object itself. A call that
// only begins a task holds the world for reading, too: who holds it for writing may sleep (the simulator's Task.Wait does),
// with locks of objects held, and those do not block durably (lock.go).
type Guard struct {
	world   *World
	Ctx     *simulator.Context
	Method  string
	object  *types.ManagedObjectReference // nil: the call looks after its locks itself
	write   bool                          // the call itself changes the inventory
	release func()
}

// Guard is one of nothing, for a call of a method.
func (w *World) Guard(ctx *simulator.Context, method string) *Guard {
	return &Guard{world: w, Ctx: ctx, Method: method}
}

// Protect has it guard an object; write: the call itself changes the inventory.
func (g *Guard) Protect(object types.ManagedObjectReference, write bool) {
	g.object, g.write = &object, write
}

// Lock implements sync.Locker, which the simulator looks for.
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
		g.world.Mark(*g.object) // the simulator announces not everything it changes
	}
	g.release()
	if g.write {
		g.world.Unlock()
	} else {
		g.world.RUnlock()
	}
}
