package tagging

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Detached is the type of the event that a tag was detached from an object. Public sources have it, but no page of the API
// (https://github.com/vmware-samples/vcenter-event-broker-appliance/tree/3619034f/examples/powercli/nsx-t_tag-sync). It names the object only by its
// name, "object <name>" at the end of its message, with line breaks at unexpected places. Other objects may have that name.
const Detached = "com.vmware.cis.tagging.detach"

const (
	// watchEach is the time between two queries for new events.
	watchEach = time.Minute
	// watchBack is how far the first query of a process goes back: a tag may have been detached while no server ran.
	watchBack = 24 * time.Hour
)

// Watcher looks for events that say that somebody else than the server detached a tag from a VM.
type Watcher struct {
	// Call runs f with a session.
	Call func(ctx context.Context, f func(context.Context, *session.Session) error) error
	// Watched reports whether any member has tags.
	Watched func() bool
	// Tell is called with the names of the objects that lost a tag, and when.
	Tell func(map[string]time.Time)
	Log  zerolog.Logger

	seen map[int32]bool // the keys of the events of the last query
}

// Run watches until ctx ends. An event is only a hint, since anybody can post one and the object may be another: so the tags of the VMs of that name
// are compared with the spec, and nothing else follows from it. Without the right to read events, there are none.
func (w *Watcher) Run(ctx context.Context) {
	since := time.Now().Add(-watchBack)
	for session.Sleep(ctx, watchEach) {
		if !w.Watched() {
			continue
		}
		now := time.Now()
		if err := w.look(ctx, since); err != nil {
			w.Log.Debug().Err(err).Msg("cannot read vCenter's events about tags")
			continue
		}
		since = now
	}
}

func (w *Watcher) look(ctx context.Context, since time.Time) error {
	begin, now := since.Add(-session.ClocksApart), time.Now()
	lost, seen := map[string]time.Time{}, map[int32]bool{}
	err := w.Call(ctx, func(ctx context.Context, s *session.Session) error {
		clear(lost)
		clear(seen)
		return session.Events(ctx, s, types.EventFilterSpec{EventTypeId: []string{Detached}, Time: &types.EventFilterSpecByTime{BeginTime: &begin}}, func(event types.BaseEvent) bool {
			e := event.GetEvent()
			seen[e.Key] = true
			if w.seen[e.Key] || s.Actor(e).Ours {
				return true
			}
			at := session.TimeOf(e).Add(session.ClocksApart)
			if at.After(now) {
				at = now
			}
			for _, name := range namesIn(event) {
				if at.After(lost[name]) {
					lost[name] = at
				}
			}
			return true
		})
	})
	if err != nil {
		return err
	}
	w.seen = seen
	if len(lost) > 0 {
		w.Tell(lost)
	}
	return nil
}

// Names reports whether an event of a detached tag may be about an object of that name.
func Names(event types.BaseEvent, name string) bool {
	return slices.Contains(namesIn(event), strings.Join(strings.Fields(name), " "))
}

// namesIn returns the names that an event of a detached tag may give to its object.
func namesIn(event types.BaseEvent) (names []string) {
	add := func(name string) {
		if name = strings.Join(strings.Fields(naming.Unescape(name)), " "); name != "" {
			names = append(names, name)
		}
	}
	e := event.GetEvent()
	if e.Vm != nil {
		add(e.Vm.Name)
	}
	if _, object, found := strings.Cut(strings.Join(strings.Fields(e.FullFormattedMessage), " "), " object "); found {
		add(object)
	}
	if x, is := event.(*types.EventEx); is {
		add(x.ObjectName)
		for _, a := range x.Arguments {
			if text, is := a.Value.(string); is {
				add(text)
			}
		}
	}
	return names
}
