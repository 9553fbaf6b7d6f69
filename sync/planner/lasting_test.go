package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// lasting is the life of a group in which one kind of step fails forever, or in which guests of the present spec never become ready.
type lasting struct {
	*rapid.T
	o     plan.Observed
	diary []string
	// fails reports whether a step fails, whenever it is tried; dead whether a VM never becomes ready, however often it is powered on.
	fails func(plan.Action) bool
	dead  func(*plan.VM) bool
	// gone are the members that served at the beginning, and were taken down.
	gone, was map[string]bool
	// finished reports whether a member of the edited spec was ready.
	finished bool
}

// troubles are the kinds of steps between a clone and a ready member, and what guests can lack.
var troubles = []string{"clone", "prepare", "disks", "power on", "reconfigure", "rules", "guest"}

// begin draws a group of members that all serve, and are as the spec says.
func (l *lasting) begin(most int32) {
	l.o = observed(rapid.Int32Range(1, most).Draw(l.T, "replicas"))
	policies(l.T, &l.o.Group.Spec)
	features(l.T, &l.o)
	spec := &l.o.Group.Spec
	spec.Update.Strategy, spec.Update.Paused, spec.Update.Windows, spec.ScaleIn, spec.Update.Canary = "", false, nil, v1alpha1.ScaleIn{}, nil
	spec.Update.MaxAgeSeconds, spec.Deletion.Policy = nil, ""
	if spec.Update.MaxUnavailable = number(l.T, "many unavailable", 1); rapid.Bool().Draw(l.T, "no surge") {
		none := intstr.FromInt32(0)
		spec.Update.MaxSurge = &none
	}
	if rapid.IntRange(0, 3).Draw(l.T, "standby members") == 0 && !spec.HasPersistentDisks() {
		spec.Standby = rapid.Int32Range(1, 3).Draw(l.T, "standby")
	}
	l.o.State.Template.Fingerprint = "now"
	l.o.Pending, l.was, l.gone = map[string]plan.Pending{}, map[string]bool{}, map[string]bool{}
	l.trouble("none")
	if r := l.live(400); r.Status.Phase != v1alpha1.PhaseRunning {
		l.Fatalf("it does not begin settled: %s", r.Status.LastMessage)
	}
	l.o.Now = l.o.Now.Add(time.Duration(rapid.IntRange(1, 7200).Draw(l.T, "age")) * time.Second)
	for _, m := range l.o.State.VMs {
		l.was[m.MoRef] = m.Power == plan.PoweredOn
	}
}

// answer makes the services of all guests that have an address answer.
func (l *lasting) answer() {
	if !l.o.Group.Spec.Readiness.Probes() {
		return
	}
	l.o.Answers.Of = map[string]plan.Answer{}
	for i := range l.o.State.VMs {
		if m := &l.o.State.VMs[i]; len(m.ServiceAddresses()) > 0 {
			a := plan.Answer{Address: plan.AskedAddress(m.ServiceAddresses()), Concluded: plan.Answering}
			if l.dead != nil && l.dead(m) {
				a.Concluded, a.Failure = plan.Silent, "no answer"
			}
			l.o.Answers.Of[m.MoRef] = a
		}
	}
}

// edit changes the spec so that members differ from it.
func (l *lasting) edit() {
	l.o.Group = l.o.Group.DeepCopy()
	l.o.Group.Generation++
	spec := &l.o.Group.Spec
	switch rapid.IntRange(0, 4).Draw(l.T, "edit") {
	case 0, 1:
		spec.Template = "debian"
	case 2:
		spec.CPU++
	case 3:
		spec.CPU, spec.Template = spec.CPU+1, "debian"
	case 4:
		for _, m := range l.o.State.VMs {
			if rapid.IntRange(0, 2).Draw(l.T, "named") > 0 {
				spec.Replace = append(spec.Replace, v1alpha1.Replacement{Name: m.Name, MoRef: m.MoRef})
			}
		}
	}
}

// live makes plans and carries them out until nothing is left to do, or for some hours while steps fail.
func (l *lasting) live(rounds int) (r plan.Result) {
	for range rounds {
		l.o.Called = l.o.Now
		for key, p := range l.o.Pending { // what failed is tried again, or forgotten by a restart
			if p.State = plan.Due; rapid.IntRange(0, 9).Draw(l.T, "is forgotten") == 0 {
				delete(l.o.Pending, key)
				continue
			}
			l.o.Pending[key] = p
		}
		r = planner.Make(l.o)
		store(l.T, &l.o, &r)
		if l.o.Group.Spec.Service != nil {
			plan.Show(&l.o, r.Children)
		}
		for i := range l.o.State.VMs {
			m := &l.o.State.VMs[i]
			current := m.Revision == plan.RevisionWith(&l.o.Group.Spec, l.o.Related.Digest) && m.CPU == l.o.Group.Spec.CPU
			l.finished = l.finished || current && ready(&l.o, *m) && (!l.was[m.MoRef] || l.gone[m.MoRef])
		}
		if len(r.Actions) == 0 {
			if r.Wake == 0 || r.Wake > 12*time.Hour {
				return r
			}
			l.o.Now = l.o.Now.Add(r.Wake)
			continue
		}
		for _, a := range r.Actions {
			if rapid.IntRange(0, 3).Draw(l.T, "waits for a slot") == 0 {
				continue
			}
			l.diary = append(l.diary, fmt.Sprintf("%6ds %s %s: %s", int(l.o.Now.Sub(now).Seconds()), a.Op, a.Key, a.Reason))
			if a.Op.TakesDown() && a.Op != plan.Unmark && a.Op != plan.Reset && l.was[a.MoRef] {
				l.gone[a.MoRef] = true
			}
			if l.fails(a) {
				fault := plan.Fault{Reason: "Trouble", Message: "it always fails", NeedsOperator: rapid.Bool().Draw(l.T, "needs an operator")}
				l.o.Pending[a.Key] = plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, State: plan.BackingOff, Standby: a.Standby(), Fault: fault}
				continue
			}
			delete(l.o.Pending, a.Key)
			plan.Apply(&l.o, a)
			for i := range l.o.State.VMs {
				if m := &l.o.State.VMs[i]; l.dead(m) {
					m.Tools, m.Reported, m.IPs = false, false, nil
				}
			}
		}
		l.answer()
		l.o.Now = l.o.Now.Add(time.Duration(rapid.IntRange(1, 30).Draw(l.T, "seconds")) * time.Second)
	}
	return r
}

// trouble sets what goes wrong from now on, until it is set again.
func (l *lasting) trouble(what string) {
	fails := map[string][]plan.Op{"clone": {plan.Clone}, "prepare": {plan.Prepare}, "disks": {plan.SetDisks}, "power on": {plan.PowerOn},
		"reconfigure": {plan.Reconfigure}, "rules": {plan.SetRules}}[what]
	l.fails = func(a plan.Action) bool { return slices.Contains(fails, a.Op) }
	l.dead = func(m *plan.VM) bool { return what == "guest" && (!l.was[m.MoRef] || l.gone[m.MoRef]) }
	l.finished = false
}

// Whichever kind of step fails forever, and also if no guest of the present spec ever becomes ready, an update costs at most one member that
// served. If the failing step isn't part of the update, the update finishes its members.
func TestATroubleThatStaysCostsOneMemberThatServesAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &lasting{T: t}
		l.begin(8)
		l.edit()
		l.trouble(rapid.SampledFrom(troubles).Draw(t, "trouble"))
		l.live(150)
		if len(l.gone) > 1 && !l.finished {
			t.Fatalf("%d members that served were taken down:\n%s", len(l.gone), strings.Join(l.diary, "\n"))
		}
	})
}

// fewAddresses gives a group static addresses for a random number of members, or other addresses than its members have.
func fewAddresses(t *rapid.T, o *plan.Observed) {
	o.Group = o.Group.DeepCopy()
	o.Group.Generation++
	first := rapid.IntRange(8, 14).Draw(t, "first address")
	last := first + rapid.IntRange(0, int(o.Group.Replicas())+2).Draw(t, "more addresses")
	o.Group.Spec.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{
		Ranges: []string{fmt.Sprintf("10.0.0.%d-10.0.0.%d", first, last)}, PrefixLength: 24}}}
}

// The server removes no member for a successor that can't be created: at the end there are as many members as before, or as the spec wants. Only
// marked members, and with persistent disks those with an ordinal of replicas or more, are removed because the spec asks for it.
func TestNoMemberGoesWhosePlaceCannotBeFilledAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := healthy(t)
		undelete(&o)
		fewAddresses(t, &o)
		before := map[int32]bool{}
		for _, m := range o.State.VMs {
			if m.Quarantined.IsZero() && !m.Marked && !m.IsStandby() && !(o.Group.Spec.HasPersistentDisks() && m.Ordinal >= o.Group.Replicas()) {
				before[m.Ordinal] = true
			}
		}
		least := min(len(before), int(o.Group.Replicas()))
		var diary strings.Builder
		for _, m := range o.State.VMs {
			fmt.Fprintf(&diary, "%s %s %s addresses %q, marked %v %s, revision %s, created %s, quarantined %v\n", m.Name, m.MoRef, m.Power, m.Addresses, m.Marked, m.MarkReason, m.Revision, m.Created, !m.Quarantined.IsZero())
		}
		f := planner.Forecast(o)
		o.State.VMs = slices.Clone(o.State.VMs)
		for _, s := range f.Steps {
			fmt.Fprintf(&diary, "%d: %s %s %s: %s\n", s.Round, s.Action.Op, s.Action.Key, s.Action.MoRef, s.Action.Reason)
			plan.Apply(&o, s.Action)
		}
		after := map[int32]bool{}
		for _, m := range o.State.VMs {
			if m.Quarantined.IsZero() && !m.IsStandby() {
				after[m.Ordinal] = true
			}
		}
		if len(after) < least {
			t.Fatalf("%d members are left of %d, and %d are wanted: %s\n%s", len(after), len(before), o.Group.Replicas(), f.Blocked.Message, diary.String())
		}
	})
}
