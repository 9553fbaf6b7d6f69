package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Events are children that Metacontroller creates once. For each in an answer it sends the API server a POST, also if that
// Event exists; so an Event is in two answers, in case the first got lost, and then in none.
//
// They are bounded as client-go bounds its own (https://pkg.go.dev/k8s.io/client-go/tools/record#EventCorrelator), but
// nothing is dropped for that: what has no Event yet is told later, with what has come meanwhile.
const (
	eventAnswers = 2
	eventBurst   = 10
	eventEvery   = 30 * time.Second // beyond the burst
	// notesMost bounds the notes that wait. When there are more, the oldest are lost.
	notesMost = 200
	// heardFor is how long a note is not told again: as long as the API server keeps Events, by default.
	heardFor = time.Hour
)

// events are what is to be told of a group. Loop.mu guards them.
type events struct {
	notes []plan.Note          // that wait for an Event
	heard map[string]time.Time // by key: when it was heard of
	down  map[string]bool      // VMs that this server took down, by moRef
	asked []plan.Note          // that wait for who did it
	told  []toldEvent          // Events that are in answers
	spent float64              // of the burst
	since time.Time            // spent is as of then
}

type toldEvent struct {
	event   plan.Child
	answers int // that it is to be in
}

// hear takes notes in, unless they were heard of before. s may be nil; it shows which VM a clone made.
func (e *events) hear(now time.Time, s *plan.VCenterState, notes ...plan.Note) {
	if s != nil {
		for i := range e.notes {
			e.notes[i] = e.notes[i].Seen(s)
		}
	}
	if len(notes) > 0 {
		maps.DeleteFunc(e.heard, func(_ string, at time.Time) bool { return now.Sub(at) >= heardFor })
	}
	for _, n := range notes {
		if _, before := e.heard[n.Key]; before || n.Deed == plan.DeedPoweredOff && e.down[n.MoRef] {
			continue
		}
		if e.heard == nil {
			e.heard = map[string]time.Time{}
		}
		e.heard[n.Key] = now
		e.notes = append(e.notes, n)
	}
	e.notes = slices.Delete(e.notes, 0, max(0, len(e.notes)-notesMost))
}

// hear takes notes in, and reports whether vCenter is to be asked about some that are held back. l.mu is held.
func (l *Loop) hear(g *group, s *plan.VCenterState, notes []plan.Note) (ask bool) {
	if !l.cfg.Events {
		return false
	}
	g.events.hear(time.Now(), s, notes...)
	return l.cfg.Who != nil && g.events.hold()
}

// tookDown keeps what this server did from being told as another's deed: the stored status may be older than that.
func (e *events) tookDown(a *plan.Action) {
	switch a.Op {
	case plan.PowerOff, plan.ShutdownGuest:
		if e.down == nil {
			e.down = map[string]bool{}
		}
		e.down[a.MoRef] = true
	case plan.PowerOn, plan.Destroy:
		delete(e.down, a.MoRef)
	}
}

// hold keeps notes back until it is known who did that, and reports whether there are such.
func (e *events) hold() bool {
	ask := func(n plan.Note) bool { return n.Deed != "" }
	for _, n := range e.notes {
		if ask(n) {
			e.asked = append(e.asked, n)
		}
	}
	e.notes = slices.DeleteFunc(e.notes, ask)
	return len(e.asked) > 0
}

// askTimeout is how long it is waited for who did something.
const askTimeout = 10 * time.Second

// askWho asks vCenter about the notes of a group that are held back, and lets them go. l.mu is held.
func (l *Loop) askWho(ctx context.Context, g *group) {
	notes := g.events.asked
	g.events.asked = nil
	l.actions.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		for _, deed := range []plan.Deed{plan.DeedRemoved, plan.DeedPoweredOff} {
			l.complete(ctx, g.ref, deed, notes)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		g.events.notes = append(g.events.notes, notes...)
	})
}

// complete asks about the notes of one kind of deed, by one call.
func (l *Loop) complete(ctx context.Context, ref plan.Ref, deed plan.Deed, notes []plan.Note) {
	var refs []string
	for _, n := range notes {
		if n.Deed == deed {
			refs = append(refs, n.MoRef)
		}
	}
	if len(refs) == 0 {
		return
	}
	who, err := l.who(ctx, deed, refs)
	if err != nil {
		l.cfg.Log.Debug().Err(err).Stringer("group", ref).Msg("vCenter's events do not tell who did what befell members")
	}
	for i, n := range notes {
		if n.Deed == deed {
			notes[i] = n.By(who[n.MoRef])
		}
	}
}

// who asks; a panic in it is a fault of this one question.
func (l *Loop) who(ctx context.Context, deed plan.Deed, moRefs []string) (who map[string]string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %s", panicked(p))
		}
	}()
	return l.cfg.Who(ctx, deed, moRefs)
}

// answer are the Events for an answer that is given now.
func (e *events) answer(ref plan.Ref, now time.Time) (children []plan.Child) {
	e.spent, e.since = max(0, e.spent-now.Sub(e.since).Seconds()/eventEvery.Seconds()), now
	for len(e.notes) > 0 && e.spent+1 <= eventBurst {
		var together []plan.Note
		together, e.notes = plan.Together(e.notes)
		e.told = append(e.told, toldEvent{plan.EventOf(ref, together), eventAnswers})
		e.spent++
	}
	for i := range e.told {
		children = append(children, e.told[i].event)
		e.told[i].answers--
	}
	e.told = slices.DeleteFunc(e.told, func(t toldEvent) bool { return t.answers == 0 })
	return children
}
