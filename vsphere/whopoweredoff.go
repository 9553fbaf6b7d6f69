// This file asks vCenter's events who powered off a VM.
//
// Locks: one caller at a time asks vCenter, and holds turn across the call.

package vsphere

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// The queries run one at a time, and at most one each second, because many groups ask at once when a host fails.
const (
	auditInterval = time.Second
	auditFresh    = 2 * time.Second // how long an answer serves other callers
)

// powerAudit has vCenter's last answer. turn guards it.
type powerAudit struct {
	calls calls

	turn chan struct{}
	last time.Time // when it was asked for
	who  map[string]plan.Actor
}

// newPowerAudit returns a powerAudit without an answer.
func newPowerAudit(calls calls) *powerAudit {
	return &powerAudit{calls: calls, turn: make(chan struct{}, 1)}
}

// Who returns the accounts that recently powered these VMs off, by moRef, as far as vCenter's events name them.
func (w *powerAudit) Who(ctx context.Context, moRefs []string) (map[string]plan.Actor, error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	known := !slices.ContainsFunc(moRefs, func(ref string) bool { return w.who[ref].User == "" })
	if known && time.Since(w.last) < auditFresh {
		return w.who, nil
	}
	if !session.Sleep(ctx, auditInterval-time.Since(w.last)) {
		return nil, ctx.Err()
	}
	who, err := w.ask(ctx)
	w.who, w.last = who, time.Now()
	return who, err
}

// ask reads vCenter's events about all VMs that were powered off recently.
func (w *powerAudit) ask(ctx context.Context) (map[string]plan.Actor, error) {
	begin := time.Now().Add(-session.ClocksApart) // a power-off is reported within moments
	var found poweredOff
	err := w.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		found = newPoweredOff(s)
		return session.Events(ctx, s, types.EventFilterSpec{EventTypeId: []string{"VmPoweredOffEvent"}, Time: &types.EventFilterSpecByTime{BeginTime: &begin}}, found.note)
	})
	return found.who, err
}

// poweredOff has the account that powered each VM off last, by moRef.
type poweredOff struct {
	on   *session.Session
	who  map[string]plan.Actor
	last map[string]time.Time
}

func newPoweredOff(on *session.Session) poweredOff {
	return poweredOff{on, map[string]plan.Actor{}, map[string]time.Time{}}
}

// note records an event. It always asks for more events.
func (p poweredOff) note(event types.BaseEvent) (more bool) {
	e := event.GetEvent()
	if by, at := p.on.Actor(e), session.TimeOf(e); e.Vm != nil && by.User != "" && !at.Before(p.last[e.Vm.Vm.Value]) {
		p.who[e.Vm.Vm.Value], p.last[e.Vm.Vm.Value] = by, at
	}
	return true
}
