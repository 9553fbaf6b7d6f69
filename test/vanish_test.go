package test

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// newVanishRig starts a vCenter with three hosts, so that a host can leave the inventory with only some of the VMs.
func newVanishRig(t *testing.T) *rig {
	t.Helper()
	return newRig(t, vcsim.Config{Hosts: 3, Guest: vcsim.Guest{Tools: true}})
}

// couldBothRun counts the powered-on VMs beyond the first of each ordinal, both in the inventory and outside it.
func (r *rig) couldBothRun() (more int) {
	seen := map[int32]bool{}
	for _, vm := range slices.Concat(r.AllVMs()) {
		stamp, err := stampOf(vm)
		if err != nil || !isOn(vm) || !stamp.Owned(stamp.UID, vm.InstanceUUID) {
			continue
		}
		if seen[stamp.Ordinal] {
			more++
		}
		seen[stamp.Ordinal] = true
	}
	return more
}

// neverTwo checks until the test ends that no two VMs of one ordinal are powered on at the same time.
func (r *rig) neverTwo() {
	stop := r.sample(r.couldBothRun)
	r.t.Cleanup(func() {
		if most := stop().most; most > 0 {
			r.t.Errorf("%d ordinals had two running VMs; want none", most)
		}
	})
}

// removeHostOf removes the host of a VM from the inventory, and returns the host's name and the number of members that left the inventory with it.
func (r *rig) removeHostOf(vm string) (host string, members int) {
	r.t.Helper()
	d, err := r.VCenter.Details(vm)
	r.must(err)
	r.must(r.RemoveHost(d.Host))
	return path.Base(d.Host), tally(r.OutsideInventory(), isStamped)
}

// hasVanished waits until this many members have vanished, and the status asks an operator to act.
func hasVanished(t *testing.T, g *metacontroller.Group, n int, how string) metacontroller.Answer {
	t.Helper()
	a := until(t, g, "members have vanished", func(a metacontroller.Answer) bool {
		return a.Status.Phase == v1alpha1.PhaseError && meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionMembersVanished) &&
			tallyVanished(a.Status) == n
	})
	if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionMembersVanished); !strings.Contains(c.Message, how) {
		t.Errorf("the condition says %q; want %q in the text", c.Message, how)
	}
	return a
}

func tallyVanished(s v1alpha1.VmGroupStatus) (n int) {
	for _, m := range s.Members {
		if m.Reason == plan.ReasonMemberVanished && !m.VanishedAt.IsZero() && m.InstanceUUID != "" {
			n++
		}
	}
	return n
}

// stays syncs a group for a while, and checks that the server clones no VM.
func (r *rig) stays(g *metacontroller.Group, during time.Duration) {
	r.t.Helper()
	before := r.Calls()["CloneVM_Task"]
	for began := time.Now(); time.Since(began) < during; time.Sleep(5 * time.Second) {
		if _, err := g.Sync(within(r.t)); err != nil {
			r.t.Fatal(err)
		}
	}
	if n := r.Calls()["CloneVM_Task"] - before; n > 0 {
		r.t.Errorf("%d members were cloned; want none", n)
	}
}

func TestMembersWhoseHostIsRemovedAreNotClonedAgainAndReturnWithTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newVanishRig(t)
		r.neverTwo()
		s := r.serve()
		g := s.group("web", 4)
		up(t, g)
		host, n := r.removeHostOf("web-0")
		hasVanished(t, g, n, "its host "+host+" was removed from the inventory by ")
		r.stays(g, 10*time.Minute)
		s.stop()
		g.URL = r.serve().url // a server that never saw the members
		hasVanished(t, g, n, "its host "+host+" was removed from the inventory by ")
		r.stays(g, 10*time.Minute)
		r.must(r.AddHost(host))
		up(t, g)
		if len(r.members()) != 4 || r.Calls()["CloneVM_Task"] != 4 {
			t.Errorf("%d members, %d clones; want 4 and 4", len(r.members()), r.Calls()["CloneVM_Task"])
		}
		remove(t, g)
		if left := tally(slices.Concat(r.AllVMs()), isStamped); left > 0 {
			t.Errorf("%d VMs are left; want none", left)
		}
	})
}

// Members that served all the time keep their VMs when vanished VMs come back, no matter which process sees the VMs come back, and with which status.
func TestNoMemberThatServedGoesForOneThatReturns(t *testing.T) {
	t.Parallel()
	for _, givenUp := range []bool{true, false} {
		for _, restarted := range []string{"no", "yes", "yes, with an older status"} {
			t.Run(fmt.Sprintf("given up %t, restarted %s", givenUp, restarted), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newVanishRig(t)
					s := r.serve()
					g := s.group("web", 6)
					before := up(t, g).Status
					host, n := r.removeHostOf("web-0")
					kept := 0
					if givenUp {
						kept = n
					}
					for _, m := range hasVanished(t, g, n, host).Status.Members {
						if givenUp && m.Reason == plan.ReasonMemberVanished {
							g.Spec.Replace = append(g.Spec.Replace, v1alpha1.Replacement{Name: m.Name, MoRef: m.MoRef})
						}
					}
					g.Scale(int32(6 - n))
					a := until(t, g, "the group is as its spec says", func(a metacontroller.Answer) bool {
						return a.Status.ReadyReplicas == int32(6-n) && (a.Status.Phase == v1alpha1.PhaseRunning) == givenUp
					})
					served := refs(r.members())
					if len(served) != 6-n || givenUp != (len(a.Status.GivenUp) == n) {
						t.Fatalf("%d serve, %+v were given up", len(served), a.Status.GivenUp)
					}
					if restarted != "no" {
						s.stop()
						if restarted != "yes" {
							g.Status = before
						}
						r.must(r.AddHost(host))
						g.URL = r.serve().url
					} else {
						r.must(r.AddHost(host))
					}
					until(t, g, "those that returned are gone, or kept", func(a metacontroller.Answer) bool {
						return metacontroller.Running(a) && len(a.Status.Members) == 6-n && len(a.Status.Quarantined) == kept
					})
					for name, ref := range served {
						if vm := r.vm(web + "/" + name); vm == nil || vm.Reference().Value != ref {
							t.Errorf("%s (%s) is gone", name, ref)
						}
					}
					off := tally(r.VMs(), func(vm vcsim.VM) bool {
						stamp, err := stampOf(vm)
						return err == nil && stamp.Why == plan.MarkReasonDuplicate && !isOn(vm)
					})
					if there := tally(r.VMs(), isStamped); off != kept || there != 6-n+kept {
						t.Errorf("%d of %d are off and kept, want %d", off, there, kept)
					}
				})
			})
		}
	}
}

// Most of the six members are missing, and no operator has given them up.
func TestTheMembersThatServedStayWhenMostReturn(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{Hosts: 6, Guest: vcsim.Guest{Tools: true}})
				s := r.serve()
				g := s.group("web", 6)
				up(t, g)
				stays := r.details(web + "/web-0").Host // the host may also run other members of the group
				var hosts []string
				for i := 1; i < 6; i++ {
					vm := fmt.Sprint(web, "/web-", i)
					if r.vm(vm) != nil && r.details(vm).Host != stays {
						host, _ := r.removeHostOf(vm)
						hosts = append(hosts, host)
					}
				}
				served := refs(r.members())
				if len(hosts) == 0 {
					t.Fatal("all members are on one host")
				}
				hasVanished(t, g, 6-len(served), "was removed from the inventory")
				g.Scale(int32(len(served)))
				until(t, g, "no more are wanted", func(a metacontroller.Answer) bool { return int(a.Status.DesiredReplicas) == len(served) })
				if restarted {
					s.stop()
					g.URL = r.serve().url
				}
				for _, host := range hosts {
					r.must(r.AddHost(host))
				}
				up(t, g)
				if is := refs(r.members()); !maps.Equal(is, served) {
					t.Errorf("%v served, and %v stay", served, is)
				}
			})
		})
	}
}

func TestNoMemberIsClonedAgainAfterVCenterIsRestoredFromABackup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newVanishRig(t)
		r.neverTwo()
		s := r.serve()
		g := s.group("web", 1)
		up(t, g)
		backup := r.Backup()
		g.Scale(3)
		up(t, g)
		time.Sleep(10 * time.Minute)
		r.must(r.Restore(backup))
		hasVanished(t, g, 2, "restore from a backup")
		g.Scale(4) // after the restore, vCenter gives the new member the moRef of a vanished one
		until(t, g, "a fourth member exists", func(a metacontroller.Answer) bool {
			return a.Status.CurrentReplicas == 4 && a.Status.ReadyReplicas == 2
		})
		s.stop()
		g.URL = r.serve().url
		r.stays(g, 10*time.Minute)
		for _, vm := range r.OutsideInventory() {
			r.must(r.Register(vm.InstanceUUID))
		}
		up(t, g)
		if len(r.members()) != 4 || r.Calls()["CloneVM_Task"] != 4 {
			t.Errorf("%d members, %d clones; want 4 and 4", len(r.members()), r.Calls()["CloneVM_Task"])
		}
	})
}

func TestADeletionWaitsUntilAVanishedMemberIsBackOrLeftBehind(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig, g *metacontroller.Group, host string){
		"back": func(r *rig, _ *metacontroller.Group, host string) { r.must(r.AddHost(host)) },
		"left behind by spec.replace": func(_ *rig, g *metacontroller.Group, _ string) {
			for _, m := range g.Status.Members {
				g.Spec.Replace = append(g.Spec.Replace, v1alpha1.Replacement{Name: plan.MemberName("web", m.Ordinal), MoRef: m.MoRef})
			}
		},
		"left behind by the annotation that the message names": func(_ *rig, g *metacontroller.Group, _ string) {
			g.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newVanishRig(t)
				r.neverTwo()
				g := r.serve().group("web", 6)
				up(t, g)
				host, n := r.removeHostOf("web-0")
				hasVanished(t, g, n, host)
				a, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool {
					return len(r.members()) == 0 && a.Status.Phase == v1alpha1.PhaseError
				})
				if text := a.Status.LastMessage; err != nil || !strings.Contains(text, "bring it back into vCenter") ||
					strings.Count(text, v1alpha1.AnnotationAbandon+"=true") != 1 || len(text) > 900 {
					t.Fatalf("%v: %s", err, text)
				}
				end(r, g, host)
				remove(t, g)
				if left := tally(slices.Concat(r.AllVMs()), isStamped); (name == "back") != (left == 0) {
					t.Errorf("%d VMs are left", left)
				}
			})
		})
	}
}

// released waits until a member has lost its stamp, and returns the member's VM.
func (r *rig) released(was map[string]string) vcsim.VM {
	r.t.Helper()
	var found vcsim.VM
	eventually(r.t, patience, "a member is released", func() bool {
		for _, vm := range r.VMs() {
			if was[vm.Name] == vm.Ref.Value && vm.ExtraConfig[stamp.Key] == "" {
				found = vm
			}
		}
		return found.Name != ""
	})
	return found
}

// Found by TestChaos (seed 900214): a member had been released and then left the inventory with its host, but the status still listed it.
func TestADeletionThatRetainsEndsThoughMembersLeftWithTheirHost(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{true, false} {
		for _, restarted := range []bool{true, false} {
			t.Run(fmt.Sprintf("back %t, restarted %t", back, restarted), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newVanishRig(t)
					s := r.serve()
					g := s.group("web", 6)
					g.Spec.Deletion.Policy = v1alpha1.DeletionRetain
					up(t, g)
					was := refs(r.members())
					if _, err := g.Finalize(within(t)); err != nil {
						t.Fatal(err)
					}
					d, err := r.VCenter.Details(r.released(was).Path)
					r.must(err)
					r.must(r.RemoveHost(d.Host))
					if restarted {
						s.stop()
						g.URL = r.serve().url
					}
					if back {
						if _, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Status.Phase != v1alpha1.PhaseError }); err != nil {
							t.Fatal(err)
						}
						r.must(r.AddHost(path.Base(d.Host)))
					}
					remove(t, g)
					if n := len(slices.Concat(r.AllVMs())); n != 1+len(was) {
						t.Errorf("%d VMs; want %d", n, 1+len(was))
					}
				})
			})
		}
	}
}

func TestAMemberThatLostItsStampAndLeftIsReplacedAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newVanishRig(t)
				s := r.serve()
				g := s.group("web", 1)
				up(t, g)
				r.task(r.vm("web-0").Reconfigure(t.Context(), types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: ""}}}))
				time.Sleep(time.Second)
				host, _ := r.removeHostOf("web-0")
				if restarted { // a new server learns only from the returned VM that the VM has no stamp any more
					s.stop()
					g.URL = r.serve().url
					hasVanished(t, g, 1, "its host "+host)
					r.must(r.AddHost(host))
				}
				up(t, g)
				if n := r.Calls()["CloneVM_Task"]; n != 2 {
					t.Errorf("%d clones, want 2", n)
				}
			})
		})
	}
}

// vCenter filters bursts of events, so QueryEvents doesn't return the 31st identical event. Event keys can overflow and become negative.
func TestManyMembersThatAUserDestroysAtOnceAreAllReplaced(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newVanishRig(t)
		s := r.serve()
		g := s.group("web", 35)
		up(t, g)
		r.Behave(func(b *vcsim.Behavior) { b.RaiseEventKeys = math.MaxInt32 - 1000 })
		up(t, g)
		r.Behave(func(b *vcsim.Behavior) { b.RaiseEventKeys += 2000 })
		for name := range refs(r.members()) {
			r.must(r.PowerOff(name))
			r.must(r.Destroy(name))
		}
		a := until(t, g, "all members are replaced", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && r.Calls()["CloneVM_Task"] >= 70
		})
		if n := tallyVanished(a.Status); n > 0 || len(r.members()) != 35 {
			t.Errorf("%d are missing, %d are there", n, len(r.members()))
		}
		if calls := r.Calls(); calls["CreateCollectorForEvents"] == 0 || calls["CreateCollectorForEvents"] != calls["DestroyCollector"] {
			t.Errorf("%d collectors made, %d destroyed", calls["CreateCollectorForEvents"], calls["DestroyCollector"])
		}
	})
}
