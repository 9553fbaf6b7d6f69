package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Annotations don't raise the generation, so the loop takes them from its newest call.
func TestWhoIsHeldIsInTheMetricsAndOnceInAnEvent(t *testing.T) {
	r := prometheus.NewRegistry()
	bubble(t, newModel(time.Second), Config{Slots: 8, Metrics: r, GroupMetrics: true, Events: true}, func(t *testing.T, l hooks) {
		c := newCluster(call("web", 2))
		c.edit(func(s *v1alpha1.VmGroupSpec) { s.Deletion.HoldTimeoutSeconds = 300 })
		c.calls(l, time.Minute)
		c.Group = c.Group.DeepCopy()
		c.Group.Annotations = map[string]string{}
		for _, m := range c.Group.Status.Members {
			c.Group.Annotations[v1alpha1.AnnotationHold+m.Name] = m.Name + "/" + m.MoRef
		}
		c.calls(l, time.Minute)
		held := func(want string) {
			t.Helper()
			if all := gathered(t, r); !slices.Contains(all, "group_members_held{group=web,namespace=default} "+want) {
				t.Errorf("%s are held: %q", want, all)
			}
		}
		held("0")
		c.edit(func(s *v1alpha1.VmGroupSpec) { *s.Replicas = 1 })
		c.calls(l, 4*time.Minute)
		held("1")
		if n := len(c.Group.Status.Members); n != 2 {
			t.Errorf("%d members are left", n)
		}
		c.calls(l, 2*time.Minute)
		held("0")
		if n := len(c.Group.Status.Members); n != 1 {
			t.Errorf("%d members are left when the time is over", n)
		}
		events := strings.Join(c.says(0), "\n")
		for _, reason := range []string{"MemberHeld", "HoldTimedOut"} {
			if strings.Count(events, reason) != 1 {
				t.Errorf("%s is not reported once: %s", reason, events)
			}
		}
	})
}
