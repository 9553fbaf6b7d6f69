// This file builds a clone without making it: for previews, for the check, and before a member is removed for its successor.

package vsphere

import (
	"cmp"
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// Draft is a clone spec that is built as for a clone, and not used.
type Draft struct{ b *cloneBuilder }

// As sets the instanceUuid, name and folder of the VM.
func (d *Draft) As(instanceUUID, name, folder string) {
	d.b.id, d.b.action.Key, d.b.clone.Folder = instanceUUID, name, folder
}

// Fill runs the steps of a clone that need no real clone, and reports each failure. It stops after the failure of a step that later steps need
// (base), and runs a step that needs all others (last) only if all succeeded.
func (d *Draft) Fill(ctx context.Context, failed func(step string, err error)) (good bool) {
	good = true
	for _, step := range d.b.cloneSteps() {
		if step.only == aClone {
			continue
		}
		if step.last && !good {
			break
		}
		if err := step.fill(ctx); err != nil {
			failed(step.name, err)
			if good = false; step.base {
				break
			}
		}
	}
	return good
}

// MixedHosts says how many hosts of the member's cluster have its hardware version; empty if all have it, or if vCenter does not list them.
func (d *Draft) MixedHosts() string {
	x, version := d.b.upgrades, d.b.details.Spec.Hardware.Version
	if !x.Mixed(version) {
		return ""
	}
	return fmt.Sprintf("%d of %d hosts of %s have hardware version %d", len(x.Hosts[version]), len(x.All), x.Cluster, version)
}

// draftInGroupFolder begins a draft in the group's folder, or in the nearest existing folder above it.
func (c calls) draftInGroupFolder(ref plan.Ref, a plan.Action) (*Draft, error) {
	at, err := c.inventory.GroupFolderFor(ref, plan.HomeOf(a.Details().Spec))
	if err != nil {
		return nil, err
	}
	_, folder := c.inventory.ExistingFolder(at)
	b, err := c.newCloneBuilder(ref, a, folder)
	return &Draft{b}, err
}

// checkClone looks up what a Clone needs, and returns the first error that the clone would return, so that no member is taken down for a successor
// that cannot be cloned.
func (st *step) checkClone(ctx context.Context, a plan.Action) error {
	d, err := st.draftInGroupFolder(st.ref, a)
	if err != nil {
		return err
	}
	var first error
	d.Fill(ctx, func(_ string, err error) { first = cmp.Or(first, err) })
	if first != nil {
		return d.b.failure(ctx, first)
	}
	return nil
}

// FillBare runs the steps that apply to any VM of the source (anyVM), and none that depends on the group.
func (d *Draft) FillBare(ctx context.Context) error {
	for _, step := range d.b.cloneSteps() {
		if step.only != anyVM {
			continue
		}
		if err := step.fill(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Spec returns the clone spec that the steps have filled.
func (d *Draft) Spec() types.VirtualMachineCloneSpec { return d.b.spec }

// Encrypts returns the storage policies by which the VM is encrypted before its first power-on, as plan.Preparation has them.
func (d *Draft) Encrypts() map[string]string { return d.b.encrypt }

// Folder returns the moRef of the folder that the clone would be made in.
func (d *Draft) Folder() string { return d.b.clone.Folder }

// Group returns the details of the action.
func (d *Draft) Group() *plan.Details { return d.b.details }

// Devices returns the devices of the source.
func (d *Draft) Devices() []types.BaseVirtualDevice { return d.b.source.Devices }

// CoresPerSocket returns the cores per socket of the source; 0 if vCenter does not show them.
func (d *Draft) CoresPerSocket() int32 { return d.b.source.PerSocket }

// Network finds a network that hosts of the clone's pool have.
func (d *Draft) Network(ctx context.Context, name string) (naming.Candidate, error) {
	return d.b.networkAt(ctx, d.b.datacenter, *d.b.spec.Location.Pool, name, d.b.details.Zone, d.b.meant)
}
