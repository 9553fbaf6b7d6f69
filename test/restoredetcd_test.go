package test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
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

// docs/upgrade.md: after more than one lost edit.
func TestLostGenerationsAreUndoneWithAWord(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		server := r.serve()
		g := server.group("web", 2)
		up(t, g)
		was := backup(g)
		for range 3 {
			g.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU *= 2 })
			up(t, g)
		}
		restarted := r.serve()
		for _, server := range []*serverReplica{restarted, server} {
			again := backup(was)
			again.URL = server.url
			a := answersFor(t, again, 3*time.Minute, func(metacontroller.Answer) {})
			if got, want := superseded(t, again), "default/web: "+a.Status.LastMessage+"\n"; got != want || !strings.Contains(got, "generation 4 of this group, and this hook call has generation 1") {
				t.Errorf("the command of docs/upgrade.md prints %q, want %q", got, want)
			}
			again.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: "4"}
			if a := up(t, again); a.Status.UpdatedReplicas != 2 || a.Status.DesiredReplicas != 2 || superseded(t, again) != "" {
				t.Errorf("%+v", a.Status)
			}
		}
	})
}

// superseded is what the command of docs/upgrade.md prints for a group.
func superseded(t *testing.T, g *metacontroller.Group) string {
	t.Helper()
	docs, err := os.ReadFile("../docs/upgrade.md")
	must.Succeed(t, err)
	_, after, _ := strings.Cut(string(docs), "kubectl get vg -A -o go-template='")
	text, _, _ := strings.Cut(after, "'\n")
	list, err := json.Marshal(map[string]any{"items": []any{&g.VmGroup}})
	must.Succeed(t, err)
	var data any
	must.Succeed(t, json.Unmarshal(list, &data))
	var out strings.Builder
	must.Succeed(t, template.Must(template.New("").Parse(text)).Execute(&out, data))
	return out.String()
}

// A backup is started as a second cluster, with its Secrets, so its server uses the same account.
func TestADrillWithAnOlderBackupDoesNotTouchTheVMs(t *testing.T) {
	inRig(t, vcsim.Config{Guest: vcsim.Guest{Tools: true}}, func(t *testing.T, r *rig) {
		production := r.serve().group("web", 2)
		up(t, production)
		drill := backup(production)
		production.Scale(3)
		up(t, production)
		were := refs(r.members())
		drill.URL = r.serve().url
		a := answersFor(t, drill, time.Minute, func(metacontroller.Answer) {})
		if !isSuperseded(a) {
			t.Errorf("the second cluster's answer is %s %q", a.Status.Phase, a.Status.LastMessage)
		}
		a, err := drill.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Status.Phase == v1alpha1.PhaseError })
		if err != nil || a.Finalized || !strings.Contains(a.Status.LastMessage, v1alpha1.AnnotationAbandon+"=true") || !strings.Contains(a.Status.LastMessage, v1alpha1.AnnotationUndoGeneration+"=2") {
			t.Errorf("the deletion in the second cluster is answered %s %q: %v", a.Status.Phase, a.Status.LastMessage, err)
		}
		up(t, production)
		r.sameVMs(were)
		drill.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "true"}
		if _, err := drill.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized }); err != nil {
			t.Error(err)
		}
		up(t, production)
		r.sameVMs(were)
		equal(t, r.names(web), running(3))
	})
}

// The word that removes the VMs: this cluster is the only one that has the group.
func TestASupersededGroupIsRemovedWithAWord(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		g := r.serve().group("web", 2)
		up(t, g)
		was := backup(g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = 4 })
		up(t, g)
		was.URL = r.serve().url // it was restarted
		if _, err := was.UntilFinalizing(within(t), isSuperseded); err != nil {
			t.Fatal(err)
		}
		was.Annotations = map[string]string{v1alpha1.AnnotationUndoGeneration: strconv.Itoa(2)}
		if _, err := was.UntilFinalizing(within(t), func(a metacontroller.Answer) bool { return a.Finalized }); err != nil {
			t.Error(err)
		}
		equal(t, r.names(web), nil)
	})
}
