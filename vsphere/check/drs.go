package check

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
)

// checkDRS reports what chooses the hosts of members in the settings' pool.
func (c *checker) checkDRS(ctx context.Context) bool {
	const check = "DRS"
	owner, err := c.v.OwnerOf(ctx, c.at.Pool)
	if err != nil {
		c.failed(check, err)
		return true
	}
	if cluster := c.cluster(owner); cluster.MoRef != "" {
		c.reportDRS(check, cluster)
	}
	return true
}

// cluster returns a cluster, or that of a host; the zero value if it is not known.
func (c *checker) cluster(at types.ManagedObjectReference) (found inventory.Cluster) {
	for _, cluster := range c.parts.Inventory.Clusters() {
		if cluster.MoRef == at.Value || slices.Contains(cluster.Hosts, at.Value) {
			return cluster
		}
	}
	return found
}

func (c *checker) reportDRS(check string, cluster inventory.Cluster) {
	switch {
	case cluster.Standalone:
		c.ok(check, "%s is a single host", cluster.Name)
	case cluster.Unread:
		c.add(check, Warn, "cannot read the configuration of "+cluster.Name, "grant System.Read on it: otherwise DRS places members only if its automation level allows that, and placement.antiAffinity does not work")
	case !cluster.DRS:
		c.ok(check, "off in %s: the server spreads clones over its %d hosts, and placement.antiAffinity has no effect", cluster.Name, len(cluster.Hosts))
	case cluster.Level == types.DrsBehaviorManual:
		c.ok(check, "on in %s, %s: the server overrides the level at power-on", cluster.Name, cluster.Level)
	default:
		c.ok(check, "on in %s, %s: DRS chooses the host at power-on", cluster.Name, cluster.Level)
	}
	c.facts(Facts{"cluster": yes(!cluster.Standalone), "readable": yes(!cluster.Unread), "on": yes(cluster.DRS), "level": word(cluster.Level),
		"hosts": count(len(cluster.Hosts)), "levelsOfVMs": count(len(cluster.Levels))})
	if n := len(cluster.Levels); n > 0 {
		c.ok(check, "%d VMs of %s override the automation level", n, cluster.Name)
	}
}
