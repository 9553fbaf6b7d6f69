package check

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
)

// lookAtDRS says who chooses the hosts of members in the settings' pool.
func (c *checker) lookAtDRS(ctx context.Context) bool {
	const check = "DRS"
	owner, err := c.v.OwnerOf(ctx, c.at.Pool)
	if err != nil {
		c.failed(check, err)
		return true
	}
	for _, cluster := range c.parts.Inventory.Clusters() {
		if cluster.MoRef == owner.Value {
			c.sayDRS(check, cluster)
		}
	}
	return true
}

func (c *checker) sayDRS(check string, cluster inventory.Cluster) {
	switch {
	case cluster.Standalone:
		c.ok(check, "%s is a single host", cluster.Name)
	case cluster.Unread:
		c.add(check, Warn, "the configuration of "+cluster.Name+" cannot be read", "grant System.Read on it: else DRS places members only where it may do so by itself, and placement.antiAffinity does not work")
	case !cluster.DRS:
		c.ok(check, "off in %s: the server spreads clones over its %d hosts, and placement.antiAffinity has no effect", cluster.Name, len(cluster.Hosts))
	case cluster.Level == types.DrsBehaviorManual:
		c.ok(check, "on in %s, %s: the server overrides that at power-on", cluster.Name, cluster.Level)
	default:
		c.ok(check, "on in %s, %s: it chooses the host at power-on", cluster.Name, cluster.Level)
	}
	c.facts(Facts{"cluster": yes(!cluster.Standalone), "readable": yes(!cluster.Unread), "on": yes(cluster.DRS), "level": word(cluster.Level),
		"hosts": count(len(cluster.Hosts)), "levelsOfVMs": count(len(cluster.Levels))})
	if n := len(cluster.Levels); n > 0 {
		c.ok(check, "%d VMs of %s have a level of their own", n, cluster.Name)
	}
}
