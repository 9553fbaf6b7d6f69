package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// details returns the details of the VM at a path.
func (r *rig) details(path string) vcsim.Details {
	r.t.Helper()
	d, err := r.Details(path)
	r.must(err)
	return d
}

const webFolder = web + "/"

// blocked syncs a group until its phase is ERROR for the given reason, and returns the message.
func blocked(t testing.TB, g *metacontroller.Group, reason string) string {
	t.Helper()
	a := until(t, g, reason, func(a metacontroller.Answer) bool {
		ready := a.Status.Conditions[0]
		return a.Status.Phase == v1alpha1.PhaseError && ready.Reason == reason
	})
	return a.Status.LastMessage
}

func TestMembersAreSpreadOverClustersAndDRSRulesKeepThemApart(t *testing.T) {
	inRig(t, vcsim.Config{Clusters: 2, Hosts: 3}, func(t *testing.T, r *rig) {
		g := r.serve(inCluster0).group("web", 5)
		g.Spec.Placement.Zones = []string{"DC0_C0", "/DC0/host/DC0_C1"}
		g.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityRequired
		up(t, g)
		check := func(want ...string) {
			t.Helper()
			for i, names := range want {
				rules, err := r.Rules(fmt.Sprintf("/DC0/host/DC0_C%d", i))
				r.must(err)
				var got []string
				for _, rule := range rules {
					got = append(got, fmt.Sprintf("%s %v %v %v", strings.Join(rule.VMs, " "), rule.Enabled, rule.Mandatory, rule.Separate))
				}
				if text := strings.Join(got, "; "); text != names {
					t.Errorf("cluster %d has the rules %q, want %q", i, text, names)
				}
			}
		}
		check("web-0 web-2 web-4 true true true", "web-1 web-3 true true true")
		for i := range 5 {
			if at := r.details(fmt.Sprintf("%sweb-%d", webFolder, i)); !strings.HasPrefix(at.Pool, fmt.Sprintf("/DC0/host/DC0_C%d/", i%2)) {
				t.Errorf("web-%d is in %s; want %q at its start", i, at.Pool, fmt.Sprintf("/DC0/host/DC0_C%d/", i%2))
			}
		}
		g.Scale(2)
		up(t, g)
		eventually(t, patience, "one member in each cluster needs no rule", func() bool {
			a, err := g.Sync(within(t))
			r.must(err)
			return a.Status.Phase == v1alpha1.PhaseRunning && len(value(r.Rules("/DC0/host/DC0_C0")))+len(value(r.Rules("/DC0/host/DC0_C1"))) == 0
		})
		g.Scale(3)
		g.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
		up(t, g)
		check("web-0 web-2 true false true", "")
		r.must(r.AddRule("/DC0/host/DC0_C0", "an operator's", "web-0", "web-2"))
		remove(t, g)
		if rules := value(r.Rules("/DC0/host/DC0_C0")); slices.ContainsFunc(rules, func(x vcsim.Rule) bool { return x.Name != "an operator's" }) {
			t.Errorf("rules are left: %+v", rules)
		}
	})
}

func TestMembersAreBoundToTheHostGroupsOfTheirSites(t *testing.T) {
	inRig(t, vcsim.Config{Hosts: 4}, func(t *testing.T, r *rig) {
		const cluster = "/DC0/host/DC0_C0"
		r.must(r.SetHostGroup(cluster, "site/a", cluster+"/DC0_C0_H0", cluster+"/DC0_C0_H1"))
		g := r.serve(inCluster0).group("web", 3)
		g.Spec.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"site/a", "site-b"}, Rule: v1alpha1.HostRuleRequired}
		if text := blocked(t, g, "HostGroupNotFound"); !strings.Contains(text, `"site-b"`) || !strings.Contains(text, "site/a") {
			t.Errorf("the status says %q; want %q and %q in the text", text, `"site-b"`, "site/a")
		}
		_, answer := ask(t, g, "/plan", g.VmGroup.DeepCopy(), false)
		if !strings.Contains(answer, "HostGroupNotFound") {
			t.Errorf("the plan is %s; want %q in the text", answer, "HostGroupNotFound")
		}
		r.must(r.SetHostGroup(cluster, "site-b", cluster+"/DC0_C0_H2", cluster+"/DC0_C0_H3"))
		check := func(want ...string) {
			t.Helper()
			var got []string
			for _, rule := range value(r.Rules(cluster)) {
				got = append(got, fmt.Sprintf("%s on %s %v %v", strings.Join(rule.VMs, " "), rule.HostGroup, rule.Enabled, rule.Mandatory))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the rules are %q, want %q", got, want)
			}
		}
		up(t, g)
		check("web-0 web-2 on site%2fa true true", "web-1 on site-b true true")
		members := refs(r.members())
		settled := func(what string) {
			t.Helper()
			eventually(t, patience, what, func() bool {
				a, err := g.Sync(within(t))
				r.must(err)
				return a.Status.Phase == v1alpha1.PhaseRunning && a.Status.ObservedGeneration == g.Generation
			})
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"site-b"}, Rule: v1alpha1.HostRulePreferred}
		})
		settled("one site for all")
		check("web-0 web-1 web-2 on site-b true false")
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Placement.HostGroup = nil })
		settled("no site")
		check()
		if now := refs(r.members()); !maps.Equal(now, members) {
			t.Errorf("members were %v, and are %v", members, now)
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"site/a", "site-b"}, Rule: v1alpha1.HostRuleRequired}
		})
		settled("two sites again")
		g.Scale(1)
		up(t, g)
		settled("one member")
		check("web-0 on site%2fa true true")
		remove(t, g)
		if groups := value(r.VMGroups(cluster)); len(value(r.Rules(cluster))) > 0 || len(groups) > 0 {
			t.Errorf("the rules %v and groups %v are left", value(r.Rules(cluster)), groups)
		}
	})
}

// Another tool may revert each change that the server makes to the cluster's VM groups.
func TestAVMGroupThatDoesNotStayIsSaidAndNotSetForEver(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		const cluster = "/DC0/host/DC0_C0"
		r.must(r.SetHostGroup(cluster, "site-a", cluster+"/DC0_C0_H0"))
		r.Rewrite(withoutVMGroups)
		g := r.serve(inCluster0).group("web", 1)
		g.Spec.Placement.HostGroup = &v1alpha1.HostGroup{Names: []string{"site-a"}}
		until(t, g, "the status says that vCenter does not keep the DRS VM group", func(a metacontroller.Answer) bool {
			return strings.Contains(a.Status.LastMessage, "vCenter does not keep the DRS VM group") && strings.Contains(a.Status.LastMessage, "spec.placement.hostGroup")
		})
		before := r.Calls()["ReconfigureComputeResource_Task"]
		for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(2 * time.Second) {
			_, err := g.Sync(within(t))
			r.must(err)
		}
		if n := r.Calls()["ReconfigureComputeResource_Task"] - before; n > 60 {
			t.Errorf("%d changes in three minutes; want at most 60", n)
		}
		r.Rewrite(nil)
		up(t, g)
		r.Rewrite(withoutVMGroups) // a deletion ends although the VM group stays, which names no VM any more
		remove(t, g)
		if groups := value(r.VMGroups(cluster)); len(groups) != 1 {
			t.Errorf("vCenter has the VM groups %v; want the one that it kept", groups)
		}
	})
}

// A tool that reverts each change at once causes a persistent fault: the status reports it all the time, and the server retries once a
// minute.
func TestARuleThatIsTakenBackEachTimeIsSaidAndSetOnceAMinute(t *testing.T) {
	thin.NotShort(t)
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		const cluster = "/DC0/host/DC0_C0"
		at, err := r.Find(cluster)
		r.must(err)
		taken := 0
		takeBack := func() {
			for _, rule := range value(r.Rules(cluster)) {
				taken++
				task, err := object.NewClusterComputeResource(r.admin.Client, at).Reconfigure(within(t), &types.ClusterConfigSpecEx{RulesSpec: []types.ClusterRuleSpec{{
					ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationRemove, RemoveKey: rule.Key}}}}, true)
				r.must(err)
				r.must(task.Wait(within(t)))
			}
		}
		g := r.serve(inCluster0).group("web", 2)
		g.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
		up(t, g)
		live := func(during time.Duration) (said, samples, sets, statuses int) {
			before, last := taken, ""
			for began := time.Now(); time.Since(began) < during; time.Sleep(time.Second) {
				takeBack()
				a, err := g.Sync(within(t))
				r.must(err)
				if samples++; a.Status.Phase == v1alpha1.PhaseError && strings.Contains(a.Status.LastMessage, "changes it back") {
					said++
				}
				if text := string(value(json.Marshal(a.Status))); text != last {
					last, statuses = text, statuses+1
				}
			}
			return said, samples, taken - before, statuses
		}
		live(6 * time.Minute)
		said, samples, sets, statuses := live(20 * time.Minute)
		t.Logf("in 20 minutes: %d changes by the server, said in %d of %d answers, %d statuses", sets, said, samples, statuses)
		if sets > 22 || said < samples || statuses > 1 {
			t.Errorf("in 20 minutes: %d changes by the server, said in %d of %d answers, %d statuses", sets, said, samples, statuses)
		}
		began := time.Now()
		up(t, g)
		if took := time.Since(began); took > 3*time.Minute { // two minutes for the change, and one until the server sees that the rule is gone
			t.Errorf("the group is as its spec says only %s after the tool was stopped", took)
		}
	})
}

func value[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAGroupIsPlacedInTheDatacenterAndFolderOfItsSpec(t *testing.T) {
	inRig(t, vcsim.Config{Datacenters: 2}, func(t *testing.T, r *rig) {
		_, err := r.AddTemplate("/DC1/vm", "vm-operator-template")
		r.must(err)
		g := r.serve(inDC0).group("web", 2)
		g.Spec.Placement.Datacenter, g.Spec.Placement.Folder = "DC1", "teams/shop"
		up(t, g)
		equal(t, r.names("/DC1/vm/teams/shop/vmgroups/default/web"), running(2))
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Placement.Folder = "" })
		blocked(t, g, "PlacementImmutable")
		equal(t, r.names("/DC1/vm/teams/shop/vmgroups/default/web"), running(2))
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Placement.Folder = "teams/shop" })
		up(t, g)
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Deletion.QuarantineSeconds = 600 })
		g.Scale(1)
		up(t, g)
		g.Scale(2)
		up(t, g)
		remove(t, g)
		if _, err := r.find.Folder(within(t), "/DC1/vm/teams/shop/vmgroups/default/web"); err == nil {
			t.Error("the group's folder is left behind")
		}
		g = r.serve(inDC0).group("other", 1)
		g.Spec.Placement.Datacenter = "DC7"
		if text := blocked(t, g, "DatacenterNotFound"); !strings.Contains(text, "spec.placement.datacenter") || !strings.Contains(text, "DC1") {
			t.Errorf("the status says %q; want %q and %q in the text", text, "spec.placement.datacenter", "DC1")
		}
		remove(t, g)
	})
}

// The folders that the server made for groups go with the last group that needs them; those that it didn't make, or that have an object or a permission,
// stay.
func TestFoldersThatNoGroupNeedsGo(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		deep := "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t"
		exists := func(at string) bool {
			_, err := r.find.Folder(within(t), at)
			return err == nil
		}
		_, err := r.MakeFolder("/DC0/vm/teams")
		r.must(err)
		s := r.serve()
		for range 2 {
			g := s.group("web", 1)
			g.Spec.Placement.Folder = deep
			up(t, g)
			remove(t, g)
			eventually(t, patience, "no folder that the server made for the group is left", func() bool { return !exists("/DC0/vm/a") })
		}
		one, two := s.group("one", 1), s.group("two", 1)
		one.Spec.Placement.Folder, two.Spec.Placement.Folder = "teams/shop", "teams/shop"
		up(t, one)
		up(t, two)
		remove(t, one)
		if !exists("/DC0/vm/teams/shop/vmgroups/default/two") {
			t.Fatal("a group's folder is gone with another group")
		}
		_, err = r.MakeFolder("/DC0/vm/teams/shop/notes")
		r.must(err)
		remove(t, two)
		eventually(t, patience, "the folder vmgroups is gone", func() bool { return !exists("/DC0/vm/teams/shop/vmgroups") })
		if time.Sleep(time.Minute); !exists("/DC0/vm/teams/shop/notes") {
			t.Error("a folder with another one in it is gone")
		}
		third := s.group("third", 1)
		third.Spec.Placement.Folder = "teams/bank"
		up(t, third)
		r.must(r.Permit("/DC0/vm/teams/bank", "bank"))
		remove(t, third)
		eventually(t, patience, "the folder vmgroups is gone", func() bool { return !exists("/DC0/vm/teams/bank/vmgroups") })
		if time.Sleep(time.Minute); !exists("/DC0/vm/teams/bank") {
			t.Error("a folder is gone on which an admin has set a permission")
		}
		fourth := s.group("fourth", 1)
		fourth.Spec.Placement.Folder = "teams/new"
		up(t, fourth)
		s.stop()
		fourth.URL = r.serve().url
		up(t, fourth)
		remove(t, fourth)
		if time.Sleep(time.Minute); !exists("/DC0/vm/teams/new/vmgroups/default") || exists("/DC0/vm/teams/new/vmgroups/default/fourth") {
			t.Error("another process removed a folder that it didn't make, or left the group's")
		}
	})
}

// inCluster0 and inDC0 name the cluster and the datacenter that would otherwise be ambiguous to the server.
func inCluster0(c *vsphere.Config, _ *loop.Config) { c.Pool, c.Datastore = "DC0_C0", "LocalDS_0" }
func inDC0(c *vsphere.Config, _ *loop.Config)      { c.Datacenter = "DC0" }

// The group web-1 of another tenant's namespace web, with the placement folder apps/shop, would have the folder apps/shop/web/web-1. That folder would
// take the name of a member.
func TestNoGroupTakesTheNameOfAnothersMemberByItsFolder(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		s := r.serve()
		victim, other := s.groupOf("shop", "web", "uid-victim", 1), s.groupOf("web", "web-1", "uid-other", 1)
		victim.Spec.Placement.Folder, other.Spec.Placement.Folder = "apps", "apps/shop"
		up(t, victim)
		up(t, other)
		victim.Scale(2)
		up(t, victim)
		remove(t, victim)
		up(t, other)
	})
}
