package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

const vcenter = "11111111-2222-3333-4444-555555555555"

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// group is a plain group of the four fields.
func group(replicas int32) *v1alpha1.VmGroup {
	g := &v1alpha1.VmGroup{Spec: v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu", Replicas: &replicas}}
	g.Namespace, g.Name, g.UID, g.Generation = "default", "web", types.UID("uid-web"), 3
	return g
}

// observed is a group in a healthy vCenter that holds nothing of it yet.
func observed(replicas int32) plan.Observed {
	return plan.Observed{
		Group: group(replicas), Called: now, Now: now, Lease: 90 * time.Second, Resync: 30 * time.Second,
		Sight: plan.Sight{Known: true, VCenter: vcenter,
			Template: plan.Template{MoRef: "vm-1", Paths: []string{"/DC0/vm/ubuntu"}, Datacenter: "DC0"}},
	}
}

// vm is a member as the group's spec wants it, powered on.
func vm(o *plan.Observed, ordinal int32) plan.VM {
	return plan.VM{
		MoRef: fmt.Sprintf("vm-%d", 100+ordinal), Name: plan.MemberName(o.Group.Name, ordinal), Ordinal: ordinal,
		Revision: plan.Revision(&o.Group.Spec), Generation: o.Group.Generation, Power: plan.PoweredOn, Reachable: true,
		CPU: o.Group.Spec.CPU, MemoryMB: o.Group.MemoryMB(), VCenter: vcenter,
	}
}

// anything draws an observation: any members in any state, anything pending, recorded members that are not seen.
func anything(t *rapid.T) plan.Observed {
	o := observed(rapid.Int32Range(0, 8).Draw(t, "replicas"))
	for ordinal := range int32(10) {
		for n := range rapid.SampledFrom([]int{0, 0, 1, 1, 1, 1, 2}).Draw(t, "vms of one ordinal") {
			m := vm(&o, ordinal)
			m.MoRef = fmt.Sprintf("vm-%d", 100+10*int(ordinal)+n)
			m.Power = rapid.SampledFrom([]plan.PowerState{plan.PoweredOn, plan.PoweredOff, plan.Suspended}).Draw(t, "power")
			m.Marked = rapid.IntRange(0, 3).Draw(t, "marked") == 0
			if m.Reachable = rapid.IntRange(0, 5).Draw(t, "reachable") > 0; !m.Reachable {
				m.Unreachable = "disconnected"
			}
			m.CPU = rapid.Int32Range(1, 3).Draw(t, "cpu")
			o.Sight.VMs = append(o.Sight.VMs, m)
		}
		if rapid.IntRange(0, 9).Draw(t, "recorded") == 0 {
			o.Group.Status.Members = append(o.Group.Status.Members, v1alpha1.Member{
				Name: plan.MemberName("web", ordinal), Ordinal: ordinal, MoRef: fmt.Sprintf("vm-%d", 900+ordinal)})
			o.Group.Status.VCenterUUID = vcenter
		}
	}
	o.Pending = map[string]plan.Pending{}
	for range rapid.IntRange(0, 4).Draw(t, "pending") {
		ordinal := rapid.Int32Range(0, 9).Draw(t, "pending ordinal")
		o.Pending[plan.MemberName("web", ordinal)] = plan.Pending{
			Ordinal: ordinal,
			Op:      rapid.SampledFrom([]plan.Op{plan.Clone, plan.PowerOn, plan.Mark, plan.Destroy}).Draw(t, "op"),
			State:   rapid.SampledFrom([]plan.State{plan.Running, plan.BackingOff, plan.Due}).Draw(t, "state"),
			Fault: rapid.SampledFrom([]plan.Fault{{}, {Reason: "DatastoreFull", Message: "the datastore is full"},
				{Reason: plan.ReasonNameConflict, Message: "taken", Person: true}}).Draw(t, "fault"),
		}
	}
	if rapid.Bool().Draw(t, "has folder") || len(o.Sight.VMs) > 0 {
		o.Sight.Folder = "group-v7"
	}
	o.Finalizing = rapid.IntRange(0, 4).Draw(t, "finalizing") == 0
	return o
}

// healthy draws an observation from which nothing but work keeps the goal away.
func healthy(t *rapid.T) plan.Observed {
	o := anything(t)
	o.Sight.VMs = slices.DeleteFunc(o.Sight.VMs, func(m plan.VM) bool { return m.MoRef[len(m.MoRef)-1] != '0' })
	for i := range o.Sight.VMs {
		o.Sight.VMs[i].Reachable, o.Sight.VMs[i].Unreachable = true, ""
	}
	o.Group.Status.Members = nil
	o.Pending = nil
	return o
}

// ordinals are those held by a VM, seen or not confirmed gone.
func ordinals(o plan.Observed) map[int32]bool {
	set := map[int32]bool{}
	for _, m := range o.Sight.VMs {
		set[m.Ordinal] = true
	}
	for _, m := range o.Group.Status.Members {
		if !slices.Contains(o.Sight.Gone, m.MoRef) {
			set[m.Ordinal] = true
		}
	}
	return set
}

// withArriving are the ordinals that are held or being cloned.
func withArriving(o plan.Observed) map[int32]bool {
	set := ordinals(o)
	for _, p := range o.Pending {
		if p.Op == plan.Clone && p.State == plan.Running {
			set[p.Ordinal] = true
		}
	}
	return set
}

func asJSON(t interface{ Fatal(...any) }, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEveryObservation(t *testing.T) {
	t.Run("gives at most one action a member, and none where one is pending", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		seen := map[string]bool{}
		for _, a := range plan.Make(o).Actions {
			if p, pending := o.Pending[a.VM]; pending && p.State != plan.Due || seen[a.VM] {
				t.Fatalf("a second action for %q: %+v", a.VM, a)
			}
			seen[a.VM] = true
		}
	}))
	t.Run("gives never more members than replicas, and no second one of an ordinal", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		held, clones := withArriving(o), 0
		for _, a := range plan.Make(o).Actions {
			if a.Op != plan.Clone {
				continue
			}
			if clones++; held[a.Ordinal] {
				t.Fatalf("ordinal %d exists and would be cloned", a.Ordinal)
			}
		}
		if clones > 0 && (o.Finalizing || len(held)+clones > int(o.Group.Replicas())) {
			t.Fatalf("%d clones with %d members of %d (finalizing: %v)", clones, len(held), o.Group.Replicas(), o.Finalizing)
		}
	}))
	t.Run("takes away no more than the surplus, only what is marked, reachable and no duplicate, the unwell first", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		o.Finalizing = false
		byRef, perOrdinal, wellLeft := map[string]plan.VM{}, map[int32]int{}, 0
		for _, m := range o.Sight.VMs {
			byRef[m.MoRef] = m
			perOrdinal[m.Ordinal]++
		}
		surplus := len(ordinals(o)) - int(o.Group.Replicas())
		removals, wellMarked := 0, false
		for _, a := range plan.Make(o).Actions {
			m := byRef[a.MoRef]
			if a.NeverOn { // vCenter's events decide about a twin that is off
				if perOrdinal[m.Ordinal] < 2 || m.Power != plan.PoweredOff || !m.Reachable || a.Op != plan.Destroy {
					t.Fatalf("%s of %s, which is no twin that is off", a.Op, a.VM)
				}
				continue
			}
			switch a.Op {
			case plan.Destroy, plan.PowerOff:
				if !m.Marked || !a.Marked {
					t.Fatalf("%s of %s, which is not marked", a.Op, a.VM)
				}
				fallthrough
			case plan.Mark:
				removals++
				if !m.Reachable || perOrdinal[m.Ordinal] > 1 {
					t.Fatalf("%s of %s: unreachable, or a duplicate", a.Op, a.VM)
				}
				wellMarked = wellMarked || a.Op == plan.Mark && m.Power == plan.PoweredOn
			}
		}
		if removals > max(surplus, 0) {
			t.Fatalf("%d removals for a surplus of %d", removals, surplus)
		}
		for _, m := range o.Sight.VMs {
			p, pending := o.Pending[m.Name]
			pending = pending && p.State != plan.Due
			if !m.Marked && m.Reachable && m.Power != plan.PoweredOn && perOrdinal[m.Ordinal] == 1 && !pending {
				wellLeft++
			}
		}
		marks := 0
		for _, a := range plan.Make(o).Actions {
			if a.Op == plan.Mark && byRef[a.MoRef].Power != plan.PoweredOn {
				marks++
			}
		}
		if wellMarked && wellLeft > marks {
			t.Fatalf("a well member is marked while %d unwell ones stay", wellLeft-marks)
		}
	}))
	t.Run("gives the same answer again, whatever the order of its parts, and is not changed", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		before := asJSON(t, o.Group) + fmt.Sprint(o.Sight)
		want := asJSON(t, plan.Make(o))
		if after := asJSON(t, o.Group) + fmt.Sprint(o.Sight); after != before {
			t.Fatalf("the observation was changed:\n%s\n%s", before, after)
		}
		shuffled := o
		shuffled.Sight.VMs = rapid.Permutation(o.Sight.VMs).Draw(t, "order")
		if got := asJSON(t, plan.Make(shuffled)); got != want {
			t.Fatalf("another answer:\n%s\n%s", want, got)
		}
	}))
	t.Run("gives a status that, stored and read back, is given again to the byte", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		first := plan.Make(o).Status
		o.Group = o.Group.DeepCopy()
		if err := json.Unmarshal([]byte(asJSON(t, first)), &o.Group.Status); err != nil {
			t.Fatal(err)
		}
		o.Now = o.Now.Add(time.Hour)
		o.Called = o.Now
		second := plan.Make(o).Status
		if a, b := asJSON(t, first), asJSON(t, second); a != b {
			t.Fatalf("an hour later, with equal facts:\n%s\n%s", a, b)
		}
	}))
	t.Run("gives no action and keeps the figures while vCenter is unknown", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		o.Group.Status = plan.Make(o).Status
		o.Sight = plan.Sight{Trouble: rapid.SampledFrom([]*plan.Fault{nil, {Reason: "VCenterUnreachable", Message: "down"}}).Draw(t, "trouble")}
		r := plan.Make(o)
		was := o.Group.Status
		if len(r.Actions) > 0 || r.Finalized || r.Status.CurrentReplicas != was.CurrentReplicas ||
			r.Status.ReadyReplicas != was.ReadyReplicas || asJSON(t, r.Status.Members) != asJSON(t, was.Members) {
			t.Fatalf("acted upon the unknown: %+v", r)
		}
	}))
}

// TestRepeatedPlanningConverges lets a model vCenter carry out any part of each plan, with any part of it
// failing, members dying and being powered off in between at first, and asks that it ends at the goal.
func TestRepeatedPlanningConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := healthy(t)
		for round := 0; ; round++ {
			if round > 200 {
				t.Fatalf("no end after %d rounds: %+v", round, plan.Make(o))
			}
			r := plan.Make(o)
			if len(r.Actions) == 0 {
				break
			}
			for _, a := range r.Actions {
				if round >= 20 || rapid.IntRange(0, 2).Draw(t, "succeeds") > 0 {
					plan.Apply(&o, a)
				}
			}
			if n := len(o.Sight.VMs); round < 10 && n > 0 && rapid.IntRange(0, 2).Draw(t, "admin") == 0 {
				i := rapid.IntRange(0, n-1).Draw(t, "victim")
				if rapid.Bool().Draw(t, "deletes") {
					o.Sight.VMs = slices.Delete(o.Sight.VMs, i, i+1)
				} else {
					o.Sight.VMs[i].Power = plan.PoweredOff
				}
			}
		}
		r := plan.Make(o)
		if o.Finalizing {
			if !r.Finalized || len(o.Sight.VMs) > 0 || o.Sight.Folder != "" {
				t.Fatalf("finalize ended with %+v", o.Sight)
			}
			return
		}
		if len(o.Sight.VMs) != int(o.Group.Replicas()) || r.Status.Phase != v1alpha1.PhaseRunning ||
			r.Status.ReadyReplicas != o.Group.Replicas() {
			t.Fatalf("ended with %d members of %d, %s: %s", len(o.Sight.VMs), o.Group.Replicas(), r.Status.Phase, r.Status.LastMessage)
		}
	})
}

func TestFinalizeIsSaidOnlyWhenNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		o.Emptied = rapid.Bool().Draw(t, "emptied")
		if rapid.Bool().Draw(t, "child") {
			o.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: plan.KindConfigMap, Name: "web-members"}: {}}
		}
		r := plan.Make(o)
		if r.Finalized && (!o.Finalizing || !o.Emptied || len(o.Sight.VMs) > 0 || o.Sight.Folder != "" || len(o.Children) > 0 || len(withArriving(o)) > 0) {
			t.Fatalf("finalized with something left: %+v", o)
		}
	})
}

// The forecast is what `vmgroup plan` prints; it must reach the goal that the real thing reaches.
func TestForecastEndsWhereNothingIsLeftToDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := healthy(t)
		for _, s := range plan.Forecast(o) {
			plan.Apply(&o, s.Action)
		}
		if r := plan.Make(o); len(r.Actions) > 0 {
			t.Fatalf("left after the forecast: %+v", r.Actions)
		}
	})
}
