package planner_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// After any scaling, updates and losses, once nothing is left to do, the numbers of members of two zones differ by at most one, and no two members
// have the same address.
func TestZonesAreEvenAndAddressesUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := observed(rapid.Int32Range(0, 9).Draw(t, "replicas"))
		spec := &o.Group.Spec
		spec.Placement.Zones = []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "zones")]
		spec.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.59"}, PrefixLength: 24}}}
		spec.ScaleIn.Order = rapid.SampledFrom([]v1alpha1.ScaleInOrder{"", v1alpha1.ScaleInOldest, v1alpha1.ScaleInNewest}).Draw(t, "order")
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				n := rapid.Int32Range(0, 9).Draw(t, "to")
				spec.Replicas = &n
			case 1:
				spec.Template = rapid.SampledFrom([]string{"ubuntu", "debian"}).Draw(t, "template")
			case 2:
				drop(rapid.Int32Range(0, 9).Draw(t, "lost"))(&o)
			}
			for round := 0; ; round++ {
				o.Now = o.Now.Add(time.Second)
				o.Called = o.Now
				r := planner.Make(o)
				store(t, &o, &r)
				spec = &o.Group.Spec
				if len(r.Actions) == 0 && r.Wake == 0 || round == 300 {
					break
				}
				for _, a := range r.Actions {
					plan.Apply(&o, a)
				}
			}
			load, seen := make([]int, len(spec.Placement.Zones)), map[string]bool{}
			for _, m := range o.State.VMs {
				load[slices.Index(spec.Placement.Zones, plan.ZoneOf(spec, m.Ordinal))]++
				if seen[m.Addresses] || m.Addresses == "" {
					t.Fatalf("two members have %q", m.Addresses)
				}
				seen[m.Addresses] = true
			}
			if slices.Max(load)-slices.Min(load) > 1 {
				t.Fatalf("uneven: %v with %d members", load, len(o.State.VMs))
			}
		}
	})
}

// An upgrade of the server must not replace VMs, so the revision of a given spec never changes.
func TestRevisionsAreFixed(t *testing.T) {
	yes := true
	plain := v1alpha1.VmGroupSpec{CPU: 2, Memory: 4, Template: "ubuntu"}
	was, seen := "", map[string]string{}
	for _, c := range []struct {
		what   string
		change func(s *v1alpha1.VmGroupSpec)
	}{
		{"plain", func(*v1alpha1.VmGroupSpec) {}},
		{"linked", func(s *v1alpha1.VmGroupSpec) { s.Clone.Mode = v1alpha1.CloneLinked }},
		{"a snapshot", func(s *v1alpha1.VmGroupSpec) { s.Clone.Snapshot = "base" }},
		{"a pool", func(s *v1alpha1.VmGroupSpec) { s.Placement.Pool = "C0" }},
		{"a datastore", func(s *v1alpha1.VmGroupSpec) { s.Placement.Datastore = "C0" }},
		{"a policy", func(s *v1alpha1.VmGroupSpec) { s.Placement.StoragePolicy = "C0" }},
		{"zones", func(s *v1alpha1.VmGroupSpec) { s.Placement.Zones = []string{"C0", "C1"} }},
		{"other zones", func(s *v1alpha1.VmGroupSpec) { s.Placement.Zones = []string{"C1", "C0"} }},
		{"a network", func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "web"}} }},
		{"two networks", func(s *v1alpha1.VmGroupSpec) { s.Networks = []v1alpha1.Network{{Network: "web"}, {Network: "web"}} }},
		{"static addresses", func(s *v1alpha1.VmGroupSpec) {
			s.Networks = []v1alpha1.Network{{Network: "web", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.1"}, PrefixLength: 24, Gateway: "10.0.0.254"}}}
		}},
		{"and DHCP", func(s *v1alpha1.VmGroupSpec) {
			s.Networks = []v1alpha1.Network{{Network: "web", DHCP: &yes, IPv6: &v1alpha1.Addresses{Ranges: []string{"fd00::1"}, PrefixLength: 64}}}
		}},
		{"nameservers", func(s *v1alpha1.VmGroupSpec) {
			s.Networks = []v1alpha1.Network{{Network: "web", Nameservers: []string{"10.0.0.2"}, SearchDomains: []string{"example.com"}}}
		}},
		{"a customization specification", func(s *v1alpha1.VmGroupSpec) { s.CustomizationSpec = "linux" }},
	} {
		s := plain
		c.change(&s)
		got := plan.Revision(&s)
		if was = seen[got]; was != "" {
			t.Errorf("%s has the revision of %s", c.what, was)
		}
		seen[got] = c.what
		if want := fixedRevisions[c.what]; got != want {
			t.Errorf("the revision of %s is %s, was %s", c.what, got, want)
		}
	}
	if a, b := plan.RevisionWith(&plain, "0a1b"), plan.RevisionWith(&plain, "2c3d"); a == b || seen[a] != "" {
		t.Error("user data is not part of the revision")
	}
	more := plain
	more.Placement.AntiAffinity, more.Tags, more.Service = v1alpha1.AntiAffinityRequired, []v1alpha1.Tag{{Category: "a", Name: "b"}}, &v1alpha1.Service{}
	more.Clone.Mode, more.Placement.Folder, more.Placement.Datacenter = v1alpha1.CloneFull, "teams", "DC0"
	if plan.Revision(&more) != plan.Revision(&plain) {
		t.Error("a field that is changed in place, or cannot be changed, is part of the revision")
	}
}

var fixedRevisions = map[string]string{
	"plain":                         "e13a2d2156",
	"linked":                        "516d2d4510",
	"a snapshot":                    "c7a53d4ba7",
	"a pool":                        "3ce10cd9e0",
	"a datastore":                   "d87320c5f9",
	"a policy":                      "5908f86f8f",
	"zones":                         "0195bf9b19",
	"other zones":                   "85040e3208",
	"a network":                     "ea483b89a2",
	"two networks":                  "d8b031a1bb",
	"static addresses":              "cde29bf54f",
	"and DHCP":                      "f9cb61263a",
	"nameservers":                   "66735c4cd9",
	"a customization specification": "04dca3098e",
}
