package vsphere

import (
	"context"
	"path"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/cards"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// networks are the networks of a datacenter.
type networks struct {
	all []namedObject
	// switches are the distributed switches, by moRef.
	switches map[types.ManagedObjectReference]*namedObject
}

const (
	portgroupKind = "DistributedVirtualPortgroup"
	opaqueKind    = "OpaqueNetwork"
)

var (
	networkKinds = []string{"Network", portgroupKind, opaqueKind}
	switchKinds  = []string{"VmwareDistributedVirtualSwitch", "DistributedVirtualSwitch"}
)

func readNetworks(ctx context.Context, s *session.Session, d datacenter) (*networks, error) {
	all, err := d.tree(ctx, s, "networkFolder", nil,
		types.PropertySpec{Type: "Network"},
		types.PropertySpec{Type: portgroupKind, PathSet: []string{"key", "config.distributedVirtualSwitch", "config.uplink"}},
		types.PropertySpec{Type: opaqueKind, PathSet: []string{"summary"}},
		types.PropertySpec{Type: "DistributedVirtualSwitch", PathSet: []string{"uuid", "config.uplinkPortgroup"}})
	if err != nil {
		return nil, err
	}
	n := &networks{switches: map[types.ManagedObjectReference]*namedObject{}}
	for i := range all {
		if slices.Contains(switchKinds, all[i].Ref.Type) {
			n.switches[all[i].Ref] = &all[i]
		}
	}
	for _, t := range all {
		if slices.Contains(networkKinds, t.Ref.Type) {
			n.all = append(n.all, t)
		}
	}
	return n, nil
}

// switchOf returns the distributed switch of a port group; nil if there is none or it cannot be seen.
func (n *networks) switchOf(t *namedObject) *namedObject {
	ref, _ := t.props["config.distributedVirtualSwitch"].(types.ManagedObjectReference)
	return n.switches[ref]
}

// uplink reports whether a port group is for the hosts' physical adapters, not for VMs.
func (n *networks) uplink(t *namedObject) bool {
	if yes, _ := t.props["config.uplink"].(bool); yes {
		return true
	}
	dvs := n.switchOf(t)
	if dvs == nil {
		return false
	}
	uplinks, _ := dvs.props["config.uplinkPortgroup"].(types.ArrayOfManagedObjectReference)
	return slices.Contains(uplinks.ManagedObjectReference, t.Ref)
}

// qualified returns the path of a network including its switch, which distinguishes port groups of one name: those of
// NSX have the same name, and the same path, in each switch.
func (n *networks) qualified(t *namedObject) string {
	dvs := n.switchOf(t)
	if dvs == nil {
		return t.Path
	}
	dir, name := path.Split(t.Path)
	return dir + path.Base(dvs.Path) + "/" + name
}

// find finds a network by its name, its path, or its path with its switch ("DVS0/web"). Of several it takes the
// only one that the hosts have, if reached lists what they have.
func (n *networks) find(name string, reached *reach) (*namedObject, error) {
	var plain, qualified []naming.Candidate
	for i := range n.all {
		plain = append(plain, n.all[i].Candidate)
		qualified = append(qualified, naming.Candidate{Path: n.qualified(&n.all[i]), Ref: n.all[i].Ref})
	}
	fits := naming.Matching(name, plain)
	if len(fits) == 0 {
		fits = naming.Matching(name, qualified)
	}
	if len(fits) > 1 && reached != nil {
		there := slices.DeleteFunc(slices.Clone(fits), func(i int) bool { return !slices.Contains(reached.networks, n.all[i].Ref) })
		if len(there) == 1 {
			fits = there
		}
	}
	if len(fits) == 0 { // the message must not suggest uplinks
		plain = slices.DeleteFunc(plain, func(c naming.Candidate) bool {
			return n.uplink(&n.all[slices.IndexFunc(n.all, func(t namedObject) bool { return t.Ref == c.Ref })])
		})
		return nil, networkField.Refuse(name, plain, nil)
	}
	if len(fits) > 1 {
		return nil, networkField.Refuse(name, qualified, fits)
	}
	t := &n.all[fits[0]]
	if n.uplink(t) {
		return nil, vcfault.New(vcfault.ReasonNetworkUnusable, true, "The port group %s is an uplink of its switch, which VMs cannot use: name another one in spec.networks.", t.Path)
	}
	return t, nil
}

// backing returns the backing that connects an adapter to a network, like object.NetworkReference.EthernetCardBackingInfo, but
// without another call.
func (n *networks) backing(t *namedObject) (types.BaseVirtualDeviceBackingInfo, error) {
	switch t.Ref.Type {
	case portgroupKind:
		key, _ := t.props["key"].(string)
		dvs := n.switchOf(t)
		if dvs == nil || key == "" {
			return nil, vcfault.New(vcfault.ReasonMissingPrivilege, true, "The distributed switch of the port group %s cannot be seen: grant vCenter's user the privilege System.Read on it.", t.Path)
		}
		uuid, _ := dvs.props["uuid"].(string)
		return &types.VirtualEthernetCardDistributedVirtualPortBackingInfo{Port: types.DistributedVirtualSwitchPortConnection{PortgroupKey: key, SwitchUuid: uuid}}, nil
	case opaqueKind:
		var summary *types.OpaqueNetworkSummary
		switch x := t.props["summary"].(type) {
		case types.OpaqueNetworkSummary:
			summary = &x
		case *types.OpaqueNetworkSummary:
			summary = x
		default:
			return nil, vcfault.New(vcfault.ReasonMissingPrivilege, true, "The opaque network %s cannot be read: grant vCenter's user the privilege System.Read on it.", t.Path)
		}
		return &types.VirtualEthernetCardOpaqueNetworkBackingInfo{OpaqueNetworkId: summary.OpaqueNetworkId, OpaqueNetworkType: summary.OpaqueNetworkType}, nil
	}
	name, _ := t.props["name"].(string)
	return &types.VirtualEthernetCardNetworkBackingInfo{VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: naming.Unescape(name)}}, nil
}

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
	b.spec.Config.DeviceChange = cards.Changes(b.source.cards(), b.backings, 0)
	return nil
}

// keepAdapters has the clone keep adapters of the template after it was refused because the template boots from one, and reports
// whether the clone is to be tried again. (Others always do so: fog/fog-vsphere#98.)
func (b *cloneBuilder) keepAdapters(err error) bool {
	keep := min(len(b.source.cards()), len(b.backings))
	if keep == 0 || b.kept || !cards.RefusedForBootOrder(err) {
		return false
	}
	b.kept, b.spec.Config.DeviceChange = true, cards.Changes(b.source.cards(), b.backings, keep)
	return true
}

// backingOf finds a network by its name or path.
func (v *VCenter) backingOf(ctx context.Context, b *cloneBuilder, name string) (backing types.BaseVirtualDeviceBackingInfo, err error) {
	err = v.Call(ctx, func(ctx context.Context, s *session.Session) error {
		ask := func() (*networks, error) { return readNetworks(ctx, s, b.datacenter) }
		backing, err = looking(ctx, s, &v.lookups.networks, b.datacenter.ref.Value, ask, func(n *networks) (types.BaseVirtualDeviceBackingInfo, error) {
			found, err := n.find(name, nil)
			if e := vcfault.Classify("", err); e != nil && e.Reason == vcfault.ReasonNetworkAmbiguous {
				reached, reachErr := v.reachOf(ctx, s, b.datacenter, *b.spec.Location.Pool)
				if reachErr != nil {
					return nil, reachErr
				}
				found, err = n.find(name, reached)
			}
			if err != nil {
				return nil, err
			}
			return n.backing(found)
		})
		return err
	})
	return backing, err
}
