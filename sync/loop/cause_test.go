package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// full is a refusal to clone to a datastore that has too little space for a clone of that size. Its message names the group, as vCenter's message
// may name a file.
func full(ref plan.Ref) error {
	return fault{Reason: "DatastoreFull", Message: "no room for " + ref.Name, NeedsOperator: true, Scope: plan.OnStorage | plan.OnSize}
}

// refuseClones makes vCenter refuse all clones, as full does, until the caller sets the result to false.
func refuseClones(m *model) *bool {
	refused := true
	m.setFault(func(ref plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone && refused {
			return full(ref)
		}
		return nil
	})
	return &refused
}

// crowd is n groups of two members.
func crowd(n int) (all []plan.Call) {
	for i := range n {
		all = append(all, call(fmt.Sprintf("web%d", i), 2))
	}
	return all
}

// syncing makes a hook call for each group every three seconds, for that long.
func syncing(l hooks, during time.Duration, calls ...plan.Call) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(3 * time.Second) {
		for _, c := range calls {
			l.Sync(c)
		}
	}
}

// clonesOf counts the clones of a group that were begun from the given step on; of all groups if name is empty.
func clonesOf(m *model, from int, name string) (n int) {
	for _, line := range m.begun()[from:] {
		if strings.HasPrefix(line, "Clone "+name) {
			n++
		}
	}
	return n
}

func TestOneOfManyGroupsTriesForAll(t *testing.T) {
	thin.NotShort(t)
	m := newModel(time.Second)
	refused := refuseClones(m)
	bubble(t, m, Config{Slots: 32}, func(t *testing.T, l hooks) {
		groups := crowd(20)
		syncing(l, 6*time.Minute, groups...)
		if n := clonesOf(m, 0, ""); n < 30 || n > 150 {
			t.Errorf("%d tries in the first six minutes", n)
		}
		from := len(m.begun())
		syncing(l, 20*time.Minute, groups...)
		if n := clonesOf(m, from, ""); n < 15 || n > 20 {
			t.Errorf("%d tries in 20 minutes", n)
		}
		for _, c := range groups {
			if clonesOf(m, from, c.Ref().Name+" ") > 4 {
				t.Errorf("%s has more than its turns", c.Ref())
			}
			for _, other := range groups {
				if text := l.Sync(c).Status.LastMessage; other.Ref() != c.Ref() && strings.Contains(text, other.Ref().Name+" ") {
					t.Errorf("%s shows another group's: %s", c.Ref(), text)
				}
			}
		}
		edited := *groups[7].Group
		edited.Generation++
		groups[7].Group = &edited
		from = len(m.begun())
		syncing(l, 9*time.Second, groups...)
		if own, all := clonesOf(m, from, "web7 "), clonesOf(m, from, ""); own != 1 || all > 2 {
			t.Errorf("%d tries of an edited group at once, %d of all", own, all)
		}
		from = len(m.begun())
		syncing(l, 10*time.Minute, groups...)
		if n := clonesOf(m, from, ""); n > 10 {
			t.Errorf("%d tries in ten minutes after the edit", n)
		}
		asks := *groups[8].Group
		asks.Annotations = map[string]string{v1alpha1.AnnotationTryAgain: "now"}
		groups[8].Group = &asks
		from = len(m.begun())
		syncing(l, 9*time.Second, groups...)
		if own := clonesOf(m, from, "web8 "); own != 1 {
			t.Errorf("%d tries at an operator's word", own)
		}
		*refused = false
		m.peak = 0
		began := time.Now()
		until(t, 2*time.Minute, "all are up", func() bool {
			syncing(l, 3*time.Second, groups...)
			return !slices.ContainsFunc(groups, func(c plan.Call) bool { _, on := m.members(c.Ref()); return on < 2 })
		})
		t.Logf("up after %s", time.Since(began))
	})
}

// A try that runs for longer than it took to fail shows that the cause is past: the others need not wait until its clone has ended.
func TestTheOthersFollowWhileTheFirstCloneRuns(t *testing.T) {
	m := newModel(time.Second)
	refused := refuseClones(m)
	bubble(t, m, Config{Slots: 32}, func(t *testing.T, l hooks) {
		groups := []plan.Call{call("web0", 3), call("web1", 3)}
		syncing(l, 8*time.Minute, groups...)
		m.mu.Lock()
		*refused, m.took[plan.Clone] = false, time.Minute
		m.mu.Unlock()
		from := len(m.begun())
		for clonesOf(m, from, "") == 0 {
			syncing(l, time.Second, groups...)
		}
		syncing(l, 15*time.Second, groups...)
		if n := clonesOf(m, from, ""); n != 6 {
			t.Errorf("%d of 6 clones have begun 15 s after the first one", n)
		}
	})
}

// An operator asks for a try of one group right after another one's.
func TestWhenATryThatAnOperatorAsksForSucceedsTheOthersFollow(t *testing.T) {
	m := newModel(time.Second)
	refused := refuseClones(m)
	bubble(t, m, Config{Slots: 32}, func(t *testing.T, l hooks) {
		groups := crowd(8)
		syncing(l, 8*time.Minute, groups...)
		for from := len(m.begun()); clonesOf(m, from, "") == 0; {
			syncing(l, time.Second, groups...)
		}
		*refused = false
		asks := *groups[3].Group
		asks.Annotations = map[string]string{v1alpha1.AnnotationTryAgain: "now"}
		groups[3].Group = &asks
		syncing(l, 30*time.Second, groups...)
		for _, c := range groups {
			if _, on := m.members(c.Ref()); on != 2 {
				t.Errorf("%d members of %s are on", on, c.Ref())
			}
		}
	})
}

func TestALargeMembersRefusalDoesNotHoldUpASmallOne(t *testing.T) {
	m := newModel(time.Second)
	m.setFault(func(ref plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone && a.Details().Spec.Memory > 100 {
			return full(ref)
		}
		return nil
	})
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		large := call("large", 2)
		large.Group.Spec.Memory = 512
		syncing(l, 10*time.Minute, large)
		small := call("small", 2)
		syncing(l, 15*time.Second, large, small)
		if _, on := m.members(small.Ref()); on != 2 {
			t.Errorf("%d members of the small group are on", on)
		}
	})
}

// The group whose turn it is to try may be gone, or its step may fail for another cause that looks the same.
func TestTheOthersTryOnWithoutTheOneThatTriedLast(t *testing.T) {
	m := newModel(time.Second)
	refused := true
	m.setFault(func(ref plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone && (refused || ref.Name == "web0") {
			return full(ref)
		}
		return nil
	})
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		groups := crowd(4)
		syncing(l, 8*time.Minute, groups...)
		refused = false
		syncing(l, 5*time.Minute, groups[:3]...) // another replica gets web3's calls
		for _, c := range groups[1:3] {
			if _, on := m.members(c.Ref()); on != 2 {
				t.Errorf("%d members of %s are on, although only web0 is refused", on, c.Ref())
			}
		}
		syncing(l, 2*time.Minute, groups...)
		if _, on := m.members(groups[3].Ref()); on != 2 {
			t.Errorf("%d members of web3 are on once it is called again", on)
		}
	})
}

func TestAFaultThatDeclaresNothingIsTheGroupsOwn(t *testing.T) {
	m := newModel(time.Second)
	m.setFault(func(ref plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone && ref.Name == "web0" {
			return fault{Reason: "InvalidConfiguration", Message: "it is refused", NeedsOperator: true}
		}
		return nil
	})
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		groups := crowd(2)
		syncing(l, 8*time.Minute, groups[0])
		syncing(l, 15*time.Second, groups...)
		if _, on := m.members(groups[1].Ref()); on != 2 {
			t.Errorf("%d members of the other group are on", on)
		}
		from := len(m.begun())
		syncing(l, 10*time.Minute, groups...)
		if n := clonesOf(m, from, "web0 "); n < 7 || n > 10 {
			t.Errorf("%d tries in ten minutes", n)
		}
	})
}

// The server looks up a name that vCenter doesn't have at the pace of tries. A look-up is no action, so it is in no history.
func TestALookupOfWhatIsMissingIsInNoHistory(t *testing.T) {
	m := newModel(time.Second)
	m.setFault(func(_ plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone {
			return fault{Reason: "DatastoreNotFound", Message: "there is no datastore", NeedsOperator: true, Missing: true}
		}
		return nil
	})
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		syncing(l, time.Minute, c)
		groups := l.Groups()
		if len(groups) != 1 || slices.ContainsFunc(groups[0].Actions, func(a plan.ActionReport) bool { return a.Op == plan.Clone }) {
			t.Errorf("%+v", groups)
		}
		if r := l.Sync(c); r.Status.Phase != v1alpha1.PhaseError || !strings.Contains(r.Status.LastMessage, "there is no datastore") {
			t.Error(r.Status.LastMessage)
		}
	})
}

// Another tool reverts the size of a member each time. After the third time, the step counts as failed, and is tried at the pace of its cause.
func TestAChangeThatDoesNotStayIsMadeOnceAMinute(t *testing.T) {
	g, now := newGroup(call("web", 2)), time.Now()
	g.renew(call("web", 2), now)
	none := func(time.Duration) time.Duration { return 0 }
	a := plan.Action{Op: plan.Reconfigure, Key: "web-0", MoRef: "vm-7", Generation: 1, Reason: "2 CPUs"}
	done, last := 0, time.Time{}
	for began := now; now.Sub(began) < 20*time.Minute; now = now.Add(time.Second) {
		if !g.failures.permits(g.lease.call.Group, &a, now) {
			continue
		}
		change := changeOf(&a, &plan.VCenterState{})
		again := g.failures.undoneSince(a.Key, change, now)
		if again.IsZero() != (done < 2) || done >= 2 && !again.Equal(last) {
			t.Errorf("after %d times, the last of which began at %s, it is made again since %s", done, last, again)
		}
		r := g.begin(a, now)
		if r.change = change; done == 2 { // later, vCenter's events can't be read
			r.undoers = "bob does"
		}
		last = now
		g.ended(a, nil, now, none)
		if done++; done == 2 && len(g.failures.byVM) > 0 {
			t.Error("twice is no failure yet")
		}
	}
	if done < 15 || done > 100 {
		t.Errorf("made %d times in 20 minutes", done)
	}
	if f := g.failures.byVM["web-0"]; f.fault.Reason != "ChangeUndone" || !f.fault.NeedsOperator || !strings.Contains(f.fault.Message, ": bob does. ") {
		t.Errorf("%+v", f)
	}
}

// Of many groups that are applied while a datastore is full, each tries to clone once. A group that doesn't need that datastore passes them.
func TestAGroupDoesNotWaitForTheFirstTriesOfManyThatWillFail(t *testing.T) {
	thin.NotShort(t)
	m := newModel(time.Minute)
	m.setFault(func(ref plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone && strings.HasPrefix(ref.Name, "web") {
			return full(ref)
		}
		return nil
	})
	bubble(t, m, Config{Slots: 4}, func(t *testing.T, l hooks) {
		groups := crowd(40)
		syncing(l, 2*time.Minute, groups...)
		calm := call("calm", 1)
		calm.Group.Spec.Memory *= 2
		began := time.Now()
		until(t, 70*time.Second, "the other group is up", func() bool {
			syncing(l, 3*time.Second, append(groups, calm)...)
			_, on := m.members(calm.Ref())
			return on == 1
		})
		t.Logf("up after %s", time.Since(began))
		syncing(l, 25*time.Minute, groups...)
		for _, c := range groups {
			if clonesOf(m, 0, c.Ref().Name+" ") == 0 {
				t.Errorf("%s has not tried", c.Ref())
			}
		}
	})
}

// A first try whose task makes no progress may never end, and must not keep other groups from theirs.
func TestAFirstTryWithoutProgressDoesNotHoldOthersBack(t *testing.T) {
	m := newModel(time.Second)
	m.setFault(func(ref plan.Ref, a plan.Action) error {
		if a.Op == plan.Clone && ref.Name == "web1" {
			time.Sleep(time.Hour)
		}
		if a.Op == plan.Clone {
			return full(ref)
		}
		return nil
	})
	bubble(t, m, Config{Slots: 2}, func(t *testing.T, l hooks) {
		groups := []plan.Call{call("web0", 1), call("web1", 1), call("web2", 1)}
		syncing(l, time.Minute, groups[0])
		syncing(l, time.Minute, groups[:2]...)
		if clonesOf(m, 0, "web1 ") != 1 {
			t.Fatal("the second group does not try to clone")
		}
		m.change(groups[1].Ref(), func(s *plan.VCenterState) {
			s.Stalled = map[string]plan.Fault{"web1-0": {Reason: plan.ReasonTaskStalled}}
		})
		syncing(l, time.Minute, groups...)
		if clonesOf(m, 0, "web2 ") == 0 {
			t.Error("the third group has not tried to clone a minute after the second one's task was found without progress")
		}
	})
}
