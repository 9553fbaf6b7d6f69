package loop

import (
	"slices"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// unselecting is the finalize call for a group that its CompositeController does not select any more.
func unselecting(c plan.Call) plan.Call { return plan.Call{Group: c.Group, Finalizing: true} }

// reads counts the fresh reads that were begun.
func (m *model) reads() int {
	n := 0
	for _, b := range m.begun() {
		if b == "ConfirmGone web *" {
			n++
		}
	}
	return n
}

func TestAFinalizeWithoutDeletionTimestampRemovesNothing(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 3)
		m.bringUp(t, c)
		begun := len(m.begun())
		for range 60 { // two leases and more
			if r := l.Sync(unselecting(c)); r.Finalized || r.Refusal == nil || len(r.Actions) > 0 {
				t.Fatalf("a finalize without deletionTimestamp is answered with %+v, want a refusal that removes nothing", r)
			}
			time.Sleep(5 * time.Second)
		}
		if all, on := m.members(c.Ref()); all != 3 || on != 3 || len(m.begun()) != begun {
			t.Errorf("%d members, %d on; begun %v", all, on, m.begun()[begun:])
		}
		if reports := l.Groups(); len(reports) != 0 {
			t.Errorf("the lease of the last sync is over, and is reported as %+v", reports)
		}
		l.Sync(call("web", 4)) // the label is back
		until(t, time.Minute, "scaled up", func() bool { _, on := m.members(c.Ref()); return on == 4 })
		until(t, time.Minute, "finalized", func() bool { return l.Sync(deletion(c)).Finalized })
		if all, _ := m.members(c.Ref()); all != 0 {
			t.Errorf("%d members after a deletion", all)
		}
	})
}

// Another CompositeController selects the group, and its calls to the same server renew the lease. So the finalize calls of the first one must not
// end the group.
func TestAGroupThatAnotherControllerSelectsIsKept(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		for range 60 {
			l.Sync(c)
			time.Sleep(2 * time.Second)
			if r := l.Sync(unselecting(c)); r.Finalized {
				t.Fatal("the group is released although another controller selects it")
			}
			time.Sleep(2 * time.Second)
		}
		m.change(c.Ref(), func(s *plan.VCenterState) { s.Gone, s.VMs = []plan.Gone{{MoRef: s.VMs[0].MoRef}}, s.VMs[1:] })
		l.Sync(c)
		until(t, time.Minute, "healed", func() bool { all, _ := m.members(c.Ref()); return all == 2 })
		if n := m.reads(); n > 0 {
			t.Errorf("%d fresh reads of a group that has VMs", n)
		}
	})
}

func TestAGroupWithoutVMsIsReleasedWhenEveryLeaseIsOver(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		for _, known := range []bool{true, false} { // or this replica was never called for it
			c := call("web", 0)
			c.Children = map[plan.ChildKey]plan.ObservedChild{{Kind: plan.KindConfigMap, Name: "web-members"}: {LastApplied: "{}"}}
			if known {
				l.Sync(c)
			} else {
				c.Group.UID = "another"
			}
			reads := m.reads()
			var r plan.Result
			took := until(t, 3*time.Minute, "released", func() bool {
				u := unselecting(c)
				u.Children = c.Children
				r = l.Sync(u)
				if !r.Finalized && (r.Refusal == nil || r.Refusal.Retry == 0) {
					t.Fatalf("a finalize without deletionTimestamp is answered with %+v, want a refusal that removes nothing", r)
				}
				return r.Finalized
			})
			if took < 90*time.Second || took > 100*time.Second {
				t.Errorf("the group is released after %s, want 90 s to 100 s: a lease is 90 s", took)
			}
			if n := m.reads() - reads; n != 1 {
				t.Errorf("%d fresh reads", n)
			}
			if len(r.Children) != 1 || r.Children[0].LastApplied != "{}" {
				t.Errorf("children %+v", r.Children)
			}
		}
	})
}

func TestTheTimeUntilReleaseRestartsWithEachSync(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 0)
		release := func(of time.Duration) {
			t.Helper()
			if took := until(t, 3*time.Minute, "released", func() bool { return l.Sync(unselecting(c)).Finalized }); took < of {
				t.Errorf("released after %s, not %s", took, of)
			}
		}
		release(90 * time.Second)
		release(90 * time.Second) // the finalizer was removed, and came back
		l.Sync(c)
		release(90 * time.Second)
		time.Sleep(31 * time.Second) // in which other replicas may have been called
		release(90 * time.Second)
		if n := m.reads(); n != 4 {
			t.Errorf("%d fresh reads for four times", n)
		}
	})
}

// A fresh read that began before the deletion doesn't show VMs that appeared since.
func TestAReadBeforeTheDeletionDoesNotCountForIt(t *testing.T) {
	m := newModel(time.Second)
	m.took[plan.ConfirmGone] = 10 * time.Second
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 0)
		until(t, 3*time.Minute, "being read", func() bool { l.Sync(unselecting(c)); return m.reads() == 1 })
		until(t, time.Minute, "finalized", func() bool { return l.Sync(deletion(c)).Finalized })
		if n := m.reads(); n != 2 {
			t.Errorf("the group is finalized after %d fresh reads, want 2", n)
		}
	})
}

func TestADeletionThatIsKnownIsNotUndoneByAnOlderFinalize(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		m.bringUp(t, c)
		l.Sync(deletion(c))
		late := c
		newer := *c.Group
		newer.Generation = 7 // by hand: Kubernetes raises it with the deletion
		late.Group = &newer
		until(t, time.Minute, "gone", func() bool {
			if r := l.Sync(unselecting(c)); r.Finalized || r.Refusal == nil {
				t.Fatalf("a finalize without deletionTimestamp is answered with %+v, want a refusal that removes nothing", r)
			}
			l.Sync(late)
			l.Sync(deletion(c))
			all, _ := m.members(c.Ref())
			return all == 0
		})
	})
}

func TestAPreviewOfAGroupThatIsNotSelectedShowsNoStep(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := call("web", 2)
		m.bringUp(t, c)
		r, outlook, err := l.Preview(unselecting(c))
		if err != nil || r.Refusal == nil || len(outlook.Steps) > 0 {
			t.Errorf("%+v %+v %v", r.Refusal, outlook.Steps, err)
		}
		_, outlook, err = l.Preview(deletion(c))
		if destroys := slices.ContainsFunc(outlook.Steps, func(s plan.Step) bool { return s.Op == plan.Destroy }); err != nil || !destroys {
			t.Errorf("the preview of a deletion shows %+v %v", outlook.Steps, err)
		}
		if r := l.Sync(c); r.Finalized || r.Refusal != nil {
			t.Errorf("a preview changed the desired state: %+v", r)
		}
	})
}
