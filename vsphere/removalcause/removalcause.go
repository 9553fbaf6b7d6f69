// Package removalcause finds out what became of members that left vCenter's inventory: whether they were destroyed, or have vanished and may
// still run. No other package decides that a member is gone that vCenter no longer has. It has no lock: only Run uses a Finder's state.
//
// The first rule that fits counts. (Package inventory notices a VM that returned: one with its instanceUuid and stamp, and another moRef.)
//
//	what is known                                                           verdict
//	----------------------------------------------------------------------  ---------------------------------------------
//	this server has ended its Destroy (inventory.Destroyed)                 destroyed
//	VmRemovedEvent in a chain with a TaskEvent of VirtualMachine.destroy,   destroyed
//	  Folder.destroy or VirtualApp.destroy
//	VmRemovedEvent with anything else in its chain, or nothing              vanished: unregistered, its host removed, …
//	SrcVmMigratedEvent; HostRemovedEvent of the host it was on              vanished: in another vCenter, with its host
//	no event, asked again until the last of asks                            vanished: nothing is known
package removalcause

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// asks are the times after a VM was found missing at which vCenter's events are queried: they may come late.
var asks = []time.Duration{0, 500 * time.Millisecond, 2 * time.Second, 15 * time.Second, time.Minute}

const (
	// askAgain is how often they are queried after that for a VM about which they say nothing.
	askAgain = 5 * time.Minute
	// roundsEvery is the pause between two rounds: many VMs may leave one after another.
	roundsEvery = 250 * time.Millisecond
	// retry is when a round without an answer from vCenter is repeated.
	retry = 5 * time.Second
)

// Inventory has the missing VMs.
type Inventory interface {
	// Missing lists them.
	Missing() []inventory.Missing
	// Decide records what became of one. The last call counts.
	Decide(m inventory.Missing, c inventory.Cause)
}

// Finder decides what became of missing VMs.
type Finder struct {
	calls     inventory.Caller
	inventory Inventory
	log       zerolog.Logger
	wake      chan struct{} // has a place for one

	cases map[key]*inquiry // Run's alone
}

// key identifies a missing VM.
type key struct{ moRef, instanceUUID string }

func keyOf(m inventory.Missing) key { return key{m.MoRef, m.InstanceUUID} }

// inquiry is what was done to find out about a VM.
type inquiry struct {
	since time.Time // the VM was found missing then: at another time it is another inquiry
	asked int       // how often
	due   time.Time // when it is to be asked about next; zero: events name the cause

	searched time.Time         // when events were last read and had no cause: those from before are known
	events   []types.BaseEvent // what they tell of the VM and its host
}

// New returns a Finder that does nothing until Run.
func New(calls inventory.Caller, n Inventory, log zerolog.Logger) *Finder {
	return &Finder{calls: calls, inventory: n, log: log, wake: make(chan struct{}, 1), cases: map[key]*inquiry{}}
}

// Wake tells the Finder that a VM is missing.
func (f *Finder) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run decides until ctx ends.
func (f *Finder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.round(ctx); err != nil {
			f.log.Debug().Err(err).Msg("vCenter's events about missing VMs could not be read")
			if !session.Sleep(ctx, retry) {
				return
			}
			continue
		}
		next := time.Now().Add(askAgain)
		for _, q := range f.cases {
			if !q.due.IsZero() && q.due.Before(next) {
				next = q.due
			}
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-f.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		session.Sleep(ctx, roundsEvery)
	}
}

// round queries events about all VMs that are due, in one query. An error means that vCenter did not answer: then nothing is decided.
func (f *Finder) round(ctx context.Context) error {
	now := time.Now()
	due := f.due(now)
	if len(due) == 0 {
		return nil
	}
	causes, err := f.fromEvents(ctx, due)
	denied := vcfault.Classify("", err)
	if denied != nil && denied.Reason != vcfault.ReasonMissingPrivilege {
		return err
	}
	for _, m := range due {
		q := f.cases[keyOf(m)]
		q.asked++
		if c := causes[m.MoRef]; c.How != "" {
			q.due, q.events = time.Time{}, nil
			f.decide(m, c)
			continue
		}
		if q.asked < len(asks) {
			q.due = m.Since.Add(asks[q.asked])
			continue
		}
		q.due = now.Add(askAgain)
		f.decide(m, inventory.Cause{How: withoutEvents(m, denied)})
	}
	return nil
}

// withoutEvents says why nothing is known of a VM.
func withoutEvents(m inventory.Missing, denied *vcfault.Error) string {
	switch {
	case m.Reused:
		return "vCenter has given its moRef to another VM, as after a restore from a backup"
	case denied != nil:
		return "vCenter's events cannot be read (grant System.View on the root)"
	}
	return "vCenter has no event that says why (after a restore from a backup, it has none of what was created since)"
}

// due returns the missing VMs to query now.
func (f *Finder) due(now time.Time) (due []inventory.Missing) {
	missing := map[key]bool{}
	for _, m := range f.inventory.Missing() {
		k := keyOf(m)
		missing[k] = true
		q := f.cases[k]
		if q == nil || !q.since.Equal(m.Since) {
			q = &inquiry{since: m.Since, due: m.Since}
			f.cases[k] = q
		}
		if !q.due.IsZero() && !now.Before(q.due) {
			due = append(due, m)
		}
	}
	for k := range f.cases {
		if !missing[k] {
			delete(f.cases, k)
		}
	}
	return due
}

func (f *Finder) decide(m inventory.Missing, c inventory.Cause) {
	if c.How != m.How {
		f.log.Info().Str("vm", m.Name).Str("moRef", m.MoRef).Bool("destroyed", c.Destroyed).Str("reason", c.How).Msg("a member left vCenter's inventory")
	}
	f.inventory.Decide(m, c)
}
