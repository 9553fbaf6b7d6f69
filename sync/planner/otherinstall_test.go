package planner_test

import (
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Two installs select one new group, or its label changes while the first VMs are cloned: no two vCenters may make them.
func TestNothingIsMadeForAGroupThatAnotherInstallHas(t *testing.T) {
	const other = "metacontroller.io/compositecontroller-vmgroup-east"
	o := observed(2)
	if len(planner.Make(o).Actions) == 0 {
		t.Fatal("without another install nothing is made either")
	}
	o.Group.Finalizers = []string{other}
	o.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: "ConfigMap.v1", Name: "theirs"}: {LastApplied: `{"kind":"ConfigMap"}`}}
	r := planner.Make(o)
	if len(r.Actions) > 0 || r.Status.Phase != v1alpha1.PhasePending || !strings.Contains(r.Status.LastMessage, other) {
		t.Errorf("%v, %s: %s", r.Actions, r.Status.Phase, r.Status.LastMessage)
	}
	if len(r.Children) != 1 || r.Children[0].LastApplied == "" {
		t.Errorf("the children of the other install: %v", r.Children)
	}
}

// The install that has the members continues, whatever other finalizers there are.
func TestAnInstallThatHasSomethingOfAGroupContinues(t *testing.T) {
	for name, change := range map[string]func(*plan.Observed){
		"a VM":                      func(o *plan.Observed) { addMembers(o, 1) },
		"a member to ask of":        func(o *plan.Observed) { o.Group.Status.Members = []v1alpha1.Member{{Name: "web-0", MoRef: "vm-7"}} },
		"a disk that a member left": func(o *plan.Observed) { o.Group.Status.Disks = []v1alpha1.PersistentDisk{{Name: "data", ID: "disk-1"}} },
		"a clone under way": func(o *plan.Observed) {
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

func TestADeletionDoesNotWaitForAnotherInstall(t *testing.T) {
	o := observed(2)
	o.Finalizing, o.Group.DeletionTimestamp = true, &o.Group.CreationTimestamp
	o.Group.Finalizers = []string{"metacontroller.io/compositecontroller-vmgroup-east"}
	if r := planner.Make(o); strings.Contains(r.Status.LastMessage, "another install") {
		t.Error(r.Status.LastMessage)
	}
}
