package test

import (
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

type spec = v1alpha1.VmGroupSpec

// allNew checks that the group has this many members, all cloned from the other template, and that all former VMs are gone.
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

func TestARepublishedTemplateIsReportedAndRolledOutOnlyIfTheSpecSaysSo(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
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
			t.Errorf("TemplateChanged is True: %+v", c)
		}
		r.allGone(was)
		if n := len(r.members()); n != 2 {
			t.Errorf("%d members, want 2", n)
		}
	})
}

func TestContentIDsThatAppearAndDisappearCauseNoUpdate(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		const template = "/DC0/vm/vm-operator-template"
		g := r.serve().group("web", 1)
		g.Edit(func(s *spec) { s.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace })
		up(t, g)
		r.must(r.ShowContentIDs(template, false))
		r.steady(g, 6*time.Minute, "CloneVM_Task", "ReconfigVM_Task") // longer than the time between two full inventory reads
		g.Scale(2)
		up(t, g)
		was := refs(r.members())
		r.must(r.ShowContentIDs(template, true))
		r.steady(g, 10*time.Minute, "CloneVM_Task", "ReconfigVM_Task") // twice as long, so that a second full inventory read has taken place
		r.sameVMs(was)
		if c := condition(up(t, g), v1alpha1.ConditionTemplateChanged); c.Status == "True" {
			t.Errorf("TemplateChanged is True: %+v", c)
		}
	})
}

func TestAnotherServerContinuesAnUpdateThatWasInterrupted(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
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
			t.Errorf("as few as %d of 4 were available; want at least 4", e.least)
		}
		r.allNew(was, 4)
	})
}

func TestAChangeOfHardwareReplacesTheMembersAndAResizeKeepsIt(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
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
		r.updated(g, 2) // by hot-add, so no member is powered off
		r.sameVMs(was)
		for _, vm := range r.members() {
			d, err := r.Details(vm.Path)
			r.must(err)
			if got := *d.Config.MemoryAllocation.Reservation; got != 8192 {
				t.Errorf("%s has %d MiB reserved; want 8192", vm.Name, got)
			}
		}
	})
}
