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

// maxEvents is the default limit of one QueryEvents (EventFilterSpec.maxCount: 1000 by default).
const maxEvents = 1000

// chained are the kinds of tasks whose events form a chain: a TaskEvent and the events of its changes. ([doc] Event.chainId: "The parent or
// group ID". In the simulator each event is a chain of its own, and there is no TaskEvent.)
var chained = []Kind{Destroy, DestroyFolder, UnregisterAndDestroy, unregister, destroyHost}

// eventState extends the simulator's events. Objects.mu guards it.
type eventState struct {
	// chains maps an event to the first one of its chain, by the simulator's keys.
	chains map[int32]int32
	// lost are the key ranges of events that a restore from a backup discarded.
	lost []span
	// visibleAt is when clients see an event.
	visibleAt map[int32]time.Time
	// delay is the time from an event until clients see it.
	delay time.Duration
}

type span struct{ from, to int32 }

// DelayEvents hides events from clients for a time, from now on.
func (v *Objects) DelayEvents(by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events.delay = by
}

// visible returns an event as a client sees it, with its key and chain; nil if it is lost or not visible yet. The caller holds mu.
func (b *eventState) visible(raw types.BaseEvent) types.BaseEvent {
	key, shift := raw.GetEvent().Key, int32(0)
	for _, l := range b.lost {
		if key > l.from && key <= l.to {
			return nil
		}
		if key > l.to {
			shift += l.to - l.from
		}
	}
	if time.Now().Before(b.visibleAt[key]) {
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

// rawEvents returns the simulator's events, newest first. The EventManager must be unlocked, or ctx holds its lock. The query runs as the
// admin, who does not log out: the simulator's Logout posts an event while it locks the session's registry, which a query needs.
func (v *Objects) rawEvents(ctx *simulator.Context, filter types.EventFilterSpec) ([]types.BaseEvent, *soap.Fault) {
	filter.EventChainId, filter.MaxCount = 0, maxEvents
	var res soap.HasFault
	m := v.objects.EventManager()
	v.objects.WithLock(ctx, m, func() { res = m.QueryEvents(v.adminContext(), &types.QueryEvents{This: m.Self, Filter: filter}) })
	if f := res.Fault(); f != nil {
		return nil, f
	}
	return res.(*methods.QueryEventsBody).Res.Returnval, nil
}

// visibleEvents returns events as clients see them.
func (v *Objects) visibleEvents(raw []types.BaseEvent) []types.BaseEvent {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []types.BaseEvent
	for _, r := range raw {
		if e := v.events.visible(r); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// newestKey returns the simulator's key of the newest event.
func (v *Objects) newestKey(ctx *simulator.Context) (key int32) {
	raw, _ := v.rawEvents(ctx, types.EventFilterSpec{})
	for _, e := range raw {
		key = max(key, e.GetEvent().Key)
	}
	return key
}

// chain runs do and chains its events to the TaskEvent of its task, whose info shows the task as queued. The caller holds the world lock
// for writing.
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
				v.events.visibleAt[key] = now.Add(v.events.delay)
			}
		}
	}
}

// post posts an event in the name of the context's user.
func (v *Objects) post(ctx *simulator.Context, event types.BaseEvent) {
	m := v.objects.EventManager()
	v.objects.WithLock(ctx, m, func() { m.PostEvent(ctx, &types.PostEvent{This: m.Self, EventToPost: event}) })
}

// eventManager wraps the EventManager for one call.
type eventManager struct {
	*simulator.EventManager
	v *Objects
}

// QueryEvents supports chains and omits what a restore discarded.
func (m *eventManager) QueryEvents(ctx *simulator.Context, req *types.QueryEvents) soap.HasFault {
	raw, fault := m.v.rawEvents(ctx, req.Filter)
	if fault != nil {
		return &methods.QueryEventsBody{Fault_: fault}
	}
	events := slices.DeleteFunc(m.v.visibleEvents(raw), func(e types.BaseEvent) bool {
		return req.Filter.EventChainId != 0 && e.GetEvent().ChainId != req.Filter.EventChainId
	})
	return &methods.QueryEventsBody{Res: &types.QueryEventsResponse{Returnval: events}}
}

// SetLatestEvent sets the EventManager's property latestEvent, which the simulator leaves unset, for a read of it.
func (v *Objects) SetLatestEvent(ctx *simulator.Context, specs []types.PropertyFilterSpec) {
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
		for _, e := range v.visibleEvents(raw) {
			if m.LatestEvent == nil || e.GetEvent().Key > m.LatestEvent.GetEvent().Key {
				m.LatestEvent = e
			}
		}
	})
}
