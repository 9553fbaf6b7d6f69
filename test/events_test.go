package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// eventsOf returns the messages of a group's Events, by reason.
func eventsOf(t testing.TB, g *metacontroller.Group) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, text := range g.Events {
		var e plan.EventFields
		must.Succeed(t, json.Unmarshal(text, &e))
		all[e.Reason] += e.Message + "\n"
	}
	return all
}

func TestEventsDescribeAGroupsLife(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 3)
		up(t, g)
		if all := eventsOf(t, g); !strings.Contains(all["MemberCreated"], "web-1 (vm-") || all["MemberGone"] != "" || len(all) != 1 {
			t.Errorf("a new group: %q", all)
		}
		r.must(r.PowerOff(web + "/web-1"))
		up(t, g)
		gone := r.vm(web + "/web-0").Reference().Value
		r.must(r.PowerOff(web + "/web-0"))
		r.must(r.Destroy(web + "/web-0"))
		eventually(t, patience, "web-0 is cloned again", func() bool {
			up(t, g)
			return r.vm(web+"/web-0") != nil
		})
		g.Scale(2)
		up(t, g)
		eventually(t, patience, "all Events arrived", func() bool {
			up(t, g)
			all := eventsOf(t, g)
			return all["MemberPoweredOff"] != "" && all["MemberGone"] != "" && all["MemberRemoved"] != ""
		})
		all := eventsOf(t, g)
		if !strings.HasPrefix(all["MemberPoweredOff"], "Powered off in vCenter by ") || !strings.Contains(all["MemberPoweredOff"], "web-1 (vm-") {
			t.Errorf("MemberPoweredOff doesn't say that web-1 was powered off in vCenter: %q", all["MemberPoweredOff"])
		}
		if all["MemberGone"] != "Removed in vCenter by Administrator@VSPHERE.LOCAL: web-0 ("+gone+")\n" {
			t.Errorf("MemberGone doesn't say who removed web-0: %q", all["MemberGone"])
		}
		if !strings.Contains(all["MemberRemoved"], "Removed web-2 (") || !strings.Contains(all["MemberRemoved"], "scale-in: from 3 members to 2") {
			t.Errorf("MemberRemoved doesn't say that the scale-in removed web-2: %q", all["MemberRemoved"])
		}
		before := len(g.Events)
		for range 100 {
			if a, err := g.Sync(within(t)); err != nil || strings.Contains(string(join(a.Children)), `"kind":"Event"`) {
				t.Fatalf("a settled group: %s (%v)", join(a.Children), err)
			}
		}
		if len(g.Events) != before {
			t.Errorf("%d Events, want %d as before", len(g.Events), before)
		}
		remove(t, g)
		if all := eventsOf(t, g); strings.Count(all["MemberRemoved"], "web-") != 3 || !strings.Contains(all["MemberRemoved"], ": the group is deleted") {
			t.Errorf("MemberRemoved doesn't name the three VMs that were removed with the group: %q", all["MemberRemoved"])
		}
	})
}

func join(all []json.RawMessage) (text []byte) {
	for _, one := range all {
		text = append(text, one...)
	}
	return text
}

// Metacontroller creates no child of the answer that ends a group, so the last Events are in an earlier answer.
func TestADeletedGroupTellsWhatItRemovedAndWhatItLeft(t *testing.T) {
	t.Parallel()
	for name, persistent := range map[string]bool{"with persistent disks": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{})
				g := r.serve().group("web", 3)
				if persistent {
					g.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
				}
				a := up(t, g)
				was, disks := refs(r.members()), a.Status.Disks
				for a.Finalized = false; !a.Finalized; time.Sleep(time.Minute) { // long enough that the server removes all VMs between two calls
					var err error
					a, err = g.Finalize(within(t))
					r.must(err)
				}
				all := eventsOf(t, g)
				for name, ref := range was {
					if text := fmt.Sprintf("%s (%s)", name, ref); !strings.Contains(all["MemberRemoved"], text) {
						t.Errorf("the Events of removals %q do not name %s", all["MemberRemoved"], text)
					}
				}
				for _, d := range disks {
					if !strings.Contains(all["DisksKept"], d.ID) {
						t.Errorf("the Events of kept disks %q do not name %s", all["DisksKept"], d.ID)
					}
				}
				if persistent == (len(disks) == 0) {
					t.Errorf("got the disks %v; want some: %t", disks, persistent)
				}
			})
		})
	}
}

// A server stops while it removes members, and all of them are gone when the next server starts. Only vCenter's events tell who removed them, and
// these events name the server's account.
func TestWhatAServerRemovedBeforeItEndedIsNoUsersDoing(t *testing.T) {
	t.Parallel()
	others := &defect{state: func(s plan.VCenterState) plan.VCenterState { // a server that doesn't know its own account, and so takes its removals for another account's (S5)
		for i := range s.Gone {
			s.Gone[i].By = plan.Actor{User: "another account"}
		}
		return s
	}}
	for name, planted := range map[string]*defect{"sound": nil, "planted": others} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{})
				first := r.serve()
				g := first.group("web", 6)
				up(t, g)
				g.Scale(2)
				r.one(g)
				eventually(t, patience, "four are gone", func() bool { return len(r.names(web)) == 2 })
				first.stop()
				r.planted = planted
				g.URL = r.serve().url
				up(t, g)
				time.Sleep(time.Minute)
				r.one(g)
				blames := ""
				for _, e := range g.Events {
					if strings.Contains(string(e), " in vCenter by ") {
						blames += string(e)
					}
				}
				if (blames != "") != (planted != nil) {
					t.Errorf("Events that blame an account: %q", blames)
				}
			})
		})
	}
}

// If a process is killed after it removed a member and before it answered with the Event, the next process reports the removal.
func TestARemovalIsToldThoughItsProcessIsKilledBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		for _, settles := range []time.Duration{0, time.Second, time.Minute} {
			t.Run(fmt.Sprintf("deleted %t, down for %s", deleted, settles), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, vcsim.Config{})
					s := r.serve()
					g := s.group("web", 3)
					up(t, g)
					was := refs(r.members())
					left := 0
					if deleted {
						_, err := g.Finalize(within(t))
						r.must(err)
					} else {
						left = 1
						g.Scale(1)
						until(t, g, "both members are marked", func(a metacontroller.Answer) bool { return tallyReason(a.Status, plan.ReasonRemoving) == 2 })
					}
					eventually(t, patience, "the removed members are gone", func() bool { return len(r.members()) == left })
					s.stop()
					time.Sleep(settles)
					g.URL = r.serve().url
					if deleted {
						_, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized })
						r.must(err)
					} else {
						up(t, g)
					}
					told := eventsOf(t, g)["MemberRemoved"]
					for name, ref := range was {
						if text := fmt.Sprintf("%s (%s)", name, ref); strings.Count(told, text) != 1 && refs(r.members())[name] == "" {
							t.Errorf("the Events of removals name %s other than once: %q", text, told)
						}
					}
				})
			})
		}
	}
}

// Once the server has replaced the VM that an entry of spec.replace names, the entry names no VM. No Event complains about such an entry,
// neither immediately nor after another edit or a restart.
func TestANewEntryOfReplaceThatNamesNoVMIsTold(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		s := r.serve()
		g := s.group("web", 2)
		a := up(t, g)
		ref := a.Status.Members[1].MoRef
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Replace = []v1alpha1.Replacement{{Name: "web-0", MoRef: "vm-424242"}, {Name: "web-1", MoRef: ref}}
		})
		until(t, g, "web-1 is replaced", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && a.Status.Members[1].MoRef != ref
		})
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Update.MinReadySeconds = 1 })
		up(t, g)
		s.stop()
		g.URL = r.serve().url
		g.Scale(3)
		up(t, g)
		if told := eventsOf(t, g)["ReplaceNamesNoVM"]; strings.Count(told, "\n") != 1 || !strings.Contains(told, "names web-0 with vm-424242") {
			t.Errorf("ReplaceNamesNoVM should name only the entry web-0 with vm-424242: %q", told)
		}
	})
}

func tallyReason(s v1alpha1.VmGroupStatus, reason string) (n int) {
	for _, m := range s.Members {
		if m.Reason == reason {
			n++
		}
	}
	return n
}

// An abandoned group's status is deleted with the group, so only Events say which VMs and disks the group leaves behind. The server sends them even
// while vCenter is unreachable, and even if the server was started during the outage.
func TestAnAbandonedGroupTellsWhatItLeavesBehind(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for _, outage := range []string{"no", "yes", "yes, and a restart"} {
		t.Run("outage: "+outage, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vcsim.Config{})
				s := r.serve()
				g := s.group("web", 21)
				g.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
				a := up(t, g)
				if outage != "no" {
					r.Down()
				}
				if outage == "yes, and a restart" {
					s.stop()
					g.URL = r.serve().url
				}
				g.Spec.Paused = true
				_, err := g.Finalize(within(t))
				r.must(err)
				g.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
				began := time.Now()
				_, err = g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized })
				r.must(err)
				all := eventsOf(t, g)
				for _, m := range a.Status.Members {
					if text := fmt.Sprintf("%s (%s)", m.Name, m.MoRef); strings.Count(all["Abandoned"], text) != 1 {
						t.Errorf("the Events of the abandoned group name %s other than once: %q", text, all["Abandoned"])
					}
				}
				if took := time.Since(began); len(a.Status.Members) != 21 || !strings.Contains(all["DisksKept"], a.Status.Disks[0].ID) || took > time.Minute {
					t.Errorf("%d members, %q, %s", len(a.Status.Members), all["DisksKept"], took)
				}
				if outage != "no" {
					r.Up()
				}
			})
		})
	}
}
