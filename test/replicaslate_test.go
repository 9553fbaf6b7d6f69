package test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A call of one replica of the server may arrive in vCenter long after another replica has taken later steps.

// callUntil calls a group's hook until a condition is met.
func (r *rig) callUntil(g *metacontroller.Group, happened <-chan struct{}) {
	r.t.Helper()
	until(r.t, g, "the condition is met", func(metacontroller.Answer) bool {
		select {
		case <-happened:
			return true
		default:
			return false
		}
	})
}

func TestACloneThatArrivesAfterItsGroupIsGoneIsRefusedOrReleased(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*v1alpha1.VmGroupSpec){
		"in the server's folder": func(*v1alpha1.VmGroupSpec) {},
		"in a folder of its own": func(s *v1alpha1.VmGroupSpec) { s.Placement.Folder = "teams/shared" },
		"with a quarantine":      func(s *v1alpha1.VmGroupSpec) { s.Deletion.QuarantineSeconds = 3600 },
		"with retained members":  func(s *v1alpha1.VmGroupSpec) { s.Deletion.Policy = v1alpha1.DeletionRetain },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				by := direct
				if name == "in the server's folder" {
					by = byTLS // one case uses TLS, to check that the connections survive a call that takes minutes
				}
				r := newRigBy(t, by, vcsim.Config{})
				late, other := r.serveWired(), r.serveWired()
				g := late.group("web", 2)
				edit(&g.Spec)
				frozen, thaw := late.freeze("CloneVM_Task")
				r.callUntil(g, frozen)

				upAt(t, g, other.url)
				g.Scale(1)
				up(t, g)
				remove(t, g)
				thaw()
				eventually(t, patience, "the clone is answered", func() bool { return late.answered("CloneVM_Task") })
				late.done()
				if g.Spec.Deletion.Policy == "" {
					r.empty(1)
					return
				}
				// The folder isn't removed, so vCenter doesn't refuse the late clone. The replica that got the last hook call releases this clone, too.
				eventually(t, patience, "no VM has the group's stamp", func() bool { return len(r.members()) == 0 })
			})
		})
	}
}

// If the folder arrives while the late replica still has its lease, that replica clones the members. The replica that answered "finalized" then removes
// these clones, because its own lease began later, and so lasts longer.
func TestAFolderThatArrivesAfterItsGroupIsGoneStaysEmpty(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"after the lease": leaseTime, "within the lease": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{})
				late := r.serveWired()
				other := r.serveWired(func(_ *vsphere.Config, l *loop.Config) { l.Lease = patience }) // a long lease, because on a loaded machine the removal takes longer than a short one
				remove(t, late.group("another", 1))                                                   // creates the parent folders, so that only the group's own folder is late
				g := late.group("web", 2)
				frozen, thaw := late.freeze("CreateFolder")
				r.callUntil(g, frozen)

				g.URL = other.url
				remove(t, g)
				time.Sleep(wait)
				thaw()
				eventually(t, patience, "the folder is answered", func() bool { return late.answered("CreateFolder") })
				late.done()
				eventually(t, patience, "no VM of the group is left", func() bool { return len(r.VMs()) == 1 })
			})
		})
	}
}

// Two replicas update one group at the same time, and each learns late what the other does. Even so, never more members are down than maxUnavailable
// allows.
func TestTwoReplicasThatRollKeepThePromisedAvailability(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		servers := []*wiredReplica{r.serveWired(), r.serveWired()}
		g := servers[0].group("web", 4)
		g.Spec.Update.MaxUnavailable, g.Spec.Update.MaxSurge = number(1), number(0)
		up(t, g)
		for _, s := range servers {
			s.wire.On(func(call vcsim.Call) vcsim.Break {
				if call.Method == "WaitForUpdatesEx" {
					return vcsim.Break{Kind: vcsim.Stalled, Stall: time.Duration(call.Nth%5) * 2 * time.Second}
				}
				return vcsim.Break{}
			})
		}
		seen := r.sample(func() int { return tally(r.members(), isOn) })
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
		i := 0
		until(t, g, "all members are of the other template", func(a metacontroller.Answer) bool {
			i++
			g.URL = servers[i%2].url
			return metacontroller.Running(a) && len(r.members()) == 4 && tally(r.members(), isOfOther) == 4
		})
		if least := seen().least; least < 3 {
			t.Errorf("%d of 4 members were on, 3 are promised; want at least 3", least)
		}
	})
}

// one makes a single sync call for a group.
func (r *rig) one(g *metacontroller.Group) {
	r.t.Helper()
	_, err := g.Sync(within(r.t))
	r.must(err)
}

// stallUpdates stalls the next WaitForUpdatesEx of each replica until undo, so that a replica that awaits no task learns of changes in the
// inventory only by its own reads. It changes something in vCenter itself, so that a WaitForUpdatesEx that has already begun returns first.
func (r *rig) stallUpdates(replicas ...*wiredReplica) (undo func()) {
	r.t.Helper()
	const long = time.Hour
	_, err := r.AddVM("/DC0/vm", "unmanaged")
	r.must(err)
	for _, c := range replicas {
		held := false
		c.wire.On(func(call vcsim.Call) vcsim.Break {
			if call.Method == "WaitForUpdatesEx" && !held { // only the first one is for the inventory; later ones are for tasks
				held = true
				return vcsim.Break{Kind: vcsim.Stalled, Stall: long}
			}
			return vcsim.Break{}
		})
	}
	for _, c := range replicas {
		eventually(r.t, patience, "a wait for updates is held", func() bool {
			r.must(r.SetExtraConfig("unmanaged", "poke", time.Now().String()))
			return slices.ContainsFunc(c.wire.Log(), func(e vcsim.Entry) bool { return e.Break.Stall == long && !e.Done })
		})
	}
	return func() {
		for _, c := range replicas {
			c.wire.On(nil)
			c.wire.Cut()
			c.wire.Mend()
		}
	}
}

// Two edits in quick succession reach two replicas, which choose different members to take down first, and neither sees the other's mark in time.
func TestTwoReplicasUnawareOfEachOthersMarksKeepThePromisedAvailability(t *testing.T) {
	inChangeRig(t, vcsim.Guest{}, func(t *testing.T, r *rig) {
		a, b := r.serveWired(), r.serveWired()
		g := a.group("web", 4)
		g.Spec.Update.MaxUnavailable, g.Spec.Update.MaxSurge = number(1), number(0)
		up(t, g)
		upAt(t, g, b.url)
		resume := r.stallUpdates(a, b)
		seen := r.sample(func() int { return tally(r.members(), isOn) })
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
		g.URL = a.url
		r.one(g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.ScaleIn.Remove = []string{"web-0"} })
		g.URL = b.url
		r.one(g)
		r.tidy(a)
		r.tidy(b)
		resume()
		if least := seen().least; least < 3 {
			t.Errorf("%d of 4 members were on, 3 are promised; want at least 3", least)
		}
	})
}

// A group is deleted, and a new group of the same name is created. A late finalize of the old group reaches another replica. That replica must not remove
// the new group's folder, which is empty until the first member exists.
func TestALateFinalizeLeavesTheFolderOfTheRecreatedGroup(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		old, a, b := r.upAtTwo()
		remove(t, old)

		r.Hold(vcsim.Clone)
		again := a.groupOf(old.Namespace, old.Name, "uid-new", 1)
		until(t, again, "cloning", func(a metacontroller.Answer) bool { return strings.Contains(a.Status.LastMessage, "cloning") })
		before := r.Calls()["UnregisterAndDestroy_Task"]
		old.URL = b.url
		_, err := old.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { // by the time of this answer, the replica has looked at the folder
			return a.Finalized || strings.Contains(a.Status.LastMessage, "still running")
		})
		r.Release(vcsim.Clone)
		if err == nil {
			_, err = old.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized })
		}
		if err != nil || r.Calls()["UnregisterAndDestroy_Task"] != before {
			t.Errorf("the new group's folder was removed (%v)", err)
		}
		up(t, again)
	})
}

// One replica is called for the deletion; the other still has a lease, but gets no more calls. If guests are asked to shut down, their
// stamps show the deletion to the other replica before any VM is off. Otherwise it may power a member on again, but not after a member was
// removed.
func TestAReplicaThatIsNotCalledForADeletionRecreatesNothing(t *testing.T) {
	t.Parallel()
	for name, guest := range map[string]vcsim.Guest{"with VMware Tools": {Tools: true}, "without": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{Guest: guest})
				a, b := r.serve(), r.serve()
				g := a.group("web", 3)
				g.Spec.Readiness.Check = v1alpha1.ReadyPoweredOn
				up(t, g)
				upAt(t, g, b.url)
				g.URL = a.url
				time.Sleep(time.Minute) // until all guests have booted
				clones, ons := r.Calls()["CloneVM_Task"], r.Calls()["PowerOnMultiVM_Task"]+r.Calls()["PowerOnVM_Task"]
				r.one(g)
				upAt(t, g, b.url)
				g.URL = a.url
				began := time.Now()
				remove(t, g)
				took := time.Since(began)
				time.Sleep(leaseTime)
				r.empty(1)
				if n := r.Calls()["CloneVM_Task"] - clones; n != 0 {
					t.Errorf("%d members were cloned again; want 0", n)
				}
				again := r.Calls()["PowerOnMultiVM_Task"] + r.Calls()["PowerOnVM_Task"] - ons
				if guest.Tools && again != 0 {
					t.Errorf("%d members were powered on again", again)
				}
				if took > leaseTime {
					t.Errorf("the deletion took %s; want at most %s", took, leaseTime)
				}
				t.Logf("%s, %d powered on again", took, again)
			})
		})
	}
}
