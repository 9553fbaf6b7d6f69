package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// checkNetworks looks up the networks in the options.
func (c *checker) checkNetworks(ctx context.Context) bool {
	for _, name := range c.Networks {
		found, err := c.v.NetworkOf(ctx, c.at.Pool, name)
		if err != nil {
			c.failed("network", err)
			continue
		}
		c.keepNetwork(found)
		c.ok("network", "%s", found.Path)
	}
	return true
}

func (c *checker) keepNetwork(x naming.Candidate) {
	if !slices.Contains(c.networks, x) {
		c.networks = append(c.networks, x)
	}
}

// checkGroups looks up everything that a clone of each group needs, with all of the server's steps except the clone itself.
func (c *checker) checkGroups(ctx context.Context) bool {
	for _, g := range c.Groups {
		c.group(ctx, g)
	}
	return true
}

func (c *checker) group(ctx context.Context, g *v1alpha1.VmGroup) {
	check, before := "group "+g.Namespace+"/"+g.Name, len(c.findings)
	defer func() {
		for i := range c.findings[before:] {
			if step, is := strings.CutPrefix(c.findings[before+i].Check, check); is {
				c.findings[before+i].Row = "group" + step
			}
		}
	}()
	ref := plan.Ref{Namespace: g.Namespace, Name: g.Name, UID: g.UID}
	if problems := g.Validate(); len(problems) > 0 {
		c.add(check, Fail, problems[0].Error(), "correct the field; the API server rejects this group")
		return
	}
	at, err := c.parts.Inventory.GroupFolderFor(ref, plan.HomeOf(&g.Spec))
	if err != nil {
		c.failed(check, err)
		return
	}
	t := c.template(ctx, check, at, g.Spec.Template)
	if t == nil {
		return
	}
	c.keepTemplate(ctx, *t)
	var seen []string
	for i := range max(1, len(g.Spec.Placement.Zones)) {
		d, err := c.draft(ref, g, at, t, int32(i), g.Spec.Memory<<10)
		if err != nil {
			c.failed(check, err)
			return
		}
		if !d.Fill(ctx, func(step string, err error) { c.failed(check+": "+step, err) }) {
			return
		}
		if err := c.remember(ctx, d); err != nil {
			c.failed(check+": networks", err)
			return
		}
		if seen = describeClone(d, t); !c.drs(ctx, check, d) {
			return
		}
	}
	if !c.probe(check, g) || !c.addresses(check, g) {
		return
	}
	if _, wants := plan.UserDataOf(g); wants {
		seen = append(seen, "user data not checked (the server gets it from Metacontroller)")
	}
	c.ok(check, "everything a clone needs exists: %s", strings.Join(seen, "; "))
}

// draft returns the draft of a group's clone.
func (c *checker) draft(ref plan.Ref, g *v1alpha1.VmGroup, at *inventory.GroupFolder, t *foundTemplate, ordinal, memoryMB int32) (*vsphere.Draft, error) {
	_, folder := c.parts.Inventory.Standing(at)
	details := &plan.Details{Spec: &g.Spec, Zone: plan.ZoneOf(&g.Spec, ordinal)}
	details.Addresses, _ = plan.AddressesOf(&g.Spec, ordinal)
	return c.v.Draft(ref, plan.Action{Op: plan.Clone, VM: plan.MemberName(g.Name, ordinal), Ordinal: ordinal, Template: t.moRef, Fingerprint: t.fingerprint,
		Folder: folder, CPU: g.Spec.CPU, MemoryMB: int64(memoryMB), Details: details})
}

// describeClone describes what was found for a clone.
func describeClone(d *vsphere.Draft, t *foundTemplate) (seen []string) {
	spec, clone := d.Group().Spec, d.Spec()
	seen = append(seen, "template "+t.path)
	if clone.Snapshot != nil {
		seen = append(seen, fmt.Sprintf("snapshot %s, %s clone", clone.Snapshot.Value, strings.ToLower(string(spec.Clone.Mode))))
	}
	if n := len(spec.Placement.Zones); n > 0 {
		seen = append(seen, fmt.Sprintf("%d zones", n))
	}
	if n := len(spec.Networks); n > 0 {
		seen = append(seen, fmt.Sprintf("%d networks", n))
	}
	if spec.Placement.StoragePolicy != "" {
		seen = append(seen, "storage policy "+spec.Placement.StoragePolicy)
	}
	if clone.Customization != nil {
		seen = append(seen, "customization "+spec.CustomizationSpec)
	}
	if n := len(spec.Tags); n > 0 {
		seen = append(seen, fmt.Sprintf("%d tags", n))
	}
	if clone.Config.ManagedBy != nil {
		seen = append(seen, "managedBy "+clone.Config.ManagedBy.ExtensionKey)
	}
	return seen
}

// remember records the targets of a group's clones, for the check of privileges.
func (c *checker) remember(ctx context.Context, d *vsphere.Draft) error {
	to := d.Spec().Location
	pool := to.Pool
	if pool != nil && !slices.Contains(c.pools, *pool) {
		c.pools = append(c.pools, *pool)
	}
	if ds := to.Datastore; ds != nil && !slices.Contains(c.datastores, *ds) {
		c.datastores = append(c.datastores, *ds)
	}
	if at := c.parts.Inventory.FolderAt(d.Folder()); at.Ref != c.at.Root && !slices.Contains(c.folders, at) {
		c.folders = append(c.folders, at)
	}
	for _, n := range d.Group().Spec.Networks {
		found, err := d.Network(ctx, n.Network)
		if err != nil {
			return err
		}
		c.keepNetwork(found)
	}
	return nil
}

// drs checks whether rules have an effect if a group wants some.
func (c *checker) drs(ctx context.Context, check string, d *vsphere.Draft) bool {
	if !inventory.WantsRules(d.Group().Spec.Placement.AntiAffinity) {
		return true
	}
	owner, err := c.v.OwnerOf(ctx, *d.Spec().Location.Pool)
	if err != nil {
		c.failed(check+": antiAffinity", err)
		return false
	}
	if cluster := c.cluster(owner); cluster.MoRef != "" && (cluster.Standalone || !cluster.DRS) {
		c.add(check+": antiAffinity", Warn, "DRS is off in "+cluster.Name+", so rules have no effect ("+vcfault.ReasonRuleIneffective+")", "turn on DRS there or remove placement.antiAffinity")
		return false
	}
	return true
}
