package vsphere

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

const (
	none      = v1alpha1.AntiAffinityNone
	preferred = v1alpha1.AntiAffinityPreferred
	required  = v1alpha1.AntiAffinityRequired
)

// apart returns a world of two clusters with two hosts each, and a process that uses the first one and has created some members.
func apart(t *testing.T, members int32) (*world, *process) {
	w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Clusters: 2, Hosts: 2})
	p := w.inFirstCluster()
	for ordinal := range members {
		p.member(ordinal)
	}
	return w, p
}

func (w *world) inFirstCluster() *process {
	c := w.config()
	c.Pool = firstCluster
	v, err := New(c)
	w.must(err)
	return w.run(v)
}

const firstCluster, secondCluster = "/DC0/host/DC0_C0", "/DC0/host/DC0_C1"

func settingRules(request v1alpha1.AntiAffinity) plan.Action {
	return plan.Action{Op: plan.SetRules, Key: plan.RulesKey, Args: &plan.Details{Spec: &v1alpha1.VmGroupSpec{
		Placement: v1alpha1.Placement{AntiAffinity: request}}}}
}

func (p *process) off(request v1alpha1.AntiAffinity) bool {
	return p.State(web, plan.Query{Rules: plan.Rules{AntiAffinity: request}}).RulesOff
}

// rules returns the rules of a cluster in short: "[web-0 web-1] mandatory".
func (w *world) rules(cluster string) (all []string) {
	w.t.Helper()
	rules, err := w.Rules(cluster)
	w.must(err)
	for _, r := range rules {
		text := fmt.Sprint(r.VMs)
		if stamp.RuleOwner(r.Name) != web.UID {
			text = r.Name + " " + text
		}
		if r.HostGroup != "" {
			text += " on " + r.HostGroup
		}
		if r.Mandatory {
			text += " mandatory"
		}
		if !r.Enabled {
			text += " disabled"
		}
		all = append(all, text)
	}
	return all
}

func (w *world) ruleIs(cluster string, want ...string) {
	w.t.Helper()
	if got := w.rules(cluster); !slices.Equal(got, want) {
		w.t.Errorf("the rules of %s are %q, not %q", cluster, got, want)
	}
}

// toCluster moves a VM to another cluster, as vMotion does.
func (w *world) toCluster(vm, cluster string) {
	w.t.Helper()
	at, err := w.Find(vm)
	w.must(err)
	host, err := w.Find(cluster + "/" + cluster[strings.LastIndexByte(cluster, '/')+1:] + "_H1")
	w.must(err)
	pool, err := w.Find(cluster + "/Resources")
	w.must(err)
	task, err := object.NewVirtualMachine(w.Admin().Client, at).Relocate(context.Background(), vim.VirtualMachineRelocateSpec{Host: &host, Pool: &pool}, "")
	w.must(err)
	w.must(task.Wait(context.Background()))
}

// change changes the rules of a cluster, or whether DRS is on, as an operator does.
func (w *world) change(cluster string, spec vim.ClusterConfigSpecEx) {
	w.t.Helper()
	at, err := w.Find(cluster)
	w.must(err)
	task, err := object.NewClusterComputeResource(w.Admin().Client, at).Reconfigure(context.Background(), &spec, true)
	w.must(err)
	w.must(task.Wait(context.Background()))
}

func TestADuplicateRuleIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 2)
		p.do(settingRules(preferred))
		w.must(w.AddRule(firstCluster, "vmgroup twin "+string(web.UID), "web-0", "web-1"))
		w.must(w.AddRule(firstCluster, "vmgroup shop.db uid-db", "web-0", "web-1"))
		p.reader.TouchClusters()
		p.until("the change of the rules is seen", func() bool { return p.off(preferred) })
		p.do(settingRules(preferred))
		w.ruleIs(firstCluster, "[web-0 web-1]", "vmgroup shop.db uid-db [web-0 web-1]")
		if p.off(preferred) {
			t.Error("after the rules were set, the cluster counts as lacking them")
		}
	})
}

func TestTwoServersThatSetRulesAtOnceLeaveOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, one := apart(t, 2)
		two := w.inFirstCluster()
		for range 5 {
			for _, request := range []v1alpha1.AntiAffinity{required, none} {
				var both sync.WaitGroup
				for _, p := range []*process{one, two} {
					both.Go(func() {
						if err := p.Do(context.Background(), web, settingRules(request)); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				if got := w.rules(firstCluster); len(got) != map[v1alpha1.AntiAffinity]int{required: 1}[request] {
					t.Fatalf("%s: the cluster has the rules %q; want one if the rule is required, or else none", request, got)
				}
			}
		}
	})
}

func TestARequiredRuleWithoutEffectIsReportedAndAPreferredOneIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 2)
		w.change(firstCluster, vim.ClusterConfigSpecEx{DrsConfig: &vim.ClusterDrsConfigInfo{Enabled: vim.NewBool(false)}})
		if f := p.fault(settingRules(required)); f.Reason != vcfault.ReasonRuleIneffective || !f.NeedsOperator || !vctest.Mentions(f.Message, "DC0_C0", "Preferred") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q and %q", f, vcfault.ReasonRuleIneffective, "DC0_C0", "Preferred")
		}
		if !p.off(required) || p.off(preferred) {
			t.Error("without DRS, the rule counts as set if it is required, or as lacking if it is preferred")
		}
		p.do(settingRules(preferred))
		w.ruleIs(firstCluster)
		w.change(firstCluster, vim.ClusterConfigSpecEx{DrsConfig: &vim.ClusterDrsConfigInfo{Enabled: vim.NewBool(true)}})
		p.do(settingRules(required))
		w.ruleIs(firstCluster, "[web-0 web-1] mandatory")

		w.Deny("ReconfigureComputeResource_Task", "Host.Inventory.EditCluster")
		if f := p.fault(settingRules(preferred)); f.Reason != vcfault.ReasonMissingPrivilege || !strings.Contains(f.Message, "Host.Inventory.EditCluster") {
			t.Errorf("got the fault %+v; want %s, with %q", f, vcfault.ReasonMissingPrivilege, "Host.Inventory.EditCluster")
		}
		w.Heal()
		cluster, err := w.Find(secondCluster)
		w.must(err)
		w.toCluster("web-0", secondCluster)
		w.toCluster("web-1", secondCluster)
		p.until("the move is seen", func() bool { return p.off(required) })
		w.Hide(cluster)
		if f := p.fault(settingRules(preferred)); f.Reason != vcfault.ReasonMissingPrivilege || !f.NeedsOperator || !strings.Contains(f.Message, "System.Read") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q", f, vcfault.ReasonMissingPrivilege, "System.Read")
		}
	})
}

func TestARuleThatVCenterSwitchesOffIsAConflict(t *testing.T) {
	t.Parallel()
	kept := inventory.Rule{Key: 7, Name: stamp.RuleName(web)}
	set := func(rule inventory.Rule) []inventory.RuleChange {
		return []inventory.RuleChange{{Remove: []int32{3}}, {Set: []inventory.Rule{{Name: "new"}, rule}}}
	}
	if f := errRulesNotKept(set(kept)); f.Reason != vcfault.ReasonRuleConflict || !f.NeedsOperator || !vctest.Mentions(f.Message, kept.Name, "antiAffinity") {
		t.Errorf("got the fault %+v; want %s, for an operator, with %q and %q", f, vcfault.ReasonRuleConflict, kept.Name, "antiAffinity")
	}
	kept.ForHosts = true
	if f := errRulesNotKept(set(kept)); f.Reason != vcfault.ReasonRuleConflict || !f.NeedsOperator || !vctest.Mentions(f.Message, kept.Name, "hostGroup") {
		t.Errorf("got the fault %+v; want %s, for an operator, with %q and %q", f, vcfault.ReasonRuleConflict, kept.Name, "hostGroup")
	}
	for _, removed := range []inventory.RuleChange{{Remove: []int32{3}}, {RemoveGroups: []string{"vmgroup web"}}} {
		if f := errRulesNotKept([]inventory.RuleChange{removed}); f.Reason != vcfault.ReasonRuleConflict || !f.NeedsOperator || f.Transient {
			t.Errorf("got the fault %+v for %+v, which vCenter sets again; want %s, for an operator", f, removed, vcfault.ReasonRuleConflict)
		}
	}
	if f := errRulesNotKept(set(inventory.Rule{})); f.Reason != vcfault.ReasonConcurrentAccess || !f.Transient {
		t.Errorf("got the fault %+v; want %s, transient", f, vcfault.ReasonConcurrentAccess)
	}
}

func TestAChangeOfRulesIsSeenByEveryServerWithoutBeingAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 2)
		p.do(settingRules(preferred))
		notified := p.notified(web.UID)
		rules, err := w.Rules(firstCluster)
		w.must(err)
		w.change(firstCluster, vim.ClusterConfigSpecEx{RulesSpec: []vim.ClusterRuleSpec{{
			ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: vim.ArrayUpdateOperationRemove, RemoveKey: rules[0].Key}}}})
		p.reader.TouchClusters() // as the stream does each minute
		p.until("the group is notified", func() bool { return p.notified(web.UID) > notified })
		if !p.off(preferred) {
			t.Error("the rule was removed, and still counts as set")
		}
		late := w.inFirstCluster() // its first full read includes the clusters
		late.until("the members are known", func() bool { return len(late.state().VMs) == 2 })
		if !late.off(preferred) {
			t.Error("to a server that starts later, the removed rule counts as set")
		}
	})
}

func TestTheRulesAreAsWantedAfterSetRulesWhateverHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 0)
		random := rand.New(rand.NewPCG(4, 4))
		next, clusters := int32(0), []string{firstCluster, secondCluster}
		for range 25 {
			vms := p.state().VMs
			switch n := random.IntN(4); {
			case n == 0 && len(vms) > 0:
				p.do(actionOn(plan.Destroy, vms[random.IntN(len(vms))]))
			case n == 1 && len(vms) > 0:
				vm, cluster := vms[random.IntN(len(vms))], clusters[random.IntN(2)]
				w.toCluster(vm.Name, cluster)
				at, err := w.Find(vm.Name)
				w.must(err)
				w.must(p.reader.Read(context.Background(), at))
			case n == 2:
				cluster := clusters[random.IntN(2)]
				rules, err := w.Rules(cluster)
				w.must(err)
				for _, r := range rules {
					w.change(cluster, vim.ClusterConfigSpecEx{RulesSpec: []vim.ClusterRuleSpec{{
						ArrayUpdateSpec: vim.ArrayUpdateSpec{Operation: vim.ArrayUpdateOperationRemove, RemoveKey: r.Key}}}})
				}
				w.must(p.reader.ReadClusters(context.Background()))
			default:
				p.member(next)
				next++
			}
			request := []v1alpha1.AntiAffinity{none, preferred, required}[random.IntN(3)]
			if p.off(request) {
				p.do(settingRules(request))
			}
			w.must(p.reader.ReadClusters(context.Background()))
			if p.off(request) {
				t.Fatalf("after the rules were set, %s counts as lacking: the clusters have %q and %q", request, w.rules(firstCluster), w.rules(secondCluster))
			}
			w.checkRules(request)
		}
	})
}

// checkRules compares vCenter's rules with the desired ones.
func (w *world) checkRules(request v1alpha1.AntiAffinity) {
	w.t.Helper()
	members := map[string][]string{}
	for _, vm := range w.VMs() {
		if d, err := w.Details(vm.Name); err == nil && strings.HasPrefix(vm.Name, "web-") {
			for _, cluster := range []string{firstCluster, secondCluster} {
				if strings.HasPrefix(d.Host, cluster+"/") {
					members[cluster] = append(members[cluster], vm.Name)
				}
			}
		}
	}
	for _, cluster := range []string{firstCluster, secondCluster} {
		var want []string
		if slices.Sort(members[cluster]); len(members[cluster]) >= 2 && request != none {
			want = []string{fmt.Sprint(members[cluster])}
			if request == required {
				want[0] += " mandatory"
			}
		}
		w.ruleIs(cluster, want...)
	}
}

// onHosts asks for members on host groups.
func onHosts(rule v1alpha1.HostRule, names ...string) plan.Rules {
	return plan.Rules{HostGroup: &v1alpha1.HostGroup{Names: names, Rule: rule}}
}

// setting returns the step that sets rules.
func setting(r plan.Rules) plan.Action {
	return plan.Action{Op: plan.SetRules, Key: plan.RulesKey, Args: &plan.Details{Spec: &v1alpha1.VmGroupSpec{
		Placement: v1alpha1.Placement{AntiAffinity: r.AntiAffinity, HostGroup: r.HostGroup}}}}
}

// sites makes the host groups site-a and site-b in the first cluster, and site-a in the second.
func (w *world) sites() {
	w.must(w.SetHostGroup(firstCluster, "site-a", firstCluster+"/DC0_C0_H0"))
	w.must(w.SetHostGroup(firstCluster, "site-b", firstCluster+"/DC0_C0_H1"))
	w.must(w.SetHostGroup(secondCluster, "site-a", secondCluster+"/DC0_C1_H0", secondCluster+"/DC0_C1_H1"))
}

// vmGroupsAre compares a cluster's DRS VM groups, each in short: "0 [web-0 web-2]".
func (w *world) vmGroupsAre(cluster string, want ...string) {
	w.t.Helper()
	groups, err := w.VMGroups(cluster)
	w.must(err)
	var got []string
	for name, vms := range groups {
		parts := strings.Fields(name)
		got = append(got, fmt.Sprint(parts[len(parts)-2], " ", vms))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		w.t.Errorf("the VM groups of %s are %q, not %q", cluster, got, want)
	}
}

func TestTheRulesForHostGroupsFollowTheMembersOverClusters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 0)
		w.sites()
		set := func(r plan.Rules) {
			t.Helper()
			if !p.State(web, plan.Query{Rules: r}).RulesOff {
				t.Errorf("before the rules %+v are set, the cluster counts as having them", r)
			}
			p.do(setting(r))
			if p.State(web, plan.Query{Rules: r}).RulesOff {
				t.Errorf("after the rules %+v were set, the cluster counts as lacking them", r)
			}
		}
		p.member(0) // one is enough for a rule
		set(onHosts(v1alpha1.HostRuleRequired, "site-a"))
		w.ruleIs(firstCluster, "[web-0] on site-a mandatory")
		p.member(1)
		p.member(2)
		both := onHosts(v1alpha1.HostRuleRequired, "site-a")
		both.AntiAffinity = preferred
		set(both)
		w.ruleIs(firstCluster, "[web-0 web-1 web-2] on site-a mandatory", "[web-0 web-1 web-2]")
		before := w.Calls()["ReconfigureComputeResource_Task"]
		p.do(setting(both)) // the rules are already set: success
		if n := w.Calls()["ReconfigureComputeResource_Task"]; n != before {
			t.Error("the rules were set again although the cluster has them")
		}
		set(onHosts(v1alpha1.HostRulePreferred, "site-b"))
		w.ruleIs(firstCluster, "[web-0 web-1 web-2] on site-b")
		set(onHosts(v1alpha1.HostRulePreferred, "site-a", "site-b"))
		w.ruleIs(firstCluster, "[web-0 web-2] on site-a", "[web-1] on site-b")
		w.vmGroupsAre(firstCluster, "0 [web-0 web-2]", "1 [web-1]")

		w.toCluster("web-2", secondCluster)
		wanted := onHosts(v1alpha1.HostRulePreferred, "site-a", "site-b")
		p.until("the move is seen", func() bool { return p.State(web, plan.Query{Rules: wanted}).RulesOff })
		set(wanted)
		w.ruleIs(firstCluster, "[web-0] on site-a", "[web-1] on site-b")
		w.ruleIs(secondCluster, "[web-2] on site-a")
		p.do(actionOn(plan.Destroy, p.state().VMs[1]))
		set(wanted)
		w.ruleIs(firstCluster, "[web-0] on site-a")
		p.do(plan.Action{Op: plan.SetRules, Key: plan.RulesKey}) // of a group that is removed
		for _, cluster := range []string{firstCluster, secondCluster} {
			w.ruleIs(cluster)
			w.vmGroupsAre(cluster)
		}
	})
}

func TestAMissingHostGroupIsReportedAndTheOtherRulesAreSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 2)
		w.sites()
		r := onHosts(v1alpha1.HostRulePreferred, "site-a", "site-c")
		r.AntiAffinity = required
		f := p.fault(setting(r))
		if f.Reason != vcfault.ReasonHostGroupNotFound || !f.NeedsOperator || !vctest.Mentions(f.Message, "DC0_C0", `"site-c"`, "site-a", "site-b", "spec.placement.hostGroup.names") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q and %q and %q and %q and %q", f, vcfault.ReasonHostGroupNotFound, "DC0_C0", `"site-c"`, "site-a", "site-b", "spec.placement.hostGroup.names")
		}
		w.ruleIs(firstCluster, "[web-0 web-1] mandatory", "[web-0] on site-a")
		w.must(w.SetHostGroup(firstCluster, "site-c", firstCluster+"/DC0_C0_H1"))
		p.do(setting(r))
		w.ruleIs(firstCluster, "[web-0 web-1] mandatory", "[web-0] on site-a", "[web-1] on site-c")
		w.change(firstCluster, vim.ClusterConfigSpecEx{DrsConfig: &vim.ClusterDrsConfigInfo{Enabled: vim.NewBool(false)}})
		if f := p.fault(setting(onHosts(v1alpha1.HostRuleRequired, "site-a"))); f.Reason != vcfault.ReasonRuleIneffective || !vctest.Mentions(f.Message, "DC0_C0", "hostGroup.rule") {
			t.Errorf("got the fault %+v; want %s, with %q and %q", f, vcfault.ReasonRuleIneffective, "DC0_C0", "hostGroup.rule")
		}
		p.do(setting(onHosts(v1alpha1.HostRulePreferred, "site-c")))
	})
}

func TestAMemberIsOnlyClonedWhereItsHostGroupExists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 0)
		w.sites()
		p.do(plan.Action{Op: plan.CreateFolder})
		clone := p.shaped(0, v1alpha1.VmGroupSpec{Placement: v1alpha1.Placement{HostGroup: onHosts("", "site-c").HostGroup}})
		if f := p.fault(clone); f.Reason != vcfault.ReasonHostGroupNotFound || !f.NeedsOperator || !vctest.Mentions(f.Message, "site-c", "site-a") {
			t.Errorf("got the fault %+v; want %s, for an operator, with %q and %q", f, vcfault.ReasonHostGroupNotFound, "site-c", "site-a")
		}
		if len(p.state().VMs) > 0 {
			t.Error("a member was cloned although its host group does not exist")
		}
		w.must(w.SetHostGroup(firstCluster, "site-c", firstCluster+"/DC0_C0_H1"))
		p.until("the new one is found", func() bool { return p.Do(context.Background(), web, clone) == nil })
	})
}

func TestTwoServersThatBindMembersToHostGroupsAtOnceLeaveOneRuleEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, one := apart(t, 2)
		w.sites()
		two := w.inFirstCluster()
		for range 5 {
			for _, r := range []plan.Rules{onHosts(v1alpha1.HostRuleRequired, "site-a", "site-b"), {}} {
				var both sync.WaitGroup
				for _, p := range []*process{one, two} {
					both.Go(func() {
						if err := p.Do(context.Background(), web, setting(r)); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				want := []string{"[web-0] on site-a mandatory", "[web-1] on site-b mandatory"}
				if r.HostGroup == nil {
					want = nil
				}
				if w.ruleIs(firstCluster, want...); t.Failed() {
					return
				}
			}
		}
	})
}

// Without a read of the clusters, nothing says what vCenter made of a change.
func TestRulesAreNotChangedWhileClustersCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := apart(t, 2)
		p.do(settingRules(preferred))
		w.Rewrite(func(r any) { // as if a host vanished during each read of the clusters
			if x, is := r.(*vim.RetrievePropertiesEx); is {
				for i := range x.SpecSet {
					if slices.ContainsFunc(x.SpecSet[i].PropSet, func(p vim.PropertySpec) bool { return p.Type == "ClusterComputeResource" }) {
						x.SpecSet[i].ObjectSet = append(x.SpecSet[i].ObjectSet, vim.ObjectSpec{Obj: vim.ManagedObjectReference{Type: "HostSystem", Value: "host-9999"}})
					}
				}
			}
		})
		before := w.Calls()["ReconfigureComputeResource_Task"]
		for range 2 {
			if f := p.fault(settingRules(required)); f.Reason != vcfault.ReasonGone {
				t.Errorf("got the fault %+v; want the one of the read", f)
			}
		}
		if n := w.Calls()["ReconfigureComputeResource_Task"] - before; n != 0 {
			t.Errorf("the cluster was changed %d times; want none", n)
		}
		w.Rewrite(nil)
		p.do(settingRules(required))
	})
}
