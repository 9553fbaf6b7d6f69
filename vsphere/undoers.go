// This file asks vCenter's events who undid a step's change.
//
// Locks: one step at a time asks vCenter, and holds undoersTurn across its calls.

package vsphere

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// undoersPatience bounds how long a step waits for its turn and for vCenter's events.
const undoersPatience = 15 * time.Second

// undoers says, for users, which accounts vCenter's events name for the object of the step since its change was made last, or where else to
// look. It is empty if no event names one, or if the events can't be read, which is no reason for the step to fail.
func (st *step) undoers(ctx context.Context) string {
	kind, did, of := "VmReconfiguredEvent", "reconfigured the VM", st.vm()
	switch st.action.Op {
	case plan.SetRules:
		changes, _ := st.inventory.RuleChanges(st.ref, rules{st}.wanted())
		if len(changes) == 0 {
			return ""
		}
		kind, did, of = "ClusterReconfiguredEvent", "reconfigured the cluster", types.ManagedObjectReference{Type: "ClusterComputeResource", Value: changes[0].Cluster}
	case plan.Rename:
		kind, did = "VmRenamedEvent", "renamed the VM"
	case plan.Move: // vCenter has no event of a VM that moves to another folder
		return "look in vCenter's recent tasks for who moves the VM"
	}
	ctx, cancel := context.WithTimeout(ctx, undoersPatience)
	defer cancel()
	select {
	case st.undoersTurn <- struct{}{}:
		defer func() { <-st.undoersTurn }()
	case <-ctx.Done():
		return ""
	}
	users, own := map[string]bool{}, false
	err := st.Call(ctx, func(ctx context.Context, s *session.Session) error {
		now, err := methods.GetCurrentTime(ctx, s.Vim) // the clocks may differ
		if err != nil {
			return err
		}
		since := now.Add(-time.Since(st.action.Again))
		return session.Events(ctx, s, types.EventFilterSpec{
			Entity:      session.OfVM(of),
			EventTypeId: []string{kind}, Time: &types.EventFilterSpecByTime{BeginTime: &since},
		}, func(e types.BaseEvent) bool {
			switch by := s.Actor(e.GetEvent()); {
			case by.Ours:
				own = true
			case by.User != "":
				users[by.User] = true
			}
			return true
		})
	})
	switch {
	case err != nil:
		st.log.Debug().Err(err).Stringer("group", st.ref).Msg("vCenter's events can't be read")
		return ""
	case len(users) > 0:
		return "its events name who " + did + " since: " + plan.AtMost(slices.Sorted(maps.Keys(users)), 3)
	case own:
		return "its events name only the server's own account, which another tool may use"
	}
	return ""
}
