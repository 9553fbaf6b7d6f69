package planner_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// deletedGroup is a deleted group with the members web-0 and web-1, the standby member web-2, and a VM in quarantine.
func deletedGroup() plan.Observed {
	o := withStandby(2, 1)
	q := vm(&o, 3)
	q.Name, q.Power, q.Quarantined, q.MarkReason = "web-3-vm-103", plan.PoweredOff, o.Now, plan.MarkReasonScaleIn
	o.State.VMs = append(o.State.VMs, q)
	remove(&o)
	return o
}

func TestTheMessageOfADeletionCountsEachKindOfVM(t *testing.T) {
	t.Parallel()
	retain := func(o *plan.Observed) { o.Group.Spec.Deletion.Policy = v1alpha1.DeletionRetain }
	empty := func(o *plan.Observed) { o.State.VMs, o.Emptied = nil, true }
	folderless := func(o *plan.Observed) { empty(o); o.State.Folder = "" }
	lacksPrivilege := plan.Fault{Reason: "MissingPrivilege", NeedsOperator: true, Message: "a privilege is missing"}
	const missing = "a privilege is missing (docs/troubleshooting.md#missingprivilege)"
	for name, c := range map[string]struct {
		change func(o *plan.Observed)
		want   string
	}{
		"removed":         {func(*plan.Observed) {}, "removing 2 members, 1 standby member, 1 VM in quarantine"},
		"retained":        {retain, "releasing 2 members; removing 1 standby member, 1 VM in quarantine"},
		"a duplicate too": {func(o *plan.Observed) { retain(o); o.State.VMs[3].MarkReason = plan.MarkReasonDuplicate }, "releasing 2 members, 1 VM in quarantine; removing 1 standby member"},
		"two VMs of one ordinal": {func(o *plan.Observed) {
			o.State.VMs = append(o.State.VMs[:1:1], o.State.VMs[0])
			o.State.VMs[1].MoRef = "vm-666"
		}, "removing 1 member, 1 duplicate"},
		"with --cascade=orphan": {func(o *plan.Observed) { o.Cascade = metav1.DeletePropagationOrphan },
			"releasing 2 members; removing 1 standby member, 1 VM in quarantine; deleted with --cascade=orphan: the VMs of members and the group's objects are kept"},
		"one of two members is blocked": {func(o *plan.Observed) {
			o.State.VMs = o.State.VMs[:2]
			o.Pending = map[string]plan.Pending{"web-0": {Op: plan.PowerOff, MoRef: "vm-100", State: plan.BackingOff, Fault: lacksPrivilege}}
		}, "web-0: " + missing + "; removing 1 member"},
		"all members are blocked": {func(o *plan.Observed) {
			o.State.VMs = o.State.VMs[:1]
			o.Pending = map[string]plan.Pending{"web-0": {Op: plan.PowerOff, MoRef: "vm-100", State: plan.BackingOff, Fault: lacksPrivilege}}
		}, "web-0: " + missing + "; the deletion waits until 1 VM can be removed"},
		"the last member can't be reached": {func(o *plan.Observed) {
			o.State.VMs = o.State.VMs[:1]
			o.State.VMs[0].Reachable, o.State.VMs[0].Unreachable = false, "disconnected"
		}, "the deletion waits until 1 VM can be removed; skipped VMs that vCenter can't reach or show: web-0 (disconnected)"},
		"the last member to release": {func(o *plan.Observed) {
			retain(o)
			o.State.VMs = o.State.VMs[:1]
			o.State.VMs[0].Marked = true
		}, "waiting to release the last member until no other replica of the server can act for the group"},
		"a clone": {func(o *plan.Observed) {
			empty(o)
			o.Pending = map[string]plan.Pending{"web-0": {Op: plan.Clone, State: plan.Running}}
		}, "waiting to remove 1 VM still being cloned or adopted"},
		"a clone and an adoption, retained": {func(o *plan.Observed) {
			empty(o)
			retain(o)
			o.Pending = map[string]plan.Pending{"web-0": {Op: plan.Clone, State: plan.Running}, "web-1": {Op: plan.Adopt, Ordinal: 1, State: plan.Running}}
		}, "waiting to release 2 VMs still being cloned or adopted"},
		"DRS rules": {func(o *plan.Observed) {
			empty(o)
			o.State.RulesOff = true
		}, "removing the group's DRS rules"},
		"the folder": {empty, "removing the group's folder"},
		"the folder may be unknown": {func(o *plan.Observed) {
			folderless(o)
			o.State.FolderUnknown, o.State.Fault = true, &lacksPrivilege
		}, missing + "; the deletion waits until the server knows whether the group has a folder; if vCenter is permanently gone, the annotation " +
			"vm.codeconnect.vmworld.com/abandon=true ends the deletion and leaves the VMs behind"},
		"a folder that may contain retained VMs": {func(o *plan.Observed) { empty(o); retain(o) }, "removing the group's folder, if it is empty"},
		"a folder with retained VMs": {func(o *plan.Observed) {
			empty(o)
			retain(o)
			o.Pending = map[string]plan.Pending{plan.FolderKey: {Op: plan.RemoveFolder, State: plan.BackingOff, Fault: plan.Fault{Reason: plan.ReasonFolderHoldsStranger, Message: "it contains web-0"}}}
		}, "if the group's folder can't be removed, the deletion completes anyway, 1m30s after it began"},
		"a read":  {func(o *plan.Observed) { folderless(o); o.Emptied = false }, "confirming that no VM of the group is left in vCenter"},
		"nothing": {folderless, "no VM of the group is left in vCenter"},
		"an object": {func(o *plan.Observed) {
			folderless(o)
			o.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: plan.KindConfigMap, Name: "web"}: {}}
		}, "no VM of the group is left in vCenter; waiting for Metacontroller to delete ConfigMap web"},
	} {
		o := deletedGroup()
		c.change(&o)
		if r := planner.Make(o); r.Status.LastMessage != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, r.Status.LastMessage, c.want)
		}
	}
}

func TestAFaultNamesMembersApartFromWhatElseItBlocks(t *testing.T) {
	t.Parallel()
	fault := plan.Fault{Reason: "Busy", Message: "the cluster is busy"}
	for blocked, want := range map[int32]string{
		0: "the group's DRS rules: the cluster is busy",
		1: "web-0 and the group's DRS rules: the cluster is busy",
		2: "2 members (web-0, web-1) and the group's DRS rules: the cluster is busy",
	} {
		o := observed(2)
		addMembers(&o, 2, func(m *plan.VM) { m.CPU = 1; m.CPUHotAdd = true })
		o.State.RulesOff = true
		o.Pending = map[string]plan.Pending{plan.RulesKey: {Op: plan.SetRules, State: plan.BackingOff, Fault: fault}}
		for i := range blocked {
			o.Pending[plan.MemberName("web", i)] = plan.Pending{Op: plan.Reconfigure, Ordinal: i, MoRef: o.State.VMs[i].MoRef, State: plan.BackingOff,
				Fault: plan.Fault{Reason: fault.Reason, Message: fault.Message, Transient: true}}
		}
		if r := planner.Make(o); !strings.HasPrefix(r.Status.LastMessage, want) {
			t.Errorf("%d members are blocked:\n got %s\nwant %s", blocked, r.Status.LastMessage, want)
		}
	}
}

func TestAMemberThatSpecReplaceNamesIsNotUpdatedYet(t *testing.T) {
	t.Parallel()
	o := observed(2)
	addMembers(&o, 2)
	o.Group.Spec.Replace = []v1alpha1.Replacement{{Name: "web-0", MoRef: "vm-100"}}
	if r := planner.Make(o); r.Status.LastMessage != "updating: 1 of 2 members updated; cloning 1 member" {
		t.Error(r.Status.LastMessage)
	}
}

func TestTheConditionsOfAnUpdateLeaveDuplicatesOut(t *testing.T) {
	t.Parallel()
	o := observed(2)
	addMembers(&o, 2, func(m *plan.VM) { m.Revision, m.Created = "former", o.Now })
	copied := o.State.VMs[0]
	copied.MoRef, copied.Name, copied.Created = "vm-666", "web-0 (copied)", o.Now.Add(-time.Hour)
	o.State.VMs = append(o.State.VMs, copied)
	o.Group.Spec.Update.Paused = true
	r := planner.Make(o)
	for kind, want := range map[string]string{
		v1alpha1.ConditionUpdateHeld:    "2 of 2 members differ from the spec and are kept (update.paused is true)",
		v1alpha1.ConditionMembersDiffer: "2 members (web-0, web-1): each was cloned from another template",
	} {
		if c := meta.FindStatusCondition(r.Status.Conditions, kind); c == nil || c.Message != want {
			t.Errorf("%s is %+v, want %q", kind, c, want)
		}
	}
}

// A deletion removes duplicates, or releases them.
func TestADeletionDoesNotSayThatDuplicatesAreKept(t *testing.T) {
	t.Parallel()
	o := observed(1)
	addMembers(&o, 1)
	copied := vm(&o, 0)
	o.State.VMs[0].Created = o.Now
	copied.MoRef, copied.Name = "vm-666", "web-0 (copied)"
	o.State.VMs = append(o.State.VMs, copied)
	const named = "VMs that are not members, because another VM has their ordinal or they were given up: web-0 (copied) (vm-666; stamp of web-0)"
	for _, deleted := range []bool{false, true} {
		want := named + "; each that has ever run is powered off and kept: delete it in vCenter when you no longer need it"
		if deleted {
			want = named
			remove(&o)
		}
		r := planner.Make(o)
		for _, c := range r.Status.Conditions {
			if c.Type == v1alpha1.ConditionDuplicateMember && c.Message != want {
				t.Errorf("deleted %v:\n got %s\nwant %s", deleted, c.Message, want)
			}
		}
		if statusOf(&r.Status, v1alpha1.ConditionDuplicateMember) != metav1.ConditionTrue {
			t.Errorf("deleted %v: no condition DuplicateMember", deleted)
		}
	}
}

func TestNoMessageOfADeletionCountsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		remove(&o)
		o.Group.Spec.Deletion.Policy = rapid.SampledFrom([]v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionRetain}).Draw(t, "policy")
		for _, part := range strings.Split(planner.Make(o).Status.LastMessage, "; ") {
			if part == "" || strings.Contains(part, " 0 ") {
				t.Fatalf("%q", part)
			}
		}
	})
}
