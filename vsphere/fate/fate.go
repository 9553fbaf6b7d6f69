// Package fate finds out what became of members that left vCenter's inventory: whether they were destroyed, or have vanished and may
// still run. No other package decides that a member is gone that vCenter no longer has. It has no lock: only Run uses a Judge's state.
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
//	no event, asked again until the last of asks; it was powered off and    destroyed
//	  connected when this process saw it last, vCenter was not restored
//	  from a backup since, and its host is connected
//	no event, anything else                                                 vanished: nothing is known
package fate

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// asks are the times after a VM was found missing at which vCenter's events are queried: they may come late.
var asks = []time.Duration{0, 2 * time.Second, 15 * time.Second, time.Minute}

const (
	// askAgain is how often they are queried after that for a VM of which they told nothing.
	askAgain = 5 * time.Minute
	// roundsEvery is the pause between two rounds: many VMs may leave one after another.
	roundsEvery = 250 * time.Millisecond
	// retry is when a round without an answer from vCenter is repeated.
	retry = 5 * time.Second
	// newestEvery is how often vCenter's newest event is looked at, to notice a restore from a backup, which is older than that.
	newestEvery = 5 * time.Minute
)

// Inventory has the missing VMs.
type Inventory interface {
	// Missing lists them.
	Missing() []inventory.Missing
	// Decide records what became of one. The last call counts.
	Decide(m inventory.Missing, c inventory.Cause)
}

// Judge decides what became of missing VMs.
type Judge struct {
	calls     inventory.Caller
	inventory Inventory
	// scan reads everything again: a VM that is judged destroyed without an event may exist with another moRef.
	scan func(context.Context) error
	log  zerolog.Logger
	wake chan struct{} // has a place for one

	cases  map[key]*inquiry // Run's alone
	newest newestEvent
}

// key identifies a missing VM.
type key struct{ moRef, instanceUUID string }

// inquiry is what was done to find out about a VM.
type inquiry struct {
	since time.Time // the VM was found missing then: at another time it is another inquiry
	asked int       // how often
	due   time.Time // when it is to be asked about next; zero: events have told
}

// New returns a Judge that does nothing until Run.
func New(calls inventory.Caller, n Inventory, scan func(context.Context) error, log zerolog.Logger) *Judge {
	return &Judge{calls: calls, inventory: n, scan: scan, log: log, wake: make(chan struct{}, 1), cases: map[key]*inquiry{}}
}

// Wake tells the Judge that a VM is missing.
func (j *Judge) Wake() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// Run decides until ctx ends.
func (j *Judge) Run(ctx context.Context) {
	look := time.Now()
	for ctx.Err() == nil {
		if err := j.round(ctx, &look); err != nil {
			j.log.Debug().Err(err).Msg("vCenter's events about missing VMs could not be read")
			if !session.Sleep(ctx, retry) {
				return
			}
			continue
		}
		next := look
		for _, q := range j.cases {
			if !q.due.IsZero() && q.due.Before(next) {
				next = q.due
			}
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-j.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		session.Sleep(ctx, roundsEvery)
	}
}

// round queries events about all VMs that are due, in one query. look is when to read the newest event next. An error means that
// vCenter did not answer: then nothing is decided.
func (j *Judge) round(ctx context.Context, look *time.Time) error {
	now := time.Now()
	due := j.due(now)
	if len(due) == 0 && now.Before(*look) {
		return nil
	}
	told, err := j.testimony(ctx, due)
	denied := vcfault.Classify("", err)
	if denied != nil && denied.Reason != vcfault.ReasonMissingPrivilege {
		return err
	}
	*look = now.Add(newestEvery)
	for _, m := range due {
		q := j.cases[key{m.MoRef, m.InstanceUUID}]
		q.asked++
		if c := told[m.MoRef]; c.How != "" {
			q.due = time.Time{}
			j.decide(m, c)
			continue
		}
		if q.asked < len(asks) {
			q.due = m.Since.Add(asks[q.asked])
			continue
		}
		q.due = now.Add(askAgain)
		c, err := j.withoutEvents(ctx, m, denied)
		if err != nil {
			q.asked--
			q.due = now.Add(retry)
			continue
		}
		j.decide(m, c)
	}
	return nil
}

// due returns the missing VMs to query now.
func (j *Judge) due(now time.Time) (due []inventory.Missing) {
	missing := map[key]bool{}
	for _, m := range j.inventory.Missing() {
		k := key{m.MoRef, m.InstanceUUID}
		missing[k] = true
		q := j.cases[k]
		if q == nil || !q.since.Equal(m.Since) {
			q = &inquiry{since: m.Since, due: m.Since}
			j.cases[k] = q
		}
		if !q.due.IsZero() && !now.Before(q.due) {
			due = append(due, m)
		}
	}
	for k := range j.cases {
		if !missing[k] {
			delete(j.cases, k)
		}
	}
	return due
}

func (j *Judge) decide(m inventory.Missing, c inventory.Cause) {
	if c.How != m.How {
		j.log.Info().Str("vm", m.Name).Str("moRef", m.MoRef).Bool("destroyed", c.Destroyed).Str("reason", c.How).Msg("a member left vCenter's inventory")
	}
	j.inventory.Decide(m, c)
}
