package inventory

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

const (
	none      = v1alpha1.AntiAffinityNone
	preferred = v1alpha1.AntiAffinityPreferred
	required  = v1alpha1.AntiAffinityRequired
)

// onHost is a member on a host.
func onHost(host string, ordinal int32) Machine {
	m := machine(web.UID, ordinal)
	m.Host, m.HostRef = host+".example.com", host
	return m
}

func refOf(ordinal int32) string { return machine(web.UID, ordinal).MoRef }

// someClusters are two clusters with DRS, one without, and a standalone host.
func someClusters() []Cluster {
	return []Cluster{{MoRef: "c0", Name: "C0", DRS: true, Hosts: []string{"h0", "h1"}}, {MoRef: "c1", Name: "C1", DRS: true, Hosts: []string{"h2"}},
		{MoRef: "c2", Name: "C2", Hosts: []string{"h3"}}, {MoRef: "s0", Name: "esx9", Standalone: true, Hosts: []string{"h9"}},
		{MoRef: "c3", Name: "C3", Unread: true, Hosts: []string{"h4"}}}
}

// ruled are the clusters of someClusters, with a rule in the first one.
func ruled(change func(*Rule), more ...Rule) []Cluster {
	all := someClusters()
	r := Rule{UID: web.UID, Name: stamp.RuleName(web), Key: 7, UUID: "u", Enabled: true, VMs: []string{refOf(0), refOf(1)}}
	change(&r)
	all[0].Rules = append([]Rule{r}, more...)
	return all
}

func asIs(*Rule) {}

func (s *filled) publishClusters(all []Cluster) { s.Publish(Reading{VCenter: "vc", Clusters: all}) }

func (s *filled) off(request v1alpha1.AntiAffinity) bool {
	return s.State(web, plan.Query{Rules: plan.Rules{AntiAffinity: request}}).RulesOff
}

func TestRulesAreOffWhenTheyDifferFromTheMembersOrTheRequest(t *testing.T) {
	t.Parallel()
	two, three := []Machine{onHost("h0", 0), onHost("h1", 1)}, []Machine{onHost("h0", 0), onHost("h1", 1), onHost("h2", 2)}
	quarantined := stamped(onHost("h1", 1), func(s *stamp.Stamp) { s.UID, s.Ordinal, s.Quarantined = web.UID, 1, stamp.Time(time.Now()) })
	asTemplate := onHost("h1", 1)
	asTemplate.Template = true
	second := Rule{UID: web.UID, Name: "vmgroup x " + string(web.UID), Key: 8, Enabled: true, VMs: []string{refOf(0), refOf(1)}}
	for _, c := range []struct {
		what     string
		machines []Machine
		clusters []Cluster
		wish     v1alpha1.AntiAffinity
		off      bool
	}{
		{"no member and no rule", nil, someClusters(), required, false},
		{"one member", two[:1], someClusters(), required, false},
		{"two, and no rule", two, someClusters(), preferred, true},
		{"two, and none is wanted", two, someClusters(), none, false},
		{"two, and nothing is said", two, someClusters(), "", false},
		{"the rule stands", two, ruled(asIs), preferred, false},
		{"it must be mandatory", two, ruled(asIs), required, true},
		{"it is mandatory", two, ruled(func(r *Rule) { r.Mandatory = true }), required, false},
		{"it is mandatory and must not be", two, ruled(func(r *Rule) { r.Mandatory = true }), preferred, true},
		{"it is disabled", two, ruled(func(r *Rule) { r.Enabled = false }), preferred, true},
		{"it stands, and none is wanted", two, ruled(asIs), none, true},
		{"it stands, and nothing is said", two, ruled(asIs), "", true},
		{"it stands, and the members are gone", nil, ruled(asIs), preferred, true},
		{"it names one that is gone", two[:1], ruled(asIs), preferred, true},
		{"it names one too many", two, ruled(func(r *Rule) { r.VMs = append(r.VMs, "vm-x") }), preferred, true},
		{"one joined it", append(slices.Clone(two), onHost("h0", 5)), ruled(asIs), preferred, true},
		{"a third is alone in another cluster", three, ruled(asIs), preferred, false},
		{"two are in another cluster", append(slices.Clone(three), onHost("h2", 3)), ruled(asIs), preferred, true},
		{"one is in quarantine", []Machine{two[0], quarantined}, someClusters(), required, false},
		{"one is a template", []Machine{two[0], asTemplate}, someClusters(), required, false},
		{"it is there twice", two, ruled(asIs, second), preferred, true},
		{"another group's", two[:1], ruled(func(r *Rule) { r.UID = "uid-db" }), preferred, false},
		{"DRS is off, preferred", []Machine{onHost("h3", 0), onHost("h3", 1)}, someClusters(), preferred, false},
		{"DRS is off, required", []Machine{onHost("h3", 0), onHost("h3", 1)}, someClusters(), required, true},
		{"DRS is off, one each", []Machine{onHost("h3", 0), onHost("h0", 1)}, someClusters(), required, false},
		{"standalone, preferred", []Machine{onHost("h9", 0), onHost("h9", 1)}, someClusters(), preferred, false},
		{"standalone, required", []Machine{onHost("h9", 0), onHost("h9", 1)}, someClusters(), required, true},
		{"the cluster cannot be read", []Machine{onHost("h4", 0), onHost("h4", 1)}, someClusters(), preferred, true},
		{"the host is unknown", []Machine{onHost("h0", 0), onHost("h77", 1)}, someClusters(), preferred, true},
		{"the host is unknown, and none is wanted", []Machine{onHost("h0", 0), onHost("h77", 1)}, someClusters(), none, false},
	} {
		s := newFilled()
		s.publish(c.machines...)
		s.publishClusters(c.clusters)
		for range 2 { // the second answer comes from the cache
			if got := s.off(c.wish); got != c.off {
				t.Errorf("%s: off is %t; want %t", c.what, got, c.off)
			}
		}
	}
}

func TestRulesForHostGroupsAreOffWhenTheyDifferFromTheMembersOrTheRequest(t *testing.T) {
	t.Parallel()
	hosts := func(rule v1alpha1.HostRule, names ...string) plan.Rules {
		return plan.Rules{HostGroup: &v1alpha1.HostGroup{Names: names, Rule: rule}}
	}
	site := hosts(v1alpha1.HostRulePreferred, "a")
	name := stamp.VMGroupName(web, 0)
	bound := func(change func(*Rule, *VMGroup)) []Cluster {
		all := someClusters()
		all[0].HostGroups = []string{"a", "b"}
		r := Rule{UID: web.UID, Name: name, Key: 7, UUID: "u", Enabled: true, ForHosts: true, VMGroup: name, HostGroup: "a"}
		vms := VMGroup{UID: web.UID, Name: name, VMs: []string{refOf(0), refOf(1)}}
		if change != nil {
			change(&r, &vms)
			all[0].Rules, all[0].VMGroups = []Rule{r}, []VMGroup{vms}
		}
		return all
	}
	asIs := func(*Rule, *VMGroup) {}
	two := []Machine{onHost("h0", 0), onHost("h1", 1)}
	for _, c := range []struct {
		what     string
		machines []Machine
		clusters []Cluster
		wish     plan.Rules
		off      bool
	}{
		{"no member", nil, bound(nil), site, false},
		{"one member, and no rule", two[:1], bound(nil), site, true},
		{"the rule stands", two, bound(asIs), site, false},
		{"it must be mandatory", two, bound(asIs), hosts(v1alpha1.HostRuleRequired, "a"), true},
		{"it is for another host group", two, bound(asIs), hosts(v1alpha1.HostRulePreferred, "b"), true},
		{"it is disabled", two, bound(func(r *Rule, _ *VMGroup) { r.Enabled = false }), site, true},
		{"it names another VM group", two, bound(func(r *Rule, _ *VMGroup) { r.VMGroup = "x" }), site, true},
		{"the VM group lacks one", two, bound(func(_ *Rule, g *VMGroup) { g.VMs = g.VMs[:1] }), site, true},
		{"the VM group has another name", two, bound(func(_ *Rule, g *VMGroup) { g.Name = stamp.VMGroupName(web, 1) }), site, true},
		{"one is to be on another host group", two, bound(asIs), hosts(v1alpha1.HostRulePreferred, "a", "b"), true},
		{"it stands, and none is wanted", two, bound(asIs), plan.Rules{}, true},
		{"only the VM group is left", two, append(bound(asIs)[1:], Cluster{MoRef: "c0", VMGroups: []VMGroup{{UID: web.UID, Name: name}}}), plan.Rules{}, true},
		{"it stands, and the members are gone", nil, bound(asIs), site, true},
		{"the host group is missing", two, bound(asIs), hosts(v1alpha1.HostRulePreferred, "c"), true},
		{"DRS is off, preferred", []Machine{onHost("h3", 0)}, bound(nil), site, false},
		{"DRS is off, required", []Machine{onHost("h3", 0)}, bound(nil), hosts(v1alpha1.HostRuleRequired, "a"), true},
		{"standalone, preferred", []Machine{onHost("h9", 0)}, bound(nil), site, false},
		{"standalone, required", []Machine{onHost("h9", 0)}, bound(nil), hosts(v1alpha1.HostRuleRequired, "a"), true},
		{"the cluster cannot be read", []Machine{onHost("h4", 0)}, bound(nil), site, true},
	} {
		s := newFilled()
		s.publish(c.machines...)
		s.publishClusters(c.clusters)
		if got := s.State(web, plan.Query{Rules: c.wish}).RulesOff; got != c.off {
			t.Errorf("%s: off is %t; want %t", c.what, got, c.off)
		}
	}
}

func TestARuleForAHostGroupComesAfterItsVMGroupAndGoesBeforeIt(t *testing.T) {
	t.Parallel()
	s := newFilled()
	s.publish(onHost("h0", 0))
	all := someClusters()
	all[0].HostGroups = []string{"a"}
	next := func(wish plan.Rules) RuleChange {
		t.Helper()
		s.publishClusters(slices.Clone(all))
		changes, lack := s.RuleChanges(web, wish)
		if lack != nil || len(changes) != 1 {
			t.Fatalf("the changes are %v, and they lack %v, want one change that suffices", changes, lack)
		}
		return changes[0]
	}
	site := plan.Rules{HostGroup: &v1alpha1.HostGroup{Names: []string{"a"}}}
	c := next(site)
	if len(c.AddGroups) != 1 || len(c.Set) > 0 {
		t.Fatalf("the first change is %+v, want the VM group alone", c)
	}
	all[0].VMGroups = c.AddGroups
	if c = next(site); len(c.Set) != 1 || c.Set[0].VMGroup != all[0].VMGroups[0].Name || len(c.AddGroups)+len(c.EditGroups) > 0 {
		t.Fatalf("the second change is %+v, want the rule for the VM group alone", c)
	}
	all[0].Rules = c.Set
	if c = next(plan.Rules{}); len(c.Remove) != 1 || len(c.RemoveGroups) > 0 {
		t.Fatalf("the change without a host group is %+v, want the removal of the rule alone", c)
	}
	all[0].Rules = nil
	if c = next(plan.Rules{}); len(c.Remove) > 0 || !slices.Equal(c.RemoveGroups, []string{all[0].VMGroups[0].Name}) {
		t.Fatalf("the change after the rule's removal is %+v, want the removal of the VM group alone", c)
	}
}

func TestBeforeTheClustersAreReadOnlyARequiredRuleIsMissing(t *testing.T) {
	t.Parallel()
	s := newFilled()
	s.publish(onHost("h0", 0), onHost("h1", 1))
	if s.off(none) || s.off(preferred) || !s.off(required) {
		t.Error("preferred is off, or required is not")
	}
	if _, err := s.RuleChanges(web, plan.Rules{AntiAffinity: required}); vctest.ReasonOf(t, err) != plan.ReasonInventoryNotRead {
		t.Error(err)
	}
}

func TestAGroupIsNotifiedWhenItsRulesChangeOrMayHaveTo(t *testing.T) {
	t.Parallel()
	s := newFilled()
	s.publish(onHost("h0", 0), onHost("h1", 1))
	s.publishClusters(someClusters())
	s.off(preferred)
	noDRS := ruled(func(r *Rule) { r.UID = "uid-other" })
	noDRS[0].DRS = false
	for _, c := range []struct {
		what     string
		clusters []Cluster
		notified []types.UID
	}{
		{"nothing changed", someClusters(), nil},
		{"its rule came", ruled(asIs), []types.UID{web.UID}},
		{"nothing changed", ruled(asIs), nil},
		{"its rule changed", ruled(func(r *Rule) { r.Enabled = false }), []types.UID{web.UID}},
		{"another's came, and its own went", ruled(func(r *Rule) { r.UID = "uid-other" }), []types.UID{"uid-other", web.UID}},
		{"DRS was turned off", noDRS, []types.UID{web.UID}},
	} {
		s.notified = nil
		s.publishClusters(c.clusters)
		slices.Sort(s.notified)
		if !slices.Equal(s.notified, c.notified) {
			t.Errorf("%s: the groups %v were notified; want %v", c.what, s.notified, c.notified)
		}
	}
	s.publishClusters(ruled(asIs))
	if s.off(preferred) {
		t.Fatal("the rule stands")
	}
	s.notified = nil
	s.publish(onHost("h2", 1)) // a vMotion moved the member
	if !s.off(preferred) || len(s.notified) != 1 {
		t.Errorf("after a member left the cluster, the rule is off: %t, and %v were notified; want it off, and one group", s.off(preferred), s.notified)
	}
	if !s.usesRules() {
		t.Error("the rules are not checked again")
	}
}

func TestARuleIsKnownByTheUIDAtTheEndOfItsName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		long := plan.Ref{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("g", 50), UID: "5e0c1a4e-8f7b-4b0e-9d2c-000000000001"}
		for _, ref := range []plan.Ref{web, long} {
			if name := stamp.RuleName(ref); len(name) > 80 || stamp.RuleOwner(name) != ref.UID {
				t.Errorf("%q, of %q", name, stamp.RuleOwner(name))
			}
		}
		for _, name := range []string{"", "separate web", "vmgroup", "vmgroup ", "vmgroup uid-web", "my vmgroup shop/web uid-web"} {
			if owner := stamp.RuleOwner(name); owner != "" {
				t.Errorf("%q counts as %s's; want none", name, owner)
			}
		}
		apart := func(name string) *vim.ClusterAntiAffinityRuleSpec {
			return &vim.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: vim.ClusterRuleInfo{Name: name, Key: 3}}
		}
		rules := decodeRules([]vim.BaseClusterRuleInfo{apart("separate"), apart(stamp.RuleName(web)),
			&vim.ClusterAffinityRuleSpec{ClusterRuleInfo: vim.ClusterRuleInfo{Name: stamp.RuleName(web)}}})
		if len(rules) != 1 || rules[0].UID != web.UID {
			t.Errorf("the rules are %+v, want only the anti-affinity rule with a group's name", rules)
		}
	})
}

// The test is not parallel, because it counts allocations of the whole process.
func TestRulesCostNothingForGroupsWithoutThem(t *testing.T) {
	n := many()
	n.Publish(Reading{VCenter: "vc", Clusters: ruled(asIs)})
	ref := plan.Ref{Namespace: "shop", Name: "web", UID: "uid-500"}
	allocations := func(ask plan.Query) float64 {
		least := math.Inf(1) // the minimum of several runs, because AllocsPerRun also counts what the runtime itself allocates
		for range 10 {
			least = min(least, testing.AllocsPerRun(100, func() { n.State(ref, ask) }))
		}
		return least
	}
	plain := allocations(plan.Query{Template: "ubuntu"})
	if plain > 1 {
		t.Errorf("%v allocations; want at most 1", plain)
	}
	wanting := allocations(plan.Query{Template: "ubuntu", Rules: plan.Rules{AntiAffinity: preferred}})
	if wanting > plain {
		t.Errorf("%v allocations while nothing changes, not %v", wanting, plain)
	}
}
