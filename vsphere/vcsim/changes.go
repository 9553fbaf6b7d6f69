package vcsim

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// changes knows which objects changed since when. It listens to the whole registry, and is told what
// the simulator changes without announcing it.
type changes struct {
	mu   sync.Mutex
	now  uint64
	at   map[types.ManagedObjectReference]uint64
	wake chan struct{} // closed and replaced at each change
}

func newChanges() *changes {
	return &changes{at: make(map[types.ManagedObjectReference]uint64), wake: make(chan struct{})}
}

// mark says that these objects changed. Whoever marks before the world is released is in time.
func (c *changes) mark(refs ...types.ManagedObjectReference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	for _, ref := range refs {
		c.at[ref] = c.now
	}
	close(c.wake)
	c.wake = make(chan struct{})
}

// read returns the present time, and a channel that the next change closes.
func (c *changes) read() (now uint64, next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.wake
}

func (c *changes) since(ref types.ManagedObjectReference, then uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[ref] > then
}

// Reference implements simulator.RegisterObject: a name among the registry's listeners.
func (c *changes) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VcsimChanges", Value: "changes"}
}

// PutObject implements simulator.RegisterObject.
func (c *changes) PutObject(_ *simulator.Context, o mo.Reference) {
	c.mark(o.Reference())
	c.markParent(o)
}

// UpdateObject implements simulator.RegisterObject.
func (c *changes) UpdateObject(_ *simulator.Context, o mo.Reference, _ []types.PropertyChange) {
	c.mark(o.Reference())
}

// RemoveObject implements simulator.RegisterObject. It is called while the object is still there.
func (c *changes) RemoveObject(ctx *simulator.Context, ref types.ManagedObjectReference) {
	c.mark(ref)
	if ctx.Map != nil {
		c.markParent(ctx.Map.Get(ref))
	}
	c.mu.Lock()
	delete(c.at, ref)
	c.mu.Unlock()
}

// markParent marks the folder whose childEntity the simulator changes without a word.
func (c *changes) markParent(o mo.Reference) {
	if e, ok := o.(mo.Entity); ok && e.Entity().Parent != nil {
		c.mark(*e.Entity().Parent)
	}
}
