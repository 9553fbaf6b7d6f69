package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
	"codeconnect.vmworld.com/vmgroup/sync/planner/forecast"
)

// answers reports whether a VM counts as one that answers, by the probe of the spec.
func answers(o *plan.Observed, m plan.VM) bool {
	if !o.Group.Spec.Readiness.Probes() {
		return true
	}
	at := slices.IndexFunc(o.Group.Status.Members, func(r v1alpha1.Member) bool { return r.MoRef == m.MoRef })
	var record v1alpha1.Member
	if at >= 0 {
		record = o.Group.Status.Members[at]
	}
	a := o.Answers.Of[m.MoRef]
	switch {
	case len(m.IPs) == 0:
		return false
	case a.Refused || a.Concluded == "" || a.Address.String() != m.IPs[0]:
		return record.Ready
	case a.Concluded == plan.Silent && record.Ready && a.Since.Before(record.LastTransitionTime.Time) && o.Now.Sub(record.LastTransitionTime.Time) < time.Minute:
		return true // another replica says so
	}
	return a.Concluded == plan.Answering
}

// asked is a group of three with a probe whose members all answer.
func asked(change ...func(o *plan.Observed)) plan.Observed {
	o := observed(3)
	o.Group.Spec.Readiness = v1alpha1.Readiness{TCPSocket: &v1alpha1.TCPSocket{Port: 5432}, TimeoutSeconds: in(300)}
	o.Answers.Of = map[string]plan.Answer{}
	addMembers(&o, 3, func(m *plan.VM) {
		m.Tools, m.IPs, m.Boot = true, []string{fmt.Sprintf("10.0.0.%d", m.Ordinal+1)}, now.Add(-time.Hour)
		conclude(&o, *m, plan.Answering, now.Add(-time.Hour))
	})
	for i := range o.State.VMs {
		record(&o, i, true, "", now.Add(-time.Hour))
	}
	o.Group.Status.VCenterUUID = vcenter
	for _, f := range change {
		f(&o)
	}
	return o
}

func conclude(o *plan.Observed, m plan.VM, c plan.Conclusion, since time.Time) {
	a := plan.Answer{Address: plan.AskedAddress(m.IPs), Concluded: c, Since: since}
	if c == plan.Silent {
		a.Failure, a.Asked = "connection refused", now
	}
	o.Answers.Of[m.MoRef] = a
}

func record(o *plan.Observed, i int, ready bool, reason string, since time.Time) {
	m := v1alpha1.Member{Name: o.State.VMs[i].Name, Ordinal: int32(i), MoRef: o.State.VMs[i].MoRef, Ready: ready, Reason: reason, LastTransitionTime: metav1.NewTime(since)}
	if i < len(o.Group.Status.Members) {
		o.Group.Status.Members[i] = m
	} else {
		o.Group.Status.Members = append(o.Group.Status.Members, m)
	}
}

func TestReadinessFollowsWhatWasConcludedLast(t *testing.T) {
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		why     string
		change  func(o *plan.Observed)
		ready   bool
		message string
	}{
		{"it answers", func(*plan.Observed) {}, true, ""},
		{"it is silent", func(o *plan.Observed) { conclude(o, o.State.VMs[0], plan.Silent, ago(1)) }, false, "port 5432 of 10.0.0.1: connection refused"},
		{"nothing is concluded, and it was ready", func(o *plan.Observed) { conclude(o, o.State.VMs[0], "", ago(1)) }, true, ""},
		{"nothing is concluded, and it was not ready", func(o *plan.Observed) { conclude(o, o.State.VMs[0], "", ago(1)); record(o, 0, false, "", ago(9)) }, false, "no conclusion yet from asking port 5432 of 10.0.0.1"},
		{"nobody was asked yet, and it was ready", func(o *plan.Observed) { o.Answers = plan.Answers{} }, true, ""},
		{"it was down, its status does not say so yet, and it has not answered since", func(o *plan.Observed) {
			o.Answers.Of[o.State.VMs[0].MoRef] = plan.Answer{Address: plan.AskedAddress(o.State.VMs[0].IPs), Down: true}
		}, false, "no conclusion yet from asking port 5432 of 10.0.0.1"},
		{"it has another address now", func(o *plan.Observed) {
			conclude(o, o.State.VMs[0], plan.Silent, ago(1))
			o.State.VMs[0].IPs = []string{"10.0.0.9"}
		}, true, ""},
		{"it has no address", func(o *plan.Observed) { o.State.VMs[0].IPs = nil }, false, "its guest reports no address"},
		{"it may not be asked, and was ready", func(o *plan.Observed) { refuse(o, 0) }, true, ""},
		{"it may not be asked, and was not ready", func(o *plan.Observed) { refuse(o, 0); record(o, 0, false, "", ago(9)) }, false, "the server may not ask 10.0.0.1: it is not in --probe-networks"},
		{"another replica said just now that it answers", func(o *plan.Observed) {
			conclude(o, o.State.VMs[0], plan.Silent, ago(99))
			record(o, 0, true, "", ago(9))
		}, true, ""},
		{"another replica said a minute ago that it answers", func(o *plan.Observed) {
			conclude(o, o.State.VMs[0], plan.Silent, ago(99))
			record(o, 0, true, "", ago(60))
		}, false, "port 5432 of 10.0.0.1: connection refused"},
		{"another replica said just now that it is silent", func(o *plan.Observed) { record(o, 0, false, plan.ReasonNotAnswering, ago(9)) }, false, "port 5432 of 10.0.0.1: another replica of the server got no answer"},
		{"another replica said so, and this one got an answer since", func(o *plan.Observed) {
			record(o, 0, false, plan.ReasonNotAnswering, ago(9))
			conclude(o, o.State.VMs[0], plan.Answering, ago(8))
		}, true, ""},
		{"it was off when the status was written", func(o *plan.Observed) { record(o, 0, false, "PoweredOff", ago(9)) }, true, ""},
	} {
		m := planner.Make(asked(c.change)).Status.Members[0]
		if m.Ready != c.ready || m.Message != c.message {
			t.Errorf("%s: ready %t (%s), want %t (%s)", c.why, m.Ready, m.Message, c.ready, c.message)
		}
	}
}

func refuse(o *plan.Observed, i int) {
	vm := o.State.VMs[i]
	o.Answers.Of[vm.MoRef] = plan.Answer{Address: plan.AskedAddress(vm.IPs), Refused: true}
}

// One replica has heard a new member, and takes another one down on its strength; this one has not heard it yet, and would power-cycle it
// as one that serves nobody. (Found by the model in test/world, in lives with a probe that only users disturb, one in 20,000.)
func TestASilentMemberIsAskedAgainAfterItsMarkBeforeItIsTakenDown(t *testing.T) {
	marked := now.Add(-20 * time.Second)
	for _, c := range []struct {
		why    string
		change func(o *plan.Observed, silent *plan.Answer)
		goes   bool
	}{
		{"it was asked before its mark", func(_ *plan.Observed, silent *plan.Answer) { silent.Asked = marked.Add(-time.Second) }, false},
		{"it was asked right when it was marked", func(_ *plan.Observed, silent *plan.Answer) { silent.Asked = marked }, false},
		{"it was asked since, and failed", func(_ *plan.Observed, silent *plan.Answer) { silent.Asked = marked.Add(2 * time.Second) }, true},
		{"the newest try succeeded, and the next one decides", func(_ *plan.Observed, silent *plan.Answer) { silent.Asked = time.Time{} }, false},
		{"it is to be healed", func(o *plan.Observed, silent *plan.Answer) {
			o.State.VMs[2].Why, silent.Asked = plan.WhyHealing, marked.Add(-time.Second)
		}, true},
		{"its group is deleted, so nobody is asked any more", func(o *plan.Observed, silent *plan.Answer) {
			remove(o)
			o.State.VMs[0].Marked, o.State.VMs[0].Generation, silent.Asked = true, o.Group.Generation, marked.Add(-time.Second)
		}, true},
	} {
		o := asked(func(o *plan.Observed) {
			o.Group.Spec.CPU++
			m := &o.State.VMs[2]
			m.Marked, m.Why, m.MarkedAt = true, plan.WhyPowerCycle, marked
			conclude(o, *m, plan.Silent, now.Add(-time.Hour))
			record(o, 2, false, plan.ReasonNotAnswering, now.Add(-time.Hour))
			silent := o.Answers.Of[m.MoRef]
			c.change(o, &silent)
			o.Answers.Of[m.MoRef] = silent
		})
		r := planner.Make(o)
		op := stepFor(&r, "web-2")
		if goes := op.TakesDown(); goes != c.goes || !goes && (r.Wake == 0 || r.Wake > time.Second) {
			t.Errorf("%s: %q, again after %s", c.why, op, r.Wake)
		}
	}
}

// Two replicas that see different things write a status at most once a minute each, not at each call.
func TestReplicasThatDisagreeChangeAStatusOnceAMinute(t *testing.T) {
	one := asked()
	other := asked(func(o *plan.Observed) { conclude(o, o.State.VMs[0], plan.Silent, now.Add(-time.Hour)) })
	changes, ready := 0, true
	for second := range 600 {
		o := &one
		if second%2 == 1 {
			o = &other
		}
		o.Now = now.Add(time.Duration(second) * time.Second)
		r := planner.Make(*o)
		if r.Status.Members[0].Ready != ready {
			ready = !ready
			changes++
		}
		one.Group.Status, other.Group.Status = r.Status, r.Status
	}
	if changes < 9 || changes > 11 {
		t.Errorf("%d changes in ten minutes", changes)
	}
}

func TestADoubtStaysUntilEachMemberWasAskedAgain(t *testing.T) {
	o := asked(func(o *plan.Observed) {
		o.Answers.Doubted, o.Answers.Since = true, now
		for _, vm := range o.State.VMs {
			conclude(o, vm, "", time.Time{})
		}
	})
	doubted := func() bool {
		o.Now = o.Now.Add(2 * time.Minute)
		r := planner.Make(o)
		o.Group.Status = r.Status
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReadinessDoubted)
	}
	if !doubted() {
		t.Error("it is not doubted")
	}
	o.Answers.Doubted, o.Answers.Since = false, time.Time{} // the server restarted
	if !doubted() {
		t.Error("it is not doubted after a restart")
	}
	for _, vm := range o.State.VMs {
		conclude(&o, vm, plan.Answering, o.Now)
	}
	if doubted() {
		t.Error("it is doubted although all answer")
	}
}

// A member is taken for one that serves nobody, and goes beyond maxUnavailable, only if this replica knows it.
func TestMembersThatMayAnswerAreNotTakenDownTogether(t *testing.T) {
	for name, known := range map[string]func(o *plan.Observed, i int){
		"the status is lost, and nothing is concluded": func(o *plan.Observed, i int) {
			o.Answers.Of, o.Group.Status.Members = nil, nil
		},
		"another replica said that they don't answer": func(o *plan.Observed, i int) {
			record(o, i, false, plan.ReasonNotAnswering, now.Add(-time.Second))
		},
	} {
		for _, resize := range []v1alpha1.ResizeWay{"", v1alpha1.ResizeReplace} {
			o := asked(func(o *plan.Observed) {
				o.Group.Spec.CPU, o.Group.Spec.Update.Resize = 1, resize
				for i := range o.State.VMs {
					known(o, i)
				}
			})
			var down []string
			for _, a := range planner.Make(o).Actions {
				if a.Op == plan.Mark {
					down = append(down, a.VM)
				}
			}
			if len(down) > 0 {
				t.Errorf("%s, resize %q: %v are taken down", name, resize, down)
			}
		}
	}
}

func TestNothingIsDoneBecauseOfADoubt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		o.Finalizing, o.Group.DeletionTimestamp, o.Group.Spec.Replace = false, nil, nil
		if !o.Group.Spec.Readiness.Probes() {
			return
		}
		o.Answers.Doubted = true
		r := planner.Make(o)
		for _, a := range r.Actions {
			if a.Op == plan.Mark && (a.Why == plan.WhyUpdate || a.Why == plan.WhyResize || a.Why == plan.WhyPowerCycle) && !find(&o, a.MoRef).Standby {
				t.Fatalf("%s %s for %s: %s", a.Op, a.VM, a.Why, a.Reason)
			}
			if a.Op == plan.Reset && strings.HasSuffix(a.Reason, "Socket)") {
				t.Fatalf("%s %s: %s", a.Op, a.VM, a.Reason)
			}
		}
	})
}

func TestAForecastTakesMembersThatNobodyAskedForOnesThatAnswer(t *testing.T) {
	o := asked(func(o *plan.Observed) {
		o.Answers, o.Group.Status = plan.Answers{}, v1alpha1.VmGroupStatus{}
		o.Group.Spec.Template = "debian"
	})
	replaced := func() (n int) {
		f := forecast.Of(o)
		for _, s := range f.Steps {
			if s.Op == plan.Destroy {
				n++
			}
		}
		return n
	}
	if n := replaced(); n != 3 {
		t.Errorf("%d of 3 would be replaced", n)
	}
	o.Answers.Nobody = true
	if f := forecast.Of(o); replaced() != 0 || f.Blocked.Reason != plan.ReasonProbeRefused {
		t.Errorf("%d would be replaced by a server that may ask nobody; blocked by %q", replaced(), f.Blocked.Reason)
	}
}
