package test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// samples returns the samples of a registry's gauges whose names begin so, as text.
func samples(t *testing.T, r prometheus.Gatherer, names ...string) (all []string) {
	t.Helper()
	families, err := r.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			if name := strings.TrimPrefix(f.GetName(), "vmgroup_"); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) }) {
				all = append(all, fmt.Sprintf("%s{%s} %v", name, strings.Join(labels, ","), m.GetGauge().GetValue()))
			}
		}
	}
	return all
}

// A host that is down is one cause, whichever groups have members on it: its name is in the metric, and in each group's condition, message and Event, and
// each group's trouble is the site's.
func TestAHostThatIsDownIsNamed(t *testing.T) {
	inRig(t, vcsim.Config{Hosts: 2}, func(t *testing.T, r *rig) {
		registry := prometheus.NewRegistry()
		s := r.serve(counted(registry), func(_ *vsphere.Config, c *loop.Config) { c.Metrics, c.GroupMetrics = registry, true })
		groups := []*metacontroller.Group{s.group("web", 3), s.group("db", 2), s.group("one", 1)}
		for _, g := range groups {
			up(t, g)
		}
		host := r.details("/DC0/vm/vm-operator/default/one/one-0").Host
		down := path.Base(host)
		on := 0
		for _, g := range groups {
			for _, m := range g.Status.Members {
				on += int(map[bool]int{true: 1}[m.Host == down])
			}
		}
		r.must(r.SetConnected(host, false))
		began := time.Now()
		lost := 0
		for _, g := range groups {
			here := slices.ContainsFunc(g.Status.Members, func(m v1alpha1.Member) bool { return m.Host == down })
			if !here {
				continue
			}
			a := until(t, g, "its members on the host are unreachable", func(a metacontroller.Answer) bool {
				return condition(a, v1alpha1.ConditionMembersUnreachable).Status == "True"
			})
			lost++
			if c := condition(a, v1alpha1.ConditionMembersUnreachable); !strings.HasSuffix(c.Message, "(disconnected, on "+down+")") || !strings.Contains(a.Status.LastMessage, down) {
				t.Errorf("%s: %s; %s", g.Name, c.Message, a.Status.LastMessage)
			}
			called(t, time.Minute, g)
			if told := eventsOf(t, g)["MemberUnreachable"]; strings.Count(told, "\n") != 1 || !strings.HasPrefix(told, "Out of vCenter's reach (disconnected, on "+down+"): "+g.Name) {
				t.Errorf("%s: Events %q", g.Name, told)
			}
			for _, m := range a.Status.Members {
				if m.Host == down && (m.Reason != "Unreachable" || !strings.HasSuffix(m.Message, "as last known")) {
					t.Errorf("%+v", m)
				}
			}
		}
		t.Logf("%d members of %d groups, told after %s", on, lost, time.Since(began))
		called(t, 10*time.Second, groups...)
		all := samples(t, registry, "members_unreachable", "groups_troubled", "group_phase", "group_members_unready", "groups_in_vcenter", "vcenter_unknown")
		for _, want := range []string{fmt.Sprintf("members_unreachable{host=%s,state=disconnected} %d", down, on), "groups_in_vcenter{} 3",
			"group_phase{group=one,namespace=default,phase=PENDING,reason=Unreachable,scope=site} 1", "group_members_unready{group=one,namespace=default,reason=Unreachable,scope=site} 1"} {
			if !slices.Contains(all, want) {
				t.Errorf("there is no %s: %q", want, all)
			}
		}
		if slices.ContainsFunc(all, func(s string) bool {
			return strings.Contains(s, "scope=group") || strings.HasPrefix(s, "vcenter_unknown")
		}) {
			t.Errorf("%q", all)
		}
		r.must(r.SetConnected(host, true))
		for _, g := range groups {
			up(t, g)
		}
		if all := samples(t, registry, "members_unreachable", "groups_troubled", "group_members_unready"); len(all) > 0 {
			t.Errorf("the host is back: %q", all)
		}
		r.Down()
		until(t, groups[0], "vCenter is away", func(a metacontroller.Answer) bool {
			return condition(a, v1alpha1.ConditionVCenterReachable).Status == "False"
		})
		called(t, time.Minute, groups...)
		if all := samples(t, registry, "vcenter_unknown", "groups_troubled"); !slices.Equal(all, []string{
			"groups_troubled{harm=none,phase=PENDING,reason=VCenterUnreachable,scope=vcenter} 3", "vcenter_unknown{reason=VCenterUnreachable} 1"}) {
			t.Errorf("vCenter is away: %q", all)
		}
	})
}
