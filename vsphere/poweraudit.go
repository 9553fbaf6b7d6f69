// This file asks vCenter's events who powered VMs off. It keeps the last answer.
//
// Locks: one caller at a time has the turn, which is held across a call.

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

// powerAudit is the last answer of vCenter's events. turn guards it.
type powerAudit struct {
	calls *VCenter

	turn chan struct{}
	last time.Time // when it was asked for
	who  map[string]plan.Actor
}

// newPowerAudit returns a powerAudit that has asked nothing yet.
func newPowerAudit(calls *VCenter) *powerAudit {
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
	told := !slices.ContainsFunc(moRefs, func(ref string) bool { return w.who[ref].User == "" })
	if told && time.Since(w.last) < auditFresh {
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
	begin, own := time.Now().Add(-auditSince), ""
	var events []types.BaseEvent
	err := w.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		own = s.User
		var err error
		events, err = session.Events(ctx, s, types.EventFilterSpec{EventTypeId: []string{"VmPoweredOffEvent"}, Time: &types.EventFilterSpecByTime{BeginTime: &begin}})
		return err
	})
	who, last := map[string]plan.Actor{}, map[string]time.Time{}
	for _, event := range events {
		e := event.GetEvent()
		if e.Vm == nil || e.UserName == "" || e.CreatedTime.Before(last[e.Vm.Vm.Value]) {
			continue
		}
		who[e.Vm.Vm.Value], last[e.Vm.Vm.Value] = plan.Actor{User: e.UserName, Ours: strings.EqualFold(e.UserName, own)}, e.CreatedTime
	}
	return who, err
}
