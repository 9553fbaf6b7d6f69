// Package removalcause finds out why members left vCenter's inventory: they were destroyed, or they have vanished and may still run. No other
// package decides that a member that vCenter no longer has is gone. It has no lock: only Run uses a Finder's state.
//
// The first rule that matches applies. (Package inventory notices a VM that returned, by its instanceUuid and stamp: it has another moRef.)
//
//	what is known                                                           verdict
//	----------------------------------------------------------------------  ---------------------------------------------
//	this server has ended its Destroy (MissingVMs.Destroyed)                destroyed
//	VmRemovedEvent in a chain with a TaskEvent of VirtualMachine.destroy,   destroyed
//	  Folder.destroy or VirtualApp.destroy
//	VmRemovedEvent with anything else in its chain, or nothing              vanished: unregistered, its host removed, …
//	SrcVmMigratedEvent; HostRemovedEvent of the host it was on              vanished: in another vCenter, with its host
//	its moRef has a VM with a copy of its stamp (not plan.Renumbered)       vanished: how to set its instanceUuid back
//	an event from before the VM's last arrival                              doesn't count
//	no event, asked again until the last of asks                            vanished: nothing is known
package removalcause

import (
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// asks are the times, after a VM was found missing, at which vCenter's events are queried.
var asks = session.EventsStored

const (
	// askAgain is the interval of later queries for a VM of which vCenter has no event.
	askAgain = 5 * time.Minute
	// roundsEvery is the pause between two rounds, so that one round queries about many VMs that leave one after another.
	roundsEvery = 250 * time.Millisecond
	// unanswered is the time after which a round is repeated that vCenter did not answer.
	unanswered = 5 * time.Second
)

// Inventory has the missing VMs.
type Inventory interface {
	// Missing lists them.
	Missing() []inventory.Missing
	// Decide records why a missing VM left the inventory. A later call for the same VM replaces an earlier one.
	Decide(m inventory.Missing, c inventory.Cause)
}

// Finder decides why missing VMs left the inventory.
type Finder struct {
	calls     inventory.Caller
	inventory Inventory
	log       zerolog.Logger
	wake      chan struct{} // a VM is missing; its capacity is 1

	cases map[plan.VMID]*inquiry // only Run uses it
}

// inquiry has the queries about a missing VM and their results.
type inquiry struct {
	since time.Time // when the VM was found missing; if that differs, the inquiry begins again
	asked int       // the number of queries
	due   time.Time // the time of the next query; zero if an event shows the cause

	searched time.Time         // the time of the last query without a cause: earlier events were read
	events   []types.BaseEvent // the events about the VM and its host
}

// New returns a Finder. It makes no query before Run.
func New(calls inventory.Caller, n Inventory, log zerolog.Logger) *Finder {
	return &Finder{calls: calls, inventory: n, log: log, wake: make(chan struct{}, 1), cases: map[plan.VMID]*inquiry{}}
}

// Wake tells the Finder that a VM is missing.
func (f *Finder) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run decides about missing VMs until ctx ends.
func (f *Finder) Run(ctx context.Context) {
	var failing time.Time // since when vCenter has not answered; zero if it did
	for ctx.Err() == nil {
		if err := f.round(ctx); err != nil {
			f.log.Debug().Err(err).Msg("cannot read vCenter's events about missing VMs")
			if failing.IsZero() {
				failing = time.Now()
			}
			if !session.Sleep(ctx, retry.Lasting(time.Since(failing), unanswered)) {
				return
			}
			continue
		}
		failing = time.Time{}
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

// round queries events about all VMs that are due, in one query. If vCenter did not answer, round returns an error and decides nothing. If it
// answers with a fault, that counts as a query without a result: the events may never be readable.
func (f *Finder) round(ctx context.Context) error {
	now := time.Now()
	due := f.due(now)
	if len(due) == 0 {
		return nil
	}
	causes, err := f.fromEvents(ctx, due)
	if err != nil && session.IsFatal(err) {
		return err
	}
	refused := vcfault.Classify("", err)
	for _, m := range due {
		q := f.cases[m.ID()]
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
		f.decide(m, inventory.Cause{How: withoutEvents(m, refused)})
	}
	return nil
}

// withoutEvents returns why the cause of a VM's departure is not known, for users.
func withoutEvents(m inventory.Missing, refused *vcfault.Error) string {
	switch {
	case m.Copied:
		return "the VM with its moRef and its stamp has another instanceUuid, and no event of vCenter says that it ever had " + m.InstanceUUID +
			": if it is the same VM, set its instanceUuid to that again"
	case m.Reused:
		return "vCenter has given its moRef to another VM, as after a restore from a backup"
	case refused != nil && refused.Reason == vcfault.ReasonMissingPrivilege:
		return "vCenter's events cannot be read (grant System.View on the root)"
	case refused != nil:
		return "vCenter's events cannot be read (" + strings.TrimSuffix(refused.Message, ".") + ")"
	}
	return "vCenter has no event that says why (after a restore from a backup, it has none of what was created since)"
}

// due returns the missing VMs to query now.
func (f *Finder) due(now time.Time) (due []inventory.Missing) {
	missing := map[plan.VMID]bool{}
	for _, m := range f.inventory.Missing() {
		k := m.ID()
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
