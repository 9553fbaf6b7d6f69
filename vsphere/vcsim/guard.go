package vcsim

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// guard is what the simulator locks around a call of a wrapped object: the world, and then the object itself. A call that
// only begins a task holds the world for reading, too: who holds it for writing may sleep (the simulator's Task.Wait does),
// with locks of objects held, and those do not block durably (lock.go).
type guard struct {
	world   *world
	ctx     *simulator.Context
	method  string
	object  *types.ManagedObjectReference // nil: the call looks after its locks itself
	write   bool                          // the call itself changes the inventory
	release func()
}

// guard is one of nothing, for a call of a method.
func (w *world) guard(ctx *simulator.Context, method string) *guard {
	return &guard{world: w, ctx: ctx, method: method}
}

// protect has it guard an object; write: the call itself changes the inventory.
func (g *guard) protect(object types.ManagedObjectReference, write bool) {
	g.object, g.write = &object, write
}

// Lock implements sync.Locker, which the simulator looks for.
func (g *guard) Lock() {
	if g.object == nil {
		return
	}
	if g.write {
		g.world.Lock()
	} else {
		g.world.RLock()
	}
	g.release = g.world.objects.AcquireLock(g.ctx, *g.object)
}

// Unlock implements sync.Locker.
func (g *guard) Unlock() {
	if g.object == nil {
		return
	}
	if g.write {
		g.world.mark(*g.object) // the simulator announces not everything it changes
	}
	g.release()
	if g.write {
		g.world.Unlock()
	} else {
		g.world.RUnlock()
	}
}
