package planner_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// unselect makes the CompositeController no longer select the group, for longer than a lease.
func unselect(o *plan.Observed) {
	o.Finalizing, o.FinalizingSince = true, o.Now.Add(-2*o.Lease)
}

func TestNothingIsRemovedForAGroupWithoutDeletionTimestamp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := anyServed(t)
		if rapid.Bool().Draw(t, "without VMs") {
			o.State.VMs = nil
		}
		if rapid.Bool().Draw(t, "without a status") {
			o.Group.Status = v1alpha1.VmGroupStatus{}
		}
		unselect(&o)
		o.Group.DeletionTimestamp = nil
		o.Emptied = rapid.Bool().Draw(t, "emptied")
		r := planner.Make(o)
		for _, a := range r.Actions {
			if a.Op != plan.ConfirmGone || len(o.State.VMs) > 0 {
				t.Fatalf("it wants %+v with %d VMs", a, len(o.State.VMs))
			}
		}
		if r.Finalized != (r.Refusal == nil) {
			t.Fatalf("finalized %v, refused %+v", r.Finalized, r.Refusal)
		}
		if r.Finalized && (!o.State.Known || !o.Emptied || len(o.State.VMs) > 0) {
			t.Fatalf("it is released: known %v, emptied %v, %d VMs", o.State.Known, o.Emptied, len(o.State.VMs))
		}
		if !reflect.DeepEqual(r.Status, o.Group.Status) {
			t.Fatalf("the status has changed")
		}
		if len(r.Children) != len(o.Children) {
			t.Fatalf("of %d children %d are returned", len(o.Children), len(r.Children))
		}
		for _, c := range r.Children {
			if was, there := o.Children[c.Key]; !there || was.LastApplied != c.LastApplied || c.Fields != nil {
				t.Fatalf("%s differs from the one received", c.Key)
			}
		}
	})
}

func TestAnUnselectedGroupsStatusSaysWhatToDo(t *testing.T) {
	t.Parallel()
	o := observed(2)
	o.State.VMs = []plan.VM{vm(&o, 0), vm(&o, 1)}
	unselect(&o)
	r := planner.Make(o)
	if r.Refusal == nil || r.Refusal.Retry != 0 {
		t.Fatalf("it is not a refusal that needs an operator: %+v", r.Refusal)
	}
	for _, says := range []string{"default/web", "2 VMs", "web-0, web-1", "Nothing is removed", "labelSelector", "delete the VmGroup"} {
		if !strings.Contains(r.Refusal.Message, says) {
			t.Errorf("it does not say %q: %s", says, r.Refusal.Message)
		}
	}
	if len(r.Refusal.Message) > 900 { // an Event has 1,024 bytes, and Metacontroller's words are before
		t.Errorf("%d bytes are too many for an Event", len(r.Refusal.Message))
	}
}

// Each of these is a reason not to remove the finalizer of a group of which vCenter shows no VM.
func TestAGroupIsReleasedOnlyWhenNothingOfItCanAppear(t *testing.T) {
	t.Parallel()
	recorded := v1alpha1.Member{Name: "web-0", MoRef: "vm-100"}
	for name, c := range map[string]struct {
		change  func(o *plan.Observed)
		letGo   bool
		retries bool // no operator has to act
		reads   bool
	}{
		"nothing of it is there":        {func(*plan.Observed) {}, true, false, false},
		"vCenter cannot be reached":     {func(o *plan.Observed) { o.State = plan.VCenterState{Fault: &plan.Fault{Message: "refused"}} }, false, false, false},
		"the inventory is being read":   {func(o *plan.Observed) { o.State = plan.VCenterState{} }, false, true, false},
		"a VM is in quarantine":         {func(o *plan.Observed) { q := vm(o, 0); q.Quarantined = now; o.State.VMs = []plan.VM{q} }, false, false, false},
		"a recorded member is not seen": {func(o *plan.Observed) { o.Group.Status.Members = []v1alpha1.Member{recorded} }, false, false, false},
		"a recorded member is gone": {func(o *plan.Observed) {
			o.Group.Status.Members = []v1alpha1.Member{recorded}
			o.State.Gone = []plan.Gone{{MoRef: "vm-100"}}
		}, true, false, false},
		"a recorded VM in quarantine is not seen": {func(o *plan.Observed) {
			o.Group.Status.Quarantined = []v1alpha1.Quarantined{{Name: "web-0-vm-100", MoRef: "vm-100"}}
		}, false, false, false},
		"a persistent disk is left": {func(o *plan.Observed) {
			o.Group.Status.Disks = []v1alpha1.PersistentDisk{{Name: "data", ID: "disk-1"}}
		}, false, false, false},
		"a persistent disk was given up": {func(o *plan.Observed) {
			o.Group.Status.Disks = []v1alpha1.PersistentDisk{{Name: "data", ID: "disk-1"}}
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationGiveUpDisks: "disk-1"}
		}, true, false, false},
		"its persistent disks are in another vCenter": {func(o *plan.Observed) {
			o.Group.Status.VCenterUUID, o.Group.Status.Disks = "another", []v1alpha1.PersistentDisk{{Name: "data", ID: "disk-1"}}
		}, true, false, false},
		"its members are in another vCenter": {func(o *plan.Observed) {
			o.Group.Status.VCenterUUID, o.Group.Status.Members = "another", []v1alpha1.Member{recorded}
		}, true, false, false},
		"a clone is running": {func(o *plan.Observed) {
			o.Pending = map[string]plan.Pending{"web-0": {Op: plan.Clone, State: plan.Running}}
		}, false, true, false},
		"another replica may hold a lease":             {func(o *plan.Observed) { o.FinalizingSince, o.Emptied = o.Now.Add(-o.Lease+time.Second), false }, false, true, false},
		"no fresh read has shown it":                   {func(o *plan.Observed) { o.Emptied = false }, false, true, true},
		"the fresh read failed, and is to be repeated": {func(o *plan.Observed) { o.Emptied = false; o.Pending = confirming(plan.Due) }, false, true, true},
		"the fresh read failed a moment ago":           {func(o *plan.Observed) { o.Emptied = false; o.Pending = confirming(plan.BackingOff) }, false, true, false},
		"the fresh read is running":                    {func(o *plan.Observed) { o.Emptied = false; o.Pending = confirming(plan.Running) }, false, true, false},
		"it is paused, and its spec is invalid":        {func(o *plan.Observed) { o.Group.Spec.Paused, o.Group.Spec.CPU = true, 0 }, true, false, false},
		"the settings do not fit, and VMs are known": {func(o *plan.Observed) {
			o.State.FolderUnknown, o.State.Fault = true, &plan.Fault{Reason: "PoolNotFound"}
		}, true, false, false},
		"it is marked to be abandoned": {func(o *plan.Observed) {
			o.State.VMs = []plan.VM{vm(o, 0)}
			o.Group.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(1)
			o.Group.Status.VCenterUUID = vcenter
			unselect(&o)
			o.Emptied = true
			c.change(&o)
			r := planner.Make(o)
			if r.Finalized != c.letGo || (r.Refusal != nil && r.Refusal.Retry > 0) != c.retries {
				t.Errorf("released: %v, refused: %+v", r.Finalized, r.Refusal)
			}
			if reads := slices.ContainsFunc(r.Actions, func(a plan.Action) bool {
				return a.Op == plan.ConfirmGone && plan.ArgsOf[plan.ConfirmArgs](a.Args).Since.Equal(o.FinalizingSince)
			}); reads != c.reads || len(r.Actions) > 1 {
				t.Errorf("it wants %+v", r.Actions)
			}
		})
	}
}

func confirming(state plan.State) map[string]plan.Pending {
	return map[string]plan.Pending{plan.ConfirmKey: {Op: plan.ConfirmGone, State: state, Fault: plan.Fault{Message: "clones are running"}}}
}

// A group with replicas 0 may have only its persistent disks. In another vCenter, the server must not create new, empty disks for it.
func TestNothingIsCreatedWhereTheDisksThatMembersLeftAreInAnotherVCenter(t *testing.T) {
	t.Parallel()
	o := observed(1)
	o.Group.Status.VCenterUUID, o.Group.Status.Disks = "another", []v1alpha1.PersistentDisk{{Name: "data", ID: "disk-1"}}
	r := planner.Make(o)
	if len(r.Actions) > 0 || r.Status.Phase != v1alpha1.PhaseError || !strings.Contains(r.Status.LastMessage, "the persistent disks were created in vCenter another") {
		t.Errorf("%v, %s: %s", r.Actions, r.Status.Phase, r.Status.LastMessage)
	}
	if r.Status.VCenterUUID != "another" || len(r.Status.Disks) != 1 {
		t.Errorf("the record is lost: %q, %v", r.Status.VCenterUUID, r.Status.Disks)
	}

	deleted := o
	deleted.Finalizing, deleted.Emptied, deleted.Group.DeletionTimestamp = true, true, &o.Group.CreationTimestamp
	if r := planner.Make(deleted); !r.Finalized {
		t.Errorf("the disks delay the deletion: %s", r.Status.LastMessage)
	}

	o.Group.Annotations = map[string]string{v1alpha1.AnnotationGiveUpDisks: "disk-1"}
	if r := planner.Make(o); len(r.Actions) == 0 {
		t.Errorf("given up, they still block the group: %s", r.Status.LastMessage)
	}
}
