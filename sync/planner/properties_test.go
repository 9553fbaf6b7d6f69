package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

func TestEveryObservation(t *testing.T) {
	t.Run("gives at most one action a member, and none where one is pending", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		seen := map[string]bool{}
		for _, a := range planner.Make(o).Actions {
			p, pending := o.Pending[a.Key]
			pending = pending && p.State != plan.Due && !(p.State == plan.BackingOff && (p.Op == plan.PowerOn && a.Op != plan.PowerOn || p.Op == plan.Clone && a.MoRef != ""))
			if pending || seen[a.Key] {
				t.Fatalf("a second action for %q: %+v", a.Key, a)
			}
			seen[a.Key] = true
		}
	}))
	t.Run("never gives more members than replicas and maxSurge, nor a second one of an ordinal", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		held, idle, made, idlers, promoted := withArriving(o), standby(o), 0, 0, 0
		for _, a := range planner.Make(o).Actions {
			promoted += isOne(a.Op == plan.PowerOn && a.Standby() && idle[a.Ordinal])
			if a.Op != plan.Clone && a.Op != plan.Adopt && !(a.Op == plan.Unmark && isQuarantined(&o, a.MoRef)) {
				continue
			}
			if held[a.Ordinal] {
				t.Fatalf("ordinal %d exists, and %s would make another", a.Ordinal, a.Op)
			}
			made, idlers = made+isOne(!a.Standby()), idlers+isOne(a.Standby())
		}
		unhealthy, serving := 0, len(held)-len(idle)
		for _, m := range o.State.VMs { // another is promoted before they are gone
			unhealthy += isOne(m.Marked && m.MarkReason == plan.MarkReasonHealing && !m.IsStandby())
		}
		surge, _ := limits(&o)
		most := int(o.Group.Replicas()) + surge
		if made+idlers+promoted > 0 && o.Finalizing || made > 0 && serving+made > most || promoted > 0 && serving+made+promoted > most+unhealthy {
			t.Fatalf("%d and %d more with %d members of %d and %d (finalizing: %v)", made, promoted, serving, o.Group.Replicas(), surge, o.Finalizing)
		}
		if places := max(0, most+unhealthy-serving-made); idlers > 0 && len(idle)+idlers > int(o.Group.Spec.Standby)+places {
			t.Fatalf("%d more standby members with %d of %d, and %d places for them", idlers, len(idle), o.Group.Spec.Standby, places)
		}
	}))
	t.Run("powers no standby member on but to promote one that matches the spec, and counts none", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		r := planner.Make(o)
		idle := standby(o)
		for _, a := range r.Actions {
			m := find(&o, a.MoRef)
			switch {
			case a.Op != plan.PowerOn || !m.Standby:
			case !a.Standby():
				t.Fatalf("%s is powered on, and its stamp still says that it is a standby member", a.Key)
			case m.Power == plan.PoweredOff && (m.Marked || m.Revision != plan.RevisionWith(&o.Group.Spec, o.Related.Digest) || m.CPU != 2):
				t.Fatalf("%s is promoted: %+v", a.Key, m)
			}
		}
		for _, m := range r.Status.Members {
			if vm := find(&o, m.MoRef); o.State.Known && idle[m.Ordinal] && vm.IsStandby() {
				t.Fatalf("%s is a standby member, and counted", m.Name)
			}
		}
	}))
	t.Run("takes none down that serves unless enough others do", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		before, after := serving(&o, nil), serving(&o, planner.Make(o).Actions)
		if _, least := limits(&o); after < before && after < least {
			t.Fatalf("%d serve, of which %d would be left; %d are promised", before, after, least)
		}
	}))
	t.Run("removes one that is too many only if those that it counts again right before are there", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		r := planner.Make(o)
		for _, a := range r.Actions {
			stay := map[int32]bool{}
			for i := range o.State.VMs {
				vm := &o.State.VMs[i]
				unmarked := slices.ContainsFunc(r.Actions, func(x plan.Action) bool { return x.Op == plan.Unmark && x.MoRef == vm.MoRef })
				_, pending := o.Pending[plan.MemberName("web", vm.Ordinal)]
				stay[vm.Ordinal] = stay[vm.Ordinal] || vm.MoRef != a.MoRef && (vm.Stays() || unmarked || pending || vm.MarkedAt.After(o.Called))
			}
			left := 0
			for _, stays := range stay {
				left += isOne(stays)
			}
			if left < a.Leaves {
				t.Fatalf("%s of %s begins, and leaves %d members that stay, not %d", a.Op, a.Key, left, a.Leaves)
			}
		}
	}))
	t.Run("takes none down to replace it while no new member can be made", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		o.State.Template = plan.Template{Datacenter: "DC0"}
		replacing := func(why plan.MarkReason) bool {
			return why == plan.MarkReasonUpdate || why == plan.MarkReasonResize || why == plan.MarkReasonReplace
		}
		members, duplicates := map[int32]int{}, 0
		for _, m := range o.State.VMs {
			if m.Quarantined.IsZero() {
				members[m.Ordinal]++
				duplicates += isOne(members[m.Ordinal] > 1)
			}
		}
		for _, a := range planner.Make(o).Actions {
			m := find(&o, a.MoRef)
			switch {
			case a.Op == plan.Mark && (replacing(plan.ArgsOf[plan.MarkArgs](a.Args).Reason) || plan.ArgsOf[plan.MarkArgs](a.Args).Successor != nil):
				t.Fatalf("%s is marked: %s", a.Key, a.Reason)
			case len(members) > int(o.Group.Replicas()) || o.Group.Spec.Standby > 0 || duplicates > 0 || !m.Quarantined.IsZero(): // one is too many
			case o.Group.Spec.HasPersistentDisks() && m.Ordinal >= o.Group.Replicas(): // so is this one: the ordinals are 0 … n-1
			case a.Op.TakesDown() && a.Op != plan.Unmark && replacing(m.MarkReason):
				t.Fatalf("%s of %s, which was marked for %s: %s", a.Op, a.Key, m.MarkReason, a.Reason)
			}
		}
	}))
	t.Run("replaces none because it differs while one differs that was cloned for all that is wanted now, and says in what", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		if len(o.State.VMs) == 0 || o.Related.Fault != nil {
			t.Skip()
		}
		o.Finalizing, o.Group.DeletionTimestamp, o.Group.Spec.Paused = false, nil, false
		o.Group.Spec.Update.Strategy, o.Group.Spec.Update.Paused, o.Group.Spec.Update.Canary = "", false, nil
		o.Group.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		m := &o.State.VMs[rapid.IntRange(0, len(o.State.VMs)-1).Draw(t, "cloned in vain")]
		m.Revision, m.Created, m.Quarantined, m.Former = "0123456789", now.Add(-time.Minute), time.Time{}, plan.Former{}
		m.ClonedFor = plan.ClonedFor(&o.Group.Spec, plan.RevisionWith(&o.Group.Spec, o.Related.Digest), o.State.Template.Fingerprint)
		r, alone := planner.Make(o), 0
		for _, x := range o.State.VMs {
			alone += isOne(x.Ordinal == m.Ordinal && x.Quarantined.IsZero())
		}
		for _, a := range r.Actions {
			why := plan.ArgsOf[plan.MarkArgs](a.Args).Reason
			x := find(&o, a.MoRef)
			if a.Op == plan.Mark && (why == plan.MarkReasonUpdate || why == plan.MarkReasonResize) && !strings.HasPrefix(x.Prepared, plan.Unprepared) && alone == 1 {
				t.Fatalf("%s is marked: %s", a.Key, a.Reason)
			}
		}
		held := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionUpdateHeld)
		if alone == 1 && !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionProbesSuppressed) && (held == nil || held.Reason != plan.ReasonSuccessorDiffers) {
			t.Fatalf("%s: %s; UpdateHeld is %+v", r.Status.Phase, r.Status.LastMessage, held)
		}
	}))
	t.Run("does nothing to a VM that asks an operator, and says what it asks", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		r, asks := planner.Make(o), map[string]bool{}
		for _, m := range o.State.VMs {
			asks[m.MoRef] = m.Question != ""
		}
		for _, a := range r.Actions {
			if asks[a.MoRef] {
				t.Fatalf("%s of %s, which asks", a.Op, a.Key)
			}
		}
		reported := slices.ContainsFunc(r.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionQuestionPending && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "Was it moved?")
		})
		if o.State.Known && reported != slices.ContainsFunc(o.State.VMs, func(m plan.VM) bool { return m.Question != "" }) && r.Refusal == nil && !r.Finalized {
			t.Fatalf("reported is %v of %+v", reported, o.State.VMs)
		}
	}))
	t.Run("touches none that vCenter cannot reach, and destroys only what is marked", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		byRef, perOrdinal, aside := map[string]plan.VM{}, map[int32]int{}, map[int32]int{}
		for _, m := range o.State.VMs {
			byRef[m.MoRef] = m
			if m.Quarantined.IsZero() {
				perOrdinal[m.Ordinal]++
			}
		}
		for _, a := range planner.Make(o).Actions {
			m, is := byRef[a.MoRef]
			switch {
			case !is:
			case !m.Reachable:
				t.Fatalf("%s of %s, which is unreachable", a.Op, a.Key)
			case o.Finalizing:
			case plan.ArgsOf[plan.DestroyArgs](a.Args).NeverOn: // vCenter's events decide about a duplicate that is off
				aside[m.Ordinal]++
				if perOrdinal[m.Ordinal] < 2 || m.Power != plan.PoweredOff || a.Op != plan.Destroy {
					t.Fatalf("%s of %s, which is no duplicate that is off", a.Op, a.Key)
				}
			case a.Op == plan.Destroy || a.Op == plan.Quarantine:
				if !m.Marked || !a.Marked || m.Power != plan.PoweredOff {
					t.Fatalf("%s of %s, which is not marked, or is on", a.Op, a.Key)
				}
				if a.Op == plan.Destroy && m.MarkReason == plan.MarkReasonDuplicate {
					t.Fatalf("%s of %s, which is kept", a.Op, a.Key)
				}
			case marks(a, plan.MarkReasonDuplicate) && perOrdinal[m.Ordinal] < 2 &&
				slices.ContainsFunc(o.Group.Status.GivenUp, func(g v1alpha1.GivenUp) bool { return g.InstanceUUID == m.InstanceUUID }):
				if len(perOrdinal) <= int(o.Group.Replicas()) {
					t.Fatalf("%s of %s, which was given up, and is needed", a.Op, a.Key)
				}
			case marks(a, plan.MarkReasonDuplicate) && perOrdinal[m.Ordinal] < 2:
				t.Fatalf("%s of %s, which is the member", a.Op, a.Key)
			case marks(a, plan.MarkReasonDuplicate):
				aside[m.Ordinal]++
			case a.Op == plan.Release:
				t.Fatalf("%s of %s, and the group is not deleted", a.Op, a.Key)
			}
		}
		for ordinal, n := range aside {
			if n >= perOrdinal[ordinal] {
				t.Fatalf("none of the %d VMs of ordinal %d stays", n, ordinal)
			}
		}
	}))
	t.Run("removes in scale-in only ordinals from replicas on where disks are persistent", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		o.Group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
		for _, a := range planner.Make(o).Actions {
			if m := find(&o, a.MoRef); marks(a, plan.MarkReasonScaleIn) && !m.Standby && m.Ordinal < o.Group.Replicas() {
				t.Fatalf("%s goes, of %d", a.Key, o.Group.Replicas())
			}
		}
	}))
	t.Run("powers no member on that lacks a persistent disk", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		o.Group.Spec.Disks, o.Group.Spec.Adopt = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}, nil
		for i := range o.State.VMs {
			if m := &o.State.VMs[i]; m.Former.Entry == "" && rapid.Bool().Draw(t, "fits") {
				m.Prepared, m.Revision = plan.PreparationOf(&o.Group.Spec), plan.RevisionWith(&o.Group.Spec, o.Related.Digest)
			}
		}
		for _, a := range planner.Make(o).Actions {
			if m := find(&o, a.MoRef); a.Op == plan.PowerOn && plan.PreparationIn(m.Prepared).Disks && m.Former.Entry == "" && plan.LacksPersistent(&o.Group.Spec, m.Disks) {
				t.Fatalf("%s is powered on with the disks %q", a.Key, m.Disks)
			}
		}
	}))
	t.Run("takes no member with persistent disks of a deleted group down before its stamp tells other replicas", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		remove(&o)
		for i := range o.State.VMs {
			if m := &o.State.VMs[i]; rapid.Bool().Draw(t, "stateful") {
				m.Disks = plan.DiskText([]plan.MemberDisk{{Name: "data", ID: fmt.Sprint("fcd-", i)}})
				m.Generation = o.Group.Generation - int64(rapid.IntRange(0, 1).Draw(t, "behind"))
			}
		}
		for _, a := range planner.Make(o).Actions {
			m, p := find(&o, a.MoRef), o.Pending[a.Key]
			if a.Op == plan.Mark && !m.Quarantined.IsZero() {
				t.Fatalf("%s of %s in quarantine, which no replica powers on", a.Op, a.Key)
			}
			takes := a.Op == plan.PowerOff || a.Op == plan.DeleteDisks || a.Op == plan.Destroy
			if takes && m.Quarantined.IsZero() && len(plan.Persistent(m.Disks)) > 0 && m.Generation < o.Group.Generation && p.Op != plan.Mark {
				t.Fatalf("%s of %s, whose stamp has generation %d of %d", a.Op, a.Key, m.Generation, o.Group.Generation)
			}
		}
	}))
	t.Run("removes in scale-in the protected last, and of the others those in remove, the unready, and the outdated first", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		o.Group.Spec.Update.MaxAgeSeconds = nil
		if o.Group.Spec.HasPersistentDisks() {
			return // its ordinals are 0 … n-1: the highest go
		}
		goes := map[string]bool{}
		r := planner.Make(o)
		for _, a := range r.Actions {
			goes[a.MoRef] = a.Op == plan.Mark
		}
		duplicate := map[int32]int{}
		for _, m := range o.State.VMs {
			if m.Quarantined.IsZero() {
				duplicate[m.Ordinal]++
			}
		}
		for _, m := range r.Status.Members { // another VM of that ordinal may still run
			if m.Reason == plan.ReasonMemberVanished || m.Reason == plan.ReasonMemberNotSeen {
				duplicate[m.Ordinal]++
			}
		}
		rank := func(m plan.VM) int {
			name, n := plan.MemberName("web", m.Ordinal), 3
			switch {
			case slices.Contains(o.Group.Spec.ScaleIn.Remove, name):
				n = 0
			case !ready(&o, m) || halting(&o, m):
				n = 1
			case m.Revision != plan.RevisionWith(&o.Group.Spec, o.Related.Digest) || m.CPU != 2:
				n = 2
			}
			if slices.Contains(o.Group.Spec.ScaleIn.Protected, name) {
				n += 4
			}
			return n
		}
		for _, a := range r.Actions {
			if !marks(a, plan.MarkReasonScaleIn) || o.Pending[a.Key].Op == plan.Mark || find(&o, a.MoRef).Standby {
				continue
			}
			for _, m := range o.State.VMs {
				_, pending := o.Pending[plan.MemberName("web", m.Ordinal)]
				if x := find(&o, a.MoRef); !wasMissing(&o, x.InstanceUUID) && rank(m) < rank(x) && !goes[m.MoRef] && !m.Marked && !m.Standby && m.Reachable && m.Question == "" && !pending && m.Quarantined.IsZero() && duplicate[m.Ordinal] == 1 && m.Revision == x.Revision && m.CPU == x.CPU && m.Fingerprint == x.Fingerprint {
					t.Fatalf("%s goes (%d), and web-%d stays (%d)", a.Key, rank(x), m.Ordinal, rank(m))
				}
			}
		}
	}))
	t.Run("heals none while more are unready, or cannot be reached, than maxUnhealthy allows", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		unhealthy, duplicates := 0, map[int32]int{}
		for _, m := range o.State.VMs {
			if m.Quarantined.IsZero() {
				duplicates[m.Ordinal]++
			}
		}
		for _, m := range o.State.VMs {
			on := m.Power == plan.PoweredOn && !ready(&o, m) && !m.Marked && !halting(&o, m)
			if m.Quarantined.IsZero() && duplicates[m.Ordinal] == 1 && !m.IsStandby() && (on || !m.Reachable) { // nothing counts standby members
				unhealthy++
			}
		}
		allowed, forty := 0, intstr.FromString("40%")
		allowed, _ = intstr.GetScaledValueFromIntOrPercent(cmp.Or(o.Group.Spec.Healing.MaxUnhealthy, &forty), int(o.Group.Replicas()), false)
		for _, a := range planner.Make(o).Actions {
			if unhealthy > max(1, allowed) && (a.Op == plan.Reset || marks(a, plan.MarkReasonHealing)) {
				t.Fatalf("%s of %s while %d are unready, and %d can be", a.Op, a.Key, unhealthy, allowed)
			}
		}
	}))
	t.Run("powers none on before it is prepared, and clones none without its user data", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		for _, a := range planner.Make(o).Actions {
			m := find(&o, a.MoRef)
			switch {
			case o.Related.Fault != nil && (a.Op == plan.Clone || a.Op == plan.Adopt):
				t.Fatalf("%s of %s without user data", a.Op, a.Key)
			case a.Op == plan.PowerOn && m.Power != plan.PoweredOn && strings.HasPrefix(m.Prepared, plan.Unprepared):
				t.Fatalf("%s is powered on, and not prepared", a.Key)
			case a.Op == plan.PowerOn && m.Power != plan.PoweredOn && o.State.RulesOff && plan.RulesOf(&o.Group.Spec).Required():
				t.Fatalf("%s is powered on before the rule stands", a.Key)
			}
		}
	}))
	t.Run("leaves a ready member to be removed alone for drainSeconds", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		if o.Group.Spec.Service == nil {
			o.Group.Spec.Service = &v1alpha1.Service{DrainSeconds: 120}
		}
		o.Group.Spec.Deletion.Policy = ""
		drain := time.Duration(o.Group.Spec.Service.DrainSeconds) * time.Second
		for _, a := range planner.Make(o).Actions {
			m, since := find(&o, a.MoRef), o.FinalizingSince
			if !o.Finalizing || m.Marked && m.MarkedAt.Before(since) {
				since = m.MarkedAt
			}
			takes := a.Op == plan.ShutdownGuest || a.Op == plan.PowerOff || a.Op == plan.Quarantine || a.Op == plan.Destroy
			if takes && (m.Marked || o.Finalizing) && ready(&o, m) && !halting(&o, m) && !since.IsZero() && o.Now.Sub(since) < drain {
				t.Fatalf("%s of %s after %s", a.Op, a.Key, o.Now.Sub(since))
			}
		}
	}))
	t.Run("does nothing to a paused group", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		o.Group.Spec.Paused = true
		if r := planner.Make(o); len(r.Actions) > 0 || r.Finalized {
			t.Fatalf("finalized %v, and steps %+v", r.Finalized, r.Actions)
		}
	}))
	t.Run("gives the same answer again, whatever the order of its parts, and is not changed", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		before := asJSON(t, o.Group) + fmt.Sprint(o.State)
		want := asJSON(t, planner.Make(o))
		if after := asJSON(t, o.Group) + fmt.Sprint(o.State); after != before {
			t.Fatalf("the observation was changed:\n%s\n%s", before, after)
		}
		shuffled := o
		shuffled.State.VMs = rapid.Permutation(o.State.VMs).Draw(t, "order")
		if got := asJSON(t, planner.Make(shuffled)); got != want {
			t.Fatalf("a different answer:\n%s\n%s", want, got)
		}
	}))
	t.Run("gives the same status and actions, stored and read back, until it asks to be woken", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		first, shown := planner.Make(o), o.Children
		store(t, &o, &first)
		o.Children = shown // which are facts, too
		later := first.Wake - 1
		if first.Wake == 0 {
			later = time.Hour
		}
		o.Now = o.Now.Add(later)
		o.Called = o.Now
		second := planner.Make(o)
		first.Wake, second.Wake, first.Resync, second.Resync = 0, 0, 0, 0
		if first.SlowStart = false; second.SlowStart {
			t.Fatal("members are lost that were confirmed to be gone before")
		}
		if first.Events = nil; len(second.Events) > 0 {
			t.Fatalf("a stored Event is reported again: %+v", second.Events)
		}
		if a, b := asJSON(t, first), asJSON(t, second); a != b {
			t.Fatalf("%s later, with equal facts:\n%s", later, difference(a, b))
		}
	}))
	t.Run("gives no action and keeps the figures while vCenter is unknown", rapid.MakeCheck(func(t *rapid.T) {
		o := anything(t)
		o.Group.Status = planner.Make(o).Status
		o.State = plan.VCenterState{Fault: rapid.SampledFrom([]*plan.Fault{nil, {Reason: "VCenterUnreachable", Message: "down"}}).Draw(t, "trouble")}
		r := planner.Make(o)
		was := o.Group.Status
		if len(r.Actions) > 0 || r.Finalized || r.Status.CurrentReplicas != was.CurrentReplicas ||
			r.Status.ReadyReplicas != was.ReadyReplicas || asJSON(t, r.Status.Members) != asJSON(t, was.Members) {
			t.Fatalf("acts while vCenter is unknown: %+v", r)
		}
	}))
}

// TestRepeatedPlanningConverges carries out random parts of each plan in a model of vCenter. At first, random steps fail, and members are
// destroyed or powered off. The group must reach its goal.
func TestRepeatedPlanningConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := healthy(t)
		o.State.Strays = nil // an operator decides about those that hold ordinals
		for round := 0; ; round++ {
			if round > 1000 { // the server recreates the standby members that are too old each hour, and the window opens once a day
				t.Fatalf("no end after %d rounds: %+v", round, planner.Make(o))
			}
			o.Called = o.Now
			r := planner.Make(o)
			store(t, &o, &r)
			if len(r.Actions) == 0 {
				if r.Wake == 0 || round > 20 && goal(&o, &r) == "" { // it may wait for a window
					break
				}
				o.Now = o.Now.Add(r.Wake)
				continue
			}
			for _, a := range r.Actions {
				if round >= 20 || rapid.IntRange(0, 2).Draw(t, "succeeds") > 0 {
					plan.Apply(&o, a)
				}
			}
			if n := len(o.State.VMs); round < 10 && n > 0 && rapid.IntRange(0, 2).Draw(t, "operator") == 0 {
				m := &o.State.VMs[rapid.IntRange(0, n-1).Draw(t, "victim")]
				switch {
				case rapid.Bool().Draw(t, "deletes"):
					plan.Apply(&o, plan.Action{Op: plan.Destroy, MoRef: m.MoRef})
				case m.Quarantined.IsZero():
					plan.Apply(&o, plan.Action{Op: plan.PowerOff, MoRef: m.MoRef})
				}
			}
			o.Now = o.Now.Add(time.Second)
		}
		r := planner.Make(o)
		if o.Finalizing {
			if !r.Finalized || len(o.State.VMs) > 0 || o.State.Folder != "" {
				t.Fatalf("finalize ended with %+v", o.State)
			}
			return
		}
		if wrong := goal(&o, &r); wrong != "" {
			t.Fatal("ended as ", wrong, asJSON(t, r.Status))
		}
	})
}

func TestFinalizedIsAnsweredOnlyWhenNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		o.Emptied = rapid.Bool().Draw(t, "emptied")
		if rapid.Bool().Draw(t, "child") {
			o.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: plan.KindConfigMap, Name: "web-members"}: {}}
		}
		r := planner.Make(o)
		if r.Finalized && (!o.Finalizing || !o.Emptied || len(o.State.VMs) > 0 || o.State.Folder != "" || len(o.Children) > 0 || len(withArriving(o)) > 0) {
			t.Fatalf("finalized with something left: %+v", o)
		}
	})
}

// The forecast, which `vmgroup plan` prints, must reach the same goal as the loop.
func TestAForecastEndsWhenNothingIsLeftToDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := healthy(t)
		o.Group.Spec.Paused = rapid.Bool().Draw(t, "paused")
		f := planner.Forecast(o)
		o.Group.Spec.Paused, o.AgesAt = false, o.Now
		for i, s := range f.Steps {
			if i == 0 || s.Round != f.Steps[i-1].Round {
				r := planner.Make(o)
				store(t, &o, &r)
				o.Now = o.Now.Add(s.After)
				o.Called = o.Now
			}
			plan.Apply(&o, s.Action)
		}
		if r := planner.Make(o); f.More || len(r.Actions) > 0 {
			t.Fatalf("left after the forecast of %d steps (more: %v): %+v", len(f.Steps), f.More, r.Actions)
		}
	})
}
