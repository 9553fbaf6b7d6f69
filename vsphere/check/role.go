package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// used reports, for the privileges that only some features need, whether a group uses the feature.
var used = map[string]func(*v1alpha1.VmGroupSpec) bool{
	"VirtualMachine.Config.AddRemoveDevice": func(s *v1alpha1.VmGroupSpec) bool {
		return len(s.Networks)+len(s.Hardware.PCIDevices) > 0 || s.Hardware.VTPM
	},
	"VirtualMachine.Provisioning.Customize":        func(s *v1alpha1.VmGroupSpec) bool { return s.CustomizationSpec != "" },
	"VirtualMachine.Provisioning.ReadCustSpecs":    func(s *v1alpha1.VmGroupSpec) bool { return s.CustomizationSpec != "" },
	"VirtualMachine.Config.Settings":               bootsOtherwise,
	"StorageProfile.View":                          hasStoragePolicy,
	"Host.Inventory.EditCluster":                   func(s *v1alpha1.VmGroupSpec) bool { return plan.RulesOf(s).Wanted() },
	"InventoryService.Tagging.AttachTag":           func(s *v1alpha1.VmGroupSpec) bool { return len(s.Tags) > 0 },
	"InventoryService.Tagging.ObjectAttachable":    func(s *v1alpha1.VmGroupSpec) bool { return len(s.Tags) > 0 },
	"Global.SetCustomField":                        func(s *v1alpha1.VmGroupSpec) bool { return len(s.CustomAttributes) > 0 },
	"VirtualMachine.Config.Resource":               reserves,
	"Cryptographer.Encrypt":                        func(s *v1alpha1.VmGroupSpec) bool { return s.Hardware.VTPM },
	"Cryptographer.AddDisk":                        func(s *v1alpha1.VmGroupSpec) bool { return s.Hardware.VTPM && s.HasPersistentDisks() },
	"VirtualMachine.Config.UpgradeVirtualHardware": func(s *v1alpha1.VmGroupSpec) bool { return s.Hardware.Version > 0 },
	"Datastore.FileManagement":                     (*v1alpha1.VmGroupSpec).HasPersistentDisks,
	"VirtualMachine.Config.AddExistingDisk":        (*v1alpha1.VmGroupSpec).HasPersistentDisks,
	"VirtualMachine.Config.RemoveDisk":             (*v1alpha1.VmGroupSpec).HasPersistentDisks,
	"VirtualMachine.Config.EditDevice":             hasDisks,
	"VirtualMachine.Config.DiskExtend":             hasDisks,
	"VirtualMachine.Config.Rename":                 moves,
	"VirtualMachine.Inventory.Move":                moves,
}

// toEncrypt are the privileges for groups with a storage policy that encrypts. Only vCenter knows which ones do.
var toEncrypt = []string{"Cryptographer.Encrypt", "VirtualMachine.Config.EditDevice"}

// toDeploy are the privileges for groups whose template is an OVF of a content library that the server has not deployed yet.
var toDeploy = []string{"VApp.Import", "VirtualMachine.Provisioning.MarkAsTemplate"}

// bootsOtherwise reports whether a group's spec has boot options, which clones have instead of their template's.
func bootsOtherwise(s *v1alpha1.VmGroupSpec) bool {
	return s.Hardware.BootFirst != "" || s.Hardware.SecureBoot != nil || s.Hardware.BootDelaySeconds > 0
}

func hasDisks(s *v1alpha1.VmGroupSpec) bool { return len(s.Disks) > 0 || s.RootDisk != nil }

func hasStoragePolicy(s *v1alpha1.VmGroupSpec) bool {
	return s.Placement.StoragePolicy != "" || slices.ContainsFunc(s.Disks, func(d v1alpha1.Disk) bool { return d.StoragePolicy != "" })
}

// reserves reports whether VMs of a group have reservations, limits or shares of their own.
func reserves(s *v1alpha1.VmGroupSpec) bool {
	return plan.AllocationOf(s) != "" || len(s.Hardware.PCIDevices) > 0
}

// moves reports whether VMs of a group can be renamed and moved.
func moves(s *v1alpha1.VmGroupSpec) bool { return s.Deletion.QuarantineSeconds > 0 || len(s.Adopt) > 0 }

// checkPrivileges checks whether the account has each privilege of the least role where it is needed.
func (c *checker) checkPrivileges(ctx context.Context) {
	const check = "privileges"
	on, err := c.holders(ctx)
	if err != nil {
		c.failed(check, err)
		return
	}
	var all []types.ManagedObjectReference
	for _, some := range on {
		for _, x := range some {
			keep(&all, x.Ref)
		}
	}
	held, err := c.privileges(ctx, all)
	if err != nil {
		c.add(check, Warn, fmt.Sprintf("cannot be queried (%s)", vcfault.Classify("", err).Message), "compare the role with the table in docs/reference.md")
		return
	}
	c.asked = true
	c.encrypts(held)
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
		c.add(check, Skip, "those on templates and their datastores and networks were not checked", "name a template with --template")
	case lacking == 0:
		c.ok(check, "all %d of the least role are granted, on %d objects (%d checks)", len(role.Least()), len(all), looked)
	}
}

// encrypts warns of a missing privilege for templates with a virtual TPM, whose files are encrypted.
//
// [doc] vSphere Security, Cryptographic Operations Privileges: "Clone: clone an encrypted virtual machine", required on the virtual machine.
func (c *checker) encrypts(held map[types.ManagedObjectReference]map[string]bool) {
	const id = "Cryptographer.Clone"
	for _, t := range c.templates {
		if t.info.tpm && !held[inventory.VMRef(t.moRef)][id] {
			c.add("privilege "+id, Warn, fmt.Sprintf("%s does not have it on %s, and %s has a virtual TPM, so it is encrypted", c.s.User, t.path, t.name),
				"grant it there with propagation to children, or vCenter may refuse its clones")
		}
	}
}

// lacks reports a missing privilege. It is a failure if the server or one of the given groups does not work without it.
func (c *checker) lacks(p role.Privilege, without []string) {
	result, advice := Warn, "grant it there with propagation to children"
	switch {
	case slices.Contains(p.On, role.OnGlobal):
		advice = "grant it as a global permission"
	case slices.Contains(p.On, role.OnRoot):
		advice += " (on the root folder, it need not propagate)"
	}
	switch {
	case p.Needed():
		result = Fail
	case slices.ContainsFunc(c.Groups, func(g *v1alpha1.VmGroup) bool { return used[p.ID] != nil && used[p.ID](&g.Spec) }),
		c.encrypting && slices.Contains(toEncrypt, p.ID), c.deploying && slices.Contains(toDeploy, p.ID):
		result, advice = Fail, advice+"; the group needs it"
	default:
		advice += ", or accept this: " + p.Without
	}
	c.add("privilege "+p.ID, result, fmt.Sprintf("%s does not have it on %s (needed for: %s)", c.s.User, vcfault.Listing(without), p.Why), advice)
}

// holders returns the objects on which privileges are needed.
func (c *checker) holders(ctx context.Context) (map[role.Scope][]naming.Candidate, error) {
	pools, datastores := c.pools, c.datastores
	if len(c.Groups) == 0 || len(pools) == 0 {
		pools = append(pools, c.at.Pool)
	}
	if c.at.Datastore != nil {
		datastores = append(datastores, *c.at.Datastore)
	}
	// The template's own networks do not matter if all clones have others.
	inherited := len(c.Networks) == 0 && (len(c.Groups) == 0 || slices.ContainsFunc(c.Groups, func(g *v1alpha1.VmGroup) bool { return len(g.Spec.Networks) == 0 }))
	var templates []naming.Candidate
	var networks, owners []types.ManagedObjectReference
	for _, t := range c.templates {
		templates = append(templates, naming.Candidate{Path: t.path, Ref: inventory.VMRef(t.moRef)})
		if len(datastores) == 0 {
			datastores = t.info.datastores
		}
		if inherited {
			networks = append(networks, t.info.networks...)
		}
	}
	for _, pool := range pools {
		owner, err := c.v.OwnerOf(ctx, pool)
		if err != nil {
			return nil, err
		}
		if owner.Type == "ClusterComputeResource" {
			keep(&owners, owner)
		}
	}
	var err error
	named := func(refs []types.ManagedObjectReference) (all []naming.Candidate) {
		for _, ref := range refs {
			x := naming.Candidate{Ref: ref}
			failed := c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
				x.Path, err = session.PathOf(ctx, s, ref)
				return err
			})
			if failed != nil {
				err = failed
			}
			if x.Path == "" { // it cannot be seen
				x.Path = ref.Value
			}
			all = append(all, x)
		}
		return all
	}
	root := []naming.Candidate{{Path: "the root folder", Ref: c.s.Vim.ServiceContent.RootFolder}}
	on := map[role.Scope][]naming.Candidate{
		role.OnRoot: root, role.OnGlobal: root, role.OnTemplate: templates, role.OnFolder: append([]naming.Candidate{{Path: c.at.RootPath, Ref: c.at.Root}}, c.folders...),
		role.OnPool: named(pools), role.OnDatastore: named(datastores), role.OnCluster: named(owners), role.OnNetwork: append(slices.Clone(c.networks), named(networks)...),
	}
	return on, err
}

// privileges returns the privileges that the account has on objects.
func (c *checker) privileges(ctx context.Context, on []types.ManagedObjectReference) (held map[types.ManagedObjectReference]map[string]bool, err error) {
	err = c.call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		held, err = session.HeldPrivileges(ctx, s, on)
		return err
	})
	return held, err
}
