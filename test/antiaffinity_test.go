package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const apartIn = "/DC0/host/DC0_C0"

// inApart runs a test on a group with antiAffinity Preferred and three hosts, whose DRS may power no VM on where it breaks an optional rule.
func inApart(t *testing.T, replicas int32, test func(*testing.T, *rig, *metacontroller.Group)) {
	for _, d := range []vcsim.DRS{{}, {HeedsRules: true}, {HeedsRules: true, Level: types.DrsBehaviorManual}, {HeedsRules: true, Level: types.DrsBehaviorPartiallyAutomated}} {
		t.Run(fmt.Sprintf("heeds rules %t, %s", d.HeedsRules, d.Level), func(t *testing.T) {
			inRig(t, vcsim.Config{Hosts: 3, Templates: []string{"vm-operator-template", otherTemplate}}, func(t *testing.T, r *rig) {
				r.must(r.SetDRS(apartIn, d))
				g := r.serve(inCluster0).group("web", replicas)
				g.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
				test(t, r, g)
			})
		})
	}
}

// hostsOf lists how many members are on on each host.
func (r *rig) hostsOf() map[string]int {
	r.t.Helper()
	on := map[string]int{}
	for _, vm := range r.members() {
		if d := r.details(vm.Path); d.Power == types.VirtualMachinePowerStatePoweredOn {
			on[d.Host]++
		}
	}
	return on
}

// leftOut names the members whose stamps say that the rule leaves them out.
func (r *rig) leftOut() (names []string) {
	for _, vm := range r.members() {
		if s, err := stampOf(vm); err == nil && s.OutOfRule {
			names = append(names, vm.Name)
		}
	}
	return names
}

// apartRule returns the names of the members in the group's anti-affinity rule.
func (r *rig) apartRule() []string {
	r.t.Helper()
	for _, rule := range value(r.Rules(apartIn)) {
		if rule.Separate && rule.Enabled {
			return rule.VMs
		}
	}
	return nil
}

// Four members on three hosts: one shares a host, also after each was powered off and on for a larger memory.
func TestMoreMembersThanHostsRunThoughTheyPreferToBeApart(t *testing.T) {
	inApart(t, 4, func(t *testing.T, r *rig, g *metacontroller.Group) {
		a := up(t, g)
		equal(t, r.apartRule(), []string{"web-0", "web-1", "web-2", "web-3"})
		if on := r.hostsOf(); len(on) != 3 {
			t.Errorf("the members are on the hosts %v; want three hosts", on)
		}
		if c := condition(a, v1alpha1.ConditionMembersShareHost); c.Status != "True" || !strings.Contains(c.Message, "web-") || !strings.Contains(c.Message, "DC0_C0_H") {
			t.Errorf("got the condition %+v; want it True, with the members and their host", c)
		}
		before, powered := r.Calls()["ReconfigureComputeResource_Task"], r.powerOns()
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Memory *= 2 })
		up(t, g)
		changes, powered := r.Calls()["ReconfigureComputeResource_Task"]-before, r.powerOns()-powered
		if changes > 2*4 {
			t.Errorf("the cluster was reconfigured %d times for four members that were resized; want at most two for each", changes)
		}
		t.Logf("%d changes of the cluster for %d power-ons", changes, powered)
		equal(t, r.apartRule(), []string{"web-0", "web-1", "web-2", "web-3"})
		equal(t, r.leftOut(), nil)
		r.steady(g, 10*time.Minute, "ReconfigureComputeResource_Task", "ReconfigVM_Task")
	})
}

// powerOns counts the calls that power VMs on.
func (r *rig) powerOns() int { return r.Calls()["PowerOnMultiVM_Task"] + r.Calls()["PowerOnVM_Task"] }

// Three members on three hosts, one of which can take no VM for a while: a member that is powered off runs beside another until DRS has room again.
func TestAMemberRunsBesideAnotherWhileAHostIsOutOfUse(t *testing.T) {
	inApart(t, 3, func(t *testing.T, r *rig, g *metacontroller.Group) {
		a := up(t, g)
		if on := r.hostsOf(); len(on) != 3 || condition(a, v1alpha1.ConditionMembersShareHost).Status != "" {
			t.Fatalf("the members are on the hosts %v, and the status says %+v; want three hosts, and no such condition", on, a.Status.Conditions)
		}
		host := r.details(webFolder + "web-1").Host
		r.must(r.FillHost(host, true))
		r.must(r.PowerOff("web-1"))
		a = until(t, g, "the member runs again", func(a metacontroller.Answer) bool {
			on := 0
			for at, n := range r.hostsOf() {
				if on += n; at == host {
					return false
				}
			}
			return metacontroller.Running(a) && on == 3
		})
		if c := condition(a, v1alpha1.ConditionMembersShareHost); c.Status != "True" || !strings.Contains(c.Message, "web-1") {
			t.Errorf("got the condition %+v; want it True, with web-1", c)
		}
		equal(t, r.apartRule(), []string{"web-0", "web-1", "web-2"})
		r.must(r.FillHost(host, false))
		r.must(r.RunDRS(apartIn))
		until(t, g, "the members are apart again", func(a metacontroller.Answer) bool {
			return metacontroller.Running(a) && condition(a, v1alpha1.ConditionMembersShareHost).Status == ""
		})
		if on := r.hostsOf(); len(on) != 3 {
			t.Errorf("the members are on the hosts %v; want three hosts", on)
		}
	})
}

// DRS chooses hosts by the rule, so the rule names a new member before that is powered on: DRS that is partially automated moves no VM later.
func TestNewMembersAreApartFromTheirFirstPowerOnOn(t *testing.T) {
	inApart(t, 3, func(t *testing.T, r *rig, g *metacontroller.Group) {
		up(t, g)
		if on := r.hostsOf(); len(on) != 3 {
			t.Errorf("the members are on the hosts %v; want three hosts", on)
		}
	})
}

// An update with an extra member, when each host has a member already.
func TestAnUpdateCreatesAnExtraMemberThoughEachHostHasOne(t *testing.T) {
	inApart(t, 3, func(t *testing.T, r *rig, g *metacontroller.Group) {
		one, none := intstr.FromInt32(1), intstr.FromInt32(0)
		g.Spec.Update.MaxSurge, g.Spec.Update.MaxUnavailable = &one, &none
		up(t, g)
		was := refs(r.members())
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Template = otherTemplate })
		up(t, g)
		for name, ref := range refs(r.members()) {
			if was[name] == ref {
				t.Errorf("%s was not replaced", name)
			}
		}
	})
}

// A member that must be apart stays off, and the status says what to do.
func TestAMemberThatMustBeApartStaysOff(t *testing.T) {
	inRig(t, vcsim.Config{Hosts: 2}, func(t *testing.T, r *rig) {
		r.must(r.SetDRS(apartIn, vcsim.DRS{HeedsRules: true}))
		g := r.serve(inCluster0).group("web", 3)
		g.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityRequired
		text := blocked(t, g, "RuleViolation")
		if !strings.Contains(text, "antiAffinity") || !strings.Contains(text, "Preferred") {
			t.Errorf("the status says %q; want what to set", text)
		}
		for range 60 {
			value(g.Sync(within(t)))
			time.Sleep(time.Second)
		}
		if on := r.hostsOf(); len(on) != 2 || len(r.apartRule()) != 3 {
			t.Errorf("the members are on the hosts %v, and the rule names %v; want one on each of two hosts, and all three", on, r.apartRule())
		}
		g.Edit(func(s *v1alpha1.VmGroupSpec) { s.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred })
		up(t, g)
	})
}

// Two replicas, of which one is stopped after each step: the member runs, and the rule names all members in the end.
func TestARuleNamesAllMembersAgainWhateverProcessEnds(t *testing.T) {
	for kind, method := range map[vcsim.Kind]string{vcsim.PowerOnMulti: "PowerOnMultiVM_Task", vcsim.PowerOn: "PowerOnMultiVM_Task",
		vcsim.Reconfigure: "ReconfigVM_Task", vcsim.ReconfigureCluster: "ReconfigureComputeResource_Task"} {
		t.Run(string(kind), func(t *testing.T) {
			inRig(t, vcsim.Config{Hosts: 3}, func(t *testing.T, r *rig) {
				r.must(r.SetDRS(apartIn, vcsim.DRS{HeedsRules: true}))
				one, two := r.serve(inCluster0), r.serve(inCluster0)
				g := one.group("web", 3)
				g.Spec.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
				up(t, g)
				upAt(t, g, two.url)
				r.must(r.FillHost(r.details(webFolder+"web-1").Host, true))
				r.must(r.PowerOff("web-1"))
				g.URL = one.url
				r.Hold(kind)
				before := r.Calls()[method]
				eventually(t, patience, "the step begins", func() bool {
					value(g.Sync(within(t)))
					time.Sleep(time.Second)
					return r.Calls()[method] > before
				})
				one.stop()
				r.Release(kind)
				upAt(t, g, two.url)
				equal(t, r.apartRule(), []string{"web-0", "web-1", "web-2"})
				equal(t, r.leftOut(), nil)
				r.steady(g, 10*time.Minute, "ReconfigureComputeResource_Task", "ReconfigVM_Task")
			})
		})
	}
}
