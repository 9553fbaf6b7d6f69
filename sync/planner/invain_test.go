package planner_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// inVain are differences that a clone doesn't cure: what a VM that was cloned has otherwise than the spec, and what the status says of it.
var inVain = map[string]struct {
	spec  func(*v1alpha1.VmGroupSpec)
	after func(*plan.VM)
	says  string
}{
	"another revision": {spec: nothingElse, after: func(m *plan.VM) { m.Revision = "0ddba11000" }, says: "it was cloned from another revision of the spec"},
	"other addresses": {spec: func(s *v1alpha1.VmGroupSpec) {
		s.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.40"}, PrefixLength: 24}}}
	}, after: func(m *plan.VM) { m.Addresses = "10.0.9.9" }, says: "it has other addresses than spec.networks gives it now"},
	"another version of the template": {spec: func(s *v1alpha1.VmGroupSpec) { s.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace },
		after: func(m *plan.VM) { m.Fingerprint = "0ddba11000" }, says: "it was cloned from an older version of the template"},
	"another size": {spec: func(s *v1alpha1.VmGroupSpec) { s.Update.Resize = v1alpha1.ResizeReplace },
		after: func(m *plan.VM) { m.CPU = 7 }, says: "it has 7 CPUs instead of 2"},
}

func nothingElse(*v1alpha1.VmGroupSpec) {}

// clonesInVain lets each VM that is cloned from now on differ from what it was cloned from.
func (l *life) clonesInVain(after func(*plan.VM)) {
	since := l.o.Now
	l.boots = func(m *plan.VM) bool {
		if !m.Created.Before(since) {
			after(m)
		}
		return true
	}
}

// toDebianAnew is an update that every kind of groups gets, also one whose template was published again.
func (l *life) toDebianAnew() {
	l.edit(toDebian)
	l.o.State.Template.Fingerprint = "bbbbbbbbbb"
}

// Another clone would be no better, so an update costs one member at most, whatever else happens.
func TestAnUpdateWhoseClonesStillDifferStopsAndSaysInWhat(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]func(*v1alpha1.VmGroupSpec){
		"maxSurge 1": nothingElse,
		"maxSurge 0": func(s *v1alpha1.VmGroupSpec) {
			s.Update.MaxSurge, s.Update.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
		},
		"a canary of one":         func(s *v1alpha1.VmGroupSpec) { s.Update.Canary = new(intstr.FromInt32(1)) },
		"a standby member":        func(s *v1alpha1.VmGroupSpec) { s.Standby = 1 },
		"a window of each hour":   func(s *v1alpha1.VmGroupSpec) { s.Update.Windows = hourly() },
		"quarantine":              func(s *v1alpha1.VmGroupSpec) { s.Deletion.QuarantineSeconds = 600 },
		"healing by replacements": func(s *v1alpha1.VmGroupSpec) { s.Healing.Action = v1alpha1.HealReplace },
	} {
		for difference, c := range inVain {
			for _, replicas := range []int32{1, 3} {
				l := lifeOf(replicas, func(s *v1alpha1.VmGroupSpec) { spec(s); c.spec(s) })
				l.o.State.Template.Fingerprint = "aaaaaaaaaa"
				l.lives(t, time.Minute)
				l.clonesInVain(c.after)
				l.toDebianAnew()
				l.ops = map[plan.Op]int{}
				var r plan.Result
				l.takes = map[plan.Op]time.Duration{plan.Clone: 30 * time.Second}
				for range 36 {
					if r = l.lives(t, 10*time.Minute); l.ops[plan.Clone] > 10 {
						break
					}
				}
				held := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionUpdateHeld)
				if held == nil || held.Reason != plan.ReasonSuccessorDiffers || !strings.Contains(held.Message, c.says) || r.Status.Phase != v1alpha1.PhaseError {
					t.Errorf("%s, %s, %d members: %s: %s; UpdateHeld %+v; want ERROR, SuccessorDiffers and %q", name, difference, replicas, r.Status.Phase, r.Status.LastMessage, held, c.says)
				}
				if l.ops[plan.Clone] > 2 || l.left(replicas) < int(replicas)-1 {
					t.Errorf("%s, %s, %d members: in six hours, %v, and %d of the members are left; want two clones at most, and all but one", name, difference, replicas, l.ops, l.left(replicas))
				}
			}
		}
	}
}

// hourly are windows of half an hour in each hour.
func hourly() (all []v1alpha1.Window) {
	for _, start := range []string{"00:00", "03:00", "06:00", "09:00", "11:00", "12:00", "13:00", "14:00", "15:00", "16:00", "17:00", "18:00"} {
		all = append(all, v1alpha1.Window{Start: start, DurationSeconds: 1800})
	}
	return all
}

// What autoscalers write is no reason to try again.
func TestAnUpdateThatHasStoppedStaysSoWhileAnAutoscalerScales(t *testing.T) {
	t.Parallel()
	l := lifeOf(3, nothingElse)
	l.takes = map[plan.Op]time.Duration{plan.Clone: 30 * time.Second}
	l.lives(t, time.Minute)
	l.clonesInVain(func(m *plan.VM) { m.Revision = "0ddba11000" })
	l.edit(toDebian)
	l.lives(t, 10*time.Minute)
	l.ops = map[plan.Op]int{}
	for n := range int32(20) {
		l.edit(func(s *v1alpha1.VmGroupSpec) { s.Replicas = in(4 + n%2) })
		l.lives(t, 5*time.Minute)
	}
	if l.left(3) != 3 || l.ops[plan.Clone] > 11 {
		t.Errorf("%v, and %d of the 3 members are left; want one clone for each scale-out at most, and all 3", l.ops, l.left(3))
	}
}

// An edit, or a template that is published again, is a reason to try again.
func TestAnUpdateThatHasStoppedContinuesWithWhatMayCureIt(t *testing.T) {
	t.Parallel()
	for name, cure := range map[string]func(*life){
		"the spec goes back":               func(l *life) { l.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "ubuntu-24.04" }) },
		"the spec goes on":                 func(l *life) { l.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "fedora" }) },
		"the template is published again":  func(l *life) { l.o.State.Template.Fingerprint = "cccccccccc" },
		"the user data has another digest": func(l *life) { l.o.Related.Digest = "cafe" },
	} {
		l := lifeOf(3, func(s *v1alpha1.VmGroupSpec) {
			s.Template, s.Update.OnTemplateChange = "ubuntu-24.04", v1alpha1.TemplateChangeReplace
		})
		l.o.State.Template.Fingerprint = "aaaaaaaaaa"
		l.lives(t, time.Minute)
		l.takes = map[plan.Op]time.Duration{plan.Clone: 30 * time.Second}
		l.clonesInVain(func(m *plan.VM) { m.Revision = "0ddba11000" })
		l.toDebianAnew()
		if r := l.lives(t, 10*time.Minute); r.Status.Phase != v1alpha1.PhaseError {
			t.Fatalf("%s: before it: %s: %s; want ERROR", name, r.Status.Phase, r.Status.LastMessage)
		}
		l.boots = nil
		cure(l)
		if r := l.lives(t, 2*time.Hour); r.Status.Phase != v1alpha1.PhaseRunning || r.Status.UpdatedReplicas != 3 || r.Status.CurrentReplicas != 3 {
			t.Errorf("%s: %s: %s; %d of %d updated; want RUNNING, and 3 of 3", name, r.Status.Phase, r.Status.LastMessage, r.Status.UpdatedReplicas, r.Status.CurrentReplicas)
		}
	}
}

// Differences that another clone cures.
func TestAnUpdateThatAnotherCloneFinishesDoesNotStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec    func(*v1alpha1.VmGroupSpec)
		happens func(*testing.T, *life)
	}{
		"an operator changes a new member by hand": {spec: func(s *v1alpha1.VmGroupSpec) { s.Update.Resize = v1alpha1.ResizeReplace }, happens: func(t *testing.T, l *life) {
			l.edit(toDebian)
			l.lives(t, time.Hour)
			for i := range l.o.State.VMs {
				if m := &l.o.State.VMs[i]; m.Ordinal == 1 {
					m.CPU = 7
				}
			}
		}},
		"members become too old": {spec: func(s *v1alpha1.VmGroupSpec) { s.Update.MaxAgeSeconds = in(86400) }, happens: func(t *testing.T, l *life) {
			l.lives(t, 30*time.Hour)
		}},
		"the template is published again during the update": {spec: func(s *v1alpha1.VmGroupSpec) { s.Update.OnTemplateChange = v1alpha1.TemplateChangeReplace }, happens: func(t *testing.T, l *life) {
			l.edit(toDebian)
			for _, fingerprint := range []string{"bbbbbbbbbb", "cccccccccc", "dddddddddd"} {
				l.o.State.Template.Fingerprint = fingerprint
				l.lives(t, 40*time.Second)
			}
		}},
		"the ranges move during the update": {spec: inVain["other addresses"].spec, happens: func(t *testing.T, l *life) {
			l.edit(toDebian)
			l.lives(t, 40*time.Second)
			l.edit(func(s *v1alpha1.VmGroupSpec) { s.Networks[0].IPv4.Ranges = []string{"10.0.0.60-10.0.0.90"} })
		}},
		"new members are resized in place, and the spec goes back": {spec: func(s *v1alpha1.VmGroupSpec) { s.Update.Resize = v1alpha1.ResizeReplace }, happens: func(t *testing.T, l *life) {
			l.edit(toDebian)
			l.lives(t, 15*time.Second)
			l.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU, s.Update.Resize = 3, v1alpha1.ResizeInPlace })
			l.lives(t, 15*time.Second)
			l.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU, s.Update.Resize = 2, v1alpha1.ResizeReplace })
		}},
		"a server of an older version clones": {spec: nothingElse, happens: func(t *testing.T, l *life) {
			first := l.o.Now
			l.boots = func(m *plan.VM) bool {
				if !m.Created.Before(first) && l.o.Now.Sub(first) < time.Minute {
					m.Revision, m.ClonedFor = "0ddba11000", ""
				}
				return true
			}
			l.edit(toDebian)
			l.lives(t, 2*time.Minute)
		}},
	} {
		l := lifeOf(3, c.spec)
		l.o.State.Template.Fingerprint = "aaaaaaaaaa"
		l.takes = map[plan.Op]time.Duration{plan.Clone: 10 * time.Second}
		l.lives(t, time.Minute)
		l.sees = func(s *v1alpha1.VmGroupStatus) {
			if held := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionUpdateHeld); held != nil {
				t.Errorf("%s: UpdateHeld: %s; want none", name, held.Message)
			}
		}
		c.happens(t, l)
		if r := l.lives(t, 2*time.Hour); r.Status.Phase != v1alpha1.PhaseRunning || r.Status.UpdatedReplicas != 3 || r.Status.CurrentReplicas != 3 {
			t.Errorf("%s: %s: %s; %d of %d updated; want RUNNING, and 3 of 3", name, r.Status.Phase, r.Status.LastMessage, r.Status.UpdatedReplicas, r.Status.CurrentReplicas)
		}
	}
}
