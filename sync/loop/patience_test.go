package loop

import (
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func TestAGuestThatKeepsHaltingCausesNoHotLoop(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 1)
		for range 3600 {
			l.Sync(c)
			time.Sleep(time.Second)
			m.change(c.Ref(), func(s *plan.VCenterState) {
				for i := range s.VMs {
					s.VMs[i].Power = plan.PoweredOff
				}
			})
		}
		n := 0
		for _, line := range m.begun() {
			if strings.HasPrefix(line, "PowerOn") {
				n++
			}
		}
		if n < 10 || n > 25 {
			t.Errorf("powered on %d times in an hour", n)
		}
		if r := l.Sync(c); !strings.Contains(r.Status.LastMessage, "look at its console") {
			t.Error(r.Status.LastMessage)
		}
		none, g := int32(0), *c.Group
		g.Spec.Replicas = &none // the same generation, so that nothing is forgotten
		c.Group = &g
		l.Sync(c)
		time.Sleep(time.Second)
		if all, _ := m.members(c.Ref()); all != 0 {
			t.Error("a member that cannot be powered on is not removed by a scale-in to 0")
		}
	})
}

func TestManyLostAtOnceAreRecreatedSlowly(t *testing.T) {
	m := newModel(time.Minute)
	bubble(t, m, Config{Slots: 32}, func(t *testing.T, l hooks) {
		c := call("web", 12)
		status := l.Sync(c).Status
		for range 90 { // a hook call stores the status, as Metacontroller does
			time.Sleep(5 * time.Second)
			g := *c.Group
			g.Status = status
			c.Group = &g
			status = l.Sync(c).Status
		}
		before := len(m.begun())
		m.change(c.Ref(), func(s *plan.VCenterState) {
			for i := range s.VMs {
				s.Gone = append(s.Gone, plan.Gone{MoRef: s.VMs[i].MoRef})
			}
			s.VMs = nil
		})
		time.Sleep(30 * time.Second)
		if n := len(m.begun()) - before; n != 1 {
			t.Errorf("%d clones begin before one has ended", n)
		}
		for range 60 {
			g := *c.Group
			g.Status = l.Sync(c).Status
			c.Group = &g
			time.Sleep(5 * time.Second)
		}
		if _, on := m.members(c.Ref()); on != 12 {
			t.Errorf("%d are on", on)
		}
	})
}

func TestAPlanThatWaitsForATimeIsMadeAgainAtThatTime(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		c.Group.Spec.Deletion.QuarantineSeconds = 60
		l.Sync(c)
		time.Sleep(time.Second)
		g := *c.Group
		one := int32(1)
		g.Spec.Replicas, g.Generation = &one, 2
		c.Group = &g
		l.Sync(c)
		time.Sleep(50 * time.Second)
		if all, _ := m.members(c.Ref()); all != 2 {
			t.Fatalf("%d VMs before the quarantine is over", all)
		}
		time.Sleep(11 * time.Second) // no call, and nothing changes
		if all, _ := m.members(c.Ref()); all != 1 {
			t.Errorf("%d VMs after it", all)
		}
	})
}

func TestAPreviewOfAManifestIsOfTheNextGeneration(t *testing.T) {
	m := newModel(0)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 1)
		c.Group.Generation = 7
		l.Sync(c)
		time.Sleep(time.Second)
		manifest := call("web", 2)
		manifest.Group.Generation = 0
		r, outlook, err := l.Preview(manifest)
		if err != nil || len(outlook.Steps) != 2 || r.Status.Phase != "PENDING" {
			t.Errorf("%v, %s: %s, %+v", err, r.Status.Phase, r.Status.LastMessage, outlook.Steps)
		}
	})
}

// A failure is reported during its retries, too, so that the message doesn't come and go, but only until a retry takes longer than the failure did.
func TestAFailureIsNoLongerReportedOnceARetryGetsPastIt(t *testing.T) {
	m := newModel(time.Minute)
	m.took[plan.Clone] = 2 * time.Second
	m.setFault(func(_ plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone {
			return fault{Reason: "MissingPrivilege", Message: "a privilege is missing", NeedsOperator: true}
		}
		return nil
	})
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		c.Group.Spec.Inventory = v1alpha1.InventoryNone
		l.Sync(c)
		until(t, time.Minute, "both have failed", func() bool { return strings.Contains(l.Sync(c).Status.LastMessage, "2 members (web-0, web-1)") })
		for range 300 {
			time.Sleep(200 * time.Millisecond)
			if r := l.Sync(c); r.Status.Phase != v1alpha1.PhaseError || !strings.Contains(r.Status.LastMessage, "2 members (web-0, web-1): a privilege is missing") {
				t.Fatalf("%s: %s", r.Status.Phase, r.Status.LastMessage)
			}
		}
		until(t, time.Minute, "no try is running", func() bool { return m.running() == 0 })
		tries := len(m.begun())
		m.setFault(func(_ plan.Ref, a plan.Action) error {
			if a.Op == plan.Clone {
				time.Sleep(time.Minute)
			}
			return nil
		})
		until(t, 75*time.Second, "it is tried again", func() bool { l.Sync(c); return len(m.begun()) > tries })
		until(t, 10*time.Second, "it is no longer reported", func() bool { return l.Sync(c).Status.LastMessage == "cloning 2 members" })
		until(t, 70*time.Second, "the other is tried again as soon as the first has succeeded", func() bool {
			l.Sync(c)
			return len(m.begun()) >= tries+2
		})
	})
}
