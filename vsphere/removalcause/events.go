package removalcause

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// The events of a VM that left the inventory. The reason is only in the other events of the same chain. Events of a VM that is gone
// cannot be queried by its moRef; a query without an entity returns those of all VMs
// (https://developer.broadcom.com/xapis/virtual-infrastructure-json-api/latest/data-structures/EventFilterSpec/).
const migrated = "com.vmware.vc.vm.SrcVmMigratedEvent"

// departures are the types of the events that tell. What came before the VM's last arrival did not remove it.
var departures = append([]string{"VmRemovedEvent", "HostRemovedEvent", migrated, "VmRenamedEvent"}, session.ArrivalEvents...)

// destroys are the tasks that destroy VMs, by TaskInfo.descriptionId (govmomi's capture of a vCenter, simulator/vpx/task_manager.go).
var destroys = []string{"VirtualMachine.destroy", "Folder.destroy", "VirtualApp.destroy"}

// kept is how long vCenter keeps events by default.
const kept = 30 * 24 * time.Hour

// fromEvents queries vCenter's events about VMs, and returns the causes that they show, by moRef. A VM without such events has no cause. vCenter
// may have hundreds of thousands of events of all VMs: fromEvents keeps only those of these VMs and their hosts, in their inquiries, and queries
// only events since the last query.
func (f *Finder) fromEvents(ctx context.Context, of []inventory.Missing) (causes map[string]inventory.Cause, err error) {
	now := time.Now()
	err = f.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		causes = map[string]inventory.Cause{}
		begin, some := now, search{}
		for _, m := range of {
			q := f.cases[m.ID()]
			some.add(m, q.events)
			if since := q.beginOf(m, now); since.Before(begin) {
				begin = since
			}
		}
		if err := session.Events(ctx, s, between(begin, now.Add(session.ClocksApart)), some.take); err != nil {
			return err
		}
		chains := map[int32][]types.BaseEvent{}
		for _, m := range of {
			q := f.cases[m.ID()]
			q.events, q.searched = some.about(m), now
			removed := lastOf(q.events, m)
			if removed == nil {
				continue
			}
			id := removed.GetEvent().ChainId
			chain, asked := chains[id]
			if !asked {
				if chain, err = chainOf(ctx, s, id); err != nil {
					return err
				}
				chains[id] = chain
			}
			causes[m.MoRef] = read(removed, chain, s)
		}
		return nil
	})
	return causes, err
}

// search has the events about some VMs, by their moRefs, and about their hosts, by name.
type search struct{ vms, hosts map[string][]types.BaseEvent }

// add adds a VM, with the events about it that earlier queries returned.
func (x *search) add(m inventory.Missing, known []types.BaseEvent) {
	if x.vms == nil {
		x.vms, x.hosts = map[string][]types.BaseEvent{}, map[string][]types.BaseEvent{}
	}
	x.vms[m.MoRef] = slices.Clone(known)
	if m.Host != "" {
		x.hosts[m.Host] = nil
	}
}

// take keeps an event if it is about one of the VMs or hosts. It always returns true, to continue.
func (x *search) take(event types.BaseEvent) bool {
	e, by, name := event.GetEvent(), x.vms, ""
	switch _, ofHost := event.(*types.HostRemovedEvent); {
	case ofHost && e.Host != nil:
		by, name = x.hosts, e.Host.Name
	case !ofHost && e.Vm != nil:
		name = e.Vm.Vm.Value
	}
	if before, wanted := by[name]; wanted && !slices.ContainsFunc(before, func(b types.BaseEvent) bool { return b.GetEvent().Key == e.Key }) {
		by[name] = append(before, event)
	}
	return true
}

// about returns the events about a VM and its host.
func (x *search) about(m inventory.Missing) []types.BaseEvent {
	all := x.vms[m.MoRef]
	for _, e := range x.hosts[m.Host] {
		if !slices.ContainsFunc(all, func(b types.BaseEvent) bool { return b.GetEvent().Key == e.GetEvent().Key }) {
			all = append(slices.Clip(all), e)
		}
	}
	return all
}

// chainOf reads those events of a chain that show what removed a VM; the chain 0 has none. A chain may have events of thousands of VMs that were
// in one folder.
func chainOf(ctx context.Context, s *session.Session, id int32) (chain []types.BaseEvent, err error) {
	if id == 0 {
		return nil, nil
	}
	err = session.Events(ctx, s, types.EventFilterSpec{EventChainId: id}, func(e types.BaseEvent) bool {
		switch e.(type) {
		case *types.TaskEvent, *types.HostRemovedEvent:
			chain = append(chain, e)
		}
		return true
	})
	return chain, err
}

// Destroyed reads vCenter's events about one VM that was in the inventory at a time. It returns whether the VM was destroyed, and how it left the
// inventory; how is "" if vCenter has no such event, or not yet.
func Destroyed(ctx context.Context, s *session.Session, vm types.ManagedObjectReference, at time.Time) (destroyed bool, how string, err error) {
	var m inventory.Missing
	m.MoRef, m.SeenAt = vm.Value, at
	var some search
	some.add(m, nil)
	err = session.Events(ctx, s, between(at.Add(-session.ClocksApart), time.Now().Add(session.ClocksApart)), some.take)
	removed := lastOf(some.about(m), m)
	if err != nil || removed == nil {
		return false, "", err
	}
	chain, err := chainOf(ctx, s, removed.GetEvent().ChainId)
	if err != nil {
		return false, "", err
	}
	c := read(removed, chain, s)
	return c.Destroyed, c.How, nil
}

// beginOf returns the begin of a query about a VM: the time at which the VM was last known to be in the inventory, or that of the oldest events.
// If an earlier query had no result, the query begins at the end of that one.
func (q *inquiry) beginOf(m inventory.Missing, now time.Time) time.Time {
	begin := m.SeenAt
	if begin.IsZero() {
		begin = now.Add(-kept)
	}
	if q.searched.After(begin) {
		begin = q.searched
	}
	return begin.Add(-session.ClocksApart)
}

// between limits a filter to events between two times.
func between(begin, end time.Time) types.EventFilterSpec {
	return types.EventFilterSpec{EventTypeId: departures, Time: &types.EventFilterSpecByTime{BeginTime: &begin, EndTime: &end}}
}

// lastOf returns the newest event of a VM's departure: the VM's own, otherwise its host's. After a restore from a backup, the VM's moRef may
// be another VM's, and the event may be about that one: lastOf compares the VM's names.
func lastOf(events []types.BaseEvent, m inventory.Missing) (last types.BaseEvent) {
	if m.Copied {
		return nil // vCenter shows it, or a copy
	}
	own, names := false, namesOf(events, m)
	came := cameBy(events, m, names)
	for _, event := range events {
		e := event.GetEvent()
		if session.IsArrival(event) || came != nil && !session.Newer(e, came) {
			continue
		}
		its := false
		switch event.(type) {
		case *types.VmRenamedEvent:
		case *types.HostRemovedEvent:
			its = !own && m.Host != "" && e.Host != nil && e.Host.Name == m.Host && !m.SeenAt.After(e.CreatedTime.Add(session.ClocksApart))
		default:
			if its = isOf(e, m) && (m.Name == "" || names[naming.Unescape(e.Vm.Name)]); its && !own {
				own, last = true, nil
			}
		}
		if its && (last == nil || session.Newer(e, last.GetEvent())) {
			last = event
		}
	}
	return last
}

// cameBy returns the newest event of a VM's arrival; nil if there is none.
func cameBy(events []types.BaseEvent, m inventory.Missing, names map[string]bool) (came *types.Event) {
	for _, event := range events {
		e := event.GetEvent()
		if session.IsArrival(event) && isOf(e, m) && (!m.Reused || names[naming.Unescape(e.Vm.Name)]) && (came == nil || session.Newer(e, came)) {
			came = e
		}
	}
	return came
}

func isOf(e *types.Event, m inventory.Missing) bool { return e.Vm != nil && e.Vm.Vm.Value == m.MoRef }

// namesOf returns the last known name of a VM and its later names: a VM is renamed, for example, when it is put into quarantine.
func namesOf(events []types.BaseEvent, m inventory.Missing) map[string]bool {
	names := map[string]bool{naming.Unescape(m.Name): true}
	var renames []*types.VmRenamedEvent
	for _, event := range events {
		if e, is := event.(*types.VmRenamedEvent); is && isOf(e.GetEvent(), m) {
			renames = append(renames, e)
		}
	}
	slices.SortFunc(renames, func(a, b *types.VmRenamedEvent) int {
		if session.Newer(a.GetEvent(), b.GetEvent()) {
			return 1
		}
		return -1
	})
	for _, e := range renames {
		if names[naming.Unescape(e.OldName)] {
			names[naming.Unescape(e.NewName)] = true
		}
	}
	return names
}

// read returns the cause of a departure, from its event and the other events of its chain.
func read(event types.BaseEvent, chain []types.BaseEvent, s *session.Session) inventory.Cause {
	actor := s.Actor(event.GetEvent())
	user := ""
	if actor.User != "" {
		user = " by " + actor.User
	}
	switch e := event.(type) {
	case *types.HostRemovedEvent:
		return inventory.Cause{How: hostRemoved(e.GetEvent()) + user}
	case *types.EventEx:
		return inventory.Cause{How: "it was migrated to another vCenter" + user}
	}
	var tasks []string
	for _, c := range chain {
		switch c := c.(type) {
		case *types.TaskEvent:
			tasks = append(tasks, c.Info.DescriptionId)
		case *types.HostRemovedEvent:
			return inventory.Cause{How: hostRemoved(c.GetEvent()) + user}
		}
	}
	switch {
	case slices.ContainsFunc(tasks, func(t string) bool { return slices.Contains(destroys, t) }):
		return inventory.Cause{Destroyed: true, By: actor, How: "it was destroyed" + user}
	case slices.Contains(tasks, "VirtualMachine.unregister"):
		return inventory.Cause{How: "it was unregistered" + user}
	case len(tasks) > 0:
		slices.Sort(tasks)
		return inventory.Cause{How: "it was removed from the inventory" + user + " (" + plan.AtMost(slices.Compact(tasks), 5) + ")"}
	}
	return inventory.Cause{How: "it was removed from the inventory" + user}
}

func hostRemoved(e *types.Event) string {
	if e.Host == nil {
		return "its host was removed from the inventory"
	}
	return "its host " + e.Host.Name + " was removed from the inventory"
}
