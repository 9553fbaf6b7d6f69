package test

import (
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// The VMs that stay keep the group's folder, so the deletion waits twice for the leases of other replicas: before the last member is released, and before
// it ends. A server that is restarted more often than a lease lasts must not begin these waits anew each time.
func TestADeletionThatRetainsEndsBesideRestarts(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		server := r.serve()
		g := server.group("web", 2)
		g.Spec.Deletion.Policy = v1alpha1.DeletionRetain
		up(t, g)
		began, restarted, last := time.Now(), time.Now(), metacontroller.Answer{}
		if _, err := g.UntilFinalizing(within(t), func(a metacontroller.Answer) bool {
			if last = a; time.Since(restarted) > 20*time.Second {
				server.stop()
				server, restarted = r.serve(), time.Now()
				g.URL = server.url
			}
			return a.Finalized
		}); err != nil {
			t.Fatalf("%v: %s", err, last.Status.LastMessage)
		}
		if took, most := time.Since(began), 2*(90*time.Second+plan.ClockSkew); took > most {
			t.Errorf("the deletion took %s, want %s at most", took, most)
		}
		equal(t, r.names(web), running(2))
	})
}
