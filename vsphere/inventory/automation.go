package inventory

import (
	"cmp"

	"github.com/vmware/govmomi/vim25/types"
)

// takeAutomation takes over how DRS places VMs: the cluster's automation level, and the levels of single VMs that override it.
func (c *Cluster) takeAutomation(x *types.ClusterConfigInfoEx) {
	c.DRS = x.DrsConfig.Enabled != nil && *x.DrsConfig.Enabled
	c.Level = cmp.Or(x.DrsConfig.DefaultVmBehavior, types.DrsBehaviorFullyAutomated)
	if overrides := x.DrsConfig.EnableVmBehaviorOverrides; overrides != nil && !*overrides {
		return
	}
	for _, vm := range x.DrsVmConfig {
		if c.Levels == nil {
			c.Levels = map[string]types.DrsBehavior{}
		}
		if c.Levels[vm.Key.Value] = cmp.Or(vm.Behavior, c.Level); vm.Enabled != nil && !*vm.Enabled {
			c.Levels[vm.Key.Value] = ""
		}
	}
}

// Automation returns the DRS automation level in force for a member: the cluster's, or the member's own. It is "" if DRS does not place the
// member, because DRS is off, is disabled for that VM, or does not exist; and if the cluster is unknown.
func (n *Inventory) Automation(m *Member) types.DrsBehavior {
	n.mu.RLock()
	defer n.mu.RUnlock()
	cluster, known := n.objects.clusters.byRef[n.objects.clusters.of[m.HostRef]]
	if !known || cluster.Standalone || cluster.Unread || !cluster.DRS {
		return ""
	}
	if own, is := cluster.Levels[m.MoRef]; is {
		return own
	}
	return cluster.Level
}
