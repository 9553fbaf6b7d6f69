package vcsim

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

// eventState extends the simulator's events. The world lock guards it.
type eventState struct {
	// chains maps an event to the first one of its chain, by the simulator's keys.
	chains map[int32]int32
	// lost are the key ranges of events that a restore from a backup discarded.
	lost []span
	// visibleAt is when clients see an event.
	visibleAt map[int32]time.Time
	// hidden are events that the simulator posts and a vCenter doesn't.
	hidden map[int32]bool
}

type span struct{ from, to int32 }

// visible returns an event as a client sees it, with its key and chain; nil if it is lost or not visible yet.
func (b *eventState) visible(raw types.BaseEvent, raised int32) types.BaseEvent {
	key, shift := raw.GetEvent().Key, int32(0)
	for _, l := range b.lost {
		if key > l.from && key <= l.to {
			return nil
		}
		if key > l.to {
			shift += l.to - l.from
		}
	}
	if b.hidden[key] || time.Now().Before(b.visibleAt[key]) {
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
	e.CreatedTime = stored(e.CreatedTime, key)
	e.Key, e.ChainId = e.Key-shift+raised, e.ChainId-shift+raised
	return event
}

// stored returns the time of an event as vCenter's database stores it: in milliseconds, and often one microsecond short (recorded by VMware's
// event broker appliance). Here, every other event is one microsecond short.
func stored(at time.Time, key int32) time.Time {
	at = at.Truncate(time.Millisecond)
	if key%2 != 0 {
		at = at.Add(-time.Microsecond)
	}
	return at
}

// asHost makes a context's events a host's, until end is called: they name "User", which is not an account (recorded by ManageIQ).
func asHost(ctx *simulator.Context) (end func()) { return asUser(ctx, "User") }

// asUser makes a context's events name a user, until end is called. The context is changed and not copied, because the simulator's locks belong
// to it.
func asUser(ctx *simulator.Context, name string) (end func()) {
	caller, other := ctx.Session, *ctx.Session
	other.UserName = name
	ctx.Session = &other
	return func() { ctx.Session = caller }
}

// hideCreation hides the events with which the simulator says that a VM was created.
func (v *inventory) hideCreation(ctx *simulator.Context, vm types.ManagedObjectReference) {
	raw, _ := v.rawEvents(ctx, types.EventFilterSpec{EventTypeId: []string{"VmBeingCreatedEvent", "VmCreatedEvent"},
		Entity: &types.EventFilterSpecByEntity{Entity: vm, Recursion: types.EventFilterSpecRecursionOptionSelf}})
	for _, e := range raw {
		v.events.hidden[e.GetEvent().Key] = true
	}
}

// postClone posts the events of a clone that has ended: those of a deployment if the source is a template. (In a real vCenter, the first one is
// there as soon as the clone begins.)
//
// [doc] VmClonedEvent: "the completion of a virtual machine cloning operation", with sourceVm; VmDeployedEvent: "the completion of a virtual machine
// deployment operation", with srcTemplate. Both are about the new VM (PowerCLI's scripts that look for a VM's creator ask for the events of the VM:
// lamw/vghetto-scripts, VMCloneInfo.ps1), and VmBeingClonedEvent about the source, with destName. A clone has no VmCreatedEvent.
func (v *inventory) postClone(ctx *simulator.Context, source, vm *simulator.VirtualMachine, folder *simulator.Folder) {
	of := types.VmEventArgument{Vm: source.Self, EntityEventArgument: types.EntityEventArgument{Name: source.Name}}
	its := v.vmEvent(vm)
	if source.Config.Template {
		v.post(ctx, &types.VmBeingDeployedEvent{VmEvent: its, SrcTemplate: of})
		v.post(ctx, &types.VmDeployedEvent{VmEvent: v.vmEvent(vm), SrcTemplate: of})
		return
	}
	v.post(ctx, &types.VmBeingClonedEvent{VmCloneEvent: types.VmCloneEvent{VmEvent: v.vmEvent(source)}, DestName: vm.Name, DestHost: *its.Host,
		DestFolder: types.FolderEventArgument{Folder: folder.Self, EntityEventArgument: types.EntityEventArgument{Name: folder.Name}}})
	v.post(ctx, &types.VmClonedEvent{VmCloneEvent: types.VmCloneEvent{VmEvent: its}, SourceVm: of})
}

// rawEvents returns the simulator's events, newest first. The EventManager must be unlocked, or ctx holds its lock. The query runs as the
// admin, who does not log out: the simulator's Logout posts an event while it locks the session's registry, which a query needs.
func (v *inventory) rawEvents(ctx *simulator.Context, filter types.EventFilterSpec) ([]types.BaseEvent, *soap.Fault) {
	filter.EventChainId, filter.MaxCount = 0, maxEvents
	m := v.objects.EventManager()
	res := m.QueryEvents(v.adminContext(), &types.QueryEvents{This: m.Self, Filter: filter})
	if f := res.Fault(); f != nil {
		return nil, f
	}
	return res.(*methods.QueryEventsBody).Res.Returnval, nil
}

// visibleEvents returns events as clients see them.
func (v *inventory) visibleEvents(raw []types.BaseEvent) []types.BaseEvent {
	var all []types.BaseEvent
	for _, r := range raw {
		if e := v.events.visible(r, v.behavior.RaiseEventKeys); e != nil {
			all = append(all, e)
		}
	}
	return all
}

// newestKey returns the simulator's key of the newest event.
func (v *inventory) newestKey(ctx *simulator.Context) (key int32) {
	raw, _ := v.rawEvents(ctx, types.EventFilterSpec{})
	for _, e := range raw {
		key = max(key, e.GetEvent().Key)
	}
	return key
}

// chain runs do and chains its events to the TaskEvent of its task, whose info shows the task as queued. The caller holds the world lock
// for writing.
func (v *inventory) chain(ctx *simulator.Context, kind Kind, entity mo.Entity, do func()) {
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
	for _, e := range raw {
		key := e.GetEvent().Key
		switch e.(type) {
		case types.BaseVmEvent, types.BaseHostEvent, *types.TaskEvent:
			if key >= task.Key {
				v.events.chains[key] = task.Key
				v.events.visibleAt[key] = now.Add(v.behavior.DelayEvents)
			}
		}
	}
}

// post posts an event with the context's user.
func (v *inventory) post(ctx *simulator.Context, event types.BaseEvent) {
	m := v.objects.EventManager()
	m.PostEvent(ctx, &types.PostEvent{This: m.Self, EventToPost: event})
}

// eventManager wraps the EventManager for one call.
type eventManager struct {
	*simulator.EventManager
	v *inventory
}

// matching returns the events that match a filter, also by chain, without those that a restore discarded.
func (m *eventManager) matching(ctx *simulator.Context, filter types.EventFilterSpec) ([]types.BaseEvent, *soap.Fault) {
	raw, fault := m.v.rawEvents(ctx, filter)
	return slices.DeleteFunc(m.v.visibleEvents(raw), func(e types.BaseEvent) bool {
		return filter.EventChainId != 0 && e.GetEvent().ChainId != filter.EventChainId
	}), fault
}

// identicalMost is how many events of one kind and user QueryEvents returns: vCenter's filter of bursts, on by default, drops further ones.
// Collectors have them all.
const identicalMost = 30

// QueryEvents returns the newest page.
func (m *eventManager) QueryEvents(ctx *simulator.Context, req *types.QueryEvents) soap.HasFault {
	events, fault := m.matching(ctx, req.Filter)
	if fault != nil {
		return &methods.QueryEventsBody{Fault_: fault}
	}
	type alike struct {
		kind reflect.Type
		user string
	}
	slices.Reverse(events) // of a burst, the first events are kept
	seen := map[alike]int{}
	events = slices.DeleteFunc(events, func(e types.BaseEvent) bool {
		k := alike{reflect.TypeOf(e), e.GetEvent().UserName}
		seen[k]++
		return seen[k] > identicalMost
	})
	slices.Reverse(events)
	return &methods.QueryEventsBody{Res: &types.QueryEventsResponse{Returnval: events[:min(len(events), maxEvents)]}}
}

// eventCollector has the events that matched when a session created it, the oldest first.
type eventCollector struct {
	mo.EventHistoryCollector
	v      *inventory
	events []types.BaseEvent
}

// CreateCollectorForEvents creates a collector, which belongs to the session.
func (m *eventManager) CreateCollectorForEvents(ctx *simulator.Context, req *types.CreateCollectorForEvents) soap.HasFault {
	events, fault := m.matching(ctx, req.Filter)
	if fault != nil {
		return &methods.CreateCollectorForEventsBody{Fault_: fault}
	}
	slices.Reverse(events)
	c := &eventCollector{v: m.v, events: events}
	return &methods.CreateCollectorForEventsBody{Res: &types.CreateCollectorForEventsResponse{Returnval: ctx.Session.Put(c).Reference()}}
}

// ReadNextEvents returns a page.
func (c *eventCollector) ReadNextEvents(_ *simulator.Context, req *types.ReadNextEvents) soap.HasFault {
	n := min(int(req.MaxCount), len(c.events))
	page := c.events[:n]
	c.events = c.events[n:]
	return &methods.ReadNextEventsBody{Res: &types.ReadNextEventsResponse{Returnval: page}}
}

// DestroyCollector removes the collector.
func (c *eventCollector) DestroyCollector(ctx *simulator.Context, req *types.DestroyCollector) soap.HasFault {
	ctx.Session.Remove(ctx, req.This)
	return &methods.DestroyCollectorBody{Res: new(types.DestroyCollectorResponse)}
}
