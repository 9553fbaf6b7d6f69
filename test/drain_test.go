package test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Kubernetes learns of a mark by the next hook call, and kube-proxy once Metacontroller has written the EndpointSlice. drainSeconds count from that
// write, whichever replica is called, and also after a restart.
func TestNoMemberIsTakenDownSoonerThanDrainSecondsAfterItsEndpointIsTerminating(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for name, c := range map[string]struct {
		between  time.Duration // the time between two hook calls
		deleted  bool
		restart  bool
		replicas int
	}{
		"called often":             {between: 100 * time.Millisecond, replicas: 1},
		"called every two seconds": {between: 2 * time.Second, replicas: 1},
		"called once in a while":   {between: 17 * time.Second, replicas: 1},
		"restarted":                {between: 300 * time.Millisecond, replicas: 1, restart: true},
		"two replicas, by turns":   {between: 700 * time.Millisecond, replicas: 2},
		"deleted":                  {between: 700 * time.Millisecond, replicas: 1, deleted: true},
		"deletion, two replicas":   {between: 1300 * time.Millisecond, replicas: 2, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				replicas := []*serverReplica{r.serve()}
				for range c.replicas - 1 {
					replicas = append(replicas, r.serve())
				}
				g := replicas[0].group("web", 3)
				g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
				g.Spec.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 80}}, DrainSeconds: 3}
				up(t, g)
				call := g.Sync
				if g.Scale(2); c.deleted {
					call = g.Finalize
				}
				leaving, shown, began := "web-2 terminating", time.Time{}, time.Now()
				for calls := 0; r.Calls()["ShutdownGuest"] == 0; calls++ {
					if time.Since(began) > patience {
						t.Fatalf("web-2 is never taken down; its endpoints are %v", endpoints(t, g))
					}
					if shown.IsZero() && slices.Contains(endpoints(t, g), leaving) {
						if shown = time.Now(); c.restart {
							replicas[0].stop()
							replicas[0] = r.serve()
							g.URL = replicas[0].url
						}
					}
					for until := time.Now().Add(c.between); time.Now().Before(until) && r.Calls()["ShutdownGuest"] == 0; {
						time.Sleep(10 * time.Millisecond)
					}
					g.URL = replicas[calls%len(replicas)].url
					_, err := call(within(t))
					r.must(err)
				}
				took := time.Since(shown)
				if shown.IsZero() || took < 3*time.Second || took > 4*time.Second+lifetimes.Reconfigure+2*c.between { // before the shutdown, the server records in the stamp that it asks the guest
					t.Errorf("taken down %s after its endpoint was published as terminating", took)
				}
				if writes := drainRecords(g); writes > 1 && !c.deleted {
					t.Errorf("%d slices record a drain: %v", writes, g.Children)
				}
				g.URL = replicas[0].url
				if !c.deleted {
					up(t, g)
					if n := drainRecords(g); n > 0 {
						t.Errorf("%d slices record a drain that is over; want none", n)
					}
				}
				remove(t, g)
			})
		})
	}
}

// drainRecords counts the EndpointSlices that record when the drain of an endpoint began.
func drainRecords(g *metacontroller.Group) (n int) {
	for _, slice := range g.Children["EndpointSlice.discovery.k8s.io/v1"] {
		if strings.Contains(string(slice), v1alpha1.AnnotationTerminatingSince) {
			n++
		}
	}
	return n
}
