package test

import (
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// If a call of the update stream overruns, the server reads the full inventory again within seconds. Until then, the status doesn't change, so that
// clients that wait for the group see it ready all the time.
func TestAStreamCallThatOverrunsChangesNoStatus(t *testing.T) {
	thin.NotShort(t)
	inChangeRig(t, vcsim.Guest{Tools: true}, func(t *testing.T, r *rig) {
		server := r.serveWired()
		g := server.group("web", 3)
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		up(t, g)
		var late atomic.Int32
		last := time.Now()
		server.wire.On(func(call vcsim.Call) vcsim.Break { // the wire handles one call at a time, so last needs no lock
			if call.Method != "WaitForUpdatesEx" || time.Since(last) < 40*time.Second {
				return vcsim.Break{}
			}
			late.Add(1)
			last = time.Now()
			return vcsim.Break{Kind: vcsim.Stalled, Stall: time.Hour}
		})
		writes := g.Writes
		for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(500 * time.Millisecond) {
			a, err := g.Sync(within(t))
			r.must(err)
			if ready := a.Status.Conditions[0]; a.Status.Phase != v1alpha1.PhaseRunning || ready.Status != metav1.ConditionTrue {
				t.Fatalf("after %s: %s, ready %s: %s; want %s and %s", time.Since(began), a.Status.Phase, ready.Status, a.Status.LastMessage, v1alpha1.PhaseRunning, metav1.ConditionTrue)
			}
		}
		server.wire.On(func(vcsim.Call) vcsim.Break { return vcsim.Break{} })
		if late.Load() < 3 || g.Writes != writes {
			t.Errorf("%d calls overran; %d status writes", late.Load(), g.Writes-writes)
		}

		time.Sleep(time.Minute) // until a call that overruns at this moment has ended
		up(t, g)

		r.Down() // unlike a single call that overruns, a longer outage must be reported
		began := time.Now()
		until(t, g, "the outage is reported", func(a metacontroller.Answer) bool { return a.Status.Conditions[0].Status == metav1.ConditionUnknown })
		if took := time.Since(began); took > 50*time.Second { // 30 s until the stream counts as broken, 10 s until the server reports that, and the time until the next hook call
			t.Errorf("an outage is reported after %s; want at most %s", took, 50*time.Second)
		}
		r.Up()
		remove(t, g)
	})
}
