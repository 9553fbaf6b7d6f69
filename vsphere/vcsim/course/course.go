// Package course decides the course of the embedded vCenter's tasks: how many run at once, which are held, and which fail.
package course

import (
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/world"
)

// Kind is a kind of task, by vCenter's TaskInfo.descriptionId.
type Kind string

// Latency is the duration of tasks by kind. Admin's tasks take no time.
type Latency struct {
	Clone       time.Duration
	Power       time.Duration // power on, power off, suspend, reset, and the guest's own shutdown and reboot
	Reconfigure time.Duration
	Other       time.Duration
}

// Course is what clients' tasks meet. The zero value lets all of them run and succeed.
type Course struct {
	Queue

	mu     sync.Mutex // guards what follows
	held   map[Kind]chan struct{}
	faults []*fault
}

// fault is a fault that FailTask injects.
type fault struct {
	world.Repeats
	kind  Kind
	match func(name string) bool
	fault types.BaseMethodFault
}

// Hold keeps tasks of a kind that begin from now on running until Release, for tests that a latency could end too early.
func (c *Course) Hold(kind Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[Kind]chan struct{}{}
	}
	if c.held[kind] == nil {
		c.held[kind] = make(chan struct{})
	}
}

// Release ends the tasks that Hold keeps running.
func (c *Course) Release(kind Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.held[kind]; held != nil {
		close(held)
		delete(c.held, kind)
	}
}

// Held returns what a task of a kind waits for; nil for nothing.
func (c *Course) Held(kind Kind) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[kind]
}

// FailTask makes this many tasks of a kind end in a fault after their latency; 0: all. match gets the name of the VM (of a clone: the new
// one), folder or cluster; nil: any. For ShutdownGuest, the guest does not halt.
func (c *Course) FailTask(kind Kind, match func(vmName string) bool, f types.BaseMethodFault, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &fault{kind: kind, match: match, fault: f, Repeats: world.NewRepeats(times)})
}

// HealTasks withdraws the faults of FailTask.
func (c *Course) HealTasks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// Failure returns the fault to inject into a task, or nil.
func (c *Course) Failure(kind Kind, name string) types.BaseMethodFault {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.faults, func(o *fault) bool {
		return o.kind == kind && (o.match == nil || o.match(name)) && o.Take()
	})
	if i < 0 {
		return nil
	}
	return c.faults[i].fault
}
