package test

import (
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// ailing is a group of three whose members are ready while VMware Tools run, and unhealthy once they were not ready for two minutes.
func ailing(t *testing.T) (*rig, *metacontroller.Group) {
	t.Helper()
	r := newChangeRig(t, vcsim.Guest{Tools: true})
	g := r.serve().group("web", 3)
	g.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: seconds(120)}
	up(t, g)
	return r, g
}

// hangsAtBoot makes a guest hang while it boots, which is evidence that the member is unhealthy. (Tools that fall silent later are no evidence.)
func (r *rig) hangsAtBoot(where string, health vcsim.Health) error {
	if err := r.PowerOff(where); err != nil {
		return err
	}
	_ = r.PowerOn(where) // fails if the server has already powered the VM on
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
		until(t, g, "one member is not ready", notReady(1))
		up(t, g)
		r.sameVMs(was)
		if n := r.Calls()["ResetVM_Task"]; n != 1 {
			t.Errorf("%d resets, want 1", n)
		}

		r.must(r.hangsAtBoot(web+"/web-2", vcsim.Hung))
		until(t, g, "one member is not ready", notReady(1))
		up(t, g)
		if n := r.Calls()["ResetVM_Task"]; n != 2 {
			t.Errorf("%d resets, want 2", n)
		}
		r.allGone(map[string]string{"web-2": was["web-2"]})
		if is := refs(r.members()); len(is) != 3 || is["web-0"] != was["web-0"] || is["web-1"] != was["web-1"] {
			t.Errorf("members: %v, want %v as before", is, was)
		}
	})
}
