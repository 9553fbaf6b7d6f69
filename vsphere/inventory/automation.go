package inventory

import (
	"github.com/vmware/govmomi/vim25/types"
)

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
