package loop

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// caller makes hook calls as Metacontroller does: each when the last answer asks for it, one at a time, and at most a number per second.
type caller struct {
	calls []plan.Call
	due   []time.Time
	each  time.Duration // duration of a call
	made  int
}

func newCaller(groups, perSecond int) *caller {
	c := &caller{due: make([]time.Time, groups), each: time.Second / time.Duration(perSecond)}
	for i := range groups {
		one := call(fmt.Sprintf("web-%d", i), 0)
		one.Group.Spec.Inventory = v1alpha1.InventoryNone
		c.calls = append(c.calls, one)
	}
	return c
}

// run makes calls for that long. It returns the longest time between two calls for a group, and the calls per second.
func (c *caller) run(l hooks, d time.Duration) (longest time.Duration, perSecond float64) {
	began, before, last := time.Now(), c.made, make([]time.Time, len(c.calls))
	for time.Since(began) < d {
		i := slices.Index(c.due, slices.MinFunc(c.due, func(a, b time.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) }))
		time.Sleep(time.Until(c.due[i]))
		r := l.Sync(c.calls[i])
		if now := time.Now(); !last[i].IsZero() {
			longest = max(longest, now.Sub(last[i]))
		}
		last[i] = time.Now()
		time.Sleep(c.each)
		c.due[i] = time.Now().Add(r.Resync)
		c.made++
	}
	return longest, float64(c.made-before) / time.Since(began).Seconds()
}

func TestGroupsAtRestAreCalledRarely(t *testing.T) {
	thin.NotShort(t)
	for groups, want := range map[int]struct {
		longest time.Duration
		calls   float64 // per second, at most
	}{10: {9600 * time.Millisecond, 10 / 9.5}, 100: {10 * time.Second, 100 / 9.5}, 200: {10 * time.Second, restMost}, 1000: {31 * time.Second, 1000 / 30.}, 2000: {31 * time.Second, 2000 / 30.}} {
		bubble(t, newModel(time.Second), Config{}, func(t *testing.T, l hooks) {
			c := newCaller(groups, 118)
			c.run(l, 3*time.Minute)
			if longest, calls := c.run(l, 2*time.Minute); longest > want.longest || calls > want.calls+1 {
				t.Errorf("%d groups: at most every %s, %.1f calls a second", groups, longest, calls)
			}
		})
	}
}

func TestAGroupThatChangedIsCalledEverySecondForAWhileBesideManyAtRest(t *testing.T) {
	bubble(t, newModel(time.Second), Config{}, func(t *testing.T, l hooks) {
		c := newCaller(500, 118)
		c.run(l, 3*time.Minute)
		last := &c.calls[7]
		edited := *last.Group
		edited.Generation++
		last.Group = &edited
		c.due[7] = time.Now()
		c.run(l, time.Second)
		others := slices.Clone(c.calls)
		c.calls, c.due = c.calls[7:8], c.due[7:8]
		if longest, _ := c.run(l, 25*time.Second); longest > 1100*time.Millisecond {
			t.Errorf("a group that changed is called only every %s", longest)
		}
		c.run(l, time.Minute)
		if longest, calls := c.run(l, time.Minute); calls > .2 {
			t.Errorf("later it is called every %s, %.1f times a second, beside %d others", longest, calls, len(others)-1)
		}
	})
}

func TestAGroupInProgressIsCalledAgainAfterAQuarterOfASecond(t *testing.T) {
	bubble(t, newModel(time.Hour), Config{}, func(t *testing.T, l hooks) {
		if again := l.Sync(call("web", 1)).Resync; again != 250*time.Millisecond {
			t.Errorf("after %s", again)
		}
	})
}

// What has taken long will take a little longer: the status is late by at most a twentieth of what a user has waited for already.
func TestAGroupIsCalledMoreRarelyTheLongerItsStepTakes(t *testing.T) {
	bubble(t, newModel(time.Hour), Config{}, func(t *testing.T, l hooks) {
		c := call("web", 1)
		r := l.Sync(c)
		began, calls := time.Now(), 0
		for time.Since(began) < 10*time.Minute {
			g := *c.Group // the loop reads the former
			g.Status, c.Group = r.Status, &g
			time.Sleep(r.Resync)
			waited := time.Since(began)
			if r = l.Sync(c); r.Resync > max(busySoonest, min(waited/20, 5*time.Second)) {
				t.Fatalf("after %s the next call comes after %s", waited, r.Resync)
			}
			calls++
		}
		if calls > 240 {
			t.Errorf("%d calls in ten minutes", calls)
		}
	})
}

// With its default limits, Metacontroller makes five calls a second. A call that it must make at once must not wait long for the others.
func TestTheServerAsksForFewerCallsThanMetacontrollerMakes(t *testing.T) {
	bubble(t, newModel(time.Second), Config{}, func(t *testing.T, l hooks) {
		c := newCaller(40, 5)
		c.run(l, 3*time.Minute)
		var waited time.Duration
		for range 60 {
			c.run(l, 5*time.Second)
			behind := 0
			for _, due := range c.due {
				if time.Now().After(due) {
					behind++
				}
			}
			waited = max(waited, time.Duration(behind)*c.each)
		}
		if waited > 5*time.Second {
			t.Errorf("a call waits for others for %s", waited)
		}
	})
}

func TestManyBusyGroupsAreCalledAsOftenAsMetacontrollerCan(t *testing.T) {
	thin.NotThin(t, "ten thousand calls of one caller hold no race that others don't")
	bubble(t, newModel(time.Hour), Config{}, func(t *testing.T, l hooks) {
		c := newCaller(400, 118)
		for i := range c.calls {
			g := *c.calls[i].Group
			g.Spec.Replicas = new(int32(1))
			c.calls[i].Group = &g
		}
		c.run(l, time.Minute)
		if longest, calls := c.run(l, 3*time.Minute); longest > 11*time.Second || calls > livelyMost+1 {
			t.Errorf("every %s, %.1f calls a second", longest, calls)
		}
	})
}

// When many groups come up at once, the last ones must show that they are up as soon as in a small number of groups: after a twentieth of the 25 s
// that these wait.
func TestGroupsThatHaveJustSettledLeaveTheCallsToThoseInProgress(t *testing.T) {
	bubble(t, newModel(time.Hour), Config{}, func(t *testing.T, l hooks) {
		c := newCaller(400, 118)
		for i := range 8 {
			g := *c.calls[i].Group
			g.Spec.Replicas = new(int32(1))
			c.calls[i].Group = &g
		}
		c.run(l, 10*time.Second)
		busy := &caller{calls: c.calls[:8], due: c.due[:8], each: c.each}
		if longest, _ := busy.run(l, 15*time.Second); longest > 1350*time.Millisecond {
			t.Errorf("eight groups in progress are called every %s beside %d that have just settled", longest, len(c.calls)-8)
		}
	})
}

// Of 200 groups that come up one after the other, each is called soon after it is up, and few calls are for those whose turn is still to come.
func TestGroupsThatWaitForTheirTurnTakeFewCallsFromThoseInTheirs(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		const groups = 200
		c := newCaller(groups, 118)
		for i := range c.calls {
			g := *c.calls[i].Group
			g.Spec.Replicas = new(int32(1))
			c.calls[i].Group = &g
		}
		began, up, late := time.Now(), map[string]time.Time{}, map[string]time.Duration{}
		for len(late) < groups && time.Since(began) < 5*time.Minute {
			c.run(l, 50*time.Millisecond)
			for i := range c.calls {
				name := c.calls[i].Group.Name
				if _, on := m.members(c.calls[i].Ref()); on == 1 && up[name].IsZero() {
					up[name] = time.Now()
				}
				l.mu.Lock()
				if g := l.groups[c.calls[i].Group.UID]; g != nil && g.answers.status.ReadyReplicas == 1 && late[name] == 0 {
					late[name] = max(1, time.Since(up[name]))
				}
				l.mu.Unlock()
			}
		}
		var all, most time.Duration
		for _, after := range late {
			all, most = all+after, max(most, after)
		}
		if mean := all / groups; len(late) < groups || mean > 2*time.Second || most > 6*time.Second || c.made > 1000 {
			t.Errorf("%d of %d groups were called after they were up, on average after %s, at most after %s, with %d calls in %s; want 2 s, 6 s, and 1,000 calls",
				len(late), groups, mean, most, c.made, time.Since(began))
		}
	})
}

func TestGroupsThatAreGoneTakeNoCallsFromTheOthers(t *testing.T) {
	bubble(t, newModel(time.Second), Config{}, func(t *testing.T, l hooks) {
		c := newCaller(500, 118)
		c.run(l, time.Minute)
		c.calls, c.due = c.calls[:10], c.due[:10]
		c.run(l, 2*time.Minute) // the leases of the others end
		if longest, _ := c.run(l, time.Minute); longest > 9600*time.Millisecond {
			t.Errorf("ten groups are called every %s", longest)
		}
	})
}

// Metacontroller calls again at once after each write of the status of a group that is being deleted.
func TestADeletionsStatusIsWrittenEveryTwoSeconds(t *testing.T) {
	m := newModel(10 * time.Millisecond)
	m.took[plan.PowerOff], m.took[plan.Destroy] = 0, 60*time.Millisecond
	bubble(t, m, Config{Slots: 1}, func(t *testing.T, l hooks) {
		c := call("web", 100)
		c.Group.Spec.Inventory = v1alpha1.InventoryNone
		l.Sync(c)
		until(t, 5*time.Minute, "100 members on", func() bool { _, on := m.members(c.Ref()); return on == 100 })
		c.Group.Status = l.Sync(c).Status
		c = deletion(c)
		began, writes := time.Now(), 0
		for r := l.Sync(c); !r.Finalized; r = l.Sync(c) {
			if equality.Semantic.DeepEqual(r.Status, c.Group.Status) {
				time.Sleep(r.Resync)
				continue
			}
			writes++
			g := *c.Group
			g.Status, c.Group = r.Status, &g
			time.Sleep(50 * time.Millisecond)
		}
		took := time.Since(began)
		if left, _ := m.members(c.Ref()); left > 0 || took < 5*time.Second || writes > 1+int(took/writtenFor)+2 {
			t.Errorf("%d members are left after %s and %d writes", left, took, writes)
		}
	})
}

// While many groups are deleted, the progress of each is written seldom, to its status and in Events.
func TestTheProgressOfManyDeletionsIsWrittenLessOften(t *testing.T) {
	m := newModel(10 * time.Millisecond)
	m.took[plan.Destroy] = 400 * time.Millisecond
	bubble(t, m, Config{Slots: 4, Begin: 4, Events: true}, func(t *testing.T, l hooks) {
		const groups = 200
		var writes, events atomic.Int64
		var gone, up sync.WaitGroup
		up.Add(groups)
		for i := range groups {
			gone.Go(func() {
				c := call(fmt.Sprintf("g-%d", i), 2)
				c.Group.Spec.Inventory = v1alpha1.InventoryNone
				r := l.Sync(c)
				for ; r.Status.ReadyReplicas < 2; r = l.Sync(c) {
					time.Sleep(r.Resync)
				}
				c.Group.Status = r.Status
				up.Done()
				up.Wait()
				c = deletion(c)
				for r = l.Sync(c); !r.Finalized; r = l.Sync(c) {
					for _, child := range r.Children {
						if child.Key.Kind == plan.KindEvent {
							events.Add(1)
						}
					}
					if equality.Semantic.DeepEqual(r.Status, c.Group.Status) {
						time.Sleep(r.Resync)
						continue
					}
					writes.Add(1)
					g := *c.Group
					g.Status, c.Group = r.Status, &g
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		up.Wait()
		began := time.Now()
		gone.Wait()
		took := time.Since(began)
		if most := 2*groups + int(10*took.Seconds()/2); took < 20*time.Second || int(writes.Load()) > most {
			t.Errorf("%d writes in %s, want at most %d", writes.Load(), took, most)
		}
		if n := events.Load(); n > 2*groups {
			t.Errorf("Events were written %d times for %d groups", n, groups)
		}
		t.Logf("%d writes, and %d of Events, in %s", writes.Load(), events.Load(), took)
	})
}

// Each write of a child brings a call, too.
func TestTheMembersConfigMapOfABusyGroupIsWrittenEveryTwoSeconds(t *testing.T) {
	m := newModel(60 * time.Millisecond)
	bubble(t, m, Config{Slots: 1}, func(t *testing.T, l hooks) {
		c, key := call("web", 100), plan.ChildKey{Kind: plan.KindConfigMap, Name: "web-members"}
		began, writes := time.Now(), 0
		for settled := false; !settled; {
			r := l.Sync(c)
			settled = r.Status.ReadyReplicas == 100
			at := slices.IndexFunc(r.Children, func(child plan.Child) bool { return child.Key == key })
			if at < 0 { // no member is there yet
				time.Sleep(r.Resync)
				continue
			}
			text := r.Children[at].LastApplied
			if text == "" {
				text = fmt.Sprint(r.Children[at].Fields)
			}
			if text == c.Children[key].LastApplied {
				time.Sleep(r.Resync)
				continue
			}
			writes++
			c.Children = map[plan.ChildKey]plan.ObservedChild{key: {LastApplied: text}}
			time.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(began); took < 5*time.Second || writes > 1+int(took/writtenFor)+2 {
			t.Errorf("%d writes in %s", writes, took)
		}
	})
}

// After a refused call, Metacontroller's back-off decides when the next one comes. That call isn't late, so the statuses of other groups must not
// be delayed for it.
func TestARefusedGroupIsNeverLate(t *testing.T) {
	bubble(t, newModel(time.Second), Config{}, func(t *testing.T, l hooks) {
		contested := make([]plan.Call, 30)
		for i := range contested {
			contested[i] = call(fmt.Sprintf("contested-%d", i), 1)
			contested[i].Group.Finalizers = []string{"metacontroller.io/compositecontroller-vmgroup-east"}
			contested[i].Group.Status = v1alpha1.VmGroupStatus{VCenterUUID: "another", Members: []v1alpha1.Member{{Name: "contested-0", MoRef: "vm-7"}},
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionVCenterChanged, Status: metav1.ConditionFalse}}}
		}
		web := call("web", 0)
		web.Group.Spec.Inventory = v1alpha1.InventoryNone
		var due, last time.Time
		longest := time.Duration(0)
		for i := range 600 { // each of the contested ones once a minute; web, which comes in the middle, when it is due
			if r := l.Sync(contested[i%len(contested)]); r.Refusal == nil {
				t.Fatalf("a call of a contested group is answered, want a refusal: %s", r.Status.LastMessage)
			}
			for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(100 * time.Millisecond) {
				if i < 300 || time.Now().Before(due) {
					continue
				}
				if i > 450 {
					longest = max(longest, time.Since(last))
				}
				last = time.Now()
				due = last.Add(l.Sync(web).Resync)
			}
		}
		if longest == 0 || longest > atRest.Most+100*time.Millisecond {
			t.Errorf("another group is called every %s", longest)
		}
	})
}

// Calls for groups at rest are seconds apart. So what a call reports and stores has the time at which the server noticed it: otherwise healing,
// minReadySeconds and giving up members would start late.
func TestWhatHappensBetweenCallsHasItsTime(t *testing.T) {
	m := newModel(time.Second)
	web := newCluster(call("web", 4))
	bubble(t, m, Config{Slots: 8, Events: true}, func(t *testing.T, l hooks) {
		web.calls(l, time.Minute)
		known := len(web.order)
		time.Sleep(3 * time.Second)
		at := time.Now()
		m.setFault(func(plan.Ref, plan.Action) error {
			return fault{Reason: "MissingPrivilege", Message: "a privilege is missing", NeedsOperator: true}
		})
		m.change(web.Ref(), func(s *plan.VCenterState) {
			slices.SortFunc(s.VMs, func(a, b plan.VM) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
			s.Gone = append(s.Gone, plan.Gone{MoRef: s.VMs[0].MoRef})
			lost := s.VMs[1]
			s.Vanished = append(s.Vanished, plan.Vanished{MoRef: lost.MoRef, Ordinal: lost.Ordinal, Name: lost.Name, How: "vCenter does not have it"})
			s.VMs = s.VMs[2:]
			s.VMs[0].Reachable = false
		})
		time.Sleep(atRest.Most)
		web.sync(l)
		for _, m := range web.Group.Status.Members {
			switch m.Ordinal {
			case 1:
				if !m.VanishedAt.Equal(&metav1.Time{Time: at}) {
					t.Errorf("%s vanished at %s according to the status, not at %s", m.Name, m.VanishedAt, at)
				}
			case 2:
				if m.Ready || !m.LastTransitionTime.Equal(&metav1.Time{Time: at}) {
					t.Errorf("%s is ready: %v since %s, not since %s", m.Name, m.Ready, m.LastTransitionTime, at)
				}
			case 3:
				if !m.Ready || !m.LastTransitionTime.Time.Before(at) {
					t.Errorf("%s is ready: %v since %s", m.Name, m.Ready, m.LastTransitionTime)
				}
			}
		}
		if ready := meta.FindStatusCondition(web.Group.Status.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionFalse || !ready.LastTransitionTime.Equal(&metav1.Time{Time: at}) {
			t.Errorf("Ready is %+v, not False since %s", ready, at)
		}
		told := 0
		for _, name := range web.order[known:] {
			if e := web.events[name]; e.Reason == "MemberGone" {
				if told++; !e.FirstTimestamp.Equal(&metav1.Time{Time: at}) {
					t.Errorf("the Event %q is of %s, not of %s", e.Message, e.FirstTimestamp, at)
				}
			}
		}
		if told != 1 {
			t.Errorf("Events: %v", web.says(known))
		}
		web.calls(l, time.Minute)
		if m := web.Group.Status.Members; len(m) < 3 {
			t.Errorf("members %+v", m)
		}
	})
}

// Beside many groups in progress, which are called rarely, the ConfigMap is repeated for six calls, but for no longer than 30 s.
func TestTheMembersConfigMapIsWrittenMoreRarelyBesideMany(t *testing.T) {
	key, now := plan.ChildKey{Kind: plan.KindConfigMap, Name: "web-members"}, time.Now()
	for _, tc := range []struct {
		pause, ago time.Duration
		repeats    bool
	}{
		{250 * time.Millisecond, time.Second, true}, {250 * time.Millisecond, 3 * time.Second, false},
		{4 * time.Second, 23 * time.Second, true}, {4 * time.Second, 25 * time.Second, false},
		{time.Hour, 29 * time.Second, true}, {time.Hour, 31 * time.Second, false},
	} {
		c := call("web", 1)
		c.Children = map[plan.ChildKey]plan.ObservedChild{key: {LastApplied: "former"}}
		g := newGroup(c)
		g.lease.call, g.answers.membersWritten = c, now.Add(-tc.ago)
		r := plan.Result{Actions: make([]plan.Action, 1), Children: []plan.Child{{Key: key}}}
		g.keepWritten(&r, tc.pause, now)
		if repeats := r.Children[0].LastApplied == "former"; repeats != tc.repeats {
			t.Errorf("%s after it was written, with a call every %s: repeated is %t, want %t", tc.ago, tc.pause, repeats, tc.repeats)
		}
	}
}
