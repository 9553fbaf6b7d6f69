package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// withStandby creates a group of three members, and waits until they and the standby members are up.
func withStandby(t *testing.T, r *rig, standby int32) *metacontroller.Group {
	t.Helper()
	g := r.serve().group("web", 3)
	g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
	g.Spec.Standby = standby
	stocked(t, g)
	return g
}

// stocked waits until a group is RUNNING and all of its standby members are ready to be promoted.
func stocked(t *testing.T, g *metacontroller.Group) metacontroller.Answer {
	t.Helper()
	return until(t, g, "the standby members can be promoted", func(a metacontroller.Answer) bool {
		n := int32(0)
		for _, m := range a.Status.Standby {
			if m.Ready {
				n++
			}
		}
		return metacontroller.Running(a) && n == g.Spec.Standby && a.Status.StandbyReplicas == n
	})
}

// This test measures the figure in docs/figures.md: how long it takes to scale out from three members to eight, with and without standby members, if
// the guests run Tools.
func TestScaleOutWithStandbyMembersTakesABoot(t *testing.T) {
	t.Parallel()
	took := map[int32]time.Duration{}
	for _, standby := range []int32{0, 5} {
		t.Run(fmt.Sprintf("standby %d", standby), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				g := withStandby(t, r, standby)
				clones := r.Calls()["CloneVM_Task"]
				g.Scale(8)
				began := time.Now()
				a := up(t, g)
				if took[standby] = time.Since(began); a.Status.ReadyReplicas != 8 || a.Status.CurrentReplicas != 8 {
					t.Errorf("want 8 members, all ready: %+v", a.Status)
				}
				if a := stocked(t, g); r.Calls()["CloneVM_Task"] != clones+5 || len(a.Status.Members) != 8 {
					t.Errorf("%d clones for 5 members, whose standby members are made again", r.Calls()["CloneVM_Task"]-clones)
				}
			})
		})
	}
	t.Logf("%s with 5 standby members, %s without: %.2f times", took[5], took[0], took[5].Seconds()/took[0].Seconds())
	if boot := lifetimes.Reconfigure + lifetimes.Power + bootTime; took[5] > boot+5*time.Second || took[0] < boot+lifetimes.Clone {
		t.Errorf("%s with standby members, %s without", took[5], took[0])
	}
}

func TestALifeWithStandbyMembers(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g := withStandby(t, r, 2)
		was := refs(r.members())
		if on := slices.DeleteFunc(r.members(), func(vm vcsim.VM) bool { return vm.Power != types.VirtualMachinePowerStatePoweredOn }); len(was) != 5 || len(on) != 3 {
			t.Fatalf("%v, of which %d are on", was, len(on))
		}
		for kind, all := range g.Children {
			for name, child := range all {
				if strings.Contains(string(child), "web-3") {
					t.Errorf("%s %s has a standby member: %s", kind, name, child)
				}
			}
		}

		r.must(r.PowerOff(web + "/web-1"))
		r.must(r.Destroy(web + "/web-1"))
		until(t, g, "a standby member is promoted", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && len(a.Status.Members) == 3 && a.Status.Members[2].Name == "web-3"
		})
		stocked(t, g)
		if is := refs(r.members()); is["web-3"] != was["web-3"] || is["web-1"] == was["web-1"] {
			t.Errorf("%v, was %v", is, was)
		}

		r.must(r.PowerOn(web + "/web-4"))
		g.Every = time.Second // short, because the surplus member is soon removed again
		until(t, g, "the one that an operator powered on is a member", func(a metacontroller.Answer) bool { return a.Status.CurrentReplicas == 4 })
		g.Every = 0
		stocked(t, g)

		was = refs(r.members())
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
		until(t, g, "a standby member of the new template is promoted", func(a metacontroller.Answer) bool {
			for _, m := range a.Status.Members {
				if m.Reason == plan.ReasonRemoving && a.Status.UpdatedReplicas == 0 {
					t.Errorf("%s is removed before a standby member of the new template is promoted", m.Name)
				}
			}
			return a.Status.UpdatedReplicas > 0
		})
		stocked(t, g)
		for name, ref := range refs(r.members()) {
			if was[name] == ref {
				t.Errorf("%s is still of the former template", name)
			}
		}

		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Standby = 0 })
		until(t, g, "the standby members are gone", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.StandbyReplicas == 0 && len(r.members()) == 3
		})
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Standby, s.Deletion.Policy = 1, v1alpha1.DeletionRetain })
		stocked(t, g)
		remove(t, g)
		if left := r.VMs(); len(left) != 2+3 { // two templates and the three retained members; the standby member is removed
			t.Errorf("%d VMs are left; want %d", len(left), 2+3)
		}
	})
}
