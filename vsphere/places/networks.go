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

// switched returns the path of a port group with its switch; empty for other networks. Only the switch distinguishes NSX's port groups of a
// segment, which have the same name and the same path in each switch.
func (n *Networks) switched(t *Object) string {
	dvs := n.switchOf(t)
	if dvs == nil {
		return ""
	}
	dir, name := path.Split(t.Path)
	return dir + path.Base(dvs.Path) + "/" + name
}

// Find finds a network, as naming.Matching describes. If several match, Find takes those that VMs can use and that the hosts in reached have, if
// there are any. But a name keeps what it meant before in the zone.
func (n *Networks) Find(name string, reached *Reach, zone string, meant *naming.Meant) (*Object, error) {
	all := make([]naming.Candidate, len(n.All))
	for i := range n.All {
		all[i] = n.All[i].Candidate
		all[i].Switched = n.switched(&n.All[i])
	}
	fits := naming.Matching(name, all)
	prefer := func(good func(t *Object) bool) {
		if some := slices.DeleteFunc(slices.Clone(fits), func(i int) bool { return !good(&n.All[i]) }); len(some) > 0 {
			fits = some
		}
	}
	prefer(func(t *Object) bool { return !n.uplink(t) })
	if reached != nil {
		prefer(func(t *Object) bool { return slices.Contains(reached.Networks, t.Ref) })
	}
	at, err := NetworkField.Pick(meant, zone, name, all, fits)
	if err != nil && len(fits) == 0 { // the message must not suggest uplinks
		var usable []naming.Candidate
		for i := range all {
			if !n.uplink(&n.All[i]) {
				usable = append(usable, all[i])
			}
		}
		return nil, NetworkField.Refuse(name, usable, nil)
	}
	if err != nil {
		return nil, err
	}
	t := &n.All[at]
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
