package removalcause

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// history is a vCenter that has events about removed VMs.
type history struct {
	events  int       // about VMs of other groups, one every ten seconds until now
	removed time.Time // when vm-7 was removed; if it is zero, no event is about vm-7

	session *session.Session
	filter  types.EventFilterSpec
	next    int             // the number of the next event that the collector returns
	pages   int             // how many pages were read
	live    uint64          // the most bytes that were in use when a page was read
	begins  []time.Duration // how long ago the period of each query begins
	missing []inventory.Missing
	causes  []inventory.Cause
}

func newHistory(events int) *history {
	h := &history{events: events}
	h.session = &session.Session{Vim: &vim25.Client{RoundTripper: h, ServiceContent: types.ServiceContent{EventManager: &types.ManagedObjectReference{Type: "EventManager"}}}}
	return h
}

// Call implements inventory.Caller.
func (h *history) Call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return f(ctx, h.session)
}

func (h *history) Missing() []inventory.Missing { return h.missing }

func (h *history) Decide(_ inventory.Missing, c inventory.Cause) { h.causes = append(h.causes, c) }

// RoundTrip answers the calls that create, read and destroy a collector of events.
func (h *history) RoundTrip(_ context.Context, req, res soap.HasFault) error {
	switch r := req.(type) {
	case *methods.CreateCollectorForEventsBody:
		h.filter, h.next = r.Req.Filter, 0
		if h.filter.Time != nil {
			h.begins = append(h.begins, time.Since(*h.filter.Time.BeginTime))
		}
		res.(*methods.CreateCollectorForEventsBody).Res = new(types.CreateCollectorForEventsResponse)
	case *methods.ReadNextEventsBody:
		h.pages++
		var m runtime.MemStats
		if h.pages%20 == 0 || h.next > 0 && h.next >= h.events {
			runtime.GC()
			runtime.ReadMemStats(&m)
			h.live = max(h.live, m.HeapAlloc)
		}
		res.(*methods.ReadNextEventsBody).Res = &types.ReadNextEventsResponse{Returnval: h.page(int(r.Req.MaxCount))}
	case *methods.DestroyCollectorBody:
		res.(*methods.DestroyCollectorBody).Res = new(types.DestroyCollectorResponse)
	}
	return nil
}

// page returns the next events, at most this many, that match the query.
func (h *history) page(most int) (page []types.BaseEvent) {
	if h.filter.EventChainId != 0 {
		if h.next++; h.next == 1 {
			return []types.BaseEvent{task("VirtualMachine.destroy")}
		}
		return nil
	}
	for ; h.next <= h.events && len(page) < most; h.next++ {
		at, moRef := time.Now().Add(-10*time.Second*time.Duration(h.events-h.next)), fmt.Sprint("vm-1", h.next)
		if h.next == h.events {
			at, moRef = h.removed, "vm-7"
		}
		if !at.Before(*h.filter.Time.BeginTime) && !at.IsZero() {
			e := event(int32(h.next), &types.VmRemovedEvent{})
			e.GetEvent().CreatedTime, e.GetEvent().Vm.Vm.Value = at, moRef
			e.GetEvent().FullFormattedMessage = fmt.Sprintf("Removed web-0 on esx-1 from DC0: event %d of %d", h.next, h.events)
			page = append(page, e)
		}
	}
	return page
}

// ofWeb0 returns what a new process knows of the missing vm-7, which was last seen at that time, or never if it is zero.
func ofWeb0(seen time.Time) []inventory.Missing {
	return []inventory.Missing{{Vanished: plan.Vanished{MoRef: "vm-7", Name: "web-0", InstanceUUID: "u"}, SeenAt: seen, Since: time.Now()}}
}

// find runs a Finder for that long.
func (h *history) find(t *testing.T, long time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	New(h, h, zerolog.Nop()).Run(ctx)
}

// The events of 200,000 removals must need about as much memory as those of 20,000, although all events of 30 days are read.
func TestTheEventsOfOtherVMsAreNotKept(t *testing.T) {
	live := map[int]int64{}
	for _, events := range []int{20_000, 200_000} {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(events)
			h.missing = ofWeb0(time.Time{})
			h.removed = time.Now().Add(-time.Hour)
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			h.find(t, time.Second)
			if len(h.causes) == 0 || !h.causes[0].Destroyed {
				t.Errorf("among %d events, got the causes %+v; want a destruction", events, h.causes)
			}
			live[events] = int64(h.live) - int64(before.HeapAlloc)
			t.Logf("%d events, %d pages: %d KiB more in use than before", events, h.pages, live[events]>>10)
		})
	}
	if live[200_000] > 2*live[20_000]+1<<20 {
		t.Errorf("got bytes in use by number of events: %v; want at most twice as many for 200,000 as for 20,000, and 1 MiB more", live)
	}
}

// A query must begin when the VM was last known to be in the inventory, and must not read events that an earlier query has read, whatever VMs
// are still missing.
func TestEventsAreReadOnceFromWhenTheVMWasLastThere(t *testing.T) {
	for name, c := range map[string]struct{ seen, first time.Duration }{
		"never seen":   {0, kept},
		"a week ago":   {7 * 24 * time.Hour, 7 * 24 * time.Hour},
		"a moment ago": {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHistory(1000)
				seen := time.Time{}
				if c.seen > 0 {
					seen = time.Now().Add(-c.seen)
				}
				h.missing = ofWeb0(seen)
				h.find(t, 10*time.Minute)
				if len(h.begins) < len(asks) || h.begins[0] != c.first+session.ClocksApart {
					t.Fatalf("the queries asked for events since %v ago; want at least %d queries, and the first since %s", h.begins, len(asks), c.first+session.ClocksApart)
				}
				for i, begin := range h.begins[1:] {
					if begin > askAgain+session.ClocksApart+time.Second {
						t.Errorf("query %d: the events since %s ago were asked for again; want at most %s", i+1, begin, askAgain+session.ClocksApart+time.Second)
					}
				}
				if len(h.causes) == 0 || h.causes[0].Destroyed {
					t.Errorf("the causes are %+v, want one that is not a destruction", h.causes)
				}
			})
		})
	}
}

// A rename that an earlier query found must identify a later removal as the VM's.
func TestARenameIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := ofWeb0(time.Now())[0]
		renamed := event(1, &types.VmRenamedEvent{OldName: "web-0", NewName: "web-0-old"})
		removed := event(2, &types.VmRemovedEvent{})
		removed.GetEvent().Vm.Name, removed.GetEvent().CreatedTime = "web-0-old", noon.Add(time.Hour)
		var first, second search
		first.add(m, nil)
		first.take(renamed)
		second.add(m, first.about(m))
		second.take(renamed)
		second.take(removed)
		if all := second.about(m); len(all) != 2 || lastOf(all, m) != removed {
			t.Errorf("got %d events about the VM, the last one %+v; want the rename and the removal", len(all), lastOf(all, m))
		}
		if !slices.Contains(departures, "VmRenamedEvent") {
			t.Error("departures lacks VmRenamedEvent, so no query asks for renames")
		}
	})
}
