package planner_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// atWork is a group whose members run, with its status.
func atWork(replicas int32) plan.Observed {
	o := observed(replicas)
	o.State.Folder = "group-v7"
	for i := range replicas {
		o.State.VMs = append(o.State.VMs, vm(&o, i))
	}
	identify(&o)
	o.Group.Status = planner.Make(o).Status
	return o
}

func TestAMemberThatIsNotYetInTheStatusKeepsItsOrdinalToo(t *testing.T) {
	o := atWork(2)
	o.Group.Status.Members = o.Group.Status.Members[:1]
	vanish(1, "")(&o)
	if r := planner.Make(o); r.Wants("web-1", plan.Clone) || r.Status.CurrentReplicas != 2 {
		t.Errorf("%+v, %d replicas", r.Actions, r.Status.CurrentReplicas)
	}
}

// Found by a randomized test (test, seed 37): while this replica couldn't reach vCenter, other replicas put the VM into quarantine and cloned
// another one, and the host of the VM left the inventory and came back.
func TestAMemberThatOthersReplacedWhileAReplicaWasCutOffKeepsNoOrdinal(t *testing.T) {
	o := atWork(2)
	o.State.Vanished = []plan.Vanished{{MoRef: "vm-66", InstanceUUID: "uuid-66", Name: "web-1", Ordinal: 1, How: hostRemoved}}
	if r := planner.Make(o); r.Status.Phase != v1alpha1.PhaseRunning || len(r.Status.Members) != 2 {
		t.Errorf("%s: %+v", r.Status.LastMessage, r.Status.Members)
	}
}

// After a restore of vCenter, the moRef of a member may be another member's.
func TestAMemberWhoseMoRefWasReusedKeepsItsOrdinal(t *testing.T) {
	o := atWork(2)
	lost := o.State.VMs[1]
	vanish(1, "vCenter was restored")(&o)
	o.State.VMs[0].MoRef = lost.MoRef
	r := planner.Make(o)
	if r.Wants("web-1", plan.Clone) || r.Status.Members[1].Reason != plan.ReasonMemberVanished {
		t.Errorf("%+v, %+v", r.Actions, r.Status.Members)
	}
}

// Found by a randomized test (test, seed 201307): the VM that got the moRef was in quarantine.
func TestAMemberIsMissingWhenAnotherVMThatGotItsMoRefIsDestroyed(t *testing.T) {
	o := atWork(2)
	vanish(1, "vCenter was restored")(&o)
	o.Group.Status = planner.Make(o).Status
	moRef := o.State.Vanished[0].MoRef
	o.State.Gone = []plan.Gone{{MoRef: moRef, InstanceUUID: "another"}, {MoRef: moRef}} // a member, and one in quarantine
	r := planner.Make(o)
	if r.Wants("web-1", plan.Clone) || len(r.Status.Members) != 2 || r.Status.Members[1].Reason != plan.ReasonMemberVanished {
		t.Errorf("%+v, %+v", r.Actions, r.Status.Members)
	}
}

// Found by a randomized test (test, seed 204145): spec.replace named the member before its host was removed from the inventory. The VM ran on
// that host, and the server cloned the member a second time.
func TestSpecReplaceGivesUpOnlyAMemberThatVanishedBeforeItWasNamed(t *testing.T) {
	for _, finalizing := range []bool{false, true} {
		o := atWork(2)
		named := []v1alpha1.Replacement{{Name: "web-1", MoRef: "vm-101"}}
		o.Group.Spec.Replace = named
		vanish(1, hostRemoved)(&o)
		if o.Finalizing = finalizing; finalizing {
			remove(&o)
		}
		for range 2 {
			r := planner.Make(o)
			if r.Wants("web-1", plan.Clone) || r.Status.Members[1].Replace != v1alpha1.ReplaceHeld || !strings.Contains(r.Status.LastMessage, "remove its entry in spec.replace") {
				t.Fatalf("%s: %+v, %+v", r.Status.LastMessage, r.Actions, r.Status.Members)
			}
			o.Group.Status = r.Status
		}
		o.Group.Spec.Replace = nil
		if o.Group.Status = planner.Make(o).Status; o.Group.Status.Members[1].Replace != "" {
			t.Errorf("web-1 is %q after spec.replace no longer names it: %+v", o.Group.Status.Members[1].Replace, o.Group.Status.Members)
		}
		o.Group.Spec.Replace = named
		if r := planner.Make(o); r.Status.Members[1].Reason != plan.ReasonMemberGivenUp || r.Wants("web-1", plan.Clone) == finalizing {
			t.Errorf("%+v, %+v", r.Status.Members, r.Actions)
		}
	}
}

// Found by a randomized test (test, seed 52): a replica's Clone call reached vCenter late. During the delay, another replica cloned the member,
// and the host of that clone left the inventory.
func TestACloneOfAMissingMemberIsNotPoweredOnBeforeThatIsGivenUp(t *testing.T) {
	o := atWork(2)
	late := o.State.VMs[1]
	late.MoRef, late.InstanceUUID, late.Power = "vm-late", "id-late", plan.PoweredOff
	vanish(1, "")(&o)
	o.State.VMs = append(o.State.VMs, late)
	for _, how := range []string{"", hostRemoved} {
		o.State.Vanished[0].How = how
		if r := planner.Make(o); r.Wants("web-1", plan.PowerOn) || r.Wants("web-1", plan.Clone) {
			t.Errorf("%q: %+v", how, r.Actions)
		}
	}
	o.Group.Status = planner.Make(o).Status
	o.Group.Spec.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: "vm-101"}}
	for _, want := range []plan.Op{plan.PowerOn} {
		r := planner.Make(o)
		if len(r.Actions) != 1 || r.Actions[0].Op != want || r.Actions[0].MoRef != "vm-late" {
			t.Fatalf("given up, want %s: %+v", want, r.Actions)
		}
		plan.Apply(&o, r.Actions[0])
	}
}

// Until the new clone exists, only the status and the spec say that the member was given up.
func TestAMemberThatWasGivenUpIsInTheStatusUntilAnotherVMHasItsOrdinal(t *testing.T) {
	o := atWork(2)
	vanish(1, hostRemoved)(&o)
	o.Group.Status = planner.Make(o).Status
	o.Group.Spec.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: "vm-101"}}
	r := planner.Make(o)
	if len(r.Events) != 1 || r.Events[0].Reason != plan.ReasonMemberGivenUp || r.Status.CurrentReplicas != 1 || len(r.Status.Members) != 2 || !r.Wants("web-1", plan.Clone) {
		t.Fatalf("%+v, %+v, %+v", r.Events, r.Status.Members, r.Actions)
	}
	clone := r.Actions[slices.IndexFunc(r.Actions, func(a plan.Action) bool { return a.Op == plan.Clone })]
	for range 3 { // the Clone fails; the process restarts
		o.Group.Status = r.Status
		if r = planner.Make(o); len(r.Events) != 0 || !r.Wants("web-1", plan.Clone) {
			t.Fatalf("%+v, %+v", r.Events, r.Actions)
		}
	}
	plan.Apply(&o, clone)
	if r = planner.Make(o); len(r.Status.Members) != 2 || r.Status.Members[1].MoRef != "new-web-1" {
		t.Fatalf("new-web-1 is not the second of two members: %+v", r.Status.Members)
	}
	o.Group.Status, o.Group.Spec.Replace = r.Status, nil // from now on, the entry of spec.replace can be removed
	if r = planner.Make(o); len(r.Status.Members) != 2 || r.Status.CurrentReplicas != 2 || !r.Wants("web-1", plan.PowerOn) {
		t.Errorf("%+v, %+v", r.Status.Members, r.Actions)
	}
}

// Found by a randomized test (test/world, seed 740040132): another replica was replacing a member, which this one no longer saw. It marked the next one, so
// that a fault of the new spec cost two.
func TestNoOtherMemberIsReplacedWhileItIsUnknownWhatBecameOfOne(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		o := atWork(4)
		o.Group.Generation++
		o.Group.Spec.Template = "another"
		three := intstr.FromInt32(3)
		none := intstr.FromInt32(0)
		o.Group.Spec.Update.MaxUnavailable, o.Group.Spec.Update.MaxSurge = &three, &none
		if hidden {
			o.State.VMs = slices.Delete(o.State.VMs, 3, 4)
		}
		marks := 0
		for _, a := range planner.Make(o).Actions {
			marks += map[bool]int{true: 1}[a.Op == plan.Mark]
		}
		if want := map[bool]int{false: 1, true: 0}[hidden]; marks != want {
			t.Errorf("with a member that isn't seen (%t), %d members are marked; want %d", hidden, marks, want)
		}
	}
}
