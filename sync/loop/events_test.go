package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// cluster calls for a group as Metacontroller does: it stores the status, and creates an Event once.
type cluster struct {
	plan.Call
	events  map[string]plan.EventFields
	order   []string // their names
	answers map[string]int
}

func newCluster(c plan.Call) *cluster {
	return &cluster{Call: c, events: map[string]plan.EventFields{}, answers: map[string]int{}}
}

func (c *cluster) sync(l hooks) (events int) {
	r := l.Sync(c.Call)
	c.Group = c.Group.DeepCopy()
	c.Group.Status = r.Status
	c.Children = map[plan.ChildKey]plan.ObservedChild{}
	for _, child := range r.Children {
		if child.Key.Kind != plan.KindEvent {
			c.Children[child.Key] = plan.ObservedChild{}
			continue
		}
		events++
		c.answers[child.Key.Name]++
		if _, exists := c.events[child.Key.Name]; !exists {
			c.events[child.Key.Name] = child.Fields.(plan.EventFields)
			c.order = append(c.order, child.Key.Name)
		}
	}
	return events
}

// calls makes a hook call every two seconds.
func (c *cluster) calls(l hooks, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(2 * time.Second) {
		c.sync(l)
	}
}

func (c *cluster) edit(change func(*v1alpha1.VmGroupSpec)) {
	c.Group = c.Group.DeepCopy()
	change(&c.Group.Spec)
	c.Group.Generation++
}

// says returns the Events from an index on, as text.
func (c *cluster) says(from int) (all []string) {
	for _, name := range c.order[from:] {
		e := c.events[name]
		all = append(all, fmt.Sprintf("%s %s x%d: %s", e.Type, e.Reason, e.Count, e.Message))
	}
	return all
}

func TestEventsSayOnceWhatHappenedAndWhy(t *testing.T) {
	m := newModel(11 * time.Second) // ends between two calls
	m.took[plan.Reconfigure] = 3 * time.Second
	web := newCluster(call("web", 3))
	bubble(t, m, Config{Slots: 8, Events: true}, func(t *testing.T, l hooks) {
		web.calls(l, time.Minute)
		expect := func(want ...string) {
			t.Helper()
			from := len(web.order)
			web.calls(l, 5*time.Minute)
			if got := web.says(from); !slices.Equal(got, want) {
				t.Errorf("Events:\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if n := web.sync(l); n > 0 {
				t.Errorf("a settled group is answered with %d Events", n)
			}
		}
		if got := web.says(0); !slices.Equal(got, []string{"Normal MemberCreated x3: Created web-0 (new-web-0), web-1 (new-web-1), web-2 (new-web-2): too few members: 0 of 3"}) {
			t.Errorf("%q", got)
		}
		web.edit(func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(2)) })
		expect("Normal MemberRemoved x1: Removed web-2 (new-web-2): scale-in: from 3 members to 2")

		m.change(web.Ref(), func(s *plan.VCenterState) { // an operator destroys one in vCenter
			gone := slices.IndexFunc(s.VMs, func(vm plan.VM) bool { return vm.Ordinal == 0 })
			s.Gone = append(s.Gone, plan.Gone{MoRef: s.VMs[gone].MoRef})
			s.VMs = slices.Delete(slices.Clone(s.VMs), gone, gone+1)
		})
		expect("Warning MemberGone x1: Gone from vCenter: web-0 (new-web-0)",
			"Normal MemberCreated x1: Created web-0 (new-web-0-again): too few members: 1 of 2")

		for range 2 { // each time is reported
			m.change(web.Ref(), func(s *plan.VCenterState) {
				s.VMs[slices.IndexFunc(s.VMs, func(vm plan.VM) bool { return vm.Ordinal == 1 })].Power = plan.PoweredOff
			})
			expect("Normal MemberPoweredOff x1: Found powered off: web-1 (new-web-1)")
		}

		web.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = 2 })
		target := plan.Revision(&web.Group.Spec) + ", 2 CPUs, 1 GiB"
		expect("Normal UpdateStarted x1: Update started: 2 members (web-0, web-1): each has 1 CPU instead of 2",
			"Normal MemberCreated x1: Created web-2 (new-web-2-again): surge: one extra member during the power cycles",
			"Normal MemberResized x1: Resized web-1 (new-web-1): resize: it has 1 CPU instead of 2",
			"Normal MemberResized x1: Resized web-0 (new-web-0-again): resize: it has 1 CPU instead of 2",
			"Normal MemberRemoved x1: Removed web-2 (new-web-2-again): scale-in: from 3 members to 2",
			"Normal UpdateFinished x1: Update to "+target+" finished")

		m.change(web.Ref(), func(s *plan.VCenterState) { s.Template = plan.Template{Datacenter: "DC0"} })
		web.edit(func(s *v1alpha1.VmGroupSpec) { s.Replicas = new(int32(3)) })
		expect(`Warning TemplateNotFound x1: template "t" not found in datacenter DC0; no templates there; members were cloned from it: bring it back, because another name would replace all of them (docs/troubleshooting.md#templatenotfound)`)
		for name, n := range web.answers {
			if n > eventAnswers {
				t.Errorf("%s was in %d answers", web.events[name].Message, n)
			}
		}
	})
	// Another process that reads the stored group has nothing to report.
	bubble(t, m, Config{Slots: 8, Events: true}, func(t *testing.T, l hooks) {
		from := len(web.order)
		web.calls(l, time.Minute)
		if got := web.says(from); len(got) > 0 {
			t.Errorf("after a restart: %q", got)
		}
	})
}

func TestAnOutageThatIsHealedBetweenTwoCallsIsNotTakenForTheNext(t *testing.T) {
	var e events
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hear := func() { // the Event of an outage seen now, beside the same stored status
		e.hear(now, nil, plan.Event{Reason: "MemberPoweredOff", What: "Found powered off:", Member: "web-1", Key: "off/vm-1/then", At: now,
			PoweredOff: true, MoRef: "vm-1"})
	}
	expect := func(want int, why string) {
		t.Helper()
		if got := len(e.waiting); got != want {
			t.Fatalf("%s: %d events, not %d", why, got, want)
		}
		now = now.Add(time.Second)
	}
	hear()
	hear()
	expect(1, "one outage")
	e.acted(&plan.Action{Op: plan.PowerOn, MoRef: "vm-1"}, errors.New("no host has room"), now)
	hear()
	expect(1, "a power-on that failed")
	e.acted(&plan.Action{Op: plan.PowerOn, MoRef: "vm-1"}, nil, now)
	hear()
	expect(1, "a plan made before the power-on ended")
	hear()
	hear()
	expect(2, "a second outage")
	if e.waiting[0].Key == e.waiting[1].Key {
		t.Error("both outages have one key, so the second Event would have the name of the first")
	}
	e.acted(&plan.Action{Op: plan.PowerOff, MoRef: "vm-1"}, nil, now)
	hear()
	expect(2, "the server's own power-off")
	if e.acted(&plan.Action{Op: plan.Destroy, MoRef: "vm-1"}, nil, now); len(e.power) > 0 {
		t.Error("a VM that was destroyed is remembered")
	}
}

func TestTwoReplicasGiveOneEventOneName(t *testing.T) {
	var names [2]string
	for i := range names {
		m := newModel(time.Second)
		bubble(t, m, Config{Slots: 8, Events: true}, func(t *testing.T, l hooks) {
			m.world(plan.Ref{UID: "uid-web"}).State.Template = plan.Template{Datacenter: "DC0"}
			c := newCluster(call("web", 1))
			time.Sleep(time.Duration(i) * time.Minute)
			c.sync(l)
			if names[i] = strings.Join(c.order, " "); len(c.order) != 1 {
				t.Errorf("%q", c.says(0))
			}
		})
	}
	if names[0] != names[1] {
		t.Errorf("%q", names)
	}
}

func TestTheRateOfEventsIsLimitedAndNoNoteIsLost(t *testing.T) {
	var e events
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ref, count, members := plan.Ref{Name: "web", UID: "u"}, 0, 0
	for i := range 100 { // each with a reason of its own kind, then the same one
		why := "always the same"
		if i < 50 {
			why = fmt.Sprint("reason ", i%25)
		}
		e.hear(now, nil, plan.Event{Reason: "MemberRemoved", What: "Removed", Member: fmt.Sprint("web-", i), Why: why, Key: fmt.Sprint(i), At: now})
		for range 2 * eventAnswers {
			for _, c := range e.answer(ref, now) {
				count++
				members += c.Fields.(plan.EventFields).Count
			}
		}
		now = now.Add(time.Second)
	}
	if most := eventAnswers * (eventBurst + 100/30 + 1); count > most {
		t.Errorf("%d Events in 100 s, at most %d were expected", count, most)
	}
	for range 30 {
		now = now.Add(eventEvery)
		for range eventAnswers {
			for _, c := range e.answer(ref, now) {
				members += c.Fields.(plan.EventFields).Count
			}
		}
	}
	if members != eventAnswers*100 {
		t.Errorf("%d members were reported, %d times each", members/eventAnswers, eventAnswers)
	}
	if children := e.answer(ref, now); len(children) > 0 {
		t.Errorf("%d more", len(children))
	}
}

func TestAnEventNamesTheOperatorThatVCenterNamesAndNotTheServersAccount(t *testing.T) {
	off := "Normal MemberPoweredOff x1: "
	for want, who := range map[string]func() (map[string]plan.Actor, error){
		off + `Powered off in vCenter by VSPHERE.LOCAL\alice: web-0 (new-web-0)`: func() (map[string]plan.Actor, error) {
			return map[string]plan.Actor{"new-web-0": {User: `VSPHERE.LOCAL\alice`}}, nil
		},
		off + "Found powered off: web-0 (new-web-0)": func() (map[string]plan.Actor, error) { panic("a bug") },
		"": func() (map[string]plan.Actor, error) {
			return map[string]plan.Actor{"new-web-0": {User: `VSPHERE.LOCAL\vmgroup`, Ours: true}}, nil
		},
	} {
		m, asked := newModel(time.Second), 0
		answer := func(ctx context.Context, moRefs []string) (map[string]plan.Actor, error) {
			if asked++; !slices.Equal(moRefs, []string{"new-web-0"}) {
				t.Errorf("asked about %v", moRefs)
			}
			time.Sleep(3 * time.Second)
			return who()
		}
		bubble(t, m, Config{Events: true, Who: answer}, func(t *testing.T, l hooks) {
			c := newCluster(call("web", 1))
			c.calls(l, time.Minute)
			m.change(c.Ref(), func(s *plan.VCenterState) { s.VMs[0].Power = plan.PoweredOff })
			c.calls(l, time.Minute)
			if got := c.says(1); asked != 1 || strings.Join(got, "; ") != want {
				t.Errorf("asked %d times: %q, not %q", asked, got, want)
			}
		})
	}
}

// Another replica powered on the new member and wrote the status. This replica's inventory still shows the VM as off.
func TestANewMemberThatNoUserPoweredOffIsNotReportedAsPoweredOff(t *testing.T) {
	unknown := func(context.Context, []string) (map[string]plan.Actor, error) { return nil, nil }
	for made, want := range map[time.Duration]string{time.Second: "", time.Hour: "Normal MemberPoweredOff x1: Found powered off: web-0 (new-web-0)"} {
		m := newModel(time.Second)
		bubble(t, m, Config{Events: true, Who: unknown}, func(t *testing.T, l hooks) {
			c := newCluster(call("web", 1))
			c.calls(l, time.Minute)
			m.change(c.Ref(), func(s *plan.VCenterState) { s.VMs[0].Power, s.VMs[0].Created = plan.PoweredOff, time.Now().Add(-made) })
			c.calls(l, time.Minute)
			if got := strings.Join(c.says(1), "; "); got != want {
				t.Errorf("made %s ago: %q, not %q", made, got, want)
			}
		})
	}
}

func TestAnEventIsAnsweredAgainUnlessTheStatusOfItsAnswerIsStored(t *testing.T) {
	for _, stored := range []bool{true, false} {
		m := newModel(time.Second)
		bubble(t, m, Config{Slots: 8, Events: true}, func(t *testing.T, l hooks) {
			web := newCluster(call("web", 1))
			web.sync(l)
			until(t, time.Minute, "a member on", func() bool { _, on := m.members(web.Ref()); return on == 1 })
			before := web.Group
			if web.sync(l) != 1 {
				t.Fatal("no Event says that a member was created")
			}
			if !stored {
				web.Group = before // the answer got lost
			}
			if again := web.sync(l); again == 1 == stored {
				t.Errorf("the status was stored: %v; then %d Events", stored, again)
			}
		})
	}
}
