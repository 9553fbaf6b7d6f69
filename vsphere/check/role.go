package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// used reports, for the privileges that only some features need, whether a group uses the feature.
var used = map[string]func(*v1alpha1.VmGroupSpec) bool{
	"VirtualMachine.Config.AddRemoveDevice":     func(s *v1alpha1.VmGroupSpec) bool { return len(s.Networks) > 0 },
	"VirtualMachine.Provisioning.Customize":     func(s *v1alpha1.VmGroupSpec) bool { return s.CustomizationSpec != "" },
	"VirtualMachine.Provisioning.ReadCustSpecs": func(s *v1alpha1.VmGroupSpec) bool { return s.CustomizationSpec != "" },
	"StorageProfile.View":                       func(s *v1alpha1.VmGroupSpec) bool { return s.Placement.StoragePolicy != "" },
	"Host.Inventory.EditCluster":                func(s *v1alpha1.VmGroupSpec) bool { return inventory.WantsRules(s.Placement.AntiAffinity) },
	"InventoryService.Tagging.AttachTag":        func(s *v1alpha1.VmGroupSpec) bool { return len(s.Tags) > 0 },
	"InventoryService.Tagging.ObjectAttachable": func(s *v1alpha1.VmGroupSpec) bool { return len(s.Tags) > 0 },
	"Global.SetCustomField":                     func(s *v1alpha1.VmGroupSpec) bool { return len(s.CustomAttributes) > 0 },
	"Datastore.FileManagement":                  (*v1alpha1.VmGroupSpec).HasPersistentDisks,
	"VirtualMachine.Config.AddExistingDisk":     (*v1alpha1.VmGroupSpec).HasPersistentDisks,
	"VirtualMachine.Config.RemoveDisk":          (*v1alpha1.VmGroupSpec).HasPersistentDisks,
	"VirtualMachine.Config.EditDevice":          hasDisks,
	"VirtualMachine.Config.DiskExtend":          hasDisks,
	"VirtualMachine.Config.Rename":              moves,
	"VirtualMachine.Inventory.Move":             moves,
}

func hasDisks(s *v1alpha1.VmGroupSpec) bool { return len(s.Disks) > 0 || s.RootDisk != nil }

// moves reports whether VMs of a group can be renamed and moved.
func moves(s *v1alpha1.VmGroupSpec) bool { return s.Deletion.QuarantineSeconds > 0 || len(s.Adopt) > 0 }

// role checks whether each privilege of the least role is held where it is needed.
func (c *checker) role(ctx context.Context) bool {
	on, err := c.holders(ctx)
	if err != nil {
		c.failed("privileges", err)
		return true
	}
	var all []types.ManagedObjectReference
	for _, some := range on {
		for _, x := range some {
			if !slices.Contains(all, x.Ref) {
				all = append(all, x.Ref)
			}
		}
	}
	held, err := c.privileges(ctx, all)
	if err != nil {
		c.add("privileges", Warn, fmt.Sprintf("cannot be queried (%s)", vcfault.Classify("", err).Message), "compare the role with the table in docs/reference.md")
		return true
	}
	c.asked = true
	c.encrypts(on, held)
	lacking, looked := 0, 0
	for _, p := range role.Least() {
		var without []string
		for _, scope := range p.On {
			for _, x := range on[scope] {
				if looked++; !held[x.Ref][p.ID] {
					without = append(without, x.Path)
				}
			}
		}
		if len(without) > 0 {
			lacking++
			c.lacks(p, without)
		}
	}
	switch {
	case len(on[role.OnTemplate]) == 0:
		c.add("privileges", Skip, "those on templates and their datastores and networks were not checked", "name a template with --template")
	case lacking == 0:
		c.ok("privileges", "all %d of the least role are held, on %d objects (%d checks)", len(role.Least()), len(all), looked)
	}
	return true
}

// encrypts warns of missing privileges for templates with a virtual TPM, whose files are encrypted.
//
// [doc] vSphere Security, Cryptographic Operations Privileges: "Clone: clone an encrypted virtual machine", required on the virtual machine;
// "Encrypt new: encrypt a virtual machine during virtual machine creation", on its folder.
func (c *checker) encrypts(on map[role.Scope][]naming.Candidate, held map[types.ManagedObjectReference]map[string]bool) {
	for _, t := range c.templates {
		if !t.info.tpm {
			continue
		}
		needs := map[string][]naming.Candidate{"Cryptographer.Clone": {{Path: t.path, Ref: inventory.VMRef(t.moRef)}}, "Cryptographer.EncryptNew": on[role.OnFolder]}
		for _, id := range slices.Sorted(maps.Keys(needs)) {
			for _, x := range needs[id] {
				if !held[x.Ref][id] {
					c.add("privilege "+id, Warn, fmt.Sprintf("%s does not hold it on %s, and %s has a virtual TPM, so it is encrypted", c.s.User, x.Path, t.name),
						"grant it there with propagation to children, or vCenter may refuse its clones")
				}
			}
		}
	}
}

// lacks reports a missing privilege. It is a failure if the server or one of the given groups does not work without it.
func (c *checker) lacks(p role.Privilege, without []string) {
	check := "privilege " + p.ID
	seen := fmt.Sprintf("%s does not hold it on %s (needed for: %s)", c.s.User, vcfault.Listing(without), p.Why)
	advice := "grant it there with propagation to children"
	if slices.Contains(p.On, role.OnGlobal) {
		advice = "grant it as a global permission"
	}
	wants := slices.ContainsFunc(c.Groups, func(g *v1alpha1.VmGroup) bool { return used[p.ID] != nil && used[p.ID](&g.Spec) })
	switch {
	case p.Needed():
		c.add(check, Fail, seen, advice)
	case wants:
		c.add(check, Fail, seen, advice+"; the group needs it")
	default:
		c.add(check, Warn, seen, advice+", or accept this: "+p.Without)
	}
}

// holders returns the objects on which privileges are needed.
func (c *checker) holders(ctx context.Context) (map[role.Scope][]naming.Candidate, error) {
	root := []naming.Candidate{{Path: "the root folder", Ref: c.s.Vim.ServiceContent.RootFolder}}
	on := map[role.Scope][]naming.Candidate{
		role.OnRoot: root, role.OnGlobal: root,
		role.OnFolder: append([]naming.Candidate{{Path: c.at.RootPath, Ref: c.at.Root}}, c.folders...), role.OnNetwork: c.networks,
	}
	// The template's own networks do not matter if all clones have others.
	inherited := len(c.Networks) == 0 && (len(c.Groups) == 0 || slices.ContainsFunc(c.Groups, func(g *v1alpha1.VmGroup) bool { return len(g.Spec.Networks) == 0 }))
	pools, datastores := c.pools, c.datastores
	if len(c.Groups) == 0 || len(pools) == 0 {
		pools = append(pools, c.at.Pool)
	}
	if c.at.Datastore != nil {
		datastores = append(datastores, *c.at.Datastore)
	}
	var networks []types.ManagedObjectReference
	for _, t := range c.templates {
		on[role.OnTemplate] = append(on[role.OnTemplate], naming.Candidate{Path: t.path, Ref: inventory.VMRef(t.moRef)})
		if len(datastores) == 0 {
			datastores = t.info.datastores
		}
		if inherited {
			networks = append(networks, t.info.networks...)
		}
	}
	var owners []types.ManagedObjectReference
	for _, pool := range pools {
		owner, err := c.v.OwnerOf(ctx, pool)
		if err != nil {
			return nil, err
		}
		if owner.Type == "ClusterComputeResource" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	names, err := c.names(ctx, slices.Concat(pools, datastores, networks, owners))
	if err != nil {
		return nil, err
	}
	list := func(refs []types.ManagedObjectReference) (all []naming.Candidate) {
		for _, ref := range refs {
			all = append(all, naming.Candidate{Path: names[ref], Ref: ref})
		}
		return all
	}
	on[role.OnPool], on[role.OnDatastore], on[role.OnCluster] = list(pools), list(datastores), list(owners)
	on[role.OnNetwork] = append(on[role.OnNetwork], list(networks)...)
	return on, nil
}

// names returns readable names of objects, such as the resource pool "Resources" of c0.
func (c *checker) names(ctx context.Context, refs []types.ManagedObjectReference) (map[types.ManagedObjectReference]string, error) {
	words := map[string]string{"ResourcePool": "the resource pool ", "Datastore": "the datastore ", "StoragePod": "the datastore cluster ", "ClusterComputeResource": "the cluster ", "HostSystem": "the host "}
	names := map[types.ManagedObjectReference]string{}
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "ManagedEntity", PathSet: []string{"name"}}}}
	for _, ref := range refs {
		if names[ref] == "" {
			names[ref] = ref.Value
			spec.ObjectSet = append(spec.ObjectSet, types.ObjectSpec{Obj: ref})
		}
	}
	if len(refs) == 0 {
		return names, nil
	}
	err := c.call(ctx, func(ctx context.Context, s *session.Session) error {
		objects, err := session.ReadObjects(ctx, s, spec)
		for _, o := range objects {
			if name := session.Prop[string](o, "name"); name != "" {
				names[o.Ref] = fmt.Sprintf("%s%s (%s)", cmp.Or(words[o.Ref.Type], "the network "), name, o.Ref.Value)
			}
		}
		return err
	})
	return names, err
}

// privileges returns the privileges that our user holds on objects.
func (c *checker) privileges(ctx context.Context, on []types.ManagedObjectReference) (held map[types.ManagedObjectReference]map[string]bool, err error) {
	err = c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		held, err = session.HeldPrivileges(ctx, s, on)
		return err
	})
	return held, err
}
