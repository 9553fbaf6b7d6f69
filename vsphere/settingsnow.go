package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// settings are what the configuration names in vCenter, or why that cannot be used.
func (v *VCenter) settings() (*settings, error) {
	at, unfit := v.inventory.settingsOrFault()
	switch {
	case unfit != nil:
		return nil, &vcfault.Error{Fault: *unfit}
	case at == nil:
		return nil, vcfault.New(plan.ReasonInventoryNotRead, false, "vCenter's inventory is being read.")
	}
	return at, nil
}

func (v *VCenter) refit(ctx context.Context) (*settings, error) {
	err := v.client.Call(ctx, func(ctx context.Context, s *session.Session) error { return v.stream.fit(ctx, s) })
	if err != nil {
		return nil, err
	}
	at, err := v.settings()
	if err == nil {
		err = v.reader.read(ctx, at.root)
	}
	return at, err
}

// datacenterOf is the datacenter that a clone's folder is in. Everything that the clone is connected with must be in it.
func (v *VCenter) datacenterOf(folder types.ManagedObjectReference) (datacenter, error) {
	at, err := v.settings()
	if err != nil {
		return datacenter{}, err
	}
	n := v.inventory
	n.mu.RLock()
	defer n.mu.RUnlock()
	for p := range n.places.above(folder.Value) {
		if p.Kind == "Datacenter" {
			ref := types.ManagedObjectReference{Type: p.Kind, Value: p.MoRef}
			return datacenter{ref: ref, path: n.places.path(p.Parent, p.Name), ofSettings: ref == at.datacenter}, nil
		}
	}
	return datacenter{}, vcfault.New(vcfault.ReasonGone, false, "The group's folder is not there any more; what there is now is read anew.")
}
