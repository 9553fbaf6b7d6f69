package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

var (
	serviceKey = plan.ChildKey{Kind: plan.KindService, Name: "web"}
	sliceKey   = plan.ChildKey{Kind: plan.KindEndpointSlice, Name: "web-ipv4-0"}
)

// The clusterIP of a Service cannot be changed, not even to none.
func TestAServiceIsLeftOutOnceWhenItsTypeChanges(t *testing.T) {
	t.Parallel()
	types := []v1alpha1.ServiceType{v1alpha1.ServiceHeadless, v1alpha1.ServiceClusterIP, v1alpha1.ServiceHeadless, v1alpha1.ServiceLoadBalancer, v1alpha1.ServiceHeadless}
	o := served(1, v1alpha1.Service{Ports: web})
	for i, kind := range types {
		o.Group.Spec.Service.Type = kind
		r := planner.Make(o)
		left := objects(t, &r)
		if _, there := left[serviceKey]; there == (i > 0) {
			t.Fatalf("%s: the Service is among the children: %v", kind, there)
		}
		if left[sliceKey] == "" {
			t.Fatalf("%s: the slice is not among the children", kind)
		}
		apply(t, &o, &r)
		r = planner.Make(o)
		if text := objects(t, &r)[serviceKey]; strings.Contains(text, `"None"`) != (kind == v1alpha1.ServiceHeadless) || text == "" {
			t.Fatalf("%s: the Service afterwards: %s", kind, text)
		}
		apply(t, &o, &r)
	}
}

// A Service that has an address keeps it when it becomes reachable from outside of the cluster, or no longer.
func TestAServiceStaysWhenItGetsALoadBalancer(t *testing.T) {
	t.Parallel()
	o := served(1, v1alpha1.Service{Type: v1alpha1.ServiceClusterIP, Ports: web})
	r := planner.Make(o)
	apply(t, &o, &r)
	for _, kind := range []v1alpha1.ServiceType{v1alpha1.ServiceLoadBalancer, v1alpha1.ServiceClusterIP} {
		o.Group.Spec.Service.Type = kind
		r := planner.Make(o)
		if text := objects(t, &r)[serviceKey]; !strings.Contains(text, `"type":"`+string(kind)+`"`) {
			t.Fatalf("%s: the Service is %s", kind, text)
		}
		apply(t, &o, &r)
	}
}

func TestAnEndpointShowsItsMembersState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(o *plan.Observed, m *plan.VM)
		want   string // ready, serving, terminating; empty: no endpoint
	}{
		"ready":       {func(*plan.Observed, *plan.VM) {}, "true true false"},
		"unreachable": {func(_ *plan.Observed, m *plan.VM) { m.Reachable = false }, "false false false"},
		"suspended":   {func(_ *plan.Observed, m *plan.VM) { m.Power = plan.Suspended }, "false false false"},
		"marked":      {func(_ *plan.Observed, m *plan.VM) { m.Marked = true }, "false true true"},
		"marked and unready": {func(o *plan.Observed, m *plan.VM) {
			m.Marked = true
			o.Group.Spec.Readiness.TCPSocket = &v1alpha1.TCPSocket{Port: 80}
			o.Answers.Of = map[string]plan.Answer{m.MoRef: {Address: plan.AskedAddress(m.IPs), Concluded: plan.Silent}}
		}, "false false true"},
		"asked to halt": {func(_ *plan.Observed, m *plan.VM) {
			m.BootTime, m.Marked = now.Add(-time.Hour), true
			m.Shutdown = plan.Moment{At: now, Boot: m.BootTime}
		}, "false false true"},
		"without an address": {func(_ *plan.Observed, m *plan.VM) { m.IPs = nil }, ""},
		"with addresses that no client can use": {func(_ *plan.Observed, m *plan.VM) {
			m.IPs = []string{"127.0.0.1", "169.254.0.9", "fe80::1", "0.0.0.0", "224.0.0.9", "nonsense"}
		}, ""},
		"a duplicate is not published, and the member is": {func(o *plan.Observed, m *plan.VM) {
			second := *m
			second.MoRef, second.IPs, m.Created = "vm-000", []string{"10.0.0.9"}, now
			o.State.VMs = append(o.State.VMs, second)
		}, "true true false"},
		"in quarantine": {func(_ *plan.Observed, m *plan.VM) { m.Marked, m.Quarantined = true, now }, ""},
		"hidden by a lost privilege": {func(o *plan.Observed, m *plan.VM) {
			o.Group.Status.VCenterUUID = vcenter
			o.Group.Status.Members = []v1alpha1.Member{{Name: m.Name, MoRef: m.MoRef, IPs: m.IPs, Ready: true}}
			o.State.VMs = nil
		}, "false false false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := served(1, v1alpha1.Service{})
			c.change(&o, &o.State.VMs[0])
			got := ""
			for _, child := range planner.Make(o).Children {
				if fields, is := child.Fields.(plan.EndpointSliceFields); is && child.Key == sliceKey {
					e := fields.Endpoints[0]
					got = fmt.Sprint(e.Conditions.Ready, e.Conditions.Serving, e.Conditions.Terminating)
					if e.Hostname != "web-0" || !slices.Equal(e.Addresses, []string{"10.0.0.1"}) {
						t.Errorf("the endpoint is %+v, not web-0 at 10.0.0.1", e)
					}
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func conflict(r *plan.Result) string {
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.ConditionChildMissing {
			return c.Message
		}
	}
	return ""
}

func TestAChildThatNeverAppearsSetsACondition(t *testing.T) {
	t.Parallel()
	o := served(1, v1alpha1.Service{})
	r := planner.Make(o)
	apply(t, &o, &r)
	delete(o.Children, sliceKey)
	delete(o.Children, serviceKey)
	o.ChildrenWantedSince = map[plan.ChildKey]time.Time{serviceKey: now, sliceKey: now}
	if r = planner.Make(o); conflict(&r) != "" {
		t.Errorf("at once: %s", conflict(&r))
	}
	// Nothing says that the Service is another's, but it is not the group's yet.
	if ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); r.Status.Phase == v1alpha1.PhaseRunning || ready.Status == metav1.ConditionTrue ||
		!strings.Contains(r.Status.LastMessage, "waiting for the Service web to exist") {
		t.Errorf("at once, without its Service: %s, Ready is %s: %s", r.Status.Phase, ready.Status, r.Status.LastMessage)
	}
	o.Now = now.Add(31 * time.Second)
	o.ChildrenWantedSince[sliceKey] = o.Now
	r = planner.Make(o)
	// Nobody tells the hooks whether another object has the name or the API server refuses the child.
	if want := "Kubernetes doesn't have the group's Service web: if the API server refuses to create it, the group's Event SyncError says why " +
		"(a quota, a policy, Metacontroller's rights); otherwise another object has the name: delete it, or recreate it under another name"; conflict(&r) != want {
		t.Errorf("after 31 s: %q", conflict(&r))
	}
	if _, there := objects(t, &r)[serviceKey]; !there {
		t.Error("the Service is not tried any more")
	}
	if _, there := objects(t, &r)[sliceKey]; there {
		t.Error("the foreign Service is given our endpoints")
	}

	store(t, &o, &r)
	delete(o.Children, serviceKey)
	o.ChildrenWantedSince = map[plan.ChildKey]time.Time{serviceKey: o.Now, {Kind: plan.KindConfigMap, Name: "web-members"}: o.Now}
	if r = planner.Make(o); !strings.Contains(conflict(&r), "Service web:") {
		t.Errorf("after a restart of the server: %q", conflict(&r))
	}
	o.Now = o.Now.Add(time.Minute)
	o.Group.Spec.Service = nil
	if r = planner.Make(o); conflict(&r) != "" {
		t.Errorf("when it is not wanted any more: %q", conflict(&r))
	}
}
