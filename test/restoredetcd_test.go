package test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// backup returns what a backup of etcd has of a group now.
func backup(g *metacontroller.Group) *metacontroller.Group {
	was := *g
	g.VmGroup.DeepCopyInto(&was.VmGroup)
	was.Children = maps.Clone(g.Children)
	for kind, children := range was.Children {
		was.Children[kind] = maps.Clone(children)
	}
	return &was
}

// answersFor syncs a group for so long, and returns the last answer.
func answersFor(t testing.TB, g *metacontroller.Group, long time.Duration, check func(metacontroller.Answer)) metacontroller.Answer {
	t.Helper()
	began := time.Now()
	a, err := g.Until(within(t), func(a metacontroller.Answer) bool {
		check(a)
		return time.Since(began) > long
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func saysReady(a metacontroller.Answer) bool {
	return meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady)
}

func isSuperseded(a metacontroller.Answer) bool {
	ready := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == plan.ReasonSuperseded
}

// etcd is restored from a backup while the server runs.
func TestAGroupOfARestoredEtcdSaysWhatToDoAndOneEditMendsIt(t *testing.T) {
	for name, scaled := range map[string]int32{"scaled out since": 5, "scaled in since": 1, "edited since": 3} {
		t.Run(name, func(t *testing.T) {
			inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
				g := r.serve().group("web", 3)
				up(t, g)
				was := backup(g)
				g.Scale(scaled)
				up(t, g)
				there := r.names(web)
				r.task(r.vm(web + "/web-0").PowerOff(t.Context()))
				r.task(r.vm(web + "/web-0").Destroy(t.Context()))
				g = was
				a := answersFor(t, g, 5*time.Minute, func(a metacontroller.Answer) {
					if saysReady(a) || !isSuperseded(a) || !strings.Contains(a.Status.LastMessage, "edit the spec until its generation is 2") {
						t.Errorf("it is answered %s %q", a.Status.Phase, a.Status.LastMessage)
					}
				})
				if got := r.names(web); a.Status.DesiredReplicas != 3 || !slices.Equal(got, there[1:]) {
					t.Errorf("%d members are wanted, and there are %v; want 3 and %v", a.Status.DesiredReplicas, got, there[1:])
				}
				g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Deletion.ShutdownTimeoutSeconds = new(int32(7)) })
				up(t, g)
				if got := r.names(web); len(got) != 3 {
					t.Errorf("after the edit there are %v; want three members", got)
				}
			})
		})
	}
}

func TestAGroupThatWasDeletedSinceTheBackupOfEtcdIsUpAgainAfterALease(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 3)
		up(t, g)
		was := backup(g)
		remove(t, g)
		restored := time.Now()
		up(t, was)
		if took := time.Since(restored); took < 90*time.Second || took > 5*time.Minute {
			t.Errorf("it is up %s after the restore; want a lease and the time to clone", took)
		}
		equal(t, r.names(web), running(3))
	})
}
