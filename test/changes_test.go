package test

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

type spec = v1alpha1.VmGroupSpec

func TestAResizeByPowerCycleTakesDownOneMemberAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		g := r.serve().group("web", 3)
		g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		g.Spec.Update.MaxUnavailable, g.Spec.Update.MaxSurge = number(1), number(0)
		up(t, g)
		was := refs(r.members())
		ready := r.sample(func() int { return tally(r.members(), hasTools) })
		exist := r.sample(func() int { return len(r.members()) })
		g.Edit(func(s *spec) { s.CPU, s.Memory = 1, 2 })
		up(t, g)
		if e := ready(); e.least != 2 {
			t.Errorf("as few as %d of 3 were ready", e.least)
		}
		if e := exist(); e.most != 3 || e.least != 3 {
			t.Errorf("between %d and %d members", e.least, e.most)
		}
		r.sameVMs(was)
		for _, vm := range r.members() {
			if vm.CPUs != 1 || vm.MemoryMB != 2048 {
				t.Errorf("%+v", vm)
			}
		}
	})
}

// allNew checks that there are this many members, all of the other template, and that all earlier ones are gone.
func (r *rig) allNew(was map[string]string, replicas int) {
	r.t.Helper()
	members := r.members()
	if n := tally(members, isOfOther); len(members) != replicas || n != replicas {
		r.t.Errorf("%d of %d members are new: %v", n, len(members), refs(members))
	}
	r.allGone(was)
}

func (r *rig) allGone(was map[string]string) {
	r.t.Helper()
	for _, vm := range r.VMs() {
		for name, ref := range was {
			if vm.Ref.Value == ref {
				r.t.Errorf("%s (%s) is left: %s", name, ref, vm.Path)
			}
		}
	}
}

func TestAnUpdateWhoseGuestsNeverBootStopsAndAnEditUndoesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		r.BreakGuests(isOfOther)
		g := r.serve().group("web", 3)
		g.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: seconds(120)}
		g.Spec.Update.MaxUnavailable, g.Spec.Update.MaxSurge, g.Spec.Update.ProgressDeadlineSeconds = number(0), number(1), seconds(600)
		up(t, g)
		was := refs(r.members())
		available := r.sample(func() int { return tally(r.members(), hasTools) })
		g.Edit(func(s *spec) { s.Template = otherTemplate })
		a := says(t, g, v1alpha1.PhaseError, "the update has stopped")
		if c := condition(a, v1alpha1.ConditionUpdateHeld); c.Reason != "ProgressDeadlineExceeded" {
			t.Errorf("%+v", a.Status.Conditions)
		}
		clones := r.Calls()["CloneVM_Task"]
		for began := time.Now(); time.Since(began) < 20*time.Minute; time.Sleep(10 * time.Second) {
			if a, err := g.Sync(within(t)); err != nil || a.Status.Phase != v1alpha1.PhaseError {
				t.Fatalf("%v, %s: %s", err, a.Status.Phase, a.Status.LastMessage)
			}
		}
		if n := r.Calls()["CloneVM_Task"] - clones; n > 0 {
			t.Errorf("%d clones after the stop", n)
		}
		g.Edit(func(s *spec) { s.Template = "vm-operator-template" })
		up(t, g)
		if e := available(); e.least < 3 {
			t.Errorf("as few as %d of 3 were available", e.least)
		}
		r.sameVMs(was)
	})
}

func TestARepublishedTemplateIsReportedAndRolledOutOnlyIfTheSpecSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t, vcsim.Guest{})
		g := r.serve().group("web", 2)
		up(t, g)
		was := refs(r.members())
		r.must(r.Republish("/DC0/vm/vm-operator-template"))
		until(t, g, "TemplateChanged is reported", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && condition(a, v1alpha1.ConditionTemplateChanged).Status == "True"
		})
		r.steady(g, 5*time.Minute, "CloneVM_Task", "ReconfigVM_Task", "PowerOffVM_Task")
		r.sameVMs(was)
		g.Edit(func(s *spec) { s.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace })
		a := up(t, g)
		if c := condition(a, v1alpha1.ConditionTemplateChanged); c.Status == "True" {
			t.Errorf("%+v", c)
		}
		r.allGone(was)
		if n := len(r.members()); n != 2 {
			t.Errorf("%d members", n)
		}
	})
}

func TestContentIDsThatAppearAndDisappearCauseNoUpdate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t, vcsim.Guest{})
		const template = "/DC0/vm/vm-operator-template"
		g := r.serve().group("web", 1)
		g.Edit(func(s *spec) { s.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace })
		up(t, g)
		r.must(r.ShowContentIDs(template, false))
		r.steady(g, 6*time.Minute, "CloneVM_Task", "ReconfigVM_Task") // longer than vCenter is read completely
		g.Scale(2)
		up(t, g)
		was := refs(r.members())
		r.must(r.ShowContentIDs(template, true))
		r.steady(g, 10*time.Minute, "CloneVM_Task", "ReconfigVM_Task") // the second time comes later
		r.sameVMs(was)
		if c := condition(up(t, g), v1alpha1.ConditionTemplateChanged); c.Status == "True" {
			t.Errorf("%+v", c)
		}
	})
}

func TestAMemberIsReplacedOnceAlthoughSpecReplaceStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		g := r.serve().group("web", 3)
		up(t, g)
		was := refs(r.members())
		g.Edit(func(s *spec) { s.Replace = []v1alpha1.Replacement{{Name: "web-1", MoRef: was["web-1"]}} })
		up(t, g)
		r.allGone(map[string]string{"web-1": was["web-1"]})
		is := refs(r.members())
		if len(is) != 3 || is["web-0"] != was["web-0"] || is["web-2"] != was["web-2"] {
			t.Errorf("members: %v, want %v as before", is, was)
		}
		r.steady(g, 5*time.Minute, "CloneVM_Task", "ReconfigVM_Task", "Destroy_Task", "UnregisterAndDestroy_Task")
		r.sameVMs(is)
	})
}

func TestAnotherServerContinuesAnUpdateThatWasInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		first := r.serve()
		g := first.group("web", 4)
		g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
		g.Spec.Update.MaxUnavailable, g.Spec.Update.MaxSurge = number(0), number(1)
		up(t, g)
		was := refs(r.members())
		available := r.sample(func() int { return tally(r.members(), hasTools) })
		g.Edit(func(s *spec) { s.Template = otherTemplate })
		until(t, g, "the update is halfway", func(metacontroller.Answer) bool { return tally(r.members(), isOfOther) >= 2 })
		first.stop()
		upAt(t, g, r.serve().url)
		if e := available(); e.least < 4 {
			t.Errorf("as few as %d of 4 were available", e.least)
		}
		r.allNew(was, 4)
	})
}

func TestAChangeOfHardwareReplacesTheMembersAndAResizeKeepsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t, vcsim.Guest{Tools: true})
		g := r.serve().group("web", 2)
		up(t, g)
		was := refs(r.members())
		yes := true
		g.Edit(func(s *spec) {
			s.Hardware = v1alpha1.Hardware{CPUHotAdd: &yes, MemoryHotAdd: &yes, ReserveAllMemory: &yes}
		})
		up(t, g)
		for name, ref := range refs(r.members()) {
			if ref == was[name] {
				t.Errorf("%s was not replaced", name)
			}
		}
		was = refs(r.members())
		g.Edit(func(s *spec) { s.Memory = 8 })
		r.updated(g, 2) // by hot-add: none is off in between
		r.sameVMs(was)
		for _, vm := range r.members() {
			d, err := r.Details(vm.Path)
			r.must(err)
			if got := *d.Config.MemoryAllocation.Reservation; got != 8192 {
				t.Errorf("%s has %d MiB reserved", vm.Name, got)
			}
		}
	})
}
