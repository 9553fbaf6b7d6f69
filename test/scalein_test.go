package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A scale-in from n to m destroys n - m members and no other, and clones none, even if the server stops on the way: the next server knows
// the members from a status that was written before the first one was destroyed.
func TestAScaleInThatAServerDoesNotFinishDestroysNoOtherMember(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	percent := func(p string) *intstr.IntOrString {
		v := intstr.FromString(p)
		return &v
	}
	orders := map[string]func(*spec){
		"":       func(*spec) {},
		"Oldest": func(s *spec) { s.ScaleIn.Order = "Oldest" },
		"Newest": func(s *spec) { s.ScaleIn.Order = "Newest" },
		"named":  func(s *spec) { s.ScaleIn.Remove, s.ScaleIn.Protected = []string{"web-0", "web-3"}, []string{"web-19"} },
	}
	type scaleIn struct {
		from, to    int32
		unavailable *intstr.IntOrString
		order       string
		standby     int32
		left        int32         // how many standby members are left after the scale-in
		gone        int           // how many VMs have been destroyed when the server stops
		late        time.Duration // the time until vCenter's events list a removal
	}
	cases := []scaleIn{
		{20, 10, percent("50%"), "", 0, 0, 1, 0},
		{20, 10, percent("50%"), "", 0, 0, 5, 0},
		{20, 10, percent("50%"), "", 0, 0, 7, time.Minute},
		{20, 10, percent("25%"), "Oldest", 0, 0, 3, 10 * time.Second},
		{20, 10, number(1), "Newest", 0, 0, 2, 0},
		{20, 10, nil, "named", 0, 0, 4, time.Minute},
		{20, 6, nil, "", 0, 0, 6, 10 * time.Second},
		{8, 4, percent("50%"), "", 3, 3, 2, time.Minute},
		{8, 4, number(1), "Oldest", 2, 2, 1, 0},
		{6, 0, percent("100%"), "", 1, 1, 3, time.Minute},
		{2, 2, nil, "", 5, 2, 2, time.Minute},
		{4, 2, number(1), "Newest", 4, 1, 3, 10 * time.Second},
	}
	n := -1
	for _, c := range cases {
		for _, standsBy := range []bool{false, true} {
			if n++; leftOut(n) {
				continue
			}
			unavailable := "default"
			if c.unavailable != nil {
				unavailable = c.unavailable.String()
			}
			t.Run(fmt.Sprintf("%d to %d, %s, %s, %d to %d standby, after %d, %s, another replica %t", c.from, c.to, unavailable, c.order, c.standby, c.left, c.gone, c.late, standsBy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newChangeRig(t, vcsim.Guest{})
					first := r.serve()
					g := first.group("web", c.from)
					g.Spec.Update.MaxUnavailable, g.Spec.Standby = c.unavailable, c.standby
					orders[c.order](&g.Spec)
					up(t, g)
					all := func(a metacontroller.Answer) bool {
						return metacontroller.Running(a) && len(a.Status.Standby) == int(c.standby) && len(r.members()) == int(c.from+c.standby)
					}
					until(t, g, "the standby members exist", all)
					was, clones := refs(r.members()), r.Calls()["CloneVM_Task"]
					var next *serverReplica
					if standsBy {
						next = r.serve()
						g.URL = next.url
						until(t, g, "the other replica knows all", all)
						g.URL = first.url
					}
					r.Behave(func(b *vcsim.Behavior) { b.DelayEvents = c.late })
					g.Spec.Standby = c.left
					g.Scale(c.to)
					if _, err := g.Sync(within(t)); err != nil {
						t.Fatal(err)
					}
					eventually(t, patience, "some members are destroyed", func() bool { return len(r.members()) <= len(was)-c.gone })
					first.stop()
					if next == nil {
						next = r.serve()
					}
					g.URL = next.url
					until(t, g, "the group is as the spec says", func(a metacontroller.Answer) bool {
						if strings.Contains(a.Status.LastMessage, "(not seen)") {
							t.Errorf("the status reports a destroyed VM as not seen: %s", a.Status.LastMessage)
						}
						return metacontroller.Running(a) && a.Status.CurrentReplicas == c.to && len(a.Status.Standby) == int(c.left) && len(r.members()) == int(c.to+c.left)
					})
					left := refs(r.members())
					for name, ref := range left {
						if was[name] != ref {
							t.Errorf("%s was replaced by another VM", name)
						}
					}
					if n := r.Calls()["CloneVM_Task"] - clones; n > 0 {
						t.Errorf("%d members were cloned, and %v are left; want none", n, slices.Sorted(maps.Keys(left)))
					}
					blamesNoOtherAccount(t, g)
				})
			})
		}
	}
}

// blamesNoOtherAccount checks that no Event blames another account for what the server did.
func blamesNoOtherAccount(t *testing.T, g *metacontroller.Group) {
	t.Helper()
	for reason, text := range eventsOf(t, g) {
		if reason == "MemberGone" || reason == "MemberPoweredOff" {
			t.Errorf("an Event blames another account: %s: %s", reason, text)
		}
	}
}

func TestWhatAServerDidBeforeItWasRestartedIsNotReportedAsAnotherUsersDoing(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*spec){
		"scale-in":   func(s *spec) { s.Replicas = new(int32(1)) },
		"resize":     func(s *spec) { s.CPU = 4 },
		"update":     func(s *spec) { s.Template = otherTemplate },
		"quarantine": func(s *spec) { s.Replicas, s.Deletion.QuarantineSeconds = new(int32(1)), 3600 },
	}
	n := -1
	for _, what := range slices.Sorted(maps.Keys(changes)) {
		change := changes[what]
		for _, tools := range []bool{true, false} {
			for _, down := range []time.Duration{time.Second, 20 * time.Minute} {
				if n++; leftOut(n) {
					continue
				}
				t.Run(fmt.Sprintf("%s, tools %t, down for %s", what, tools, down), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						r := newChangeRig(t, vcsim.Guest{Tools: tools})
						s := r.serve()
						g := s.group("web", 3)
						if tools {
							g.Spec.Readiness.Check = v1alpha1.ReadyToolsRunning
						}
						up(t, g)
						was := refs(r.members())
						g.Edit(change)
						if _, err := g.Sync(within(t)); err != nil {
							t.Fatal(err)
						}
						for _, begins := range []func(vcsim.VM) bool{isOn, func(vcsim.VM) bool { return true }} { // stops the server once a member is off, and again once a member is gone
							deadline := time.Now().Add(time.Minute)
							for time.Now().Before(deadline) && tally(r.members(), func(vm vcsim.VM) bool { return was[vm.Name] == vm.Ref.Value && begins(vm) }) == len(was) {
								time.Sleep(time.Second)
							}
							s.stop()
							time.Sleep(down)
							s = r.serve()
							g.URL = s.url
							if _, err := g.Sync(within(t)); err != nil {
								t.Fatal(err)
							}
						}
						up(t, g)
						blamesNoOtherAccount(t, g)
						name := r.members()[0].Name
						r.must(r.PowerOff(name))
						r.must(r.Destroy(name))
						eventually(t, patience, "what an operator did is reported", func() bool {
							up(t, g)
							return eventsOf(t, g)["MemberGone"] != ""
						})
					})
				})
			}
		}
	}
}

// While a guest takes its time to shut down for a scale-in, another member is destroyed, and the server's stream of changes is late. The server counts the
// members again right before it removes one, and keeps this one.
func TestAScaleInCountsTheMembersThatItLeavesRightBeforeItRemovesOne(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		a := r.serveWired()
		g := a.group("web", 3)
		g.Spec.Deletion.ShutdownTimeoutSeconds, g.Spec.Readiness.Check = seconds(60), v1alpha1.ReadyToolsRunning
		up(t, g)
		was := refs(r.members())
		r.Behave(func(b *vcsim.Behavior) { b.HangShutdown = func(vcsim.VM) bool { return true } })
		resume := r.stallUpdates(a)
		g.Scale(2)
		until(t, g, "a guest is asked to shut down", func(a metacontroller.Answer) bool { return r.Calls()["ShutdownGuest"] > 0 })
		r.must(r.PowerOff(webFolder + "web-0"))
		r.must(r.Destroy(webFolder + "web-0"))
		for range 30 {
			time.Sleep(5 * time.Second)
			r.one(g)
		}
		resume()
		up(t, g)
		r.othersKeep(was)
	})
}

// The same happens between the power-off of a member and its destruction: the member is powered on again.
func TestAScaleInCountsTheMembersThatItLeavesBeforeItDestroysOne(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		a := r.serveWired()
		g := a.group("web", 3)
		up(t, g)
		was, gone := refs(r.members()), make(chan struct{})
		resume := r.stallUpdates(a)
		a.wire.On(func(call vcsim.Call) vcsim.Break {
			select {
			case <-gone:
			default:
				if call.Method == "PowerOffVM_Task" {
					close(gone)
					r.must(r.PowerOff(webFolder + "web-0"))
					r.must(r.Destroy(webFolder + "web-0"))
				}
			}
			return vcsim.Break{}
		})
		g.Scale(2)
		r.callUntil(g, gone)
		for range 12 {
			time.Sleep(5 * time.Second)
			r.one(g)
		}
		resume()
		up(t, g)
		r.othersKeep(was)
	})
}

// othersKeep checks that web-1 and web-2 have the VMs that they had before somebody destroyed web-0.
func (r *rig) othersKeep(was map[string]string) {
	r.t.Helper()
	is := refs(r.members())
	for _, name := range []string{"web-1", "web-2"} {
		if is[name] != was[name] {
			r.t.Errorf("%s has the VM %s; want %s as before, since web-0 was destroyed", name, is[name], was[name])
		}
	}
}
