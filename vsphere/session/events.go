package session

import (
	"context"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// eventPage is how many events one call asks for; vCenter allows no more.
const eventPage = 1000

// Events reads vCenter's events that match a filter, from the oldest on, and passes each to take, until take returns false. Nothing is kept
// of a page when the next one is read: a vCenter may have hundreds of thousands. It uses a collector: QueryEvents returns one page only,
// and not what vCenter's filter of bursts leaves out. vCenter drops events that the account is not allowed to see from a page after it was
// filled (govmomi#3450), so a page with fewer than were asked for is not the last; an empty one is, or all of it was dropped.
func Events(ctx context.Context, s *Session, filter types.EventFilterSpec, take func(types.BaseEvent) bool) error {
	made, err := methods.CreateCollectorForEvents(ctx, s.Vim, &types.CreateCollectorForEvents{This: *s.Vim.ServiceContent.EventManager, Filter: filter})
	if err != nil {
		return err
	}
	collector := made.Returnval
	defer func() { // a session has few; what is left of it ends with the session
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = methods.DestroyCollector(ctx, s.Vim, &types.DestroyCollector{This: collector})
	}()
	for {
		page, err := methods.ReadNextEvents(ctx, s.Vim, &types.ReadNextEvents{This: collector, MaxCount: eventPage})
		if err != nil || len(page.Returnval) == 0 {
			return err
		}
		for _, e := range page.Returnval {
			if e != nil && !take(e) { // govmomi leaves nil where it doesn't know the type
				return nil
			}
		}
	}
}

// UserOf returns the account that an event names; "" for none. Events that a host reports name "User", which is no account: ManageIQ recorded a
// VmMessageEvent with it (ManageIQ/integration_tests, event benchmarks).
func UserOf(e *types.Event) string {
	if e.UserName == "User" {
		return ""
	}
	return e.UserName
}

// TimeOf returns when an event happened, as far as vCenter's recorded events tell: it stores milliseconds, often one microsecond short
// ("…30.122999Z"), and so of two events in one millisecond the later one can seem to be the earlier.
func TimeOf(e *types.Event) time.Time { return e.CreatedTime.Round(time.Millisecond) }
