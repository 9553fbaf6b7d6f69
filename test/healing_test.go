package test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// ailing is a group of three whose members are ready when Tools run, and have a second to get there.
func ailing(t *testing.T) (*rig, *metacontroller.Group) {
	t.Helper()
	r := newChangeRig(t, vcsim.Guest{Tools: true})
	g := r.serve().group("web", 3)
	g.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: seconds(120)}
	up(t, g)
	return r, g
}

// hangsAtBoot is a guest that does not come up after a power-on, which is evidence that it is unhealthy. (That Tools fall silent later is none.)
func (r *rig) hangsAtBoot(where string, health vcsim.Health) error {
	if err := r.PowerOff(where); err != nil {
		return err
	}
	_ = r.PowerOn(where) // the server may do it already
	for began := time.Now(); ; time.Sleep(time.Second) {
		if err := r.SetHealth(where, health); err == nil || time.Since(began) > time.Minute {
			return err
		}
	}
}

func notReady(n int32) func(metacontroller.Answer) bool {
	return func(a metacontroller.Answer) bool { return a.Status.ReadyReplicas == 3-n }
}

func TestAnUnhealthyGuestIsResetAndReplacedIfThatDoesNotHelp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := ailing(t)
		was := refs(r.members())

		r.must(r.hangsAtBoot(web+"/web-1", vcsim.HungUntilReset))
		until(t, g, "it is seen to be unhealthy", notReady(1))
		up(t, g)
		r.sameVMs(was)
		if n := r.Calls()["ResetVM_Task"]; n != 1 {
			t.Errorf("%d resets", n)
		}

		r.must(r.hangsAtBoot(web+"/web-2", vcsim.Hung))
		until(t, g, "it is seen to be unhealthy", notReady(1))
		up(t, g)
		if n := r.Calls()["ResetVM_Task"]; n != 2 {
			t.Errorf("%d resets", n)
		}
		r.allGone(map[string]string{"web-2": was["web-2"]})
		if is := refs(r.members()); len(is) != 3 || is["web-0"] != was["web-0"] || is["web-1"] != was["web-1"] {
			t.Errorf("members: %v, want %v as before", is, was)
		}
	})
}

func TestNothingIsHealedWhileMostMembersAreUnhealthy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, g := ailing(t)
		was := refs(r.members())
		for _, name := range []string{"web-0", "web-2"} {
			r.must(r.hangsAtBoot(web+"/"+name, vcsim.HungUntilReset))
		}
		eventually(t, patience, "both are seen to be unhealthy before either is recorded", func() bool {
			message, _ := planOf(t, g)
			return strings.Contains(message, "web-0, web-2")
		})
		until(t, g, "HealingSuspended is reported", func(a metacontroller.Answer) bool {
			return condition(a, v1alpha1.ConditionHealingSuspended).Status == "True"
		})
		for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(5 * time.Second) {
			if _, err := g.Sync(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		if calls := r.Calls(); calls["ResetVM_Task"]+calls["ShutdownGuest"]+calls["PowerOffVM_Task"] > 0 || calls["CloneVM_Task"] != 3 {
			t.Errorf("%v", calls)
		}
		// One recovers, so the other is within the budget.
		r.must(r.SetHealth(web+"/web-0", vcsim.Healthy))
		up(t, g)
		r.sameVMs(was)
		if n := r.Calls()["ResetVM_Task"]; n != 1 {
			t.Errorf("%d resets", n)
		}
	})
}
