package test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// orphaned deletes a group as kubectl delete --cascade=orphan does in a cluster without a policy that refuses it. Only the first finalize call has
// the garbage collector's finalizer. Before the second call, the garbage collector has removed the owner references of the children.
func orphaned(t *testing.T, g *metacontroller.Group) {
	t.Helper()
	g.Finalizers = append(g.Finalizers, metav1.FinalizerOrphanDependents)
	before := childNames(g)
	a, err := g.Finalize(t.Context())
	must.Succeed(t, err)
	if !a.Status.Orphaned || a.Finalized {
		t.Errorf("the first answer: finalized %v, %+v", a.Finalized, a.Status)
	}
	if now := childNames(g); !slices.Equal(now, before) {
		t.Errorf("the server removed children before the deletion: were %v, are %v", before, now)
	}
	g.Finalizers = slices.DeleteFunc(g.Finalizers, func(f string) bool { return f == metav1.FinalizerOrphanDependents })
	g.Children = nil
}

func childNames(g *metacontroller.Group) (names []string) {
	for _, objects := range g.Children {
		names = slices.AppendSeq(names, maps.Keys(objects))
	}
	slices.Sort(names)
	return names
}

func TestVMsOfAGroupThatIsDeletedWithOrphanStayAndAreUnmanaged(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]func(s [2]*serverReplica, g *metacontroller.Group){
		"the same replica":                          func([2]*serverReplica, *metacontroller.Group) {},
		"the same replica, and the status was lost": func(_ [2]*serverReplica, g *metacontroller.Group) { g.Status.Orphaned = false },
		"another replica":                           func(s [2]*serverReplica, g *metacontroller.Group) { g.URL = s[1].url },
		"another replica, for the first one ended":  func(s [2]*serverReplica, g *metacontroller.Group) { s[0].stop(); g.URL = s[1].url },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newChangeRig(t, vcsim.Guest{Tools: true})
				servers := [2]*serverReplica{r.serve(), r.serve()}
				g := servers[0].group("web", 3)
				g.Spec.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 80}}, DrainSeconds: 30}
				up(t, g)
				was := r.members()
				orphaned(t, g)
				to(servers, g)
				remove(t, g)
				equal(t, r.names(web), running(3))
				for _, before := range was {
					for _, vm := range r.VMs() {
						if vm.Ref == before.Ref && (vm.ExtraConfig[stamp.Key] != "" || !vm.Boot.Equal(before.Boot)) {
							t.Errorf("a retained VM has a stamp or was restarted: %+v", vm)
						}
					}
				}
			})
		})
	}
}

// The garbage collector deletes the children of a group that is deleted in the foreground. If the server answered such a child again, the child
// would be created and deleted again and again while the members are drained.
func TestAGroupThatIsDeletedInTheForegroundIsDrainedWithoutChildren(t *testing.T) {
	inChangeRig(t, vcsim.Guest{Tools: true, IP: time.Second}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		g.Spec.Service = &v1alpha1.Service{Ports: []v1alpha1.ServicePort{{Port: 80}}, DrainSeconds: 60}
		g.Spec.Readiness.Check = v1alpha1.ReadyGuestIP
		up(t, g)
		until(t, g, "the endpoints are published", func(metacontroller.Answer) bool { return len(g.Children[plan.KindEndpointSlice]) > 0 })
		began := time.Now()
		g.Finalizers = append(g.Finalizers, metav1.FinalizerDeleteDependents)
		_, err := g.UntilFinalizing(t.Context(), func(a metacontroller.Answer) bool {
			for _, child := range a.Children {
				var object struct{ Kind string }
				if json.Unmarshal(child, &object) != nil || object.Kind != "Event" {
					t.Errorf("the answer has a child that is not an Event: %s", child)
				}
			}
			return a.Finalized
		})
		must.Succeed(t, err)
		if took := time.Since(began); took < time.Minute {
			t.Errorf("the members were drained for %s, want at least 1m0s", took)
		}
		equal(t, r.names(web), nil)
	})
}
