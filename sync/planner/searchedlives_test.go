package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// life is a group whose plans are carried out, step by step, also for so long that steps run beside each other.
type life struct {
	o     plan.Observed
	fails func(plan.Action) bool
	boots func(*plan.VM) bool // whether a VM's guest comes up
	sees  func(*v1alpha1.VmGroupStatus)
	takes map[plan.Op]time.Duration
	ops   map[plan.Op]int // how often each was begun

	running map[string]plan.Action
	ends    map[string]time.Time
	events  []string // their reasons
}

// lifeOf returns a settled group with that many members, and spec.standby more.
func lifeOf(replicas int32, change func(*v1alpha1.VmGroupSpec)) *life {
	l := &life{o: observed(replicas), ops: map[plan.Op]int{}, running: map[string]plan.Action{}, ends: map[string]time.Time{}}
	l.o.Pending = map[string]plan.Pending{}
	l.o.Group.Spec.Deletion.ShutdownTimeoutSeconds = in(0)
	change(&l.o.Group.Spec)
	addMembers(&l.o, replicas+l.o.Group.Spec.Standby, func(m *plan.VM) {
		if m.Folder = "group-v7"; m.Ordinal >= replicas {
			m.Standby, m.Power = true, plan.PoweredOff
			return
		}
		m.BootTime, m.Created, m.Tools = now.Add(-time.Hour), now.Add(-2*time.Hour), true
		if m.IPs = m.StaticAddresses(); len(m.IPs) == 0 {
			m.IPs = []string{fmt.Sprintf("192.0.2.%d", 1+m.Ordinal)}
		}
	})
	return l
}

func (l *life) edit(change func(*v1alpha1.VmGroupSpec)) {
	l.o.Group = l.o.Group.DeepCopy()
	l.o.Group.Generation++
	change(&l.o.Group.Spec)
}

// lives carries plans out for so long.
func (l *life) lives(t *testing.T, during time.Duration) (r plan.Result) {
	t.Helper()
	for end := l.o.Now.Add(during); l.o.Now.Before(end); l.o.Now = l.o.Now.Add(500 * time.Millisecond) {
		l.o.Called = l.o.Now
		r = planner.Make(l.o)
		for _, e := range r.Events {
			l.events = append(l.events, e.Reason)
		}
		store(t, &l.o, &r)
		if l.sees != nil {
			l.sees(&r.Status)
		}
		if len(r.Actions)+len(l.running) == 0 {
			if r.Wake == 0 || l.o.Now.Add(r.Wake).After(end) {
				l.o.Now = end
				return r
			}
			l.o.Now = l.o.Now.Add(r.Wake)
			continue
		}
		for _, a := range r.Actions {
			l.ops[a.Op]++
			l.running[a.Key], l.ends[a.Key] = a, l.o.Now.Add(l.takes[a.Op])
			l.o.Pending[a.Key] = plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, State: plan.Running, Standby: a.Standby(), MarkReason: plan.ArgsOf[plan.MarkArgs](a.Args).Reason}
		}
		for vm, a := range l.running {
			switch {
			case l.o.Now.Before(l.ends[vm]):
				continue
			case l.fails != nil && l.fails(a):
				l.o.Pending[vm] = plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, State: plan.Due, Standby: a.Standby(), Fault: plan.Fault{Reason: "ResourceLimit", Message: "no host has room"}}
			default:
				delete(l.o.Pending, vm)
				plan.Apply(&l.o, a)
			}
			delete(l.running, vm)
		}
		for i := range l.o.State.VMs {
			if m := &l.o.State.VMs[i]; l.boots != nil && !l.boots(m) {
				m.Tools, m.Reported, m.IPs = false, false, nil
			}
		}
	}
	return r
}

// left is how many of the first members still exist.
func (l *life) left(members int32) (n int) {
	for i := range l.o.State.VMs {
		if m := &l.o.State.VMs[i]; strings.HasPrefix(m.MoRef, "vm-10") && m.Ordinal < members {
			n++
		}
	}
	return n
}

// A resize in place keeps each member, however long the standby members' clones and preparation take. (While standby members were prepared, the
// members to be resized counted as surplus.)
func TestAResizeInPlaceKeepsTheMembersBesideStandbyMembers(t *testing.T) {
	t.Parallel()
	for _, clone := range []int{2, 5, 10, 20, 35} {
		for _, prepare := range []int{1, 6, 30} {
			l := lifeOf(3, func(s *v1alpha1.VmGroupSpec) {
				s.Standby, s.Update.Resize, s.Tags = 1, v1alpha1.ResizeInPlace, []v1alpha1.Tag{{Category: "team", Name: "shop"}}
			})
			l.takes = map[plan.Op]time.Duration{plan.Clone: time.Duration(clone) * time.Second, plan.Prepare: time.Duration(prepare) * time.Second, plan.PowerOn: 3 * time.Second}
			l.lives(t, time.Minute)
			l.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = 3 })
			r := l.lives(t, time.Hour)
			if n := l.left(3); n != 3 || r.Status.Phase != v1alpha1.PhaseRunning || r.Status.UpdatedReplicas != 3 {
				t.Errorf("clones of %d s, preparation of %d s: %d of the 3 members are left, %s, %d updated: %s; want 3, all updated", clone, prepare, n, r.Status.Phase, r.Status.UpdatedReplicas, r.Status.LastMessage)
			}
		}
	}
}

func TestAPromotionThatFailsMakesNoStandbyMembersInTurn(t *testing.T) {
	t.Parallel()
	for _, surge := range []int32{1, 2} {
		l := lifeOf(3, func(s *v1alpha1.VmGroupSpec) {
			s.Standby, s.Update.MaxSurge, s.Tags = 1, new(intstr.FromInt32(surge)), []v1alpha1.Tag{{Category: "team", Name: "shop"}}
		})
		l.lives(t, time.Minute)
		l.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "debian" })
		l.fails = func(a plan.Action) bool { return a.Op == plan.PowerOn }
		if l.lives(t, 10*time.Minute); l.ops[plan.Clone] > 5 || l.ops[plan.Destroy] > 3 {
			t.Errorf("maxSurge %d: in ten minutes of failing promotions, %v; want 5 clones and 3 destroyed at most", surge, l.ops)
		}
	}
}

// An adopted member was never cloned: that it is ready says nothing of the spec's clones.
func TestAnAdoptedMemberThatIsReadyProvesNoSpec(t *testing.T) {
	t.Parallel()
	l := lifeOf(2, func(s *v1alpha1.VmGroupSpec) {
		s.Readiness.Check, s.Healing.Action = v1alpha1.ReadyToolsRunning, v1alpha1.HealReplace
	})
	l.lives(t, time.Minute)
	l.boots = func(m *plan.VM) bool { return m.Template != "broken" }
	l.edit(func(s *v1alpha1.VmGroupSpec) {
		s.Template, s.Update.Strategy, s.Replicas, s.Adopt = "broken", v1alpha1.UpdateOnDelete, in(4), []string{"/DC0/vm/old/db-0"}
	})
	l.o.State.Candidates = []plan.Candidate{{Entry: "/DC0/vm/old/db-0", MoRef: "vm-700", Name: "db-0", Folder: "group-v9", Ordinal: -1}}
	if r := l.lives(t, 3*time.Hour); l.ops[plan.Clone] > 4 || r.Status.Phase != v1alpha1.PhaseError {
		t.Errorf("in three hours, %v, and the group is %s: %s; want 4 clones at most, and ERROR", l.ops, r.Status.Phase, r.Status.LastMessage)
	}
}

func TestAStandbyMemberWithoutAnAddressIsAnErrorAlsoDuringAnUpdate(t *testing.T) {
	t.Parallel()
	l := lifeOf(3, func(s *v1alpha1.VmGroupSpec) {
		s.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.12"}, PrefixLength: 24}}}
		s.Update.MaxSurge, s.Update.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
	})
	l.lives(t, time.Minute)
	for _, change := range []func(*v1alpha1.VmGroupSpec){
		func(s *v1alpha1.VmGroupSpec) { s.Standby = 1 },
		func(s *v1alpha1.VmGroupSpec) { s.Template = "debian" },
	} {
		l.edit(change)
		if r := l.lives(t, time.Hour); r.Status.Phase != v1alpha1.PhaseError || !strings.Contains(r.Status.LastMessage, "add addresses") {
			t.Errorf("the group is %s: %s; want ERROR, for lack of addresses", r.Status.Phase, r.Status.LastMessage)
		}
	}
}

// A member in quarantine keeps its name, and so its ordinal with the addresses, until it is renamed.
func TestAnUpdateWithAsManyAddressesAsMembersIsNoErrorWhileOneIsRenamed(t *testing.T) {
	t.Parallel()
	l := lifeOf(3, func(s *v1alpha1.VmGroupSpec) {
		s.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.12"}, PrefixLength: 24}}}
		s.Update.MaxSurge, s.Update.MaxUnavailable, s.Deletion.QuarantineSeconds = new(intstr.FromInt32(0)), new(intstr.FromInt32(1)), 600
	})
	l.lives(t, time.Minute)
	l.sees = func(s *v1alpha1.VmGroupStatus) {
		if s.Phase == v1alpha1.PhaseError {
			t.Errorf("%s: %s; want no error", s.Phase, s.LastMessage)
		}
	}
	l.takes = map[plan.Op]time.Duration{plan.Rename: 3 * time.Second}
	l.edit(func(s *v1alpha1.VmGroupSpec) { s.Template = "debian" })
	if r := l.lives(t, time.Hour); r.Status.Phase != v1alpha1.PhaseRunning || r.Status.UpdatedReplicas != 3 {
		t.Errorf("%s, %d updated: %s; want RUNNING and 3", r.Status.Phase, r.Status.UpdatedReplicas, r.Status.LastMessage)
	}
	l.sees = nil
	l.edit(func(s *v1alpha1.VmGroupSpec) { s.Replicas = in(4) })
	if r := l.lives(t, time.Minute); r.Status.Phase != v1alpha1.PhaseError {
		t.Errorf("with a member more than addresses: %s: %s; want ERROR", r.Status.Phase, r.Status.LastMessage)
	}
}

// The last power cycle is over, and the extra member stays for minReadySeconds.
func TestAGroupThatKeepsAnExtraMemberSaysSo(t *testing.T) {
	t.Parallel()
	l := lifeOf(3, func(s *v1alpha1.VmGroupSpec) { s.Update.MinReadySeconds = 60 })
	l.lives(t, 10*time.Minute)
	kept := 0
	l.sees = func(s *v1alpha1.VmGroupStatus) {
		kept += strings.Count(s.LastMessage, "keeping 1 extra member until all others are available")
		if s.Phase != v1alpha1.PhaseRunning && strings.Contains(s.LastMessage, "successfully reconciled") {
			t.Errorf("%s: %s; want what it waits for", s.Phase, s.LastMessage)
		}
	}
	l.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = 3 })
	if r := l.lives(t, time.Hour); r.Status.Phase != v1alpha1.PhaseRunning || kept == 0 {
		t.Errorf("%s, and %d statuses that say of the extra member; want RUNNING, and at least 1", r.Status.Phase, kept)
	}
}

func TestAScaleInUnderACanaryTakesNoHeldMemberDown(t *testing.T) {
	t.Parallel()
	l := lifeOf(6, func(s *v1alpha1.VmGroupSpec) { s.Update.Canary = new(intstr.FromInt32(0)) })
	l.lives(t, time.Minute)
	l.edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = 3 })
	l.lives(t, time.Hour)
	for n := int32(5); n > 0; n-- { // of three and less, none may be unavailable by default
		l.edit(func(s *v1alpha1.VmGroupSpec) { s.Replicas = &n })
		if l.lives(t, time.Hour); l.ops[plan.Reconfigure]+l.ops[plan.Clone] > 0 || l.left(6) != int(n) {
			t.Errorf("scaled in to %d: %v, and %d members are left; want no clone and no change of a member's size", n, l.ops, l.left(6))
		}
	}
}
