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
	"codeconnect.vmworld.com/vmgroup/vsphere/tagging"
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
	changed := asked{types.EventFilterSpec{Entity: session.OfVM(of), EventTypeId: []string{kind}}, nil, did}
	all := []asked{changed}
	if m, details := st.inventory.Member(st.action.MoRef), st.action.Details(); st.action.Op == plan.Prepare && m != nil && details.Spec != nil && len(details.Spec.Tags) > 0 {
		of := func(e types.BaseEvent) bool { return tagging.Names(e, m.Name) }
		all = []asked{{types.EventFilterSpec{EventTypeId: []string{tagging.Detached}}, of, "detached tags from a VM of this name"}, changed}
	}
	own := false
	for _, q := range all {
		users, ours, err := st.actors(ctx, q)
		switch {
		case err != nil:
			st.log.Debug().Err(err).Stringer("group", st.ref).Msg("vCenter's events can't be read")
			return ""
		case len(users) > 0:
			return "its events name who " + q.did + " since: " + plan.AtMost(users, 3)
		}
		own = own || ours
	}
	if own {
		return "its events name only the server's own account, which another tool may use"
	}
	return ""
}

// asked are events to ask vCenter for.
type asked struct {
	filter types.EventFilterSpec
	of     func(types.BaseEvent) bool // which of them count; nil: all
	did    string                     // what they say, for users
}

// actors returns the other accounts that such events name since the step's change was made last, sorted, and whether one names the server's own.
func (st *step) actors(ctx context.Context, q asked) (_ []string, own bool, _ error) {
	users := map[string]bool{}
	err := st.Call(ctx, func(ctx context.Context, s *session.Session) error {
		now, err := methods.GetCurrentTime(ctx, s.Vim) // the clocks may differ
		if err != nil {
			return err
		}
		since := now.Add(-time.Since(st.action.Again))
		q.filter.Time = &types.EventFilterSpecByTime{BeginTime: &since}
		return session.Events(ctx, s, q.filter, func(e types.BaseEvent) bool {
			if q.of != nil && !q.of(e) {
				return true
			}
			switch by := s.Actor(e.GetEvent()); {
			case by.Ours:
				own = true
			case by.User != "":
				users[by.User] = true
			}
			return true
		})
	})
	return slices.Sorted(maps.Keys(users)), own, err
}
