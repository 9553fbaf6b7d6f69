package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestOnlyAKnownAndDifferentFingerprintRollsAMember(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members, template string
		rolled            bool
	}{
		{"now", "now", false}, {"before", "now", true}, {"", "now", false}, {"before", "", false}, {"part", "now", false},
	} {
		o := observed(2)
		o.Group.Spec.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace
		o.State.Template.Fingerprint, o.State.Template.Partial = c.template, [3]string{"part"}
		addMembers(&o, 2, func(m *plan.VM) { m.Fingerprint = c.members })
		if rolled := len(planner.Make(o).Actions) > 0; rolled != c.rolled {
			t.Errorf("members of %q, template %q: rolled: %t", c.members, c.template, rolled)
		}
	}
}
