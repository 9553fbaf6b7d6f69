package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// places looks up the objects that the settings name, like the server, but creates nothing.
func (c *checker) places(ctx context.Context) {
	err := session.Contained("the lookup of the settings", func() error { c.lookUpPlaces(ctx); return nil })
	if err != nil {
		c.failed("settings", err)
	}
}

func (c *checker) lookUpPlaces(ctx context.Context) {
	l := inventory.NewLookup(c.s, c.parts.Config.Selection)
	c.at = l.Settings()
	err := l.Datacenter(ctx)
	if c.at.DatacenterPath != "" {
		c.ok("datacenter", "%s", c.at.DatacenterPath)
	}
	if err != nil {
		c.failed("datacenter", err)
		return
	}
	// The server would create the missing parts of the path of the root folder.
	missing, err := l.FindRoot(ctx)
	c.absent = len(missing) > 0
	switch {
	case err != nil:
		c.failed("folder", err)
	case c.absent:
		c.ok("folder", "%s/%s does not exist yet; the server creates it", c.at.RootPath, strings.Join(missing, "/"))
	default:
		c.ok("folder", "%s", c.at.RootPath)
	}
	if err := l.Pool(ctx); err != nil {
		c.failed("resource pool", err)
	} else {
		c.ok("resource pool", "%s", c.at.PoolPath)
	}
	if err := l.Datastore(ctx); err != nil {
		c.failed("datastore", err)
	} else {
		c.datastore(ctx)
	}
}

// datastore checks whether VMs can be placed on the datastore of the settings.
func (c *checker) datastore(ctx context.Context) {
	const check = "datastore"
	if c.at.Datastore == nil {
		c.ok(check, "the template's own")
		return
	}
	state, err := vsphere.ReadDatastore(ctx, c.s, c.at)
	switch {
	case err != nil:
		c.failed(check, err)
	case state == nil:
		c.add(check, Fail, "cannot read its state", "grant System.Read on it")
	case !state.Usable:
		c.add(check, Fail, state.Path+" is not accessible or in maintenance mode", "make it accessible in vCenter, or select another with --datastore")
	default:
		c.ok(check, "%s, %d GiB free", state.Path, state.Free>>30)
	}
}

// inventory reads the inventory once, as the server does at startup.
func (c *checker) inventory(ctx context.Context) {
	const check = "inventory"
	n, began := c.parts.Inventory, c.now()
	n.SetSettings(c.at, nil)
	if err := c.parts.Reader.ScanNow(ctx); err != nil {
		c.failed(check, err)
		return
	}
	if c.absent { // placements are looked up by the whole path
		n.ForgetRoot()
	}
	n.SetKnown()
	has, took := n.Count(), c.now().Sub(began)
	seen := fmt.Sprintf("%d VMs and templates, %d folders and datacenters, read in %s; %d VMs have stamps of %d groups",
		has.Members+has.Unmanaged, has.Places, took.Round(1e6), has.Members, has.Groups)
	if old := n.FoldersNamed(scratchPrefix); len(old) > 0 {
		c.add("leftovers", Warn, "from a check that could not clean up: "+vcfault.Listing(old), "if no check is running, remove these folders and the VM in each by hand")
	}
	if has.StampsUnknown > 0 {
		c.add(check, Warn, fmt.Sprintf("%s; %d stamps of a newer version", seen, has.StampsUnknown), "a newer server manages groups here: do not run an older one on the same groups")
	} else {
		c.ok(check, "%s", seen)
	}
	c.facts(Facts{"vms": count(has.Members + has.Unmanaged), "places": count(has.Places), "members": count(has.Members), "groups": count(has.Groups),
		"unknownStamps": count(has.StampsUnknown), "readMs": millis(took)})
}

// stream opens the stream of changes like the server, which knows nothing before the first answer is complete.
func (c *checker) stream(ctx context.Context) {
	const check = "stream of changes"
	began, objects := c.now(), 0
	err := c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		objects, err = c.parts.Stream.FirstAnswer(ctx, s)
		return err
	})
	if err != nil {
		c.failed(check, err)
		return
	}
	took := c.now().Sub(began)
	c.ok(check, "the first answer took %s for %d objects", took.Round(time.Millisecond), objects)
	c.facts(Facts{"objects": count(objects), "firstMs": millis(took)})
}

// checkDRS reports what chooses the hosts of members in the settings' pool.
func (c *checker) checkDRS(ctx context.Context) {
	const check = "DRS"
	owner, err := c.v.OwnerOf(ctx, c.at.Pool)
	if err != nil {
		c.failed(check, err)
		return
	}
	cluster := c.cluster(owner)
	switch {
	case cluster.MoRef == "":
		return
	case cluster.Standalone:
		c.ok(check, "%s is a single host", cluster.Name)
	case cluster.Unread:
		c.add(check, Warn, "cannot read the configuration of "+cluster.Name, "grant System.Read on it: otherwise DRS places members only if its automation level allows that, and placement.antiAffinity and hostGroup do not work")
	case !cluster.DRS:
		c.ok(check, "off in %s: the server spreads clones over its %d hosts, deploys OVFs of content libraries to one of them, and placement.antiAffinity and hostGroup have no effect", cluster.Name, len(cluster.Hosts))
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

// cluster returns a cluster, or that of a host; the zero value if it is not known.
func (c *checker) cluster(at types.ManagedObjectReference) (found inventory.Cluster) {
	for _, cluster := range c.parts.Inventory.Clusters() {
		if cluster.MoRef == at.Value || slices.Contains(cluster.Hosts, at.Value) {
			return cluster
		}
	}
	return found
}
