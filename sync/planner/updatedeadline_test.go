package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// onDeadline is a group without healing that updates one member after the other, each within ten minutes.
func onDeadline(s *v1alpha1.VmGroupSpec) {
	s.Readiness.Check, s.Healing.Action = v1alpha1.ReadyToolsRunning, v1alpha1.HealNone
	s.Update.MaxSurge, s.Update.MaxUnavailable, s.Update.ProgressDeadlineSeconds = new(intstr.FromInt32(0)), new(intstr.FromInt32(1)), in(600)
}

func toDebian(s *v1alpha1.VmGroupSpec) { s.Template = "debian" }

// answers lets the guests of the members with that ordinal report, or not.
func (l *life) answers(ordinal int32, is bool) {
	for i := range l.o.State.VMs {
		if m := &l.o.State.VMs[i]; m.Ordinal == ordinal {
			if m.Tools, m.Reported, m.IPs = is, is, nil; is {
				m.IPs = []string{fmt.Sprintf("192.0.2.%d", 1+ordinal)}
			}
		}
	}
}

// Also if no member is left to update, as in a group of one, or of the last members.
func TestAnUpdateWhoseLastMemberNeverBecomesAvailableExceedsItsDeadline(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 3} {
		l := lifeOf(replicas, onDeadline)
		l.lives(t, time.Minute)
		l.edit(toDebian)
		l.boots = func(m *plan.VM) bool { return m.Template != "debian" || l.ops[plan.PowerOn] < int(replicas) }
		within := l.lives(t, 9*time.Minute)
		if within.Status.Phase != v1alpha1.PhasePending {
			t.Errorf("%d members, before the deadline: %s: %s; want PENDING", replicas, within.Status.Phase, within.Status.LastMessage)
		}
		r := l.lives(t, time.Hour)
		if r.Status.Phase != v1alpha1.PhaseError || !strings.Contains(r.Status.LastMessage, "did not become available within 600 s") {
			t.Errorf("%d members, after the deadline: %s: %s; want ERROR, and the deadline", replicas, r.Status.Phase, r.Status.LastMessage)
		}
		l.edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
		if r := l.lives(t, time.Hour); strings.Contains(r.Status.LastMessage, "did not become available") {
			t.Errorf("%d members, paused: %s; want no deadline", replicas, r.Status.LastMessage)
		}
		l.edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
		for ordinal := range replicas {
			l.answers(ordinal, true)
		}
		l.boots = nil
		if r := l.lives(t, time.Hour); r.Status.Phase != v1alpha1.PhaseRunning || r.Status.Update != nil {
			t.Errorf("%d members, once all are available: %s: %s; want RUNNING, and no update", replicas, r.Status.Phase, r.Status.LastMessage)
		}
	}
}

// What delays the members before they can become available, or takes them down after they were, exceeds no deadline; the update finishes once.
func TestAnUpdateThatIsDelayedExceedsNoDeadline(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	for name, c := range map[string]struct {
		replicas int32
		spec     func(*v1alpha1.VmGroupSpec)
		edit     func(*v1alpha1.VmGroupSpec)
		delay    func(*testing.T, *life)
		says     string
	}{
		"no host has room for a clone": {replicas: 3, edit: toDebian, delay: func(t *testing.T, l *life) {
			l.fails = func(a plan.Action) bool { return a.Op == plan.Clone }
			l.lives(t, time.Hour)
		}},
		"no host has room for the last clone, and another guest restarts": {replicas: 3, edit: toDebian, delay: func(t *testing.T, l *life) {
			l.fails = func(a plan.Action) bool { return a.Op == plan.Clone && l.ops[plan.PowerOn] == 2 }
			l.lives(t, time.Hour)
			l.answers(2, false)
			l.lives(t, 10*time.Second)
			l.answers(2, true)
		}},
		"the guest takes 20 minutes to shut down": {replicas: 1, edit: func(s *v1alpha1.VmGroupSpec) { s.CPU = 3 },
			spec: func(s *v1alpha1.VmGroupSpec) { s.Deletion.ShutdownTimeoutSeconds = in(1800) },
			delay: func(_ *testing.T, l *life) {
				l.takes[plan.ShutdownGuest] = 20 * time.Minute
			}},
		"paused for an hour": {replicas: 1, edit: toDebian, delay: func(t *testing.T, l *life) {
			l.takes[plan.Clone] = 10 * time.Second
			l.lives(t, 11500*time.Millisecond)
			l.edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = true })
			l.lives(t, time.Hour)
			l.edit(func(s *v1alpha1.VmGroupSpec) { s.Paused = false })
		}},
		"no host has room until the next window": {replicas: 3, edit: toDebian, says: "UpdateStarted UpdateHeld UpdateStarted UpdateFinished",
			spec: func(s *v1alpha1.VmGroupSpec) {
				s.Update.Windows = []v1alpha1.Window{{Start: "11:30", DurationSeconds: 3600}, {Start: "14:00", DurationSeconds: 3600}}
			},
			delay: func(t *testing.T, l *life) {
				l.fails = func(a plan.Action) bool { return a.Op == plan.Clone }
				l.lives(t, 2*time.Hour+time.Minute)
			}},
		"the datacenter can't be read for an hour": {replicas: 3, edit: toDebian, delay: func(t *testing.T, l *life) {
			l.lives(t, 4*time.Second)
			l.o.State.Fault = &plan.Fault{Reason: "NotFound", Message: "the datacenter is gone"}
			l.lives(t, time.Hour)
			l.o.State.Fault = nil
		}},
		"vCenter is away for an hour": {replicas: 3, edit: toDebian, delay: func(t *testing.T, l *life) {
			l.lives(t, 4*time.Second)
			l.o.State.Known = false
			l.lives(t, time.Hour)
			l.o.State.Known = true
		}},
		"healing replaces a member": {replicas: 1, edit: toDebian,
			spec: func(s *v1alpha1.VmGroupSpec) {
				s.Update.ProgressDeadlineSeconds, s.Healing.Action, s.Readiness.TimeoutSeconds = in(3600), v1alpha1.HealReplace, in(300)
			},
			delay: func(_ *testing.T, l *life) {
				l.boots = func(m *plan.VM) bool { return m.Template != "debian" || strings.HasSuffix(m.MoRef, "again") }
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lifeOf(c.replicas, func(s *v1alpha1.VmGroupSpec) {
				if onDeadline(s); c.spec != nil {
					c.spec(s)
				}
			})
			l.takes = map[plan.Op]time.Duration{plan.PowerOn: 5 * time.Second}
			l.lives(t, time.Minute)
			l.sees = func(s *v1alpha1.VmGroupStatus) {
				if strings.Contains(s.LastMessage, "did not become available") {
					t.Errorf("%s: %s; want no deadline exceeded", s.Phase, s.LastMessage)
				}
				if slices.Contains(l.events, "UpdateFinished") && (s.ReadyReplicas < c.replicas || s.UpdatedReplicas < c.replicas) {
					t.Errorf("the update has finished, with %d ready and %d updated members; want %d", s.ReadyReplicas, s.UpdatedReplicas, c.replicas)
				}
			}
			l.edit(c.edit)
			c.delay(t, l)
			l.fails = nil
			r := l.lives(t, time.Hour)
			if says := strings.Join(l.events, " "); r.Status.Phase != v1alpha1.PhaseRunning || r.Status.Update != nil || says != cmp.Or(c.says, "UpdateStarted UpdateFinished") {
				t.Errorf("%s, %v, Events %s: %s; want RUNNING, no update, and %s", r.Status.Phase, r.Status.Update, says, r.Status.LastMessage, cmp.Or(c.says, "UpdateStarted UpdateFinished"))
			}
		})
	}
}

// The target changes while a group of one has no member.
func TestAnUpdateToAnotherTargetHasADeadlineToo(t *testing.T) {
	t.Parallel()
	l := lifeOf(1, onDeadline)
	l.lives(t, time.Minute)
	l.fails = func(a plan.Action) bool { return a.Op == plan.Clone }
	l.boots = func(m *plan.VM) bool { return m.Template == "ubuntu" }
	l.edit(toDebian)
	l.lives(t, 5*time.Minute)
	l.fails = nil
	l.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "fedora" })
	if r := l.lives(t, 11*time.Minute); r.Status.Phase != v1alpha1.PhaseError || !strings.Contains(r.Status.LastMessage, "did not become available within 600 s") {
		t.Errorf("%s: %s; want ERROR, and the deadline", r.Status.Phase, r.Status.LastMessage)
	}
}
