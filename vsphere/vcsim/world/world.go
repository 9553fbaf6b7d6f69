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

// World is the inventory, and who may look at it when. Whatever changes it holds the lock for writing, whatever reads it
// holds it for reading, and both take it before any lock of an object.
type World struct {
	rwLock
	*Changes
	model   *simulator.Model
	Service *simulator.Service
	Objects *simulator.Registry

	// Ctx ends with close; running counts what close waits for.
	Ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	lastID int
}

// New is the world of a model that has been created.
func New(m *simulator.Model) *World {
	w := &World{model: m, Service: m.Service, Objects: m.Map(), Changes: newChanges()}
	w.Ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Enter announces work that close must wait for, and whose end leave announces; false: it is too late to begin any.
func (w *World) Enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	return true
}

// Leave ends what enter began.
func (w *World) Leave() { w.running.Done() }

// End ends the world's context, and lets nothing more begin; false: it has ended before.
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

// wait waits for all that was under way when the world ended, and removes its files.
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

// NextID is a number that no other call, task or VM of this world has.
func (w *World) NextID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	return w.lastID
}

// Context is a fresh identity for the simulator's locks, with the simulator's own session.
func (w *World) Context() *simulator.Context { return Fork(w.Service.Context) }

// Fork copies a context. The simulator's locks belong to a context's address, so work that outlives
// its call needs a context of its own.
func Fork(ctx *simulator.Context) *simulator.Context {
	c := *ctx
	return &c
}

// Root is the root folder.
func (w *World) Root() types.ManagedObjectReference { return w.model.ServiceContent.RootFolder }

// SessionLives reports whether a session has not ended.
func (w *World) SessionLives(ctx *simulator.Context, key, user string) bool {
	body := w.Objects.SessionManager().SessionIsActive(ctx, &types.SessionIsActive{
		SessionID: key, UserName: user,
	}).(*methods.SessionIsActiveBody)
	return body.Res != nil && body.Res.Returnval
}

// AdminUser is who Admin is logged in as. Nothing that tests do to a vCenter's clients happens to it:
// no latency, no faults, no lost rights, no outages, no counting.
const AdminUser = "Administrator@VSPHERE.LOCAL"

// IsAdmin reports whether a session is Admin's.
func IsAdmin(s *simulator.Session) bool { return s != nil && s.UserName == AdminUser }
