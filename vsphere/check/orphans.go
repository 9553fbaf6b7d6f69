package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// orphansNamed is how many orphans of one group are named.
const orphansNamed = 10

// orphans lists what the server made in vCenter for groups that don't exist any more. It removes nothing.
func (c *checker) orphans(ctx context.Context) {
	if !c.Orphans {
		return
	}
	if len(c.Existing) == 0 {
		c.add("orphans", Warn, "-f has no VmGroup, so every object that the server made in vCenter is listed",
			"before you delete anything, make sure that -f is complete: kubectl's context is the cluster's, its account can list VmGroups in all namespaces (-A), and --cluster-id is this cluster's")
	}
	before := len(c.findings)
	cluster := c.parts.Config.ClusterID
	vms, folders := c.parts.Inventory.Orphans(cluster, c.roots(), c.exists)
	for _, o := range vms {
		of := fmt.Sprintf("of %s (UID %s), which is not among the VmGroups of -f", plan.Printable(o.Of.String()), plan.Printable(string(o.Of.UID)))
		if len(o.VMs) > 0 {
			c.add("orphaned VMs", Warn, fmt.Sprintf("%s: %s", of, plan.AtMost(o.VMs, orphansNamed)),
				"if no cluster has that VmGroup, delete them in vCenter, or list their paths in spec.adopt of another (the server needs --adopt-from)")
			c.facts(Facts{"vms": count(len(o.VMs))})
		}
		if len(o.Strays) > 0 {
			c.add("stray VMs", Warn, fmt.Sprintf("by their stamps %s; not in that group's folder: %s", of, plan.AtMost(o.Strays, orphansNamed)),
				"a stamp proves nothing: such a VM may have been restored from a backup, copied, or moved. Ask its owner before you delete it; to keep it, remove the key "+plan.StampKey+" from its configuration")
			c.facts(Facts{"vms": count(len(o.Strays))})
		}
	}
	for _, path := range folders {
		c.add("orphaned folders", Warn, path+" belongs to none of the VmGroups of -f, and has no VM of a group", "if no cluster has that VmGroup, remove the folder in vCenter")
	}
	for _, rule := range c.parts.Inventory.OrphanedRules(cluster, c.exists) {
		c.add("orphaned rules", Warn, "the DRS "+rule+" belongs to none of the VmGroups of -f",
			"if no cluster has that VmGroup, remove it in vCenter (remove a rule before the VM group that it names)")
	}
	c.orphanedDisks(ctx, cluster)
	c.orphanedTemplates(ctx)
	switch {
	case len(c.findings) > before:
	case len(c.Existing) == 0:
		c.ok("orphans", "none: vCenter shows no VM, disk, folder, DRS rule or deployed template that the server made")
	default:
		c.ok("orphans", "none: every VM, disk, folder, DRS rule and deployed template that the server made belongs to one of %d VmGroups", len(c.Existing))
	}
}

// roots returns the moRefs of the folders that contain <namespace>/<group>, of the settings and of the groups.
func (c *checker) roots() []string {
	var roots []string
	if !c.absent {
		roots = append(roots, c.at.Root.Value)
	}
	for _, g := range c.Existing {
		if at, err := c.parts.Inventory.GroupFolderFor(refOf(g), plan.HomeOf(&g.Spec)); err == nil && at.Root != "" {
			keep(&roots, at.Root)
		}
	}
	return roots
}

// exists reports whether Existing has the group of ref. A ref that was read from a folder's path has no UID, so its names are compared.
func (c *checker) exists(ref plan.Ref) bool {
	return slices.ContainsFunc(c.Existing, func(g *v1alpha1.VmGroup) bool {
		return ref.UID != "" && g.UID == ref.UID || ref.UID == "" && strings.EqualFold(g.Namespace, ref.Namespace) && strings.EqualFold(g.Name, ref.Name)
	})
}

func refOf(g *v1alpha1.VmGroup) plan.Ref {
	return plan.Ref{Namespace: g.Namespace, Name: g.Name, UID: g.UID}
}

// orphanedTemplates lists the templates that a server deployed from OVFs of content libraries into the root folder, and that no group names.
func (c *checker) orphanedTemplates(ctx context.Context) {
	const check = "orphaned templates"
	if c.absent {
		return
	}
	all := c.parts.Inventory.TemplatesAt(c.at.Root)
	err := c.call(ctx, func(ctx context.Context, s *session.Session) error {
		var deployed []naming.Candidate
		for _, t := range all {
			var record string
			if _, err := session.ReadProps(ctx, s, t.Ref, vsphere.Deployed(&record)); err != nil {
				return err
			}
			if record != "" {
				deployed = append(deployed, t)
			}
		}
		all = deployed
		return nil
	})
	if err != nil {
		c.failed(check, err)
		return
	}
	if len(all) == 0 {
		return
	}
	used := map[string]bool{}
	for _, g := range c.Existing {
		at, err := c.parts.Inventory.GroupFolderFor(refOf(g), plan.HomeOf(&g.Spec))
		if err != nil {
			c.failed(check, err)
			return
		}
		x, _, _ := c.parts.Inventory.FindTemplate(at, g.Spec.Template, g.Status.Names)
		if used[x.MoRef] = true; len(x.Paths) == 0 && library.Is(g.Spec.Template) {
			found, pending, err := c.parts.Libraries.Resolve(ctx, g.Spec.Template, x.Meant)
			if err != nil && pending == nil && vcfault.Classify("", err).Reason != vcfault.ReasonTemplateNotFound {
				c.add(check, Skip, fmt.Sprintf("not listed: the template of %s/%s could not be read: %s", g.Namespace, g.Name, failure(check, err).Seen), "")
				return
			}
			used[found.MoRef] = true
		}
	}
	for _, t := range all {
		if !used[t.Ref.Value] {
			c.add(check, Warn, t.Path+" was deployed from an OVF of a content library, and none of the VmGroups of -f names that version",
				"if no linked clone and no other cluster needs it, delete it in vCenter")
		}
	}
}

// orphanedDisks lists the persistent disks on the datastores of the settings' datacenter.
func (c *checker) orphanedDisks(ctx context.Context, cluster string) {
	const check = "orphaned disks"
	found, err := c.v.FindDisks(ctx, func(o disks.Owner) bool {
		return o.UID != "" && !slices.ContainsFunc(c.Existing, func(g *v1alpha1.VmGroup) bool { return string(g.UID) == o.UID })
	})
	if err != nil {
		c.failed(check, err)
		return
	}
	var owners []string
	names := map[string][]string{}
	for _, d := range found.Disks {
		if d.Cluster == cluster {
			keep(&owners, d.Owner.UID)
			names[d.Owner.UID] = append(names[d.Owner.UID], fmt.Sprintf("%s (%s)", d.Name, d.ID))
		}
	}
	slices.Sort(owners)
	for _, uid := range owners {
		slices.Sort(names[uid])
		c.add(check, Warn, fmt.Sprintf("of a VmGroup with the UID %s, which is not among those of -f: %s", uid, plan.AtMost(names[uid], orphansNamed)),
			"if their data is no longer needed, delete them (govc disk.rm); to use them again, apply a group of that name with the annotation "+v1alpha1.AnnotationTakeDisksOf)
		c.facts(Facts{"disks": count(len(names[uid]))})
	}
	if n := len(found.Unread); n > 0 {
		for _, err := range found.Unread {
			c.add(check, Skip, fmt.Sprintf("%d datastores could not be read: %s", n, failure(check, err).Seen), "")
			return
		}
	}
}
