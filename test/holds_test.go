package test

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// holds gives the group an annotation that holds a member's VM.
func holds(g *metacontroller.Group, member, moRef string) {
	g.Annotations = map[string]string{v1alpha1.AnnotationHold + "test": member + "/" + moRef}
}

// heldUntil returns the time until which, according to an answer, a VM is held.
func heldUntil(a metacontroller.Answer, moRef string) time.Time {
	for _, m := range a.Status.Members {
		if m.MoRef == moRef {
			return m.HeldUntil.Time
		}
	}
	return time.Time{}
}

func TestAHeldMemberRunsUntilItIsReleasedAlsoAfterARestart(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for name, deleted := range map[string]bool{"scale-in": false, "deletion": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				server := r.serve()
				g := server.group("web", 3)
				g.Spec.Deletion.HoldTimeoutSeconds = 3600
				up(t, g)
				ref := refs(r.members())["web-2"]
				holds(g, "web-2", ref)
				call := g.Sync
				if g.Scale(1); deleted {
					call = g.Finalize
				}
				var until time.Time
				for began := time.Now(); time.Since(began) < 30*time.Minute; time.Sleep(2 * time.Second) {
					a, err := call(within(t))
					r.must(err)
					switch held := heldUntil(a, ref); {
					case until.IsZero():
						until = held
					case !held.Equal(until):
						t.Fatalf("held until %s, and then until %s", until, held)
					}
					if time.Since(began) > 10*time.Minute && server != nil {
						server.stop()
						server = nil
						g.URL = r.serve().url
					}
				}
				stay := 2
				if deleted { // only the held member is left
					stay = 1
				}
				if left := r.members(); len(left) != stay || tally(left, func(vm vcsim.VM) bool { return vm.Ref.Value == ref && isOn(vm) }) != 1 || until.IsZero() {
					t.Fatalf("after half an hour, held until %s: %v", until, refs(left))
				}
				if g.Annotations = nil; deleted {
					remove(t, g)
				} else {
					up(t, g)
				}
				if time.Now().After(until) {
					t.Error("after the annotation was removed, the VM was held until the hold timed out")
				}
			})
		})
	}
}

// The clock of a synctest bubble begins at midnight UTC on 2000-01-01.
func TestAnUpdateBeginsWhenAWindowOpens(t *testing.T) {
	thin.NotShort(t)
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		g.Spec.Update.Windows = []v1alpha1.Window{{Start: "02:00", DurationSeconds: 7200, TimeZone: "Europe/Berlin"}}
		up(t, g)
		was := refs(r.members())
		g.Edit(func(s *spec) { s.Template = otherTemplate })
		a := up(t, g)
		if c := condition(a, v1alpha1.ConditionUpdateHeld); c.Message != "2 of 2 members differ from the spec and are kept (update.windows: the next one opens at 2000-01-01T02:00:00+01:00)" {
			t.Errorf("UpdateHeld doesn't say when the next window opens: %+v", c)
		}
		opens := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)
		r.steady(g, time.Until(opens)-time.Minute, "CloneVM_Task", "ReconfigVM_Task", "PowerOffVM_Task", "ShutdownGuest")
		r.sameVMs(was)
		time.Sleep(time.Until(opens) + time.Minute) // no hook calls: while the server has a lease, it wakes at that time without a call
		if r.Calls()["CloneVM_Task"] <= 2 && r.Calls()["ShutdownGuest"] == 0 {
			t.Error("the update has not begun a minute after the window opened")
		}
		up(t, g)
		r.allNew(was, 2)
	})
}
