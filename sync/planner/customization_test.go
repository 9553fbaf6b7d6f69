package planner_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestAMemberIsReadyOnceItsGuestIsCustomized(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(o *plan.Observed, m *plan.VM)
		state  plan.CustomizationState
		ready  bool
		shown  bool
	}{
		"pending":                            {state: plan.CustomizationPending},
		"running":                            {state: plan.CustomizationRunning},
		"done":                               {ready: true},
		"failed":                             {state: plan.CustomizationFailed, shown: true},
		"failed, of a group without":         {state: plan.CustomizationFailed, ready: true, change: func(o *plan.Observed, _ *plan.VM) { o.Group.Spec.CustomizationSpec = "" }},
		"failed before it was adopted":       {state: plan.CustomizationFailed, ready: true, change: func(_ *plan.Observed, m *plan.VM) { m.Former.Name = "old" }},
		"failed, and powered off and on":     {state: plan.CustomizationFailed, ready: true, shown: true, change: func(_ *plan.Observed, m *plan.VM) { m.BootTime = m.Customization.Ended.Add(time.Minute) }},
		"failed, and ready to older servers": {state: plan.CustomizationFailed, ready: true, shown: true, change: wasReady},
		"running, and ready before":          {state: plan.CustomizationRunning, change: wasReady},
	} {
		o := observed(1)
		o.Group.Spec.CustomizationSpec = "linux"
		addMembers(&o, 1)
		m := &o.State.VMs[0]
		m.Customization = plan.Customization{State: c.state, Error: "NetworkSetupFailed", Ended: m.BootTime.Add(time.Minute)}
		if c.change != nil {
			c.change(&o, m)
			m.Revision = plan.Revision(&o.Group.Spec)
		}
		r := planner.Make(o)
		if got := r.Status.ReadyReplicas == 1; got != c.ready {
			t.Errorf("%s: ready is %t: %+v", what, got, r.Status.Members)
		}
		if len(r.Actions) > 0 && r.Actions[0].Op != plan.Move { // of the adopted one
			t.Errorf("%s: %v", what, r.Actions)
		}
		is := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionCustomizationFailed)
		if shown := is != nil && is.Status == "True" && strings.Contains(is.Message, "NetworkSetupFailed"); shown != c.shown {
			t.Errorf("%s: shown: %t, %+v", what, shown, is)
		}
		if stopped := r.Status.Phase == v1alpha1.PhaseError; stopped != (c.shown && !c.ready) {
			t.Errorf("%s: %s %s", what, r.Status.Phase, r.Status.LastMessage)
		}
	}
}

func wasReady(o *plan.Observed, m *plan.VM) {
	o.Group.Status.Members = []v1alpha1.Member{{Name: m.Name, Ordinal: m.Ordinal, MoRef: m.MoRef, Ready: true}}
}
