// This file looks up the objects that the server's settings name.

package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// settings returns the vCenter objects that the configuration names, or why the server cannot use them.
func (v *parts) settings() (*inventory.Settings, error) {
	at, unfit := v.inventory.Settings()
	switch {
	case unfit != nil:
		return nil, &vcfault.Error{Fault: *unfit}
	case at == nil:
		return nil, vcfault.ForRetry(plan.ReasonInventoryNotRead, "vCenter's inventory is being read.")
	}
	return at, nil
}

// reloadSettings looks up the objects of the configuration again, which creates a missing root folder.
func (v *parts) reloadSettings(ctx context.Context) (*inventory.Settings, error) {
	err := v.client.Call(ctx, func(ctx context.Context, s *session.Session) error { return v.stream.Fit(ctx, s) })
	if err != nil {
		return nil, err
	}
	at, err := v.settings()
	if err == nil {
		err = v.reader.Read(ctx, at.Root)
	}
	return at, err
}

// datacenterOf returns the datacenter of a clone's folder. The clone's pool, datastores and networks must be in that datacenter.
func (v *parts) datacenterOf(folder types.ManagedObjectReference) (places.Datacenter, error) {
	at, err := v.settings()
	if err != nil {
		return places.Datacenter{}, err
	}
	if in, found := v.inventory.DatacenterAbove(folder.Value); found {
		return places.Datacenter{Ref: in.Ref, Path: in.Path, OfSettings: in.Ref == at.Datacenter}, nil
	}
	return places.Datacenter{}, vcfault.ForRetry(vcfault.ReasonGone, "The group's folder is gone; the inventory is read again.")
}

// ownDatacenter returns the datacenter of the settings.
func (v *parts) ownDatacenter() (places.Datacenter, error) {
	at, err := v.settings()
	if err != nil {
		return places.Datacenter{}, err
	}
	return places.Datacenter{Ref: at.Datacenter, Path: at.DatacenterPath, OfSettings: true}, nil
}

// DatastoreState is the state of the settings' datastore, to be checked before a VM is put on it.
type DatastoreState struct {
	Path string
	// Usable reports whether VMs can be put on it now.
	Usable bool
	// Free is the free space in bytes.
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
