package vsphere

import (
	"cmp"
	"context"
	"fmt"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Draft is a clone that is built as the server builds one, but not made.
type Draft struct{ b *cloneBuilder }

// Draft begins a draft for an action, a Clone with details.
func (v *VCenter) Draft(ref plan.Ref, a plan.Action) (*Draft, error) {
	b, err := v.newCloneBuilder(ref, a, a.Folder())
	return &Draft{b}, err
}

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

// Resolve reads what a preview of a group has to know and what no group has asked for: the item of a content library that is its template,
// and the VMs that it would adopt. Only previews see what it finds.
func (v *VCenter) Resolve(ctx context.Context, g *v1alpha1.VmGroup) {
	ref, home := plan.Ref{Namespace: g.Namespace, Name: g.Name, UID: g.UID}, plan.HomeOf(&g.Spec)
	s := v.State(ref, plan.Query{Template: g.Spec.Template, Home: home, Preview: true})
	if s.Template.Datacenter != "" && len(s.Template.Paths) == 0 {
		v.libraries.ReadForPreview(ctx, g.Spec.Template)
	}
	_ = v.reader.ReadForPreview(ctx, ref, home, g.Spec.Adopt) // what cannot be read is being read, for the preview
}

// Obstacles returns what a Clone would fail on in each of its steps, and a Prepare or a SetDisks because something that the spec
// names is not there. It creates nothing; reads that fail are obstacles, too.
func (v *VCenter) Obstacles(ctx context.Context, ref plan.Ref, a plan.Action) (all []plan.Obstacle) {
	tell := func(part string, err error) {
		all = append(all, plan.Obstacle{VM: a.VM, Op: a.Op, Part: part, Fault: vcfault.Classify(part, err).Fault})
	}
	d, err := v.draftAtHome(ref, a)
	if err != nil {
		tell("placement", err)
		return all
	}
	switch a.Op {
	case plan.Clone:
		d.Fill(ctx, tell)
	case plan.Prepare:
		if err := d.b.checkTags(ctx); err != nil {
			tell("tags", err)
		}
	case plan.SetDisks:
		if err := d.b.findLackingDisks(ctx); err != nil {
			tell("disks", err)
		}
	}
	return all
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

// rehearse looks up what a Clone needs, and returns what it would fail on first, as the clone would: so no member is taken down for a
// successor that cannot be made.
func (st *step) rehearse(ctx context.Context, a plan.Action) error {
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

// NetworkOf finds a network of the settings' datacenter that the hosts of a pool have.
func (v *VCenter) NetworkOf(ctx context.Context, pool types.ManagedObjectReference, name string) (naming.Candidate, error) {
	in, err := v.ownDatacenter()
	if err != nil {
		return naming.Candidate{}, err
	}
	return v.networkAt(ctx, in, pool, name)
}

// OwnerOf returns the cluster or host of a pool in the settings' datacenter; the zero reference if unknown.
func (v *VCenter) OwnerOf(ctx context.Context, pool types.ManagedObjectReference) (owner types.ManagedObjectReference, err error) {
	in, err := v.ownDatacenter()
	if err != nil {
		return owner, err
	}
	err = v.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := places.ReadComputes(ctx, s, in)
		if err == nil {
			owner = all.Owner[pool]
		}
		return err
	})
	return owner, err
}

// FindDisks returns the first-class disks in the settings' datacenter whose owner is wanted.
func (v *VCenter) FindDisks(ctx context.Context, wanted func(disks.Owner) bool) (found disks.Found, err error) {
	in, err := v.ownDatacenter()
	if err != nil {
		return found, err
	}
	var datastores []string
	err = v.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		all, err := places.ReadStorage(ctx, s, in)
		if err != nil {
			return err
		}
		for _, at := range places.Candidates(all.All, "Datastore") {
			datastores = append(datastores, at.Ref.Value)
		}
		return nil
	})
	if err == nil {
		found = disks.NewFirstClass(v).Find(ctx, datastores, wanted)
	}
	return found, err
}

// ownDatacenter returns the datacenter of the settings.
func (v *parts) ownDatacenter() (places.Datacenter, error) {
	at, err := v.settings()
	if err != nil {
		return places.Datacenter{}, err
	}
	return places.Datacenter{Ref: at.Datacenter, Path: at.DatacenterPath, OfSettings: true}, nil
}

// DatastoreState is the state of the settings' datastore, which matters before a VM is put on it.
type DatastoreState struct {
	Path string
	// Usable reports whether VMs can be put on it now.
	Usable bool
	// Free is the space that is left, in bytes.
	Free int64
}

// ReadDatastore reads the state of the datastore that the settings name; nil if it cannot be read.
func ReadDatastore(ctx context.Context, s *session.Session, at *inventory.Settings) (*DatastoreState, error) {
	all, err := places.ReadStorage(ctx, s, places.Datacenter{Ref: at.Datacenter, Path: at.DatacenterPath, OfSettings: true})
	if err != nil {
		return nil, err
	}
	t := all.Of(*at.Datastore)
	if t == nil {
		return nil, nil
	}
	return &DatastoreState{Path: t.Path, Usable: places.Usable(t), Free: t.Free()}, nil
}
