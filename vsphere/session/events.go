package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// eventPage is how many events one call asks for; vCenter allows no more.
const eventPage = 1000

// pagesMost bounds the pages of one query: a server that repeats a page must not be asked for ever.
const pagesMost = 2000

// Events reads vCenter's events that match a filter, beginning with the oldest, and calls take with each, until take returns false. It keeps
// only one page in memory: a vCenter may have hundreds of thousands of events. It uses a collector, because QueryEvents returns only one page,
// without the events that vCenter's filter of bursts suppresses. vCenter removes events that the account is not allowed to see from a page that
// it has filled (govmomi#3450), so a page with fewer events than were asked for need not be the last. An empty page is taken for the last,
// although all of its events may have been removed.
func Events(ctx context.Context, s *Session, filter types.EventFilterSpec, take func(types.BaseEvent) bool) error {
	made, err := methods.CreateCollectorForEvents(ctx, s.Vim, &types.CreateCollectorForEvents{This: *s.Vim.ServiceContent.EventManager, Filter: filter})
	if err != nil {
		return err
	}
	collector := made.Returnval
	defer func() { // a session can have few collectors; if this call fails, the collector ends with the session
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = methods.DestroyCollector(ctx, s.Vim, &types.DestroyCollector{This: collector})
	}()
	for range pagesMost {
		page, err := methods.ReadNextEvents(ctx, s.Vim, &types.ReadNextEvents{This: collector, MaxCount: eventPage})
		if err != nil || len(page.Returnval) == 0 {
			return err
		}
		for _, e := range page.Returnval {
			if e != nil && !take(e) { // it is nil if govmomi doesn't know the type
				return nil
			}
		}
	}
	return fmt.Errorf("vCenter's events do not end after %d pages", pagesMost)
}

// UserOf returns the account that an event names; "" for none. Events that a host reports name "User", which is not an account: ManageIQ
// recorded a VmMessageEvent with it (ManageIQ/integration_tests, event benchmarks).
func UserOf(e *types.Event) string {
	if e.UserName == "User" {
		return ""
	}
	return e.UserName
}

// Actor returns who an event names. It is the server itself, or another process, tool or person with the same account, if the account is the session's.
func (s *Session) Actor(e *types.Event) plan.Actor {
	user := UserOf(e)
	return plan.Actor{User: user, Ours: user != "" && strings.EqualFold(user, s.User)}
}

// ClocksApart is the maximum difference between vCenter's clock and this machine's that queries for events allow for.
const ClocksApart = 15 * time.Minute

// EventsStored are the times after something happened at which its events are asked for, as long as there is none: vCenter may store them late.
var EventsStored = []time.Duration{0, 500 * time.Millisecond, 2 * time.Second, 15 * time.Second, time.Minute}

// ArrivalEvents are the types of the events of VMs that come into the inventory, but for those that were migrated from another vCenter, which have no
// type of their own.
var ArrivalEvents = []string{"VmCreatedEvent", "VmClonedEvent", "VmDeployedEvent", "VmRegisteredEvent", "VmDiscoveredEvent"}

// IsArrival reports whether an event is one of ArrivalEvents.
func IsArrival(event types.BaseEvent) bool {
	switch event.(type) {
	case *types.VmCreatedEvent, *types.VmClonedEvent, *types.VmDeployedEvent, *types.VmRegisteredEvent, *types.VmDiscoveredEvent:
		return true
	}
	return false
}

// OfVM limits a filter to the events about a VM that is in the inventory.
func OfVM(vm types.ManagedObjectReference) *types.EventFilterSpecByEntity {
	return &types.EventFilterSpecByEntity{Entity: vm, Recursion: types.EventFilterSpecRecursionOptionSelf}
}

// TimeOf returns the time of an event in milliseconds. vCenter stores milliseconds, but its recorded events are often one microsecond short
// ("…30.122999Z"), so the later of two events in one millisecond can have the earlier time.
func TimeOf(e *types.Event) time.Time { return e.CreatedTime.Round(time.Millisecond) }

// Newer reports whether event a is newer than b: by their times or, if these are equal, by their keys. Keys are int32 and overflow
// to negative ones (vcenter-event-broker-appliance#809). Newer uses the sign of their difference, which stays right because it overflows, too.
func Newer(a, b *types.Event) bool {
	if at, of := TimeOf(a), TimeOf(b); !at.Equal(of) {
		return at.After(of)
	}
	return a.Key-b.Key > 0
}
