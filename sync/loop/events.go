package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Events are children that Metacontroller creates once. For each in an answer it sends the API server a POST, even if that
// Event exists. So an Event is in two answers, in case the first gets lost, and then in none; or in one, if the next call shows that its
// status was written, which Metacontroller does after the children.
//
// Their rate is limited as in client-go (https://pkg.go.dev/k8s.io/client-go/tools/record#EventCorrelator), but nothing is dropped: events that
// exceed the rate wait, and share one Event with later ones.
const (
	eventAnswers = 2
	eventBurst   = 10
	eventEvery   = 30 * time.Second // beyond the burst
	// waitingMost bounds the events that wait. When there are more, the oldest are lost.
	waitingMost = 200
	// heardFor is how long one is not repeated: as long as the API server keeps Events, by default.
	heardFor = time.Hour
)

// events are what a group's Events say. Loop.mu guards them.
type events struct {
	waiting []plan.Event         // waiting for an Event
	heard   map[string]time.Time // when each came, by key
	noted   map[string]time.Time // when each event of the next answer was noticed, by key
	power   map[string]outage    // of VMs, by moRef
	asked   []plan.Event         // waiting for the user who did it
	sent    []sentEvent          // Events that are in answers
	news    bool                 // the status of the last answer, with those, differed from its call's
	spent   float64              // of the burst
	since   time.Time            // spent is as of then
}

// outage is what is known of a VM that is off, or was.
type outage struct {
	ours     bool // this server took it down
	reported bool // reported as another user's doing, and not over
	// over counts the reported outages that a power-on by this server ended; ended is when the last one did. An Event's key comes from the
	// stored status, which two outages between two calls share.
	over  int
	ended time.Time
}

type sentEvent struct {
	event   plan.Child
	answers int // still to have it
}

// hear adds those that are new. s, which can be nil, shows which VM a clone created.
func (e *events) hear(now time.Time, s *plan.VCenterState, events ...plan.Event) {
	if s != nil {
		for i := range e.waiting {
			e.waiting[i] = e.waiting[i].Seen(s)
		}
	}
	if len(events) > 0 {
		maps.DeleteFunc(e.heard, func(_ string, at time.Time) bool { return now.Sub(at) >= heardFor })
	}
	for _, n := range events {
		if at, before := e.noted[n.Key]; before {
			n.At = at
		}
		o := e.power[n.MoRef]
		if n.PoweredOff {
			if o.ours || !o.ended.IsZero() && !n.At.After(o.ended) {
				continue
			}
			if o.over > 0 {
				n.Key = fmt.Sprintf("%s/%d", n.Key, o.over)
			}
		}
		if _, before := e.heard[n.Key]; before {
			continue
		}
		if n.PoweredOff {
			o.reported = true
			e.setPower(n.MoRef, o)
		}
		if e.heard == nil {
			e.heard = map[string]time.Time{}
		}
		e.heard[n.Key] = now
		e.waiting = append(e.waiting, n)
	}
	e.waiting = slices.Delete(e.waiting, 0, max(0, len(e.waiting)-waitingMost))
}

// note keeps the times of the events that the next answer reports, which may be many seconds later.
func (e *events) note(events []plan.Event) {
	noted := make(map[string]time.Time, len(events))
	for _, n := range events {
		noted[n.Key] = n.At
		if at, before := e.noted[n.Key]; before {
			noted[n.Key] = at
		}
	}
	e.noted = noted
}

// hear adds events, and reports whether some wait for a lookup of their users in vCenter's events. The caller holds l.mu.
func (l *Loop) hear(g *group, s *plan.VCenterState, events []plan.Event) (ask bool) {
	if !l.cfg.Events {
		return false
	}
	g.events.hear(time.Now(), s, events...)
	return l.cfg.Who != nil && g.events.hold()
}

// hearFirst adds the Events of a plan, and reports whether the group's end waits for them. The caller holds l.mu.
func (l *Loop) hearFirst(g *group, s *plan.VCenterState, r *plan.Result) (says bool) {
	if l.hear(g, s, r.Events) {
		l.queue.Add(g.ref.UID)
	}
	return g.sayFirst(r)
}

// acted records the server's own actions, so that they aren't reported as another user's: the stored status may be older than the action.
func (e *events) acted(a *plan.Action, err error, now time.Time) {
	o := e.power[a.MoRef]
	switch a.Op {
	case plan.PowerOff, plan.ShutdownGuest:
		o.ours = true
		e.setPower(a.MoRef, o)
	case plan.PowerOn:
		o.ours = false
		if o.reported && err == nil {
			o.reported, o.ended = false, now
			o.over++
		}
		e.setPower(a.MoRef, o)
	case plan.Destroy:
		delete(e.power, a.MoRef)
	}
}

func (e *events) setPower(moRef string, o outage) {
	if e.power == nil {
		e.power = map[string]outage{}
	}
	if e.power[moRef] = o; o == (outage{}) {
		delete(e.power, moRef)
	}
}

// hold holds back the events whose user is looked up first, and reports whether there are any.
func (e *events) hold() bool {
	ask := func(n plan.Event) bool { return n.PoweredOff }
	for _, n := range e.waiting {
		if ask(n) {
			e.asked = append(e.asked, n)
		}
	}
	e.waiting = slices.DeleteFunc(e.waiting, ask)
	return len(e.asked) > 0
}

// firstPowerOnFor is how long after its clone a member's first power-on may be unknown to a replica.
const firstPowerOnFor = 30 * time.Second

// askTimeout limits the lookup of a user.
const askTimeout = 10 * time.Second

// askWho looks up the users of a group's held-back events, and then releases the events. The caller holds l.mu.
func (l *Loop) askWho(ctx context.Context, g *group) {
	events := g.events.asked
	g.events.asked = nil
	l.actions.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		events = l.complete(ctx, g.ref, events)
		l.mu.Lock()
		defer l.mu.Unlock()
		g.events.waiting = append(g.events.waiting, events...)
	})
}

// complete adds the users to events, in one lookup. It drops actions of the server's account: another replica took them, or this one before a
// restart.
func (l *Loop) complete(ctx context.Context, ref plan.Ref, events []plan.Event) (news []plan.Event) {
	refs := make([]string, len(events))
	for i, n := range events {
		refs[i] = n.MoRef
	}
	who, err := l.who(ctx, refs)
	if err != nil {
		l.cfg.Log.Debug().Err(err).Stringer("group", ref).Msg("reading vCenter's events for the users who changed members failed")
	}
	for _, n := range events {
		// Another replica's status may be ahead of this replica's view: a running new member can look powered off. Don't report it.
		by := who[n.MoRef]
		firstPowerOn := err == nil && by.User == "" && n.At.Before(n.Made.Add(firstPowerOnFor))
		if !by.Ours && !firstPowerOn {
			news = append(news, n.By(by.User))
		}
	}
	return news
}

// who calls Config.Who; a panic in it fails only this call.
func (l *Loop) who(ctx context.Context, moRefs []string) (who map[string]plan.Actor, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %s", panicked(p))
		}
	}()
	return l.cfg.Who(ctx, moRefs)
}

// answer returns the Events for an answer given now.
func (e *events) answer(ref plan.Ref, now time.Time) (children []plan.Child) {
	e.spent, e.since = max(0, e.spent-now.Sub(e.since).Seconds()/eventEvery.Seconds()), now
	for len(e.waiting) > 0 && e.spent+1 <= eventBurst {
		var together []plan.Event
		together, e.waiting = plan.Together(e.waiting)
		e.sent = append(e.sent, sentEvent{plan.EventOf(ref, together), eventAnswers})
		e.spent++
	}
	for i := range e.sent {
		children = append(children, e.sent[i].event)
		e.sent[i].answers--
	}
	e.sent = slices.DeleteFunc(e.sent, func(t sentEvent) bool { return t.answers == 0 })
	return children
}

// sayAgain is how soon, after a call that reported something, the call comes that ends the group.
const sayAgain = 100 * time.Millisecond

// sayFirst delays the end of a group by one call if it has Events to send: when the answer has finalized: true, Metacontroller removes its
// finalizer and ignores the children. These are the last Events, so the rate limit doesn't apply to them; and each is sent only once, because
// every further call would delay each deletion. The status, which goes with the group, isn't written for them.
func (g *group) sayFirst(r *plan.Result) (says bool) {
	if says = r.Finalized && len(g.events.waiting) > 0; says {
		g.events.spent = 0
		r.Finalized = false
		if stored := g.lease.call.Group.Status; stored.Phase != "" {
			r.Status = stored
		}
	}
	return says
}

// answerEvents adds the Events to an answer.
func (g *group) answerEvents(r *plan.Result, now time.Time) {
	r.Children = append(slices.Clip(r.Children), g.events.answer(g.ref, now)...)
	g.events.news = len(g.events.sent) > 0 && !equality.Semantic.DeepEqual(r.Status, g.lease.call.Group.Status)
}

// sawAnswer forgets the Events of the last answer if a call shows its status.
func (g *group) sawAnswer(call *plan.Call) {
	if g.events.news && equality.Semantic.DeepEqual(call.Group.Status, g.answers.status) {
		g.events.sent = nil
	}
}
