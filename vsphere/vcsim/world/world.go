package world

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// World is the inventory and its lock. Writers hold the lock for writing and readers for reading, before the lock of any object.
type World struct {
	rwLock
	*Changes
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

// New returns the world of a created model.
func New(m *simulator.Model) *World {
	w := &World{model: m, Service: m.Service, Objects: m.Map(), Changes: newChanges()}
	w.Ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Enter announces work that Drain waits for and that Leave ends; false if the world has ended.
func (w *World) Enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	return true
}

// Leave ends the work that Enter announced.
func (w *World) Leave() { w.running.Done() }

// End ends the context and rejects new work; false if the world had already ended.
func (w *World) End() bool {
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
func (w *World) Drain() error {
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
func (w *World) NextID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	return w.lastID
}

// Context returns a new context, which identifies a lock holder to the simulator, with the simulator's own session.
func (w *World) Context() *simulator.Context { return Fork(w.Service.Context) }

// Fork copies a context. The simulator identifies lock holders by the context's address, so work that outlives its call needs its own.
func Fork(ctx *simulator.Context) *simulator.Context {
	c := *ctx
	return &c
}

// Root returns the root folder.
func (w *World) Root() types.ManagedObjectReference { return w.model.ServiceContent.RootFolder }

// SessionLives reports whether a session has not ended.
func (w *World) SessionLives(ctx *simulator.Context, key, user string) bool {
	body := w.Objects.SessionManager().SessionIsActive(ctx, &types.SessionIsActive{
		SessionID: key, UserName: user,
	}).(*methods.SessionIsActiveBody)
	return body.Res != nil && body.Res.Returnval
}

// AdminUser is Admin's user name. Latency, faults, withdrawn privileges, outages and counters do not apply to it.
const AdminUser = "Administrator@VSPHERE.LOCAL"

// IsAdmin reports whether a session is Admin's.
func IsAdmin(s *simulator.Session) bool { return s != nil && s.UserName == AdminUser }
