package vsphere

import (
	"fmt"
	"testing"
	"testing/synctest"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/thin"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// A cluster's rules are one property, which vCenter doesn't divide into pages. These are more than an answer can have (session.xmlBounds).
func TestRulesOfOthersHideNoGroupsRules(t *testing.T) {
	thin.NotShort(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, vcsim.Config{Templates: []string{"ubuntu"}, Clusters: 2, Hosts: 2})
		c := w.config()
		c.Pool, c.Through = firstCluster, nil
		v, err := New(c)
		w.must(err)
		p := w.run(v)
		for ordinal := range int32(2) {
			p.member(ordinal)
		}
		var rules []vim.BaseClusterRuleInfo
		var groups []vim.BaseClusterGroupInfo
		for i := range 80_000 {
			rules = append(rules, &vim.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: vim.ClusterRuleInfo{Key: int32(1000 + i), Name: fmt.Sprintf("others %d", i), Enabled: new(true)},
				Vm: []vim.ManagedObjectReference{{Type: "VirtualMachine", Value: "vm-1"}, {Type: "VirtualMachine", Value: "vm-2"}}})
		}
		for i := range 1000 {
			groups = append(groups, &vim.ClusterVmGroup{ClusterGroupInfo: vim.ClusterGroupInfo{Name: fmt.Sprintf("others %d", i)}, Vm: []vim.ManagedObjectReference{{Type: "VirtualMachine", Value: "vm-1"}}})
		}
		w.ChangeReads(func(o *vim.ObjectContent) {
			for i := range o.PropSet {
				if config, is := o.PropSet[i].Val.(vim.ClusterConfigInfoEx); is {
					config.Rule, config.Group = append(rules, config.Rule...), append(groups, config.Group...)
					o.PropSet[i].Val = config
				}
			}
		})
		p.do(settingRules(required))
		w.ruleIs(firstCluster, "[web-0 web-1] mandatory")
		if p.off(required) {
			t.Error("the group's rule is not read")
		}
		p.do(settingRules(none))
		w.ruleIs(firstCluster)
	})
}
