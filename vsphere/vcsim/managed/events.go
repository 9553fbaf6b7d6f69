package managed

import (
	"reflect"
	"slices"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// eventsMost is how many events one QueryEvents gives at most (EventFilterSpec.maxCount: 1000 by default).
const eventsMost = 1000

// chained are the kinds of tasks whose events hang together: a TaskEvent, and what the task did. ([doc] Event.chainId: "The parent or
// group ID". The simulator gives each event a chain of its own, and knows no TaskEvent.)
var chained = []Kind{Destroy, DestroyFolder, UnregisterAndDestroy, Unregister, DestroyHost}

// eventBook is what vCenter's events are beside what the simulator has of them. Objects.mu guards it.
type eventBook struct {
	// chains says which event began the chain of another one, both by the simulator's keys.
	chains map[int32]int32
	// lost are the events that a restore from a backup took away: those from a key on, up to another one.
	lost []span
	// late are events that are told only after a while.
	late map[int32]time.Time
	// delay is how long after it happened an event is told.
	delay time.Duration
}

type span struct{ from, to int32 }

// DelayEvents has events told only a while after they happened, from now on.
func (v *Objects) DelayEvents(by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events.delay = by
}

// told is the event as a client sees it, with its key and chain; nil if it is lost, or not told yet. The caller holds mu.
func (b *eventBook) told(raw types.BaseEvent) types.BaseEvent {
	key, shift := raw.GetEvent().Key, int32(0)
	for _, l := range b.lost {
		if key > l.from && key <= l.to {
			return nil
		}
		if key > l.to {
			shift += l.to - l.from
		}
	}
	if time.Now().Before(b.late[key]) {
		return nil
	}
	copied := reflect.New(reflect.TypeOf(raw).Elem())
	copied.Elem().Set(reflect.ValueOf(raw).Elem())
	event := copied.Interface().(types.BaseEvent)
	e := event.GetEvent()
	e.ChainId = key
	if first, known := b.chains[key]; known {
		e.ChainId = first
	}
	e.Key, e.ChainId = e.Key-shift, e.ChainId-shift
	return event
}

// rawEvents are the simulator's own, the newest first. The caller holds no lock of the EventManager, or ctx does. They are asked for in
// the name of nobody who can log out meanwhile: the simulator's Logout posts an event while it holds the session's registry, and a query
// looks things up there.
func (v *Objects) rawEvents(ctx *simulator.Context, filter types.EventFilterSpec) ([]types.BaseEvent, *soap.Fault) {
	filter.EventChainId, filter.MaxCount = 0, eventsMost
	var res soap.HasFault
	m := v.objects.EventManager()
	v.objects.WithLock(ctx, m, func() { res = m.QueryEvents(v.adminContext(), &types.QueryEvents{This: m.Self, Filter: filter}) })
	if f := res.Fault(); f != nil {
		return nil, f
	}
	return res.(*methods.QueryEventsBody).Res.Returnval, nil
}

// tell gives events as clients see them.
func (v *Objects) tell(raw []types.BaseEvent) []types.BaseEvent {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []types.BaseEvent
	for _, r := range raw {
		if e := v.events.told(r); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// newestKey is the simulator's key of the newest event.
func (v *Objects) newestKey(ctx *simulator.Context) (key int32) {
	raw, _ := v.rawEvents(ctx, types.EventFilterSpec{})
	for _, e := range raw {
		key = max(key, e.GetEvent().Key)
	}
	return key
}

// chain notes that what do posts hangs together with the TaskEvent of its task. Its info is as the task was begun: queued. The
// caller holds the world for writing.
func (v *Objects) chain(ctx *simulator.Context, kind Kind, entity mo.Entity, do func()) {
	if !slices.Contains(chained, kind) {
		do()
		return
	}
	ref, now := entity.Reference(), time.Now()
	task := &types.TaskEvent{Info: types.TaskInfo{DescriptionId: string(kind), Entity: &ref, EntityName: entity.Entity().Name,
		State: types.TaskInfoStateQueued, QueueTime: now, Reason: &types.TaskReasonUser{UserName: ctx.Session.UserName}}}
	v.post(ctx, task)
	do()
	raw, _ := v.rawEvents(ctx, types.EventFilterSpec{})
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range raw {
		key := e.GetEvent().Key
		switch e.(type) {
		case types.BaseVmEvent, types.BaseHostEvent, *types.TaskEvent:
			if key >= task.Key {
				v.events.chains[key] = task.Key
				v.events.late[key] = now.Add(v.events.delay)
			}
		}
	}
}

// post posts an event in the name of the context's user.
func (v *Objects) post(ctx *simulator.Context, event types.BaseEvent) {
	m := v.objects.EventManager()
	v.objects.WithLock(ctx, m, func() { m.PostEvent(ctx, &types.PostEvent{This: m.Self, EventToPost: event}) })
}

// eventManager is the EventManager during one call.
type eventManager struct {
	*simulator.EventManager
	v *Objects
}

// QueryEvents knows chains, and what a restore took away.
func (m *eventManager) QueryEvents(ctx *simulator.Context, req *types.QueryEvents) soap.HasFault {
	raw, fault := m.v.rawEvents(ctx, req.Filter)
	if fault != nil {
		return &methods.QueryEventsBody{Fault_: fault}
	}
	events := slices.DeleteFunc(m.v.tell(raw), func(e types.BaseEvent) bool {
		return req.Filter.EventChainId != 0 && e.GetEvent().ChainId != req.Filter.EventChainId
	})
	return &methods.QueryEventsBody{Res: &types.QueryEventsResponse{Returnval: events}}
}

// TellLatestEvent gives the EventManager's property latestEvent, which the simulator leaves unset, a value for a read of it.
func (v *Objects) TellLatestEvent(ctx *simulator.Context, specs []types.PropertyFilterSpec) {
	if !slices.ContainsFunc(specs, func(s types.PropertyFilterSpec) bool {
		return slices.ContainsFunc(s.PropSet, func(p types.PropertySpec) bool { return slices.Contains(p.PathSet, "latestEvent") })
	}) {
		return
	}
	v.world.RLock()
	defer v.world.RUnlock()
	m := v.objects.EventManager()
	raw, _ := v.rawEvents(ctx, types.EventFilterSpec{})
	v.objects.WithLock(ctx, m, func() {
		m.LatestEvent = nil
		for _, e := range v.tell(raw) {
			if m.LatestEvent == nil || e.GetEvent().Key > m.LatestEvent.GetEvent().Key {
				m.LatestEvent = e
			}
		}
	})
}
