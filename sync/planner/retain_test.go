package planner_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Two adopted members have each other's former names, so neither can get its former name back while the other exists.
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

// A released VM has no stamp, so another replica wouldn't learn of the deletion from it. Members that are removed need no mark, because no
// deletion is taken back.
func TestADeletionIsAnnouncedByAMarkOnlyWhereMembersAreReleased(t *testing.T) {
	steps := func(change func(*plan.Observed)) (ops []plan.Op) {
		o := withStandby(2, 1)
		remove(&o)
		o.Group.Generation = 2
		for i := range o.State.VMs {
			o.State.VMs[i].Generation = 1
		}
		change(&o)
		r := planner.Make(o)
		for _, a := range r.Actions {
			ops = append(ops, a.Op)
			if a.Op == plan.ShutdownGuest && a.Generation != 2 {
				t.Errorf("the guest is asked with generation %d", a.Generation)
			}
		}
		return ops
	}
	tools := func(o *plan.Observed) {
		for i := range o.State.VMs {
			o.State.VMs[i].Tools = o.State.VMs[i].Power == plan.PoweredOn
		}
	}
	retained := func(o *plan.Observed) { o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain }
	orphaned := func(o *plan.Observed) { o.Cascade = metav1.DeletePropagationOrphan }
	edited := func(o *plan.Observed) { // from Delete, when one member was gone and another one was off
		o.Group.Generation, o.State.VMs = 3, o.State.VMs[1:]
		o.State.VMs[0].Power, o.State.VMs[0].Generation = plan.PoweredOff, 2
		retained(o)
	}
	marked := func(o *plan.Observed) {
		edited(o)
		o.State.VMs[0].Marked, o.State.VMs[0].Generation = true, 3
	}
	for name, c := range map[string]struct {
		change func(*plan.Observed)
		want   []plan.Op
	}{
		"removed":                 {func(*plan.Observed) {}, []plan.Op{plan.PowerOff, plan.PowerOff, plan.Destroy}},
		"guests are asked":        {tools, []plan.Op{plan.ShutdownGuest, plan.ShutdownGuest, plan.Destroy}},
		"retained":                {retained, []plan.Op{plan.Mark}},
		"orphaned":                {orphaned, []plan.Op{plan.Mark}},
		"retained since an edit":  {edited, []plan.Op{plan.Mark}},
		"and that was announced":  {marked, []plan.Op{plan.Destroy}}, // the standby member; the last member waits for the leases of other replicas
		"removed since that edit": {func(o *plan.Observed) { marked(o); o.Group.Spec.Deletion.Policy = "" }, []plan.Op{plan.Destroy, plan.Destroy}},
	} {
		if got := steps(c.change); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

// A server that is restarted again and again would start the wait for leases each time. The status says since when no replica is called for the
// group without its deletion.
func TestADeletionThatRetainsEndsThoughTheServerStartsAgainAndAgain(t *testing.T) {
	for after, ends := range map[time.Duration]bool{0: false, 2 * time.Minute: false, plan.ClockSkew + 90*time.Second: true} {
		o := observed(1)
		addMembers(&o, 1)
		o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain
		remove(&o)
		m := &o.State.VMs[0]
		m.Marked, m.MarkedAt, m.Generation = true, now, o.Group.Generation
		o.Group.Status = planner.Make(o).Status
		for range 2 { // the status is kept
			o.Now = o.Now.Add(after / 2)
			o.FinalizingSince, o.Called = o.Now, o.Now // it has just started
			r := planner.Make(o)
			if o.Group.Status = r.Status; o.Now.Equal(now.Add(after)) && r.Wants("web-0", plan.Release) != ends {
				t.Errorf("%s after the first call, a server that has just started plans %+v", after, r.Actions)
			}
		}
		m.Generation-- // a mark that is not the deletion's
		if r := planner.Make(o); r.Wants("web-0", plan.Release) {
			t.Errorf("%s after a mark of another generation, it plans %+v", after, r.Actions)
		}
	}
}
