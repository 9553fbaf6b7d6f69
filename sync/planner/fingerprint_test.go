package planner_test

import (
	"testing"
	"time"

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
		{"now", "now", false}, {"before", "now", true}, {"", "now", false}, {"before", "", false},
	} {
		o := observed(2)
		o.Group.Spec.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace
		o.State.Template.Fingerprint = c.template
		addMembers(&o, 2, func(m *plan.VM) { m.Fingerprint = c.members })
		if rolled := len(planner.Make(o).Actions) > 0; rolled != c.rolled {
			t.Errorf("members of %q, template %q: rolled: %t", c.members, c.template, rolled)
		}
	}
}

// A server that has just started doesn't know the template's version yet, and sees one member more than replicas: the new member of an update.
func TestTheMemberThatAnUpdateMadeIsNotOneTooManyWhileTheTemplateIsUnknown(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{"": "web-1", "now": "web-1", "unlike any": "web-2"} {
		o := observed(2)
		o.Group.Spec.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace
		o.State.Template.Fingerprint = template
		addMembers(&o, 3, func(m *plan.VM) {
			m.Fingerprint, m.Created = "before", o.Now.Add(-time.Hour)
			if m.Ordinal == 2 {
				m.Fingerprint, m.Created = "now", o.Now.Add(-time.Minute)
			}
		})
		var marked []string
		for _, a := range planner.Make(o).Actions {
			if a.Op == plan.Mark {
				marked = append(marked, a.Key)
			}
		}
		if len(marked) != 1 || marked[0] != want {
			t.Errorf("the template is %q: %v are marked, want %s", template, marked, want)
		}
	}
}
