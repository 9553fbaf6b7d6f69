// This file finds for previews what a step would fail on. It changes nothing in vCenter.

package vsphere

import (
	"context"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Resolve reads what a preview of a group needs and no group has asked for yet: the content library item of its template, and the VMs that the
// group would adopt. Only previews see the result.
func (v *VCenter) Resolve(ctx context.Context, g *v1alpha1.VmGroup) {
	ref, home := plan.Ref{Namespace: g.Namespace, Name: g.Name, UID: g.UID}, plan.HomeOf(&g.Spec)
	s := v.State(ref, plan.Query{Template: g.Spec.Template, Home: home, Names: g.Status.Names, RecordedIn: g.Status.VCenterUUID, Preview: true})
	if s.Template.Datacenter != "" && len(s.Template.Paths) == 0 {
		v.libraries.ReadForPreview(ctx, g.Spec.Template, s.Template.Meant)
	}
	_ = v.reader.ReadForPreview(ctx, ref, home, g.Spec.Adopt) // without an answer, the preview shows that the VMs are being read
}

// Preflight returns what each step of a Clone would fail on, and what a Prepare or a SetDisks would fail on because vCenter lacks an object that the
// spec names. It creates nothing. A failed read is an obstacle, too. Of a Clone and a Reconfigure, one call more compares what the members of the zone
// need with what there is: so many members in the end, and so many VMs more than there are.
func (v *VCenter) Preflight(ctx context.Context, ref plan.Ref, a plan.Action, members, more int) (found plan.Preflight) {
	tell := func(part string, err error) {
		found.Obstacles = append(found.Obstacles, plan.Obstacle{VM: a.Key, Op: a.Op, Part: part, Fault: vcfault.Classify(part, err).Fault})
	}
	if a.Op == plan.Reconfigure {
		if room, err := v.roomToResize(ctx, a); err != nil {
			tell("room", err)
		} else {
			found.Warnings = room.Warnings(members, 0)
		}
		return found
	}
	d, err := v.draftInGroupFolder(ref, a)
	if err != nil {
		tell("placement", err)
		return found
	}
	switch a.Op {
	case plan.Clone:
		if !d.Fill(ctx, tell) {
			break
		}
		found.TemplateDisksGiB = gibibytes(d.templateDisks())
		if room, err := d.Room(ctx); err != nil {
			tell("room", err)
		} else {
			found.Warnings = room.Warnings(members, more)
		}
	case plan.Prepare:
		if err := d.b.checkTags(ctx); err != nil {
			tell("tags", err)
		}
	case plan.SetDisks:
		if err := d.b.findLackingDisks(ctx); err != nil {
			tell("disks", err)
		}
	}
	return found
}

// findLackingDisks looks up the datastores and policies of the spec's disks that a member does not have.
func (b *cloneBuilder) findLackingDisks(ctx context.Context) error {
	m, err := b.ownOf(b.ref, b.action)
	if err != nil {
		return err
	}
	given := plan.DisksIn(m.Stamp.Given)
	lacking := slices.DeleteFunc(slices.Clone(b.details.Spec.Disks), func(d v1alpha1.Disk) bool {
		return slices.ContainsFunc(given, func(has plan.MemberDisk) bool { return has.Name == d.Name })
	})
	if len(lacking) == 0 {
		return nil
	}
	if err := b.fillPool(ctx); err != nil {
		return err
	}
	_, err = b.wantedDisks(ctx, lacking)
	return err
}
