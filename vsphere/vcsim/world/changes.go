package world

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Changes records which objects changed when. It listens to the whole registry; Mark adds the changes that the simulator does not announce.
type Changes struct {
	mu   sync.Mutex
	now  uint64
	at   map[types.ManagedObjectReference]uint64
	wake chan struct{} // closed and replaced at each change
}

func newChanges() *Changes {
	return &Changes{at: make(map[types.ManagedObjectReference]uint64), wake: make(chan struct{})}
}

// Mark records that these objects changed. Call it before releasing the world lock.
func (c *Changes) Mark(refs ...types.ManagedObjectReference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	for _, ref := range refs {
		c.at[ref] = c.now
	}
	close(c.wake)
	c.wake = make(chan struct{})
}

// Read returns the current time and a channel that the next change closes.
func (c *Changes) Read() (now uint64, next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.wake
}

// Since reports whether an object changed after a time that Read returned.
func (c *Changes) Since(ref types.ManagedObjectReference, then uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[ref] > then
}

// Reference implements simulator.RegisterObject. It identifies the listener in the registry.
func (c *Changes) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VcsimChanges", Value: "changes"}
}

// PutObject implements simulator.RegisterObject.
func (c *Changes) PutObject(_ *simulator.Context, o mo.Reference) {
	c.Mark(o.Reference())
	c.MarkParent(o)
}

// UpdateObject implements simulator.RegisterObject.
func (c *Changes) UpdateObject(_ *simulator.Context, o mo.Reference, _ []types.PropertyChange) {
	c.Mark(o.Reference())
}

// RemoveObject implements simulator.RegisterObject. The object still exists during the call.
func (c *Changes) RemoveObject(ctx *simulator.Context, ref types.ManagedObjectReference) {
	c.Mark(ref)
	if ctx.Map != nil {
		c.MarkParent(ctx.Map.Get(ref))
	}
	c.mu.Lock()
	delete(c.at, ref)
	c.mu.Unlock()
}

// MarkParent marks the folder of an object: the simulator does not announce changes of childEntity.
func (c *Changes) MarkParent(o mo.Reference) {
	if e, ok := o.(mo.Entity); ok && e.Entity().Parent != nil {
		c.Mark(*e.Entity().Parent)
	}
}
