package inventory

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Unplaced reports whether a cluster of several hosts is known not to place VMs by itself: DRS is off.
func (n *Inventory) Unplaced(cluster string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, known := n.objects.clusters.byRef[cluster]
	return known && !c.Standalone && !c.Unread && !c.DRS && len(c.Hosts) > 1
}

// UnplacedClusterOf returns the moRef of a host's cluster, if that is known not to place VMs by itself.
func (n *Inventory) UnplacedClusterOf(host string) (cluster string, unplaced bool) {
	n.mu.RLock()
	cluster = n.objects.clusters.of[host]
	n.mu.RUnlock()
	return cluster, n.Unplaced(cluster)
}

// WithoutDRS returns the name of a cluster in which DRS is known to be off; "" for others, and for standalone hosts.
func (n *Inventory) WithoutDRS(cluster string) (name string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if c, known := n.objects.clusters.byRef[cluster]; known && !c.Standalone && !c.Unread && !c.DRS {
		return c.Name
	}
	return ""
}

// OtherHosts returns the moRefs of the other hosts in a host's cluster.
func (n *Inventory) OtherHosts(host string) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c := n.objects.clusters.byRef[n.objects.clusters.of[host]]
	return slices.DeleteFunc(slices.Clone(c.Hosts), func(h string) bool { return h == host })
}

// MembersByHost counts a group's VMs by the moRef of their host.
func (n *Inventory) MembersByHost(uid types.UID) map[string]int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	on := map[string]int{}
	if g := n.proven(uid); g != nil {
		for _, m := range g.refs {
			on[m.HostRef]++
		}
	}
	return on
}
