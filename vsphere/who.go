package vsphere

import (
	"context"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// deeds are vCenter's events of each kind of deed. Those of a VM that is gone cannot be asked for by the VM; without an entity
// the events of all are given
// (https://developer.broadcom.com/xapis/virtual-infrastructure-json-api/latest/data-structures/EventFilterSpec/).
var deeds = map[plan.Deed][]string{
	plan.DeedRemoved:    {"VmRemovedEvent"},
	plan.DeedPoweredOff: {"VmPoweredOffEvent"},
}

// deedsSince is how far back is asked for: what is noted happened moments ago; vCenter's clock may differ.
const deedsSince = 15 * time.Minute

// Who says who did that to these VMs lately: the user, by moRef, as far as vCenter's events tell.
func (v *VCenter) Who(ctx context.Context, deed plan.Deed, moRefs []string) (map[string]string, error) {
	begin := time.Now().Add(-deedsSince)
	var events []types.BaseEvent
	err := v.client.call(ctx, func(ctx context.Context, s *session) error {
		res, err := methods.QueryEvents(ctx, s.vim, &types.QueryEvents{This: *s.vim.ServiceContent.EventManager,
			Filter: types.EventFilterSpec{EventTypeId: deeds[deed], Time: &types.EventFilterSpecByTime{BeginTime: &begin}}})
		if err == nil {
			events = res.Returnval
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	who, last := map[string]string{}, map[string]time.Time{}
	for _, event := range events {
		e := event.GetEvent()
		if e.Vm == nil || e.UserName == "" || !slices.Contains(moRefs, e.Vm.Vm.Value) || e.CreatedTime.Before(last[e.Vm.Vm.Value]) {
			continue
		}
		who[e.Vm.Vm.Value], last[e.Vm.Vm.Value] = e.UserName, e.CreatedTime
	}
	return who, nil
}
