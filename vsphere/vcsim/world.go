package vcsim

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// world is the inventory and its lock. Each call that does not wait holds the lock, and so does all other code that reads or changes the inventory.
type world struct {
	lock
	*changes
	model   *simulator.Model
	Service *simulator.Service
	Objects *simulator.Registry

	// Ctx ends with End; running counts the work that Drain waits for.
	Ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	lastID int
}

// newWorld returns the world of a created model.
func newWorld(m *simulator.Model) *world {
	w := &world{lock: newLock(), model: m, Service: m.Service, Objects: m.Map(), changes: newChanges()}
	w.Ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Enter announces work that Drain waits for and that Leave ends; false if the world has ended.
func (w *world) Enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	return true
}

// Leave ends the work that Enter announced.
func (w *world) Leave() { w.running.Done() }

// End ends the context and rejects new work; false if the world had already ended.
func (w *world) End() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.closed = true
	w.cancel()
	return true
}

// Drain waits for the work that was running when the world ended, and removes its files.
func (w *world) Drain() error {
	done := make(chan struct{})
	go func() { w.running.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		err = errors.New("close: a call or a task of the simulator did not end")
	}
	w.model.Remove()
	return err
}

// NextID returns a unique number for a call, task or VM of this world.
func (w *world) NextID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	return w.lastID
}

// Context returns a new context, which identifies a lock holder to the simulator, with the simulator's own session.
func (w *world) Context() *simulator.Context { return fork(w.Service.Context) }

// fork copies a context. The simulator identifies lock holders by the context's address, so work that outlives its call needs its own.
func fork(ctx *simulator.Context) *simulator.Context {
	c := *ctx
	return &c
}

// Root returns the root folder.
func (w *world) Root() types.ManagedObjectReference { return w.model.ServiceContent.RootFolder }

// SessionLives reports whether a session has not ended.
func (w *world) SessionLives(ctx *simulator.Context, key, user string) bool {
	body := w.Objects.SessionManager().SessionIsActive(ctx, &types.SessionIsActive{
		SessionID: key, UserName: user,
	}).(*methods.SessionIsActiveBody)
	return user == adminUser || body.Res != nil && body.Res.Returnval
}

// These locks can be held across a sleep or a wait. A goroutine waiting for a sync.Mutex is not durably blocked, so in a
// testing/synctest bubble the holder's sleep never ends; a goroutine waiting for these locks is durably blocked.
// (See https://pkg.go.dev/testing/synctest#hdr-Blocking.)
//
// The simulator's locks of objects are sync.Mutexes, and it sleeps with some of them held. So hold the world before you wait for one.

// lock is a mutex. newLock creates one.
type lock chan struct{}

// newLock returns an unlocked Lock.
func newLock() lock { return make(lock, 1) }

// Lock implements sync.Locker.
func (l lock) Lock() { l <- struct{}{} }

// Unlock implements sync.Locker.
func (l lock) Unlock() { <-l }

// changes records which objects changed when. changes listens to the whole registry; Mark adds the changes that the simulator does not
// announce.
type changes struct {
	mu   sync.Mutex
	now  uint64
	at   map[types.ManagedObjectReference]uint64
	wake chan struct{} // closed and replaced at each change
}

func newChanges() *changes {
	return &changes{at: make(map[types.ManagedObjectReference]uint64), wake: make(chan struct{})}
}

// Mark records that these objects changed. Call Mark before releasing the world lock.
func (c *changes) Mark(refs ...types.ManagedObjectReference) {
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
func (c *changes) Read() (now uint64, next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.wake
}

// ChangedSince reports whether an object changed after a time that Read returned.
func (c *changes) ChangedSince(ref types.ManagedObjectReference, then uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[ref] > then
}

// Since lists the objects that changed after a time that Read returned, in the order of their changes, without those that were removed.
func (c *changes) Since(then uint64) (changed []types.ManagedObjectReference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref, at := range c.at {
		if at > then {
			changed = append(changed, ref)
		}
	}
	slices.SortFunc(changed, func(a, b types.ManagedObjectReference) int {
		return cmp.Or(cmp.Compare(c.at[a], c.at[b]), strings.Compare(a.Value, b.Value))
	})
	return changed
}

// Reference implements simulator.RegisterObject. It identifies the listener in the registry.
func (c *changes) Reference() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VcsimChanges", Value: "changes"}
}

// PutObject implements simulator.RegisterObject.
func (c *changes) PutObject(_ *simulator.Context, o mo.Reference) {
	c.Mark(o.Reference())
	c.MarkParent(o)
}

// UpdateObject implements simulator.RegisterObject.
func (c *changes) UpdateObject(_ *simulator.Context, o mo.Reference, _ []types.PropertyChange) {
	c.Mark(o.Reference())
}

// RemoveObject implements simulator.RegisterObject. The object still exists during the call.
func (c *changes) RemoveObject(ctx *simulator.Context, ref types.ManagedObjectReference) {
	c.Mark(ref)
	if ctx.Map != nil {
		c.MarkParent(ctx.Map.Get(ref))
	}
	c.mu.Lock()
	delete(c.at, ref)
	c.mu.Unlock()
}

// MarkParent marks the folder of an object: the simulator does not announce changes of childEntity.
func (c *changes) MarkParent(o mo.Reference) {
	if e, ok := o.(mo.Entity); ok && e.Entity().Parent != nil {
		c.Mark(*e.Entity().Parent)
	}
}

// MissingArgument returns ManagedObjectNotFound if a request refers to a missing object, as vCenter does. The simulator panics on many.
func (w *world) MissingArgument(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	for _, ref := range references(reflect.ValueOf(m.Body), nil) {
		if ref.Value != "" && w.Objects.Get(ref) == nil && ctx.Session.Get(ref) == nil {
			return &types.ManagedObjectNotFound{Obj: ref}
		}
	}
	return nil
}

// references collects all references in a request, at any depth, that vCenter uses ([doc] VirtualEthernetCardNetworkBackingInfo.network: "This is not used
// during configuration").
func references(value reflect.Value, refs []types.ManagedObjectReference) []types.ManagedObjectReference {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			refs = references(value.Elem(), refs)
		}
	case reflect.Slice:
		for i := range value.Len() {
			refs = references(value.Index(i), refs)
		}
	case reflect.Struct:
		if ref, ok := value.Interface().(types.ManagedObjectReference); ok {
			return append(refs, ref)
		}
		if _, network := value.Interface().(types.VirtualEthernetCardNetworkBackingInfo); network {
			return refs
		}
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				refs = references(value.Field(i), refs)
			}
		}
	}
	return refs
}

// Up yields an object and its ancestors, from the inside out. The caller holds the world lock.
func (w *world) Up(ref types.ManagedObjectReference) iter.Seq[types.ManagedObjectReference] {
	return func(yield func(types.ManagedObjectReference) bool) {
		for at := &ref; at != nil && yield(*at); at = w.ParentOf(*at) {
		}
	}
}

// Path returns an object's inventory path. The caller holds the world lock.
func (w *world) Path(ref types.ManagedObjectReference) string {
	var names []string
	for at := range w.Up(ref) {
		if e, ok := w.Objects.Get(at).(mo.Entity); ok && at != w.Root() { // the root has no name here
			names = append(names, e.Entity().Name)
		}
	}
	slices.Reverse(names)
	return "/" + strings.Join(names, "/")
}

// At returns the object at an inventory path, or nil. The caller holds the world lock.
func (w *world) At(path string) *types.ManagedObjectReference {
	root := w.Root()
	at := &root
	for _, name := range strings.FieldsFunc(path, func(c rune) bool { return c == '/' }) {
		if at = w.Child(*at, name); at == nil {
			break
		}
	}
	return at
}

// Child finds a child of an object by name, also in a datastore cluster, where the simulator does not. The caller holds the world lock.
func (w *world) Child(in types.ManagedObjectReference, name string) *types.ManagedObjectReference {
	if pod, is := w.Objects.Get(in).(*simulator.StoragePod); is {
		if found := w.Objects.FindByName(name, pod.ChildEntity); found != nil {
			return types.NewReference(found.Reference())
		}
		return nil
	}
	body := w.Objects.SearchIndex().FindChild(w.Context(), &types.FindChild{Entity: in, Name: name}).(*methods.FindChildBody)
	if body.Res == nil { // the object is missing
		return nil
	}
	return body.Res.Returnval
}

// Below reports whether an object is ancestor itself or inside it.
func (w *world) Below(ref, ancestor types.ManagedObjectReference) bool {
	for at := range w.Up(ref) {
		if at == ancestor {
			return true
		}
	}
	return false
}

// ParentOf returns an object's parent, or nil. The caller holds the world lock.
func (w *world) ParentOf(ref types.ManagedObjectReference) *types.ManagedObjectReference {
	e, ok := w.Objects.Get(ref).(mo.Entity)
	if !ok {
		return nil
	}
	return e.Entity().Parent
}

// DatacenterOf returns an object's datacenter, or nil. The caller holds the world lock.
func (w *world) DatacenterOf(ref types.ManagedObjectReference) *simulator.Datacenter {
	for at := range w.Up(ref) {
		if dc, is := w.Objects.Get(at).(*simulator.Datacenter); is {
			return dc
		}
	}
	return nil
}

// escape returns a name as vCenter stores it, of a managed object or a first-class disk: [doc] ManagedEntity.name: %, / and \ are escaped;
// vmware/rbvmomi#169 shows "%2f" in the name of a first-class disk.
func escape(name string) string {
	for _, c := range []string{"%", "/", `\`} {
		name = strings.ReplaceAll(name, c, strings.ToLower(url.QueryEscape(c)))
	}
	return name
}

// repeats counts how many more times an injected fault happens.
type repeats struct {
	left    int
	forever bool
}

// newRepeats allows this many times; 0: forever.
func newRepeats(times int) repeats { return repeats{left: times, forever: times == 0} }

// Take uses up one of the times; false if none is left.
func (r *repeats) Take() bool {
	if r.left == 0 && !r.forever {
		return false
	}
	r.left--
	return true
}
