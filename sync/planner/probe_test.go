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
)

// answers reports whether the server takes a VM to answer the probe of the spec.
func answers(o *plan.Observed, m plan.VM) bool {
	if !o.Group.Spec.Readiness.Probes() {
		return true
	}
	a := o.Answers.Of[m.MoRef]
	switch {
	case len(m.ServiceAddresses()) == 0:
		return false
	case a.Refused || a.Concluded == "" || a.Address.String() != m.ServiceAddresses()[0]:
		return recordedReady(o, m)
	}
	return a.Concluded == plan.Answering
}

// recordedReady reports whether the stored status says that a VM is ready in its present boot.
func recordedReady(o *plan.Observed, m plan.VM) bool {
	return slices.ContainsFunc(o.Group.Status.Members, func(r v1alpha1.Member) bool {
		return r.MoRef == m.MoRef && r.Ready && (r.BootTime.IsZero() || r.BootTime.Sub(m.BootTime).Abs() < 2*time.Second)
	})
}

// asked is a group of three with a probe whose members all answer.
func asked(change ...func(o *plan.Observed)) plan.Observed {
	o := observed(3)
	o.Group.Spec.Readiness = v1alpha1.Readiness{TCPSocket: &v1alpha1.TCPSocket{Port: 5432}, TimeoutSeconds: in(300)}
	o.Answers.Of = map[string]plan.Answer{}
	addMembers(&o, 3, func(m *plan.VM) {
		m.Tools, m.IPs, m.BootTime = true, []string{fmt.Sprintf("10.0.0.%d", m.Ordinal+1)}, now.Add(-time.Hour)
		conclude(&o, *m, plan.Answering)
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

func conclude(o *plan.Observed, m plan.VM, c plan.Conclusion) {
	a := plan.Answer{Address: plan.AskedAddress(m.ServiceAddresses()), Concluded: c}
	if c == plan.Silent {
		a.Failure = "connection refused"
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
		{"it is silent", func(o *plan.Observed) { conclude(o, o.State.VMs[0], plan.Silent) }, false, "port 5432 of 10.0.0.1: connection refused"},
		{"nothing is concluded, and it was ready", func(o *plan.Observed) { conclude(o, o.State.VMs[0], "") }, true, ""},
		{"nothing is concluded, and it was not ready", func(o *plan.Observed) { conclude(o, o.State.VMs[0], ""); record(o, 0, false, "", ago(9)) }, false, "no result yet from probing port 5432 of 10.0.0.1"},
		{"no member was asked yet, and it was ready", func(o *plan.Observed) { o.Answers = plan.Answers{} }, true, ""},
		{"it was down, its status does not say so yet, and it has not answered since", func(o *plan.Observed) {
			o.Answers.Of[o.State.VMs[0].MoRef] = plan.Answer{Address: plan.AskedAddress(o.State.VMs[0].IPs), Down: true}
		}, false, "no result yet from probing port 5432 of 10.0.0.1"},
		{"it has another address now", func(o *plan.Observed) {
			conclude(o, o.State.VMs[0], plan.Silent)
			o.State.VMs[0].IPs = []string{"10.0.0.9"}
		}, true, ""},
		{"it has no address", func(o *plan.Observed) { o.State.VMs[0].IPs = nil }, false, "its guest reports no address"},
		{"it can't be asked, and was ready", func(o *plan.Observed) { refuse(o, 0) }, true, ""},
		{"it can't be asked, and was not ready", func(o *plan.Observed) { refuse(o, 0); record(o, 0, false, "", ago(9)) }, false, "the server is not allowed to ask 10.0.0.1: it is not in --probe-networks, or is an address that is never probed"},
		{"another replica says that it is silent, and this one got an answer", func(o *plan.Observed) { record(o, 0, false, plan.ReasonNotAnswering, ago(9)) }, true, ""},
		{"it was ready in another boot, and nothing is concluded", func(o *plan.Observed) {
			conclude(o, o.State.VMs[0], "")
			o.Group.Status.Members[0].BootTime = metav1.NewTime(o.State.VMs[0].BootTime.Add(-time.Minute))
		}, false, "no result yet from probing port 5432 of 10.0.0.1"},
		{"VMware Tools are silent, and it answers", func(o *plan.Observed) { o.State.VMs[0].Tools, o.State.VMs[0].Reported = false, true }, true,
			"VMware Tools do not run in its guest: it counts as ready by their last report since its power-on"},
		{"VMware Tools have never reported, and it answers at the static address that it was given", func(o *plan.Observed) {
			m := &o.State.VMs[0]
			m.Tools, m.IPs, m.Addresses = false, nil, "10.0.0.1"
			o.Group.Spec.Networks = []v1alpha1.Network{{Network: "n", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.1-10.0.0.9"}, PrefixLength: 24}}}
		}, true, "was cloned from another revision of the spec"},
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

func TestASuppressionStaysUntilEachMemberWasAskedAgain(t *testing.T) {
	o := asked(func(o *plan.Observed) {
		o.Answers.Suppressed = true
		for _, vm := range o.State.VMs {
			conclude(o, vm, "")
		}
	})
	suppressed := func() bool {
		o.Now = o.Now.Add(2 * time.Minute)
		r := planner.Make(o)
		o.Group.Status = r.Status
		return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionProbesSuppressed)
	}
	if !suppressed() {
		t.Error("it is not suppressed")
	}
	o.Answers.Suppressed = false // the server restarted
	if !suppressed() {
		t.Error("it is not suppressed after a restart")
	}
	for _, vm := range o.State.VMs {
		conclude(&o, vm, plan.Answering)
	}
	if suppressed() {
		t.Error("it is suppressed although all answer")
	}
}

// A replica takes down more members than maxUnavailable only if it knows that they don't serve. A member that may answer counts as serving.
func TestMembersThatMayAnswerAreNotTakenDownTogether(t *testing.T) {
	for name, known := range map[string]func(o *plan.Observed, i int){
		"the status is lost, and nothing is concluded": func(o *plan.Observed, i int) {
			o.Answers.Of, o.Group.Status.Members = nil, nil
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
					down = append(down, a.Key)
				}
			}
			if len(down) > 0 {
				t.Errorf("%s, resize %q: %v are taken down", name, resize, down)
			}
		}
	}
}

func TestNothingIsDoneWhileProbesAreSuppressed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anything(t)
		undelete(&o)
		o.Group.Spec.Replace = nil
		if !o.Group.Spec.Readiness.Probes() {
			return
		}
		o.Answers.Suppressed = true
		r := planner.Make(o)
		for _, a := range r.Actions {
			if marks(a, plan.MarkReasonUpdate, plan.MarkReasonResize, plan.MarkReasonPowerCycle) && !find(&o, a.MoRef).Standby {
				t.Fatalf("%s %s for %s: %s", a.Op, a.Key, plan.ArgsOf[plan.MarkArgs](a.Args).Reason, a.Reason)
			}
			if a.Op == plan.Reset && strings.HasSuffix(a.Reason, "Socket)") {
				t.Fatalf("%s %s: %s", a.Op, a.Key, a.Reason)
			}
		}
	})
}

func TestAForecastTakesMembersThatWereNotProbedForOnesThatAnswer(t *testing.T) {
	o := asked(func(o *plan.Observed) {
		o.Answers, o.Group.Status = plan.Answers{}, v1alpha1.VmGroupStatus{}
		o.Group.Spec.Template = "debian"
	})
	replaced := func() (n int) {
		f := planner.Forecast(o)
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
	o.Answers.NoneAllowed = true
	if f := planner.Forecast(o); replaced() != 0 || f.Blocked.Reason != plan.ReasonProbeRefused {
		t.Errorf("%d would be replaced by a server that can ask no member; blocked by %q", replaced(), f.Blocked.Reason)
	}
}
