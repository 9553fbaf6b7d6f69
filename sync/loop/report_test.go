package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

const planted = "#cloud-config\npassword: planted-secret\n"

// withUserData is a call whose group takes user data from a Secret of that name, and which has that text as a related object.
func withUserData(c plan.Call, secret string, text string) plan.Call {
	g := *c.Group
	g.Spec.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: secret}}
	c.Group = &g
	ref, _ := plan.UserDataOf(&g)
	if c.Related = ref.NotFound(true); text != "" {
		c.Related = ref.Take([]byte(text))
	}
	return c
}

// manifest is a call made for a forecast: it brings no related objects.
func manifest(c plan.Call) plan.Call {
	g := *c.Group
	g.UID, g.Generation = "", 0
	return plan.Call{Group: &g, Related: plan.NoRelated(&g)}
}

func TestAGroupsStateIsReportedAsItChanges(t *testing.T) {
	m := newModel(10 * time.Second)
	m.fault = func(_ plan.Ref, a plan.Action) error {
		if a.Key == "web-1" {
			return fault{Reason: "DatastoreFull", Message: "the datastore is full", NeedsOperator: true}
		}
		return nil
	}
	bubble(t, m, Config{Slots: 8}, func(t *testing.T, l hooks) {
		if all := l.Groups(); len(all) != 0 {
			t.Errorf("before any call: %+v", all)
		}
		began := reportTime(time.Now())
		l.Sync(call("web", 2))
		l.Sync(call("db", 0))
		time.Sleep(5 * time.Second)
		all := l.Groups()
		if len(all) != 2 || all[0].Name != "db" || all[1].Name != "web" {
			t.Fatalf("%+v", all)
		}
		web := all[1]
		if web.UID != "uid-web" || web.Generation != 1 || !web.Lease || web.Finalizing || web.Phase != v1alpha1.PhasePending ||
			!web.LastCall.Equal(began) || !web.LeaseEnds.Equal(began.Add(90*time.Second)) || !strings.Contains(web.Message, "cloning 2 members") {
			t.Errorf("%+v", web)
		}
		if s := web.Spec; !web.Since.Equal(began) || s == nil || s.Template != call("web", 2).Group.Spec.Template || s.Strategy != "RollingUpdate, maxSurge 25%, maxUnavailable 25%" || web.Update != nil || web.FormerTemplates != nil {
			t.Errorf("%+v, spec %+v", web, s)
		}
		if p := web.Pending; len(p) != 2 || p[0].VM != "web-0" || p[0].Op != plan.Clone || p[0].State != plan.Running || p[0].Since.IsZero() || p[0].Reason != "too few members: 0 of 2" || p[0].Fault != nil || p[1].VM != "web-1" {
			t.Errorf("pending %+v", p)
		}
		if db := all[0]; db.Phase != v1alpha1.PhaseRunning || db.LastPlan != nil || db.Members == nil || db.Pending == nil || db.Faults == nil {
			t.Errorf("%+v", db)
		}
		until(t, time.Minute, "one up, one failed", func() bool {
			_, on := m.members(plan.Ref{UID: "uid-web"})
			return on == 1 && slices.ContainsFunc(l.Groups()[1].Pending, func(p plan.PendingReport) bool { return p.State == plan.BackingOff })
		})
		synctest.Wait()
		web = l.Groups()[1]
		if len(web.Members) != 1 || web.Members[0].Name != "web-0" || web.Phase != v1alpha1.PhaseError {
			t.Errorf("%+v", web)
		}
		at := slices.IndexFunc(web.Pending, func(p plan.PendingReport) bool { return p.VM == "web-1" })
		if p := web.Pending[at]; p.Fault == nil || p.Fault.Reason != "DatastoreFull" || p.RetryAfter.Before(time.Now()) || !p.Since.IsZero() {
			t.Errorf("%+v", p)
		}
		if !slices.ContainsFunc(web.Faults, func(f plan.FaultReport) bool { return f.VM == "web-1" && f.Reason == "DatastoreFull" }) {
			t.Errorf("faults %+v", web.Faults)
		}
		if web.LastPlan == nil || !slices.ContainsFunc(web.LastPlan.Steps, func(s plan.StepReport) bool { return s.Op == plan.PowerOn && s.VM == "web-0" && s.Reason != "" }) {
			t.Errorf("plan %+v", web.LastPlan)
		}
		failed := slices.IndexFunc(web.Actions, func(a plan.ActionReport) bool { return a.VM == "web-1" })
		if len(web.Actions) < 3 || !slices.IsSortedFunc(web.Actions, func(a, b plan.ActionReport) int { return b.Time.Compare(a.Time) }) {
			t.Fatalf("actions %+v", web.Actions)
		}
		if a := web.Actions[failed]; a.Op != plan.Clone || a.Result != "DatastoreFull" || a.Message != "the datastore is full" || a.Reason != "too few members: 0 of 2" {
			t.Errorf("%+v", a)
		}
		made := slices.IndexFunc(web.Actions, func(a plan.ActionReport) bool { return a.VM == "web-0" && a.Op == plan.Clone })
		if a := web.Actions[made]; a.Result != plan.ResultOK || a.Message != "" || a.Reason != "too few members: 0 of 2" || a.DurationSeconds != 10 || a.Time.Sub(began) != 10*time.Second {
			t.Errorf("%+v", a)
		}
		m.setFault(nil)
		time.Sleep(10 * time.Minute)
		for _, g := range l.Groups() {
			if g.Lease || g.Phase == "" {
				t.Errorf("without a lease: %+v", g)
			}
		}
	})
}

// Metacontroller may be down for a night. GET /groups still shows what was wrong before, and since when.
func TestGroupsStayListedAsLastKnownWhileNoCallComes(t *testing.T) {
	m := newModel(time.Second)
	m.fault = func(_ plan.Ref, a plan.Action) error {
		if a.Key == "web-0" {
			return fault{Reason: "DatastoreFull", Message: "the datastore is full", NeedsOperator: true}
		}
		return nil
	}
	bubble(t, m, Config{Slots: 8}, func(t *testing.T, l hooks) {
		if c := l.Calls(); !c.Last.IsZero() || c.Silent {
			t.Errorf("right after the start: %+v", c)
		}
		time.Sleep(91 * time.Second)
		if c := l.Calls(); !c.Last.IsZero() || !c.Silent {
			t.Errorf("never called: %+v", c)
		}
		for range 10 {
			l.Sync(call("web", 1))
			l.Sync(call("none", 0))
			time.Sleep(time.Second)
		}
		last := reportTime(time.Now().Add(-time.Second))
		time.Sleep(8 * time.Hour)
		if c := l.Calls(); !c.Last.Equal(last) || !c.Silent {
			t.Errorf("%+v, not %s", c, last)
		}
		all := l.Groups()
		if len(all) != 2 || all[0].Name != "none" || all[0].Phase != v1alpha1.PhaseRunning || all[1].Phase != v1alpha1.PhaseError {
			t.Fatalf("%+v", all)
		}
		for _, g := range all {
			if g.Lease || !g.LastKnown || !g.LastCall.Equal(last) {
				t.Errorf("%+v", g)
			}
		}
		// Calls come again, but not for web: another replica may get its calls now.
		l.Sync(call("none", 0))
		for _, g := range l.Groups() {
			if g.LastKnown {
				t.Errorf("calls come: %+v", g)
			}
		}
	})
}

// While calls come for other groups, a group without calls is listed for an hour.
func TestAGroupThatIsNotCalledIsRememberedForAnHour(t *testing.T) {
	bubble(t, newModel(0), Config{Slots: 8}, func(t *testing.T, l hooks) {
		began := time.Now()
		l.Sync(call("web", 0))
		for time.Since(began) < 2*time.Hour {
			l.Sync(call("none", 0))
			time.Sleep(time.Minute)
			all := l.Groups()
			has := slices.ContainsFunc(all, func(g plan.Report) bool { return g.Name == "web" && !g.LastKnown })
			if past := time.Since(began); past < time.Hour && !has || past > 80*time.Minute && has {
				t.Fatalf("after %s: %+v", past, all)
			}
		}
	})
}

func TestReportsShowGroupsThatWaitForASlotAndTheirNextSteps(t *testing.T) {
	bubble(t, newModel(10*time.Second), Config{Slots: 1}, func(t *testing.T, l hooks) {
		l.Sync(call("web", 4))
		time.Sleep(5 * time.Second)
		l.Sync(call("db", 1)) // takes the spare slot
		time.Sleep(time.Second)
		l.Sync(call("late", 1))
		time.Sleep(time.Second)
		s := l.Slots()
		if s.Most != 1 || s.Running != 2 || s.Waiting != 2 || len(s.Limits) != 4 || s.Limits[0] != (plan.Limit{Of: "clones", Now: 1, Most: 1, Running: 2, Reason: "--slots permits no more"}) || s.Limits[3].Of != "clones from vm-1" {
			t.Errorf("%+v", s)
		}
		if w := l.Groups()[2].WaitsFor; len(w) != 3 || w[0] != (plan.Limit{Of: "all steps", Now: 1, Most: 1, Running: 2, Reason: "--slots permits no more"}) || w[2] != s.Limits[0] {
			t.Errorf("%+v", w)
		}
		for i, want := range []plan.Report{
			{Name: "db", DesiredReplicas: 1}, {Name: "late", DesiredReplicas: 1, WaitsForSlot: true}, {Name: "web", DesiredReplicas: 4, WaitsForSlot: true},
		} {
			r := l.Groups()[i]
			if got := (plan.Report{Name: r.Name, DesiredReplicas: r.DesiredReplicas, WaitsForSlot: r.WaitsForSlot}); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v", got)
			}
		}
		next := func(name string, most int) string {
			o, text := l.NextSteps(types.UID("uid-"+name), most), ""
			for _, s := range o.Steps {
				text += fmt.Sprintf("%d %s %s, ", s.Round, s.Op, s.Key)
			}
			return text + fmt.Sprint(o.More)
		}
		for _, c := range []struct {
			name string
			most int
			want string
		}{
			{"db", 10, "1 PowerOn db-0, false"}, // its clone is running
			{"late", 10, "1 CreateFolder , 2 Clone late-0, 3 PowerOn late-0, false"},
			{"web", 4, "1 PowerOn web-0, 1 Clone web-1, 1 Clone web-2, 1 Clone web-3, true"},
			{"unknown", 10, "false"},
		} {
			if got := next(c.name, c.most); got != c.want {
				t.Errorf("%s: %s, not %s", c.name, got, c.want)
			}
		}
		until(t, 10*time.Minute, "all is done", func() bool { s := l.Slots(); return s.Running == 0 && s.Waiting == 0 })
		time.Sleep(30 * time.Second)
		if got := next("web", 10); got != "false" {
			t.Errorf("settled: %s", got)
		}
		for _, r := range l.Groups() {
			if r.WaitsForSlot || r.LastPlan == nil {
				t.Errorf("%+v", r)
			}
		}
		time.Sleep(2 * time.Minute)
		if got := next("web", 10); got != "false" {
			t.Errorf("without a lease: %s", got)
		}
		paused := call("web", 9)
		g := *paused.Group
		g.Spec.Paused, g.Generation, paused.Group = true, 2, &g
		l.Sync(paused)
		if got := next("web", 10); got != "false" {
			t.Errorf("paused: %s", got)
		}
	})
}

func TestTheLastFiftyActionsAreKept(t *testing.T) {
	g := newGroup(call("web", 1))
	g.renew(call("web", 1), time.Now())
	for n := range 2*historyMost + 1 {
		g.history = g.history.with(plan.ActionReport{DurationSeconds: float64(n)})
	}
	r := g.report(time.Minute, true, time.Now())
	if len(r.Actions) != 50 || r.Actions[0].DurationSeconds != 100 || r.Actions[49].DurationSeconds != 51 {
		t.Errorf("%d actions: %+v", len(r.Actions), r.Actions)
	}
}

func TestAFinalizedGroupIsNoLongerReported(t *testing.T) {
	m := newModel(0)
	m.took[plan.ConfirmGone] = 1234567 * time.Microsecond // so that it doesn't end right between a call and a report
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := withUserData(call("web", 1), "boot", planted)
		l.Sync(c)
		time.Sleep(time.Second)
		gone := deletion(c)
		gone.Related = c.Related
		until(t, time.Minute, "finalized", func() bool {
			r, all := l.Sync(gone), l.Groups()
			if !r.Finalized && len(all) == 0 { // it was finalized between the two
				r = l.Sync(gone)
			}
			if !r.Finalized && (len(all) != 1 || !all[0].Finalizing || !all[0].Lease) {
				t.Errorf("%+v", all)
			}
			return r.Finalized
		})
		if all := l.Groups(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if g := l.groups[c.Group.UID]; g == nil || g.lease.call.Related != (plan.Related{}) {
			t.Error("the loop has forgotten the group that has ended, or keeps its user data")
		}
	})
}

func TestWhatIsInProgressIsReportedAfterTheLeaseEnds(t *testing.T) {
	bubble(t, newModel(10*time.Minute), Config{}, func(t *testing.T, l hooks) {
		l.Sync(call("web", 1))
		time.Sleep(5 * time.Minute)
		if all := l.Groups(); len(all) != 1 || all[0].Lease || len(all[0].Pending) != 1 {
			t.Errorf("%+v", all)
		}
	})
}

func TestAPreviewKnowsTheUserDataOfTheNewestCall(t *testing.T) {
	bubble(t, newModel(time.Second), Config{}, func(t *testing.T, l hooks) {
		c := withUserData(call("web", 1), "boot", planted)
		asked := func(c plan.Call) (clones int, message string) {
			t.Helper()
			r, outlook, err := l.Preview(c)
			must.Succeed(t, err)
			for _, s := range outlook.Steps {
				if s.Op == plan.Clone {
					clones++
				}
			}
			return clones, r.Status.LastMessage
		}
		if n, says := asked(manifest(c)); n != 0 || !strings.Contains(says, "Secret default/boot") {
			t.Errorf("of an unknown group: %d, %s", n, says)
		}
		l.Sync(withUserData(call("web", 0), "boot", planted))
		if n, says := asked(manifest(c)); n != 1 || strings.Contains(says, "boot") {
			t.Errorf("of a group that is known by its name: %d, %s", n, says)
		}
		same := manifest(c)
		same.Group.UID = c.Group.UID
		if n, says := asked(same); n != 1 {
			t.Errorf("of a group that is known by its UID: %d, %s", n, says)
		}
		other := manifest(withUserData(call("web", 1), "other", planted))
		if n, says := asked(other); n != 0 || !strings.Contains(says, "Secret default/other") {
			t.Errorf("of another Secret: %d, %s", n, says)
		}
		missing := manifest(c)
		missing.Related = withUserData(call("web", 1), "boot", "").Related
		if n, says := asked(missing); n != 0 || !strings.Contains(says, "is not there") {
			t.Errorf("of a request that brings none: %d, %s", n, says)
		}
		l.Sync(withUserData(call("web", 0), "boot", ""))
		if n, says := asked(manifest(c)); n != 0 || !strings.Contains(says, "is not there") {
			t.Errorf("of a group whose Secret is gone: %d, %s", n, says)
		}
	})
}

func TestTheNewestCallsUserDataCountsAndAStaleCallsDoesNot(t *testing.T) {
	m := newModel(time.Second)
	bubble(t, m, Config{}, func(t *testing.T, l hooks) {
		c := withUserData(call("web", 1), "boot", planted)
		g := *c.Group
		g.Generation = 2
		c.Group = &g
		stale := withUserData(call("web", 1), "boot", "")
		l.Sync(c)
		if r := l.Sync(stale); hasReason(&r.Status, plan.ReasonSecretNotFound) {
			t.Errorf("the stale call is answered %s %q", r.Status.Phase, r.Status.LastMessage)
		}
		l.Sync(c)
		until(t, time.Minute, "a member is on", func() bool { _, on := m.members(c.Ref()); return on == 1 })
		missing := c
		missing.Related = stale.Related
		m.set(c.Ref(), func(s *plan.VCenterState) { s.VMs = nil })
		r := l.Sync(missing)
		time.Sleep(20 * time.Second)
		if all, _ := m.members(c.Ref()); r.Status.Phase != v1alpha1.PhaseError || all != 0 {
			t.Errorf("%s %q, and %d members", r.Status.Phase, r.Status.LastMessage, all)
		}
		if faults := l.Groups()[0].Faults; len(faults) != 1 || faults[0].Condition != v1alpha1.ConditionCloneBlocked || faults[0].Reason != plan.ReasonSecretNotFound {
			t.Errorf("%+v", faults)
		}
		m.bringUp(t, c)
	})
}

func TestNeitherTheLogNorAnyReportHasUserData(t *testing.T) {
	m := newModel(time.Second)
	m.fault = func(_ plan.Ref, a plan.Action) error {
		switch a.Key {
		case "web-1":
			return fmt.Errorf("a careless error: %v %+v", a, a)
		case "web-2":
			panic("a careless panic: " + planted)
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := hooks{New(Config{Slots: 8, Lease: 90 * time.Second, Resync: 30 * time.Second, Log: zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.DebugLevel)}, m)}
		m.loop = l
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		c := withUserData(call("web", 3), "boot", planted)
		r := l.Sync(c)
		time.Sleep(10 * time.Second)
		again := l.Sync(c)
		_, outlook, err := l.Preview(manifest(c))
		groups := l.Groups()
		cancel()
		<-done
		for _, v := range []any{r, again, outlook, err, groups} {
			text, _ := json.Marshal(v)
			if s := fmt.Sprintf("%+v %s", v, text); strings.Contains(s, "planted-secret") {
				t.Errorf("%T: %s", v, s)
			}
		}
		if !strings.Contains(log.String(), "action panicked") || strings.Contains(log.String(), "planted-secret") {
			t.Errorf("the log says %s", &log)
		}
		if len(groups) != 1 || len(groups[0].Pending) == 0 {
			t.Errorf("%+v", groups)
		}
	})
}

// A group that is being deleted loses its user data, and the next call brings the user data again. That is no change of the user data.
func TestADeletionForgetsNoFailureForUserDataThatIsBroughtAgain(t *testing.T) {
	m := newModel(0)
	m.setFault(func(_ plan.Ref, a plan.Action) error {
		if a.Op == plan.RemoveFolder {
			return fault{Reason: plan.ReasonFolderHoldsStranger, Message: "the folder contains what is not the group's", NeedsOperator: true}
		}
		return nil
	})
	bubble(t, m, Config{Lease: 2 * time.Second, Resync: time.Second}, func(t *testing.T, l hooks) {
		c := withUserData(call("web", 1), "boot", planted)
		l.Sync(c)
		time.Sleep(time.Second)
		gone := deletion(c)
		gone.Related = c.Related
		finalized := 0
		for range 60 {
			if l.Sync(gone).Finalized {
				finalized++
			}
			time.Sleep(time.Second)
		}
		if finalized < 40 {
			t.Errorf("%d of 60 calls returned finalized", finalized)
		}
	})
}

func TestEqualFailuresAreOneActionInTheHistory(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 27, 9, minute, 0, 0, time.UTC) }
	clone := func(vm, why string, minute int) plan.ActionReport {
		return plan.ActionReport{Op: plan.Clone, VM: vm, Result: "DatastoreFull", Message: why, Time: at(minute)}
	}
	var h history
	for minute := range 31 {
		h = h.with(clone("web-0", "full", minute)).with(clone("web-1", "full", minute))
	}
	if len(h) != 2 || h[0].VM != "web-1" || h[0].Times != 31 || !h[0].First.Equal(at(0)) || !h[0].Time.Equal(at(30)) {
		t.Errorf("%+v", h)
	}
	h = h.with(clone("web-0", "another one is full", 31))
	h = h.with(plan.ActionReport{Op: plan.Clone, VM: "web-0", Result: plan.ResultOK, Time: at(32)}).with(clone("web-0", "full", 33))
	if len(h) != 5 || h[0].Times != 0 || h[4].Times != 31 {
		t.Errorf("after another failure, and a success: %+v", h)
	}
}
