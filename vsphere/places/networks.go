package places

import (
	"context"
	"path"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Networks are the networks of a datacenter.
type Networks struct {
	All []Object
	// switches are the distributed switches, by moRef.
	switches map[types.ManagedObjectReference]*Object
}

const (
	portgroupKind = "DistributedVirtualPortgroup"
	opaqueKind    = "OpaqueNetwork"
)

var (
	networkKinds = []string{"Network", portgroupKind, opaqueKind}
	switchKinds  = []string{"VmwareDistributedVirtualSwitch", "DistributedVirtualSwitch"}
)

// ReadNetworks reads the networks of a datacenter and its distributed switches, in one call.
func ReadNetworks(ctx context.Context, s *session.Session, d Datacenter) (*Networks, error) {
	all, err := d.tree(ctx, s, "networkFolder", nil,
		types.PropertySpec{Type: "Network"},
		types.PropertySpec{Type: portgroupKind, PathSet: []string{"key", "config.distributedVirtualSwitch", "config.uplink"}},
		types.PropertySpec{Type: opaqueKind, PathSet: []string{"summary"}},
		types.PropertySpec{Type: "DistributedVirtualSwitch", PathSet: []string{"uuid", "config.uplinkPortgroup"}})
	if err != nil {
		return nil, err
	}
	n := &Networks{switches: map[types.ManagedObjectReference]*Object{}}
	for i := range all {
		if slices.Contains(switchKinds, all[i].Ref.Type) {
			n.switches[all[i].Ref] = &all[i]
		}
	}
	for _, t := range all {
		if slices.Contains(networkKinds, t.Ref.Type) {
			n.All = append(n.All, t)
		}
	}
	return n, nil
}

// switchOf returns the distributed switch of a port group; nil if there is none or it cannot be seen.
func (n *Networks) switchOf(t *Object) *Object {
	ref, _ := t.props["config.distributedVirtualSwitch"].(types.ManagedObjectReference)
	return n.switches[ref]
}

// uplink reports whether a port group is for the hosts' physical adapters, not for VMs.
func (n *Networks) uplink(t *Object) bool {
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

// qualified returns the path of a network with its switch. Only the switch distinguishes NSX's port groups of a segment, which have the same
// name and the same path in each switch.
func (n *Networks) qualified(t *Object) string {
	dvs := n.switchOf(t)
	if dvs == nil {
		return t.Path
	}
	dir, name := path.Split(t.Path)
	return dir + path.Base(dvs.Path) + "/" + name
}

// Find finds a network by its name, its path, or its path with its switch ("DVS0/web"). If several match, and only one of them is a network of
// the hosts in reached, Find returns that one.
func (n *Networks) Find(name string, reached *Reach) (*Object, error) {
	var plain, qualified []naming.Candidate
	for i := range n.All {
		plain = append(plain, n.All[i].Candidate)
		qualified = append(qualified, naming.Candidate{Path: n.qualified(&n.All[i]), Ref: n.All[i].Ref})
	}
	fits := naming.Matching(name, plain)
	if len(fits) == 0 {
		fits = naming.Matching(name, qualified)
	}
	if len(fits) > 1 && reached != nil {
		there := slices.DeleteFunc(slices.Clone(fits), func(i int) bool { return !slices.Contains(reached.Networks, n.All[i].Ref) })
		if len(there) == 1 {
			fits = there
		}
	}
	if len(fits) == 0 { // the message must not suggest uplinks
		plain = slices.DeleteFunc(plain, func(c naming.Candidate) bool {
			return n.uplink(&n.All[slices.IndexFunc(n.All, func(t Object) bool { return t.Ref == c.Ref })])
		})
		return nil, NetworkField.Refuse(name, plain, nil)
	}
	if len(fits) > 1 {
		return nil, NetworkField.Refuse(name, qualified, fits)
	}
	t := &n.All[fits[0]]
	if n.uplink(t) {
		return nil, vcfault.ForOperator(vcfault.ReasonNetworkUnusable, "The port group %s is an uplink of its switch, which VMs cannot use: name another one in spec.networks.", t.Path)
	}
	return t, nil
}

// Backing returns the backing that connects an adapter to a network, like object.NetworkReference.EthernetCardBackingInfo, but
// without another call.
func (n *Networks) Backing(t *Object) (types.BaseVirtualDeviceBackingInfo, error) {
	switch t.Ref.Type {
	case portgroupKind:
		key, _ := t.props["key"].(string)
		dvs := n.switchOf(t)
		if dvs == nil || key == "" {
			return nil, vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "The distributed switch of the port group %s cannot be seen: grant vCenter's user the privilege System.Read on it.", t.Path)
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
			return nil, vcfault.ForOperator(vcfault.ReasonMissingPrivilege, "The opaque network %s cannot be read: grant vCenter's user the privilege System.Read on it.", t.Path)
		}
		return &types.VirtualEthernetCardOpaqueNetworkBackingInfo{OpaqueNetworkId: summary.OpaqueNetworkId, OpaqueNetworkType: summary.OpaqueNetworkType}, nil
	}
	name, _ := t.props["name"].(string)
	return &types.VirtualEthernetCardNetworkBackingInfo{VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: naming.Unescape(name)}}, nil
}
