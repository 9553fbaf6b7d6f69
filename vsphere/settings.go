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

// settings returns the objects that the configuration names in vCenter, or why they cannot be used.
func (v *VCenter) settings() (*inventory.Settings, error) {
	at, unfit := v.inventory.Settings()
	switch {
	case unfit != nil:
		return nil, &vcfault.Error{Fault: *unfit}
	case at == nil:
		return nil, vcfault.New(plan.ReasonInventoryNotRead, false, "vCenter's inventory is being read.")
	}
	return at, nil
}

func (v *VCenter) refit(ctx context.Context) (*inventory.Settings, error) {
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

// datacenterOf returns the datacenter that a clone's folder is in. Everything that the clone is connected to must be in it.
func (v *VCenter) datacenterOf(folder types.ManagedObjectReference) (places.Datacenter, error) {
	at, err := v.settings()
	if err != nil {
		return places.Datacenter{}, err
	}
	if in, found := v.inventory.DatacenterAbove(folder.Value); found {
		return places.Datacenter{Ref: in.Ref, Path: in.Path, OfSettings: in.Ref == at.Datacenter}, nil
	}
	return places.Datacenter{}, vcfault.New(vcfault.ReasonGone, false, "The group's folder is gone; the inventory is read again.")
}
