// This file asks vCenter's events who powered off a VM.
//
// Locks: one caller at a time asks, and keeps its turn across the call.

package vsphere

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// auditSince is how far back the query goes: a power-off is reported within moments, but vCenter's clock may differ.
const auditSince = 15 * time.Minute

// The queries run one at a time, and at most once a second: when a host fails, many groups ask at once.
const (
	auditInterval = time.Second
	auditFresh    = 2 * time.Second // how long an answer is reused
)

// powerAudit is the last answer of vCenter about its events. turn guards it.
type powerAudit struct {
	calls calls

	turn chan struct{}
	last time.Time // when it was asked for
	who  map[string]plan.Actor
}

// newPowerAudit returns a powerAudit that has asked nothing yet.
func newPowerAudit(calls calls) *powerAudit {
	return &powerAudit{calls: calls, turn: make(chan struct{}, 1)}
}

// Who returns who recently powered these VMs off, by moRef, as far as vCenter's events tell.
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

// ask queries who recently powered any VM off.
func (w *powerAudit) ask(ctx context.Context) (map[string]plan.Actor, error) {
	begin := time.Now().Add(-auditSince)
	var found poweredOff
	err := w.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		found = newPoweredOff(s.User)
		return session.Events(ctx, s, types.EventFilterSpec{EventTypeId: []string{"VmPoweredOffEvent"}, Time: &types.EventFilterSpecByTime{BeginTime: &begin}}, found.note)
	})
	return found.who, err
}

// poweredOff is, by moRef, who powered VMs off last. own is the server's account.
type poweredOff struct {
	own  string
	who  map[string]plan.Actor
	last map[string]time.Time
}

func newPoweredOff(own string) poweredOff {
	return poweredOff{own, map[string]plan.Actor{}, map[string]time.Time{}}
}

// note takes an event into account, and reports that more are wanted.
func (p poweredOff) note(event types.BaseEvent) (more bool) {
	e := event.GetEvent()
	if user, at := session.UserOf(e), session.TimeOf(e); e.Vm != nil && user != "" && !at.Before(p.last[e.Vm.Vm.Value]) {
		p.who[e.Vm.Vm.Value], p.last[e.Vm.Vm.Value] = plan.Actor{User: user, Ours: strings.EqualFold(user, p.own)}, at
	}
	return true
}
