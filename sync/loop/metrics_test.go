package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// gathered returns the samples of gauges and counters as text.
func gathered(t *testing.T, r prometheus.Gatherer) (all []string) {
	t.Helper()
	families, err := r.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all = append(all, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(f.GetName(), "vmgroup_"), strings.Join(labels, ","),
				m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return all
}

func TestTheFiguresOfEachGroupUnderLeaseAreMetrics(t *testing.T) {
	for _, each := range []bool{true, false} {
		r := prometheus.NewRegistry()
		bubble(t, newModel(time.Second), Config{Slots: 8, Metrics: r, GroupMetrics: each}, func(t *testing.T, l hooks) {
			newCluster(call("web", 2)).calls(l, time.Minute)
			all := gathered(t, r)
			for sample, want := range map[string]bool{
				`groups{phase=RUNNING} 1`: true, `groups{phase=ERROR} 0`: true, `actions_running{} 0`: true, `actions_total{op=Clone,result=ok} 2`: true,
				`group_replicas_desired{group=web,namespace=default} 2`: each, `group_replicas_ready{group=web,namespace=default} 2`: each,
				`group_replicas_available{group=web,namespace=default} 2`: each, `group_replicas_updated{group=web,namespace=default} 2`: each,
				`group_phase{group=web,namespace=default,phase=RUNNING,reason=,scope=} 1`: each,
			} {
				if slices.Contains(all, sample) != want {
					t.Errorf("GroupMetrics %v: %s is there: %v; all: %q", each, sample, !want, all)
				}
			}
			time.Sleep(10 * time.Hour)
			if all := gathered(t, r); slices.Contains(all, `group_replicas_desired{group=web,namespace=default} 2`) != each || !slices.Contains(all, `groups{phase=RUNNING} 1`) {
				t.Errorf("no call comes any more, for any group: %q", all)
			}
			newCluster(call("db", 1)).calls(l, 2*time.Minute)
			if all := gathered(t, r); slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "group=web") }) || !slices.Contains(all, `groups{phase=RUNNING} 1`) {
				t.Errorf("another group is called: %q", all)
			}
		})
	}
}

// An alert needs the group's phase. Samples of 0 for its other phases would make three times as many samples.
func TestAGroupHasOneSeriesOfItsPhaseUntilItIsGone(t *testing.T) {
	r := prometheus.NewRegistry()
	bubble(t, newModel(time.Second), Config{Slots: 8, Metrics: r, GroupMetrics: true}, func(t *testing.T, l hooks) {
		of := func(metric string) (all []string) {
			for _, s := range gathered(t, r) {
				if strings.HasPrefix(s, metric) {
					all = append(all, s)
				}
			}
			return all
		}
		web, invalid := call("web", 2), call("invalid", 1)
		invalid.Group.Spec.CPU = -1
		l.Sync(web)
		l.Sync(invalid)
		if got := of("group_phase"); !slices.Equal(got, []string{`group_phase{group=invalid,namespace=default,phase=ERROR,reason=InvalidSpec,scope=group} 1`, `group_phase{group=web,namespace=default,phase=PENDING,reason=Reconciling,scope=group} 1`}) {
			t.Errorf("at first: %q", got)
		}
		newCluster(web).calls(l, time.Minute)
		if got := of("group_phase{group=web"); !slices.Equal(got, []string{`group_phase{group=web,namespace=default,phase=RUNNING,reason=,scope=} 1`}) {
			t.Errorf("once it is up: %q", got)
		}
		gone := deletion(web)
		l.Sync(gone)
		if got := of("group_replicas_desired{group=web"); !slices.Equal(got, []string{`group_replicas_desired{group=web,namespace=default} 0`}) {
			t.Errorf("while it is deleted: %q", got)
		}
		until(t, 10*time.Minute, "it is gone", func() bool { return l.Sync(gone).Finalized })
		if got := of("group_"); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "group=web") }) {
			t.Errorf("after it is gone: %q", got)
		}
	})
}

// A false all-clear: alerts about groups must not end because Metacontroller does, nor in the moment in which it is back and has called for one of
// them only. Who is called for others gets nothing of a group that another replica has.
func TestTheFiguresOfGroupsStayWhileNoCallComesForAny(t *testing.T) {
	r := prometheus.NewRegistry()
	bubble(t, newModel(time.Second), Config{Slots: 8, Metrics: r, GroupMetrics: true}, func(t *testing.T, l hooks) {
		shown := func(name string) bool {
			return slices.ContainsFunc(gathered(t, r), func(s string) bool { return strings.HasPrefix(s, "group_phase{group="+name) })
		}
		invalid, web, former := call("invalid", 1), call("web", 1), call("former", 1)
		invalid.Group.Spec.CPU = -1
		l.Sync(former)
		for range 10 {
			time.Sleep(20 * time.Second)
			l.Sync(invalid)
			l.Sync(web)
		}
		if shown("former") || !shown("web") {
			t.Error("a group that isn't called while others are is shown, or one that is called isn't")
		}
		for range 20 {
			if time.Sleep(10 * time.Minute); !shown("invalid") || !shown("web") || shown("former") {
				t.Fatalf("no call comes: %q", gathered(t, r))
			}
		}
		if all := gathered(t, r); !slices.Contains(all, "group_phase{group=invalid,namespace=default,phase=ERROR,reason=InvalidSpec,scope=group} 1") ||
			!slices.Contains(all, "groups_troubled{harm=degraded,phase=ERROR,reason=InvalidSpec,scope=group} 1") {
			t.Errorf("%q", all)
		}
		l.Sync(web)
		for range 4 {
			if !shown("invalid") || shown("former") {
				t.Fatalf("calls come again, and none for invalid yet: %q", gathered(t, r))
			}
			time.Sleep(20 * time.Second)
			l.Sync(web)
		}
		if time.Sleep(20 * time.Second); shown("invalid") {
			t.Errorf("none has come for a lease's time: %q", gathered(t, r))
		}
	})
}

func TestHealingIsCountedForTwoHours(t *testing.T) {
	var x healed
	at := time.Unix(0, 0)
	for i := range 9 {
		x.acted(&plan.Action{Op: plan.Reset, Key: "web-1"}, at.Add(time.Duration(i)*30*time.Minute))
		x.acted(&plan.Action{Op: plan.Reset, Key: fmt.Sprint("web-", 10+i)}, at.Add(time.Duration(i)*30*time.Minute))
		x.acted(&plan.Action{Op: plan.Mark, Key: "web-1", Args: plan.MarkArgs{Reason: plan.MarkReasonUpdate}}, at.Add(4*time.Hour))
	}
	x.acted(&plan.Action{Op: plan.Mark, Key: "web-1", Args: plan.MarkArgs{Reason: plan.MarkReasonHealing}}, at.Add(4*time.Hour))
	if n := x.most(at.Add(4 * time.Hour)); n != 5 || len(x) != 9 {
		t.Errorf("%d of web-1 in the last two hours of four, %d remembered", n, len(x))
	}
	if n := x.most(at.Add(7 * time.Hour)); n != 0 {
		t.Errorf("%d after three hours without any", n)
	}
}

// The metric is kept after a lease has ended, so that an alert can notice that Metacontroller makes no calls. Without groups, it isn't needed.
func TestTheTimeOfTheLastCallIsAMetricUntilTheLastGroupIsGone(t *testing.T) {
	r := prometheus.NewRegistry()
	bubble(t, newModel(time.Second), Config{Slots: 8, Metrics: r}, func(t *testing.T, l hooks) {
		last := func() string {
			all := gathered(t, r)
			if i := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, "last_call_timestamp_seconds{} ") }); i >= 0 {
				return strings.TrimPrefix(all[i], "last_call_timestamp_seconds{} ")
			}
			return ""
		}
		if at := last(); at != "" {
			t.Errorf("%s before any call", at)
		}
		web, db := call("web", 2), call("db", 1)
		newCluster(db).calls(l, time.Minute)
		newCluster(web).calls(l, time.Minute)
		l.Sync(web)
		want := fmt.Sprint(float64(time.Now().Unix()))
		if time.Sleep(time.Hour); last() != want {
			t.Errorf("%s, want %s", last(), want)
		}
		finalized := func(c plan.Call) {
			gone := deletion(c)
			until(t, 10*time.Minute, "it is gone", func() bool {
				if c.Group.Name != "db" {
					l.Sync(db)
				}
				return l.Sync(gone).Finalized
			})
		}
		finalized(web)
		if last() == "0" {
			t.Error("db is still called for")
		}
		finalized(db)
		if last() != "0" {
			t.Errorf("%s after the last group is gone", last())
		}
		unselected := plan.Call{Group: call("apps", 1).Group, Finalizing: true}
		until(t, 10*time.Minute, "it is let go", func() bool { return l.Sync(unselected).Finalized })
		if last() != "0" {
			t.Errorf("%s after a group that is not selected any more was let go", last())
		}
	})
}

func TestTheLimitsAreMetrics(t *testing.T) {
	r, m := prometheus.NewRegistry(), newModel(time.Minute)
	m.limit = &limit{room: 2}
	cfg := day
	cfg.Metrics = r
	bubble(t, m, cfg, func(t *testing.T, l hooks) {
		l.Sync(call("web", 40))
		if all := gathered(t, r); !slices.Contains(all, "slots{kind=clones} 20") || !slices.Contains(all, "slots{kind=power} 20") {
			t.Errorf("at the beginning: %q", all)
		}
		time.Sleep(30 * time.Minute)
		all := gathered(t, r)
		has := func(sample string) bool { return slices.Contains(all, sample) }
		if has("slots_reduced_total{kind=clones,reason=queued} 0") || !has("slots_reduced_total{kind=clones,reason=slow} 0") ||
			!has("slots_reduced_total{kind=power,reason=queued} 0") || !has("slots{kind=others} 20") {
			t.Errorf("vCenter queues all but two: %q", all)
		}
		if n := numberFor(l).Now; n > 4 || !has(fmt.Sprint("slots_narrowest{place=source} ", n)) || slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "place=target") }) {
			t.Errorf("of one source the limit is %d: %q", n, all)
		}
	})
}
