package vsphere

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/places"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// fillAdapters replaces the template's adapters with one for each of spec.networks, in their order.
//
// They go into CloneSpec.config, not into its location: [doc] RelocateSpec.deviceChange only changes the backings of existing
// adapters. vCenter gives them MAC addresses as it clones, so the guest's network
// configuration comes later (prepare.go).
func (v *VCenter) fillAdapters(ctx context.Context, b *cloneBuilder) error {
	if len(b.details.Spec.Networks) == 0 {
		return nil
	}
	b.backings = nil
	for i := range b.details.Spec.Networks {
		backing, err := v.backingOf(ctx, b, b.details.Spec.Networks[i].Network)
		if err != nil {
			return err
		}
		b.backings = append(b.backings, backing)
	}
	b.spec.Config.DeviceChange = nicChanges(b.source.nics(), b.backings, 0)
	return nil
}

// keepAdapters has the clone keep adapters of the template after it was refused because the template boots from one, and reports
// whether the clone is to be tried again. (Others always do so: fog/fog-vsphere#98.)
func (b *cloneBuilder) keepAdapters(err error) bool {
	keep := min(len(b.source.nics()), len(b.backings))
	if keep == 0 || b.kept || !refusedForBootOrder(err) {
		return false
	}
	b.kept, b.spec.Config.DeviceChange = true, nicChanges(b.source.nics(), b.backings, keep)
	return true
}

// backingOf finds a network by its name or path.
func (v *VCenter) backingOf(ctx context.Context, b *cloneBuilder, name string) (backing types.BaseVirtualDeviceBackingInfo, err error) {
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		ask := func() (*places.Networks, error) { return places.ReadNetworks(ctx, s, b.datacenter) }
		backing, err = session.LookUpIn(ctx, s, &v.lookups.networks, b.datacenter.Ref.Value, ask, func(n *places.Networks) (types.BaseVirtualDeviceBackingInfo, error) {
			found, err := n.Find(name, nil)
			if e := vcfault.Classify("", err); e != nil && e.Reason == vcfault.ReasonNetworkAmbiguous {
				reached, reachErr := v.reachOf(ctx, s, b.datacenter, *b.spec.Location.Pool)
				if reachErr != nil {
					return nil, reachErr
				}
				found, err = n.Find(name, reached)
			}
			if err != nil {
				return nil, err
			}
			return n.Backing(found)
		})
		return err
	})
	return backing, err
}
