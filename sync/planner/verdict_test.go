package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestVerdictsSayWhatBecomesOfWhomAndWhy(t *testing.T) {
	spec := func(o *plan.Observed) *v1alpha1.VmGroupSpec { return &o.Group.Spec }
	for name, c := range map[string]struct {
		change func(o *plan.Observed)
		want   []string
	}{
		"a settled group has none": {func(*plan.Observed) {}, nil},
		"an ordinal that no VM has": {func(o *plan.Observed) { *spec(o).Replicas = 4 }, []string{
			"web-3 Create: too few members: 3 of 4"}},
		"the template of a clone is not found": {func(o *plan.Observed) { *spec(o).Replicas, o.State.Template.Paths = 4, nil }, []string{
			`web-3 Create: too few members: 3 of 4 (template "ubuntu" not found in datacenter DC0; no templates there; members were cloned from it: bring it back, because another name would replace all of them)`}},
		"one too many": {func(o *plan.Observed) { *spec(o).Replicas = 2 }, []string{
			"web-2 Remove: scale-in: from 3 members to 2"}},
		"one too many, while another is not ready": {func(o *plan.Observed) {
			*spec(o).Replicas, o.State.VMs[0].Power = 2, plan.PoweredOff
			spec(o).ScaleIn.Protected = []string{"web-0"}
		}, []string{
			"web-0 Update: powered off; should be on",
			"web-2 Remove: scale-in: from 3 members to 2 (other members to be available)"}},
		"an update with an extra member": {func(o *plan.Observed) { spec(o).Template = "another" }, []string{
			"web-0 Update: it was cloned from another template (its successor)",
			"web-1 Update: it was cloned from another template (its successor)",
			"web-2 Update: it was cloned from another template (its successor)",
			"web-3 Create: surge: one extra member during the update"}},
		"the spec has lost a field": {func(o *plan.Observed) {
			for i := range o.State.VMs {
				o.State.VMs[i].Revision, o.State.VMs[i].Template = "of spec.networks", spec(o).Template
			}
		}, []string{
			"web-0 Update: it was cloned from another revision of the spec (its successor)",
			"web-1 Update: it was cloned from another revision of the spec (its successor)",
			"web-2 Update: it was cloned from another revision of the spec (its successor)",
			"web-3 Create: surge: one extra member during the update"}},
		"a canary": {func(o *plan.Observed) {
			one, none := intstr.FromInt32(1), intstr.FromInt32(0)
			spec(o).Template, spec(o).Update.Canary, spec(o).Update.MaxSurge = "another", &one, &none
		}, []string{
			"web-0 Keep: it was cloned from another template (update.canary holds at 1)",
			"web-1 Keep: it was cloned from another template (update.canary holds at 1)",
			"web-2 Update: it was cloned from another template"}},
		"one stays unready": {func(o *plan.Observed) {
			spec(o).Readiness.Check = v1alpha1.ReadyToolsRunning
			for i := range o.State.VMs {
				o.State.VMs[i].Tools, o.State.VMs[i].BootTime = i != 1, now.Add(-time.Hour)
			}
			o.Group.Status.Members = []v1alpha1.Member{{MoRef: "vm-101"}}
			o.Group.Status.Members[0].LastTransitionTime.Time = now.Add(-time.Hour)
		}, []string{"web-1 Heal: healing: not ready for 600 s (ToolsRunning)"}},
		"vCenter cannot reach one": {func(o *plan.Observed) { o.State.VMs[1].Reachable, o.State.VMs[1].Unreachable = false, "disconnected" }, []string{
			"web-1 Wait: the VM is disconnected (vCenter to reach it)"}},
		"one is missing": {func(o *plan.Observed) {
			o.Group.Status.Members = []v1alpha1.Member{{Name: "web-1", Ordinal: 1, MoRef: "vm-101", InstanceUUID: "u"}}
			o.State.VMs = slices.Delete(o.State.VMs, 1, 2)
			o.State.Vanished = []plan.Vanished{{Name: "web-1", Ordinal: 1, MoRef: "vm-101", InstanceUUID: "u", How: "its host was removed"}}
		}, []string{"web-1 Wait: missing: its host was removed (its VM to return, or spec.replace to name it)"}},
		"a step failed": {func(o *plan.Observed) {
			o.State.VMs[0].Power = plan.PoweredOff
			o.Pending = map[string]plan.Pending{"web-0": {Op: plan.PowerOn, State: plan.BackingOff, MoRef: "vm-100", Fault: plan.Fault{Reason: "DatastoreFull", Message: "the datastore is full"}}}
		}, []string{"web-0 Update: powered off; should be on (the datastore is full)"}},
		"the group is paused": {func(o *plan.Observed) { *spec(o).Replicas, spec(o).Paused = 2, true }, []string{
			"web-2 Remove: scale-in: from 3 members to 2 (spec.paused)"}},
		"the group is deleted": {remove, []string{
			"web-0 Remove: the group is deleted", "web-1 Remove: the group is deleted", "web-2 Remove: the group is deleted"}},
		"the spec is invalid": {func(o *plan.Observed) { *spec(o).Replicas = -1 }, []string{
			"web-0 Wait: spec.replicas", "web-1 Wait: spec.replicas", "web-2 Wait: spec.replicas"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed(3)
			addMembers(&o, 3)
			c.change(&o)
			var got []string
			for _, d := range planner.Make(o).Verdicts {
				text := fmt.Sprintf("%s %s: %s", d.VM, d.Is, d.Reason)
				if d.WaitsFor != "" {
					text += " (" + d.WaitsFor + ")"
				}
				got = append(got, text)
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestEveryStepForAMemberFollowsFromAVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		r := planner.Make(o)
		about := map[string]bool{}
		for _, d := range r.Verdicts {
			key := d.VM + "/" + d.MoRef
			if about[key] || d.VM == "" {
				t.Fatalf("a second verdict, or one without a name: %+v", d)
			}
			about[key], about[d.MoRef] = true, true
		}
		for _, a := range r.Actions {
			if a.ConcernsMember() && !about[a.MoRef] && !about[a.Key+"/"] {
				t.Fatalf("no verdict leads to %s of %s (%s): %+v", a.Op, a.Key, a.MoRef, r.Verdicts)
			}
		}
	})
}
