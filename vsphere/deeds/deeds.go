// Package deeds asks vCenter's events who did something to VMs. It keeps the last answer.
//
// Locks: one caller at a time has the turn, which is held across a call.
package deeds

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// deeds are vCenter's events for each kind of deed. Events of a VM that is gone cannot be queried by the VM; a query without an
// entity returns those of all VMs
// (https://developer.broadcom.com/xapis/virtual-infrastructure-json-api/latest/data-structures/EventFilterSpec/).
var deeds = map[plan.Deed][]string{
	plan.DeedRemoved:    {"VmRemovedEvent"},
	plan.DeedPoweredOff: {"VmPoweredOffEvent"},
}

// deedsSince is how far back the query goes: deeds are noted within moments, but vCenter's clock may differ.
const deedsSince = 15 * time.Minute

// The queries run one at a time, and at most once a second: when a host fails, many groups ask at once.
const (
	deedsEvery = time.Second
	deedsFresh = 2 * time.Second // how long an answer is reused
)

// Caller makes calls on the current session. *vsphere.VCenter is one.
type Caller interface {
	Call(ctx context.Context, f func(context.Context, *session.Session) error) error
}

// Witness is the last answer of vCenter's events. turn guards it.
type Witness struct {
	calls Caller

	turn chan struct{}
	last map[plan.Deed]testimony
}

type testimony struct {
	at  time.Time
	who map[string]string
}

// New returns a Witness that has asked nothing yet.
func New(calls Caller) *Witness {
	return &Witness{calls: calls, turn: make(chan struct{}, 1), last: map[plan.Deed]testimony{}}
}

// Who returns the users who recently did that to these VMs, by moRef, as far as vCenter's events tell.
func (w *Witness) Who(ctx context.Context, deed plan.Deed, moRefs []string) (map[string]string, error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	last := w.last[deed]
	told := !slices.ContainsFunc(moRefs, func(ref string) bool { return last.who[ref] == "" })
	if told && time.Since(last.at) < deedsFresh {
		return last.who, nil
	}
	if !session.Sleep(ctx, deedsEvery-time.Since(last.at)) {
		return nil, ctx.Err()
	}
	who, err := w.askWho(ctx, deed)
	w.last[deed] = testimony{time.Now(), who}
	return who, err
}

// askWho queries who recently did that to any VM.
func (w *Witness) askWho(ctx context.Context, deed plan.Deed) (map[string]string, error) {
	begin := time.Now().Add(-deedsSince)
	var events []types.BaseEvent
	err := w.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		res, err := methods.QueryEvents(ctx, s.Vim, &types.QueryEvents{This: *s.Vim.ServiceContent.EventManager,
			Filter: types.EventFilterSpec{EventTypeId: deeds[deed], Time: &types.EventFilterSpecByTime{BeginTime: &begin}}})
		if err == nil {
			events = res.Returnval
		}
		return err
	})
	who, last := map[string]string{}, map[string]time.Time{}
	for _, event := range events {
		e := event.GetEvent()
		if e.Vm == nil || e.UserName == "" || e.CreatedTime.Before(last[e.Vm.Vm.Value]) {
			continue
		}
		who[e.Vm.Vm.Value], last[e.Vm.Vm.Value] = e.UserName, e.CreatedTime
	}
	return who, err
}
