package planner_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Two installs that see each other's finalizers both write the status. If they wrote different statuses, they would overwrite each other
// forever.
func TestTwoInstallsThatWaitForEachOtherWriteTheSame(t *testing.T) {
	finalizers := []string{"metacontroller.io/compositecontroller-vmgroup", "metacontroller.io/compositecontroller-vmgroup-east"}
	one := observed(2)
	one.Group.Finalizers = finalizers
	first := planner.Make(one).Status
	if first.Phase != v1alpha1.PhasePending || !strings.Contains(first.LastMessage, finalizers[0]) || !strings.Contains(first.LastMessage, finalizers[1]) {
		t.Errorf("%s: %s", first.Phase, first.LastMessage)
	}
	meta.SetStatusCondition(&first.Conditions, metav1.Condition{Type: v1alpha1.ConditionVCenterChanged, Status: metav1.ConditionFalse, Reason: plan.ReasonAsExpected})
	for name, state := range map[string]plan.VCenterState{
		"reachable":   {Known: true, VCenter: "another"},
		"unreachable": {UnknownSince: now.Add(-time.Hour), Fault: &plan.Fault{Reason: "VCenterUnreachable", Message: "connection refused"}},
		"misread":     {UnknownSince: now.Add(-time.Hour), Fault: &plan.Fault{Reason: "InvalidLogin", NeedsOperator: true, Message: "a password is wrong"}},
	} {
		one.Group.Status = first
		other := one
		other.State = state
		other.Group = one.Group.DeepCopy()
		other.Group.Status = planner.Make(one).Status
		if again := planner.Make(other).Status; !reflect.DeepEqual(again, other.Group.Status) {
			t.Errorf("%s: one writes\n%+v\nthe other one\n%+v", name, other.Group.Status, again)
		}
	}
}

// The install that has members of the group acts for it, whichever other finalizers the group has.
func TestAnInstallThatHasSomethingOfAGroupContinues(t *testing.T) {
	for name, change := range map[string]func(*plan.Observed){
		"a VM":                      func(o *plan.Observed) { addMembers(o, 1) },
		"a member to ask of":        func(o *plan.Observed) { o.Group.Status.Members = []v1alpha1.Member{{Name: "web-0", MoRef: "vm-7"}} },
		"a disk that a member left": func(o *plan.Observed) { o.Group.Status.Disks = []v1alpha1.PersistentDisk{{Name: "data", ID: "disk-1"}} },
		"a running clone": func(o *plan.Observed) {
			o.Pending = map[string]plan.Pending{"web-0": {Op: plan.Clone, State: plan.Running}}
		},
	} {
		o := observed(2)
		o.Group.Status.VCenterUUID = vcenter
		change(&o)
		o.Group.Finalizers = []string{"metacontroller.io/compositecontroller-vmgroup-east"}
		if r := planner.Make(o); strings.Contains(r.Status.LastMessage, "another install") {
			t.Errorf("%s: %s", name, r.Status.LastMessage)
		}
	}
}

// Two installs select a group with VMs. If the second install wrote the status, the first would change it back, and each write would bring a
// hook call to both.
func TestAnInstallDoesNotWriteTheStatusOfAGroupThatAnotherOneServes(t *testing.T) {
	t.Parallel()
	o := observed(2)
	o.Group.Status.VCenterUUID, o.Group.Status.Members = "another", []v1alpha1.Member{{Name: "web-0", MoRef: "vm-7"}}
	o.Group.Finalizers = []string{"metacontroller.io/compositecontroller-vmgroup-east"}
	first := planner.Make(o)
	if first.Refusal != nil || first.Status.Phase != v1alpha1.PhaseError {
		t.Fatalf("%s: %s, refused %v", first.Status.Phase, first.Status.LastMessage, first.Refusal)
	}
	o.Group.Status = first.Status
	if again := planner.Make(o); again.Refusal != nil || !reflect.DeepEqual(again.Status, first.Status) {
		t.Errorf("no other install contradicts it, but it is refused, or another status: %v", again.Refusal)
	}

	theirs := observed(2)
	theirs.State.VCenter = "another"
	addMembers(&theirs, 2, func(m *plan.VM) { m.VCenter = "another" })
	theirs.Group.Finalizers = []string{"metacontroller.io/compositecontroller-vmgroup"}
	theirs.Group.Status = first.Status
	o.Group.Status = planner.Make(theirs).Status
	if o.Group.Status.Phase == v1alpha1.PhaseError {
		t.Fatalf("the other install: %s", o.Group.Status.LastMessage)
	}
	r := planner.Make(o)
	if r.Refusal == nil || r.Refusal.Retry != 0 || len(r.Actions)+len(r.Events) > 0 {
		t.Fatalf("refused %v, %v, %v", r.Refusal, r.Actions, r.Events)
	}
	for _, says := range []string{"default/web", "compositecontroller-vmgroup-east", "vCenter another", "labelSelector"} {
		if !strings.Contains(r.Refusal.Message, says) {
			t.Errorf("it does not say %q: %s", says, r.Refusal.Message)
		}
	}
	if len(r.Refusal.Message) > 900 { // an Event has 1,024 bytes, and Metacontroller's words are before
		t.Errorf("%d bytes are too many for an Event", len(r.Refusal.Message))
	}

	o.Group.Finalizers = nil
	if r := planner.Make(o); r.Refusal != nil {
		t.Errorf("there is no other install: %v", r.Refusal)
	}
}

// The other install was removed while both had the group, so nobody removes its finalizer.
func TestADeletionNamesTheFinalizerOfAnotherInstall(t *testing.T) {
	const other = "metacontroller.io/compositecontroller-vmgroup-east"
	for name, change := range map[string]func(*plan.Observed){
		"a VM is left":    func(o *plan.Observed) { addMembers(o, 1) },
		"nothing is left": func(o *plan.Observed) { o.Emptied = true },
	} {
		o := observed(1)
		change(&o)
		remove(&o)
		if r := planner.Make(o); strings.Contains(r.Status.LastMessage, "another install") {
			t.Errorf("%s: without another install, the message is %s", name, r.Status.LastMessage)
		}
		o.Group.Finalizers = []string{other}
		r := planner.Make(o)
		if !strings.Contains(r.Status.LastMessage, "another install of VmGroup, because it has the finalizer "+other) || r.Finalized != o.Emptied {
			t.Errorf("%s: finalized: %v; %s", name, r.Finalized, r.Status.LastMessage)
		}
	}
}
