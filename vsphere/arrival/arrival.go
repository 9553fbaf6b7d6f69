// Package arrival finds out, from vCenter's events, how VMs came into vCenter's inventory: by a clone of the server, by another hand, or with a host.
// It has no lock: only Run uses a Finder's state.
//
// vCenter posts VmClonedEvent for a clone of a VM, and VmDeployedEvent for a clone of a template, both about the new VM ([doc] VmClonedEvent,
// VmDeployedEvent). Events about a VM that is in the inventory can be queried by its moRef.
package arrival

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// asks are the times, after a VM was first sought, at which its events are queried if it had none.
var asks = session.EventsStored

// retry is the time after which a query is repeated that vCenter did not answer.
const retry = 5 * time.Second

// arrivalsMost bounds the events that are read about one VM, which comes into the inventory a few times at most.
const arrivalsMost = 1000

// roundMost bounds the queries of one round: anybody can write stamps into any number of VMs.
const roundMost = 16

// migrated is the type of the event of a VM that was migrated from another vCenter, as monitoring software names it
// (sexibytes/sexigraf#325).
const migrated = "com.vmware.vc.vm.DstVmMigratedEvent"

// kinds are the events that say how a VM came, or which instanceUuid it had until vCenter, or a person, changed it.
var kinds = append([]string{migrated, "VmInstanceUuidChangedEvent", "VmInstanceUuidConflictEvent"}, session.ArrivalEvents...)

// Inventory has the VMs whose arrivals are to be found out.
type Inventory interface {
	// Sought lists them.
	Sought() []inventory.Sought
	// Tell records an answer.
	Tell(inventory.Sought, plan.Arrival)
}

// Finder finds out how VMs came into vCenter's inventory.
type Finder struct {
	calls     inventory.Caller
	inventory Inventory
	log       zerolog.Logger
	wake      chan struct{} // a VM is sought; its capacity is 1

	asked map[plan.VMID]int // how often; only Run uses it
}

// New returns a Finder. It makes no query before Run.
func New(calls inventory.Caller, n Inventory, log zerolog.Logger) *Finder {
	return &Finder{calls: calls, inventory: n, log: log, wake: make(chan struct{}, 1), asked: map[plan.VMID]int{}}
}

// Wake tells the Finder that a VM is sought.
func (f *Finder) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run finds out about VMs until ctx ends.
func (f *Finder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := f.round(ctx)
		if err != nil {
			f.log.Debug().Err(err).Msg("cannot read vCenter's events about new VMs")
			if !session.Sleep(ctx, retry) {
				return
			}
			continue
		}
		wait, done := context.WithCancel(ctx)
		if !next.IsZero() {
			wait, done = context.WithDeadline(ctx, next)
		}
		select {
		case <-f.wake:
		case <-wait.Done():
		}
		done()
	}
}

// round queries the events about each VM that is due, and returns when the next one is; zero if none is. If vCenter doesn't answer, round returns an
// error. If vCenter refuses for another reason than a missing privilege, nothing is concluded about that VM, and it is due again. Without the privilege,
// events are never readable: then only the VM's place counts.
func (f *Finder) round(ctx context.Context) (next time.Time, err error) {
	sought := f.inventory.Sought()
	known, asked := make(map[plan.VMID]bool, len(sought)), 0
	for _, s := range sought {
		known[s.VMID] = true
		if due := s.Since.Add(asks[f.asked[s.VMID]]); time.Now().Before(due) {
			next = earlier(next, due)
			continue
		}
		if asked++; asked > roundMost { // others may have been sought since that matter more
			return time.Now(), nil
		}
		found, err := f.find(ctx, s)
		switch {
		case err == nil:
		case session.IsFatal(err):
			return next, err
		case vcfault.Classify("", err).Reason != vcfault.ReasonMissingPrivilege:
			f.log.Debug().Err(err).Str("moRef", s.MoRef).Msg("cannot read vCenter's events about a new VM")
			next = earlier(next, time.Now().Add(retry))
			continue
		}
		f.asked[s.VMID]++
		lacks := found.How == "" && !s.Copy || s.Copy && len(found.Had) == 0
		if lacks && err == nil && s.Patient && f.asked[s.VMID] < len(asks) {
			next = earlier(next, s.Since.Add(asks[f.asked[s.VMID]]))
			continue
		}
		delete(f.asked, s.VMID)
		f.log.Debug().Str("moRef", s.MoRef).Str("how", string(found.How)).Str("user", found.User).Msg("how a VM came into the inventory")
		f.inventory.Tell(s, found)
	}
	for id := range f.asked {
		if !known[id] {
			delete(f.asked, id)
		}
	}
	return next, nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// find returns what the newest event says. vCenter gives a moRef to another VM only after a restore, which loses the newer events.
func (f *Finder) find(ctx context.Context, s inventory.Sought) (found plan.Arrival, err error) {
	err = f.calls.Call(ctx, func(ctx context.Context, on *session.Session) error {
		found = plan.Arrival{}
		var newest *types.Event
		var had []types.BaseEvent
		some := 0
		err := session.Events(ctx, on, types.EventFilterSpec{
			Entity:      session.OfVM(inventory.VMRef(s.MoRef)),
			EventTypeId: kinds,
		}, func(event types.BaseEvent) bool {
			e := event.GetEvent()
			some++
			if hadBy(event) != "" {
				had = append(had, event)
			}
			if how := comingOf(event); how != "" && (newest == nil || session.Newer(e, newest)) {
				newest = e
				by := on.Actor(e)
				found = plan.Arrival{How: how, At: session.TimeOf(e), User: by.User, Ours: by.Ours}
				if e.Vm != nil {
					found.Name = naming.Unescape(e.Vm.Name)
				}
			}
			return some < arrivalsMost
		})
		for _, event := range had { // before it came, its moRef was another VM's, or none's
			if newest == nil || session.Newer(event.GetEvent(), newest) {
				found.Had = append(found.Had, hadBy(event))
			}
		}
		return err
	})
	return found, err
}

// hadBy returns the instanceUuid that a VM had, by an event of its change or of a conflict about it; empty for other events.
func hadBy(event types.BaseEvent) string {
	switch e := event.(type) {
	case *types.VmInstanceUuidChangedEvent:
		return e.OldInstanceUuid
	case *types.VmInstanceUuidConflictEvent:
		return e.InstanceUuid
	}
	return ""
}

func comingOf(event types.BaseEvent) plan.Coming {
	switch e := event.(type) {
	case *types.EventEx:
		if e.EventTypeId == migrated {
			return plan.Migrated
		}
	case *types.VmCreatedEvent:
		return plan.Created
	case *types.VmClonedEvent, *types.VmDeployedEvent:
		return plan.Cloned
	case *types.VmRegisteredEvent:
		return plan.Registered
	case *types.VmDiscoveredEvent:
		return plan.Discovered
	}
	return ""
}
