// This file builds a clone without making it, for previews, the check, and a member that is to be replaced.

package vsphere

import (
	"cmp"
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
)

// Draft is a clone that is built as the server builds one, but not made.
type Draft struct{ b *cloneBuilder }

// As sets the instanceUuid, name and folder of the VM.
func (d *Draft) As(instanceUUID, name, folder string) {
	d.b.id, d.b.action.VM, d.b.clone.Folder = instanceUUID, name, folder
}

// Fill takes the steps of a clone, except those that need data that only a clone has, and reports each that failed. It stops
// when a step failed that the rest needs, and takes the last step only if all others succeeded.
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

// MixedHosts says if only some hosts of the member's cluster have its hardware version; empty if all have it, or if vCenter doesn't say.
func (d *Draft) MixedHosts() string {
	x, version := d.b.upgrades, d.b.details.Spec.Hardware.Version
	if !x.mixed(version) {
		return ""
	}
	return fmt.Sprintf("%d of %d hosts of %s have hardware version %d", len(x.hosts[version]), len(x.all), x.cluster, version)
}

// draftAtHome begins a draft in the group's folder, or the one that exists above.
func (c calls) draftAtHome(ref plan.Ref, a plan.Action) (*Draft, error) {
	at, err := c.inventory.GroupFolderFor(ref, plan.HomeOf(a.Details().Spec))
	if err != nil {
		return nil, err
	}
	_, folder := c.inventory.ExistingFolder(at)
	b, err := c.newCloneBuilder(ref, a, folder)
	return &Draft{b}, err
}

// checkClone looks up what a Clone needs, and returns what it would fail on first, as the clone would: so no member is taken down for a
// successor that cannot be made.
func (st *step) checkClone(ctx context.Context, a plan.Action) error {
	d, err := st.draftAtHome(st.ref, a)
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

// FillBare takes the steps that make a VM like a member, but none that says which group it belongs to.
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
func (d *Draft) Devices() []types.BaseVirtualDevice { return d.b.source.devices }

// CoresPerSocket returns those of the source; 0 if vCenter does not say.
func (d *Draft) CoresPerSocket() int32 { return d.b.source.perSocket }

// Network finds a network that the clone's possible hosts have.
func (d *Draft) Network(ctx context.Context, name string) (naming.Candidate, error) {
	return d.b.networkAt(ctx, d.b.datacenter, *d.b.spec.Location.Pool, name)
}
