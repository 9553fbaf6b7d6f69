package planner_test

import (
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Two adopted members have each other's former names: neither can have its own back while the other is there.
func TestADeletionThatRetainsWaitsForNoName(t *testing.T) {
	o := observed(2)
	o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
	remove(&o)
	o.Called = o.Now
	o.State.Folder = "group-v7"
	held := plan.Fault{Reason: plan.ReasonNameHeld, Message: "another VM of the group has the name", Transient: true}
	o.Pending = map[string]plan.Pending{}
	for i := range int32(2) {
		m := vm(&o, i)
		m.Marked, m.Folder, m.Former = true, "group-v7", plan.Former{Name: plan.MemberName("web", 1-i), Folder: "group-v9"}
		o.State.VMs = append(o.State.VMs, m)
		o.Pending[m.Name] = plan.Pending{Op: plan.Rename, Ordinal: i, MoRef: m.MoRef, State: plan.Due, Fault: held}
	}
	r := planner.Make(o)
	if !r.Wants("web-0", plan.Move) || !r.Wants("web-1", plan.Move) {
		t.Errorf("it plans %+v", r.Actions)
	}
}
