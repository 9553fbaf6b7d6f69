package vcsim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// world is the inventory, and who may look at it when. Whatever changes it holds the lock for writing, whatever reads it
// holds it for reading, and both take it before any lock of an object.
type world struct {
	rwLock
	*changes
	model   *simulator.Model
	service *simulator.Service
	objects *simulator.Registry

	// ctx ends with close; running counts what close waits for.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	closed bool
	lastID int
}

// newWorld is the world of a model that has been created.
func newWorld(m *simulator.Model) *world {
	w := &world{model: m, service: m.Service, objects: m.Map(), changes: newChanges()}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// enter announces work that close must wait for, and whose end leave announces; false: it is too late to begin any.
func (w *world) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	return true
}

// leave ends what enter began.
func (w *world) leave() { w.running.Done() }

// end ends the world's context, and lets nothing more begin; false: it has ended before.
func (w *world) end() bool {
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
func (w *world) drain() error {
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

// nextID is a number that no other call, task or VM of this world has.
func (w *world) nextID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	return w.lastID
}

// context is a fresh identity for the simulator's locks, with the simulator's own session.
func (w *world) context() *simulator.Context { return fork(w.service.Context) }

// fork copies a context. The simulator's locks belong to a context's address, so work that outlives
// its call needs a context of its own.
func fork(ctx *simulator.Context) *simulator.Context {
	c := *ctx
	return &c
}

// root is the root folder.
func (w *world) root() types.ManagedObjectReference { return w.model.ServiceContent.RootFolder }

// sessionLives reports whether a session has not ended.
func (w *world) sessionLives(ctx *simulator.Context, key, user string) bool {
	body := w.objects.SessionManager().SessionIsActive(ctx, &types.SessionIsActive{
		SessionID: key, UserName: user,
	}).(*methods.SessionIsActiveBody)
	return body.Res != nil && body.Res.Returnval
}

// adminUser is who Admin is logged in as. Nothing that tests do to a vCenter's clients happens to it:
// no latency, no faults, no lost rights, no outages, no counting.
const adminUser = "Administrator@VSPHERE.LOCAL"

func isAdmin(s *simulator.Session) bool { return s != nil && s.UserName == adminUser }
