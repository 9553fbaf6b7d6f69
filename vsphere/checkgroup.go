package vsphere

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// lookAtNetworks looks for the networks that were named.
func (c *checker) lookAtNetworks(ctx context.Context) bool {
	for _, name := range c.Networks {
		found, err := c.network(ctx, c.datacenter(), c.at.Pool, name)
		if err != nil {
			c.failed("network", err)
			continue
		}
		c.keepNetwork(found.Candidate)
		c.ok("network", "%s", found.Path)
	}
	return true
}

// network finds a network that the hosts of a pool have.
func (c *checker) network(ctx context.Context, in datacenter, pool types.ManagedObjectReference, name string) (found *namedObject, err error) {
	err = c.call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := readNetworks(ctx, s, in)
		if err != nil {
			return err
		}
		reached, err := c.v.reachOf(ctx, s, in, pool)
		if err != nil {
			return err
		}
		if found, err = all.find(name, reached); err != nil {
			return err
		}
		if _, err = all.backing(found); err != nil {
			return err
		}
		if reached != nil && !slices.Contains(reached.networks, found.Ref) {
			return vcfault.New(vcfault.ReasonNetworkUnusable, true, "No host of the resource pool has the network %s: name another one, or see to the hosts.", found.Path)
		}
		return nil
	})
	return found, err
}

func (c *checker) keepNetwork(x inventory.Candidate) {
	if !slices.Contains(c.networks, x) {
		c.networks = append(c.networks, x)
	}
}

// datacenter is the datacenter of the settings.
func (c *checker) datacenter() datacenter {
	return datacenter{ref: c.at.Datacenter, path: c.at.DatacenterPath, ofSettings: true}
}

// lookAtGroups has everything looked up that a clone of each group needs, by the steps with which the server puts a clone
// together, but for the last one, which makes it.
func (c *checker) lookAtGroups(ctx context.Context) bool {
	for _, g := range c.Groups {
		c.group(ctx, g)
	}
	return true
}

func (c *checker) group(ctx context.Context, g *v1alpha1.VmGroup) {
	check := "group " + g.Namespace + "/" + g.Name
	ref := plan.Ref{Namespace: g.Namespace, Name: g.Name, UID: g.UID}
	if problems := g.Validate(); len(problems) > 0 {
		c.add(check, CheckFail, problems[0].Error(), "correct the field; the API server refuses the group as it is")
		return
	}
	at, err := c.v.inventory.GroupFolderFor(ref, plan.HomeOf(&g.Spec))
	if err != nil {
		c.failed(check, err)
		return
	}
	t := c.template(check, at, g.Spec.Template)
	if t == nil {
		return
	}
	c.keepTemplate(ctx, *t)
	var seen []string
	for i := range max(1, len(g.Spec.Placement.Zones)) {
		b := c.cloneBuilder(ref, g, at, t, int32(i))
		if !c.fill(ctx, check, b) {
			return
		}
		if err := c.remember(ctx, b); err != nil {
			c.failed(check+": networks", err)
			return
		}
		if seen = describeClone(b, t); !c.drs(ctx, check, b) {
			return
		}
	}
	if _, wants := plan.UserDataOf(g); wants {
		seen = append(seen, "user data not looked at (the server gets it from Metacontroller)")
	}
	c.ok(check, "all that a clone needs is there: %s", strings.Join(seen, "; "))
}

// cloneBuilder is what a clone of a group would be.
func (c *checker) cloneBuilder(ref plan.Ref, g *v1alpha1.VmGroup, at *inventory.GroupFolder, t *foundTemplate, ordinal int32) *cloneBuilder {
	in, folder := c.v.inventory.Standing(at)
	b := &cloneBuilder{
		ref: ref, id: "", settings: c.at,
		action: plan.Action{Op: plan.Clone, VM: plan.MemberName(g.Name, ordinal), Ordinal: ordinal, Template: t.moRef, Fingerprint: t.fingerprint,
			Folder: folder, CPU: g.Spec.CPU, MemoryMB: int64(g.Spec.Memory) << 10},
		details:    &plan.Details{Spec: &g.Spec, Zone: plan.ZoneOf(&g.Spec, ordinal)},
		datacenter: datacenter{ref: in.Ref, path: in.Path, ofSettings: in.Ref == c.at.Datacenter},
	}
	b.details.Addresses, _ = plan.AddressesOf(&g.Spec, ordinal)
	return b
}

// fillStep is one step of putting a clone together.
type fillStep struct {
	name string
	fill func(context.Context, *cloneBuilder) error
}

// steps are those of clone, without the guest's data, which nobody has here.
func (c *checker) steps() []fillStep {
	v := c.v
	return []fillStep{
		{"template and snapshot", v.fillSource}, {"size", v.fillSize}, {"resource pool", v.fillPool}, {"storage", v.fillStorage},
		{"networks", v.fillAdapters}, {"owner", v.fillOwner}, {"customization", v.fillCustomization}, {"tags", v.checkTags}, {"datastore", v.fillDatastore},
	}
}

// fill puts a clone together. What the rest is built upon comes first: without it nothing more is looked at.
func (c *checker) fill(ctx context.Context, check string, b *cloneBuilder) bool {
	good := true
	for i, step := range c.steps() {
		if !good && step.name == "datastore" {
			break // it goes by what the others found
		}
		if err := step.fill(ctx, b); err != nil {
			c.failed(check+": "+step.name, err)
			if good = false; i < 3 {
				break
			}
		}
	}
	return good
}

// describeClone says what was found for a clone.
func describeClone(b *cloneBuilder, t *foundTemplate) (seen []string) {
	spec := b.details.Spec
	seen = append(seen, "template "+t.path)
	if b.spec.Snapshot != nil {
		seen = append(seen, fmt.Sprintf("snapshot %s, %s clone", b.spec.Snapshot.Value, strings.ToLower(string(spec.Clone.Mode))))
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
	if b.spec.Customization != nil {
		seen = append(seen, "customization "+spec.CustomizationSpec)
	}
	if n := len(spec.Tags); n > 0 {
		seen = append(seen, fmt.Sprintf("%d tags", n))
	}
	if b.spec.Config.ManagedBy != nil {
		seen = append(seen, "managedBy "+extensionKey)
	}
	return seen
}

// remember keeps where a group's clones go, for the privileges there.
func (c *checker) remember(ctx context.Context, b *cloneBuilder) error {
	pool := b.spec.Location.Pool
	if pool != nil && !slices.Contains(c.pools, *pool) {
		c.pools = append(c.pools, *pool)
	}
	if ds := b.spec.Location.Datastore; ds != nil && !slices.Contains(c.datastores, *ds) {
		c.datastores = append(c.datastores, *ds)
	}
	if at := c.v.inventory.FolderAt(b.action.Folder); at.Ref != c.at.Root && !slices.Contains(c.homes, at) {
		c.homes = append(c.homes, at)
	}
	for _, n := range b.details.Spec.Networks {
		found, err := c.network(ctx, b.datacenter, *pool, n.Network)
		if err != nil {
			return err
		}
		c.keepNetwork(found.Candidate)
	}
	return nil
}

// drs looks whether rules have an effect where a group wants some.
func (c *checker) drs(ctx context.Context, check string, b *cloneBuilder) bool {
	if !inventory.WantsRules(b.details.Spec.Placement.AntiAffinity) {
		return true
	}
	owner, err := c.ownerOf(ctx, *b.spec.Location.Pool)
	if err != nil {
		c.failed(check+": antiAffinity", err)
		return false
	}
	for _, cluster := range c.v.inventory.Clusters() {
		if cluster.MoRef == owner.Value && (cluster.Standalone || !cluster.DRS) {
			c.add(check+": antiAffinity", CheckWarn, "DRS is off in "+cluster.Name+", so that rules have no effect ("+vcfault.ReasonRuleIneffective+")", "turn DRS on there, or leave placement.antiAffinity out")
			return false
		}
	}
	return true
}

// ownerOf is the cluster or host of a pool.
func (c *checker) ownerOf(ctx context.Context, pool types.ManagedObjectReference) (owner types.ManagedObjectReference, err error) {
	err = c.call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := readComputes(ctx, s, c.datacenter())
		if err == nil {
			owner = all.owner[pool]
		}
		return err
	})
	return owner, err
}
