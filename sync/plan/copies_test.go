package plan_test

import (
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Another user data raises no generation. A copy of the server that was called before the change must not undo what the
// other one makes of it.
func TestACopyThatKnowsTheOldUserDataLeavesWhatTheOtherMakesAlone(t *testing.T) {
	old := observed(2)
	old.Sight.Folder = "group-v7"
	old.Group.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}}
	old.Related = plan.Related{UserData: "one", Digest: "1"}
	knows := old
	knows.Related = plan.Related{UserData: "two", Digest: "2"}
	for i := range int32(2) {
		m := vm(&old, i)
		m.Created = now.Add(-time.Hour)
		old.Sight.VMs = append(old.Sight.VMs, m)
	}
	made := vm(&knows, 2)
	made.Created = now.Add(20 * time.Second)
	old.Sight.VMs = append(old.Sight.VMs, made)
	old.Called, old.Now = now, now.Add(30*time.Second)
	if r := plan.Make(old); len(r.Actions) > 0 || r.Status.Conditions[0].Reason != plan.ReasonSuperseded {
		t.Errorf("it does %+v: %s", r.Actions, r.Status.LastMessage)
	}
	knows.Sight, knows.Called, knows.Now = old.Sight, now.Add(10*time.Second), old.Now
	if r := plan.Make(knows); len(r.Actions) == 0 {
		t.Errorf("the one that knows does nothing: %s", r.Status.LastMessage)
	}
	old.Called = now.Add(25 * time.Second) // the text was put back
	if r := plan.Make(old); len(r.Actions) == 0 {
		t.Errorf("called later, it does nothing: %s", r.Status.LastMessage)
	}
}

func TestAMarkThatWasSetSinceTheLastCallIsNotWithdrawn(t *testing.T) {
	o := observed(2)
	o.Sight.Folder = "group-v7"
	for i := range int32(2) {
		o.Sight.VMs = append(o.Sight.VMs, vm(&o, i))
	}
	m := &o.Sight.VMs[1]
	m.Marked, m.Why, m.MarkedAt = true, plan.WhyUpdate, now.Add(20*time.Second)
	o.Called, o.Now = now, now.Add(30*time.Second)
	if r := plan.Make(o); r.Wants("web-1", plan.Unmark) {
		t.Error("it withdraws a mark that another copy may have set for what it knows")
	}
	o.Called = now.Add(25 * time.Second)
	if r := plan.Make(o); !r.Wants("web-1", plan.Unmark) {
		t.Errorf("called since, it leaves the mark: %+v", r.Actions)
	}
}
