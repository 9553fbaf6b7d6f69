package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// stored calls for a group every five seconds for so long, and stores the answers in it, as Kubernetes does. It returns the last answer.
func (h hooks) stored(c plan.Call, long time.Duration) (last plan.Result) {
	for until := time.Now().Add(long); !time.Now().After(until); time.Sleep(5 * time.Second) {
		if last = h.Sync(c); last.Refusal == nil {
			c.Group.Status = last.Status
		}
	}
	return last
}

func (m *model) destroyed(c plan.Call, vm int) {
	m.change(c.Ref(), func(s *plan.VCenterState) {
		gone := s.VMs[vm]
		s.Gone = append(slices.Clone(s.Gone), plan.Gone{MoRef: gone.MoRef, InstanceUUID: gone.InstanceUUID, By: plan.Actor{User: "VSPHERE.LOCAL\\ops"}})
		s.VMs = slices.Delete(slices.Clone(s.VMs), vm, vm+1)
	})
}

// plainCall is call, for a group without a ConfigMap, which the test would have to store.
func plainCall(name string, replicas int32) plan.Call {
	c := call(name, replicas)
	c.Group.Spec.Inventory = v1alpha1.InventoryNone
	return c
}

func isReady(r plan.Result) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady)
}

func TestAGroupWhoseGenerationWentBackIsNotServedAsItWas(t *testing.T) {
	for name, later := range map[string]int32{"scaled out": 5, "scaled in": 1, "edited": 3} {
		t.Run(name, func(t *testing.T) {
			m := newModel(0)
			bubble(t, m, Config{}, func(t *testing.T, l hooks) {
				before := plainCall("web", 3)
				l.stored(before, time.Minute)
				edited := plainCall("web", later)
				edited.Group.Generation = 2
				l.stored(edited, time.Minute)
				if all, on := m.members(before.Ref()); all != int(later) || on != all {
					t.Fatalf("%d of %d members are on before the restore", on, all)
				}
				m.destroyed(before, 0)
				begun := len(m.begun())
				for range 100 { // etcd was restored
					if r := l.stored(before, 0); isReady(r) || !hasReason(&r.Status, plan.ReasonSuperseded) || !strings.Contains(r.Status.LastMessage, "generation 2 of this group, and this hook call has generation 1") {
						t.Fatalf("the answer is %s %q, ready: %v", r.Status.Phase, r.Status.LastMessage, isReady(r))
					}
				}
				if now := m.begun(); len(now) > begun+1 { // one may have begun before the first of these calls
					t.Errorf("%v was begun by the generation that is no more", now[begun:])
				}
				if r := l.stored(before, 0); r.Status.DesiredReplicas != 3 {
					t.Errorf("after minutes, %d members are wanted; the group has 3", r.Status.DesiredReplicas)
				}
				before.Group.Generation = 2 // one edit
				if r := l.stored(before, time.Minute); !isReady(r) || r.Status.CurrentReplicas != 3 {
					t.Errorf("after the edit the answer is %s %q", r.Status.Phase, r.Status.LastMessage)
				}
			})
		})
	}
}

func TestOlderCallsBetweenNewerOnesOnlyDelayTheGroup(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		older, newest := plainCall("web", 3), plainCall("web", 1)
		newest.Group.Generation = 2
		l.stored(older, time.Minute)
		lagging := older.Group.DeepCopy()
		l.stored(newest, time.Minute)
		for range 100 { // another Metacontroller, whose cache lags behind
			l.Sync(plan.Call{Group: lagging})
			time.Sleep(2 * time.Second)
			if r := l.stored(newest, 0); r.Status.DesiredReplicas != 1 || r.Status.LastMessage != "successfully reconciled VmGroup" {
				t.Fatalf("the newest call's answer is %s %q", r.Status.Phase, r.Status.LastMessage)
			}
		}
		m.destroyed(newest, 0)
		l.Sync(plan.Call{Group: lagging})
		if r := l.stored(newest, 20*time.Second); !isReady(r) || r.Status.CurrentReplicas != 1 {
			t.Errorf("after a member was destroyed, the answer is %s %q", r.Status.Phase, r.Status.LastMessage)
		}
	})
}

// However long an API server lags behind, it doesn't show what is answered.
func TestALaggingAPIServerIsNoRestore(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		older, newest, gone := plainCall("web", 3), plainCall("web", 1), plainCall("db", 2)
		newest.Group.Generation = 2
		l.stored(older, time.Minute)
		l.stored(gone, time.Minute)
		lagging := plan.Call{Group: older.Group.DeepCopy()}
		l.stored(newest, time.Minute)
		until(t, time.Minute, "db finalized", func() bool { return l.Sync(deletion(gone)).Finalized })
		begun := len(m.begun())
		for range 100 { // less than keepFor
			if r := l.Sync(lagging); r.Status.DesiredReplicas != 1 || isReady(r) {
				t.Fatalf("it is answered %s %q, for %d members", r.Status.Phase, r.Status.LastMessage, r.Status.DesiredReplicas)
			}
			if r := l.Sync(gone); r.Finalized || isReady(r) {
				t.Fatalf("the deleted group is answered %s %q, finalized: %v", r.Status.Phase, r.Status.LastMessage, r.Finalized)
			}
			time.Sleep(30 * time.Second)
		}
		if now := m.begun(); len(now) > begun {
			t.Errorf("%v was begun", now[begun:])
		}
	})
}

func TestAGroupThatWasDeletedSinceTheBackupIsServedAgain(t *testing.T) {
	for name, rest := range map[string]time.Duration{"finalized": time.Minute, "being deleted": 0} {
		t.Run(name, func(t *testing.T) {
			m := newModel(time.Second)
			m.took[plan.Destroy] = 20 * time.Second
			bubble(t, m, Config{Slots: 1}, func(t *testing.T, l hooks) {
				c := plainCall("web", 3)
				l.stored(c, time.Minute)
				c.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: plan.KindConfigMap, Name: "web-members"}: {LastApplied: `{"data":{}}`}}
				began := time.Now()
				until(t, 3*time.Minute, "the deletion", func() bool { return l.Sync(deletion(c)).Finalized || rest == 0 && time.Since(began) > 30*time.Second })
				begun := len(m.begun())
				restored := time.Now()
				for time.Since(restored) < 90*time.Second {
					r := l.stored(c, 0)
					if isReady(r) || r.Finalized || !hasReason(&r.Status, plan.ReasonSuperseded) || len(r.Children) != 1 {
						t.Fatalf("after %s, the answer is %s %q with %d children, finalized: %v", time.Since(restored), r.Status.Phase, r.Status.LastMessage, len(r.Children), r.Finalized)
					}
				}
				if now := m.begun(); len(now) > begun+1 {
					t.Errorf("%v was begun within a lease", now[begun:])
				}
				l.stored(c, time.Minute)
				if rest == 0 { // the deletion's generation is in stamps: one edit
					c.Group.Generation++
				}
				if r := l.stored(c, 2*time.Minute); !isReady(r) || r.Status.CurrentReplicas != 3 {
					t.Errorf("after %s, the answer is %s %q", time.Since(restored), r.Status.Phase, r.Status.LastMessage)
				}
			})
		})
	}
}
