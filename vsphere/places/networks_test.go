package places

import (
	"testing"

	vim "github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// netThing is a listed network.
func netThing(kind, id, path string, props ...any) Object {
	t := Object{Candidate: naming.Candidate{Path: path, Ref: vim.ManagedObjectReference{Type: kind, Value: id}}, props: map[string]vim.AnyType{}}
	for i := 0; i+1 < len(props); i += 2 {
		t.props[props[i].(string)] = props[i+1]
	}
	return t
}

func TestANetworkIsFoundByNamePathSwitchOrWhatTheHostsHave(t *testing.T) {
	dvs := func(id string) vim.ManagedObjectReference {
		return vim.ManagedObjectReference{Type: "VmwareDistributedVirtualSwitch", Value: id}
	}
	on, key := "config.distributedVirtualSwitch", "key"
	n := &Networks{switches: map[vim.ManagedObjectReference]*Object{}, All: []Object{
		netThing("Network", "network-1", "/DC0/network/VM Network", "name", "VM Network"),
		netThing(portgroupKind, "pg-1", "/DC0/network/segment", on, dvs("dvs-1"), key, "pg-1"),
		netThing(portgroupKind, "pg-2", "/DC0/network/segment", on, dvs("dvs-2"), key, "pg-2"),
		netThing(portgroupKind, "pg-3", "/DC0/network/a/web", on, dvs("dvs-1"), key, "pg-3"),
		netThing(portgroupKind, "pg-4", "/DC0/network/b/web", on, dvs("dvs-1"), key, "pg-4"),
		netThing(portgroupKind, "pg-5", "/DC0/network/10.0.0.0%2f24 prod", on, dvs("dvs-2"), key, "pg-5"),
		netThing(portgroupKind, "pg-6", "/DC0/network/up", on, dvs("dvs-1"), "config.uplink", true),
		netThing(portgroupKind, "pg-7", "/DC0/network/old-up", on, dvs("dvs-2")),
		netThing(portgroupKind, "pg-8", "/DC0/network/hidden", on, dvs("dvs-9"), key, "pg-8"),
		netThing(portgroupKind, "pg-9", "/DC0/network/b/up", on, dvs("dvs-1"), key, "pg-9"),
		netThing(portgroupKind, "pg-10", "/DC0/network/VM Network", on, dvs("dvs-1"), key, "pg-10"),
		netThing(opaqueKind, "opaque-2", "/DC0/network/segment", "summary", vim.OpaqueNetworkSummary{}),
		netThing(opaqueKind, "opaque-1", "/DC0/network/nsx", "summary", vim.OpaqueNetworkSummary{OpaqueNetworkId: "id", OpaqueNetworkType: "nsx.LogicalSwitch"}),
	}}
	for _, d := range []Object{
		netThing("VmwareDistributedVirtualSwitch", "dvs-1", "/DC0/network/DVS1", "uuid", "uuid-1"),
		netThing("VmwareDistributedVirtualSwitch", "dvs-2", "/DC0/network/DVS2", "uuid", "uuid-2", "config.uplinkPortgroup",
			vim.ArrayOfManagedObjectReference{ManagedObjectReference: []vim.ManagedObjectReference{{Type: portgroupKind, Value: "pg-7"}}}),
	} {
		n.switches[d.Ref] = &d
	}
	reached := &Reach{Networks: []vim.ManagedObjectReference{{Type: portgroupKind, Value: "pg-2"}}}
	for _, c := range []struct {
		name         string
		reached      *Reach
		want         string
		reason, says string
	}{
		{"VM Network", nil, "", vcfault.ReasonNetworkAmbiguous, "one of /DC0/network/DVS1/VM Network, Network:/DC0/network/VM Network"},
		{"/DC0/network/VM Network", nil, "", vcfault.ReasonNetworkAmbiguous, "one of /DC0/network/DVS1/VM Network, Network:/DC0/network/VM Network"},
		{"Network:/DC0/network/VM Network", nil, "network-1", "", ""},
		{"Network:VM Network", nil, "network-1", "", ""},
		{"Network:network-1", nil, "network-1", "", ""},
		{"network-1", nil, "", vcfault.ReasonNetworkNotFound, "network-1"},
		{"DistributedVirtualPortgroup:VM Network", nil, "pg-10", "", ""},
		{"VM Network", &Reach{Networks: []vim.ManagedObjectReference{{Type: "Network", Value: "network-1"}}}, "network-1", "", ""},
		{"segment", &Reach{Networks: []vim.ManagedObjectReference{{Type: portgroupKind, Value: "pg-2"}, {Type: opaqueKind, Value: "opaque-2"}}}, "",
			vcfault.ReasonNetworkAmbiguous, "one of /DC0/network/DVS2/segment, OpaqueNetwork:/DC0/network/segment."},
		{"DVS2/segment", nil, "pg-2", "", ""},
		{"/DC0/network/DVS1/segment", nil, "pg-1", "", ""},
		{"segment", reached, "pg-2", "", ""},
		{"segment", nil, "", vcfault.ReasonNetworkAmbiguous, "/DC0/network/DVS1/segment, /DC0/network/DVS2/segment, OpaqueNetwork:/DC0/network/segment"},
		{"/DC0/network/segment", nil, "", vcfault.ReasonNetworkAmbiguous, "/DC0/network/DVS1/segment, /DC0/network/DVS2/segment, OpaqueNetwork:/DC0/network/segment"},
		{"a/web", nil, "pg-3", "", ""},
		{"web", reached, "", vcfault.ReasonNetworkAmbiguous, "spec.networks"},
		{"10.0.0.0/24 prod", nil, "pg-5", "", ""},
		{"10.0.0.0%2f24 prod", nil, "pg-5", "", ""},
		{"up", nil, "pg-9", "", ""}, // the other is an uplink
		{"/DC0/network/up", nil, "", vcfault.ReasonNetworkUnusable, "uplink"},
		{"old-up", nil, "", vcfault.ReasonNetworkUnusable, "uplink"},
		{"nowhere", nil, "", vcfault.ReasonNetworkNotFound, "/DC0/network/VM Network"},
	} {
		got, err := n.Find(c.name, c.reached, "", nil)
		e := vctest.AsError(err)
		if (e != nil) != (c.reason != "") || e == nil && got.Ref.Value != c.want || e != nil && (e.Reason != c.reason || !vctest.Mentions(e.Message, c.says)) {
			t.Errorf("%q: got %v, %v", c.name, got, err)
		}
		if e != nil && e.Reason == vcfault.ReasonNetworkNotFound && vctest.Mentions(e.Message, "/DC0/network/up") {
			t.Errorf("the fault's text lists an uplink: %s", e.Message)
		}
	}
	backing := func(name string) vim.BaseVirtualDeviceBackingInfo {
		t.Helper()
		found, err := n.Find(name, nil, "", nil)
		must.Succeed(t, err)
		b, err := n.Backing(found)
		if err != nil {
			t.Error(err)
		}
		return b
	}
	if b, is := backing("DVS2/segment").(*vim.VirtualEthernetCardDistributedVirtualPortBackingInfo); !is || b.Port.PortgroupKey != "pg-2" || b.Port.SwitchUuid != "uuid-2" {
		t.Errorf("got %+v", b)
	}
	if b, is := backing("nsx").(*vim.VirtualEthernetCardOpaqueNetworkBackingInfo); !is || b.OpaqueNetworkId != "id" || b.OpaqueNetworkType != "nsx.LogicalSwitch" {
		t.Errorf("got %+v", b)
	}
	if b, is := backing("Network:VM Network").(*vim.VirtualEthernetCardNetworkBackingInfo); !is || b.DeviceName != "VM Network" {
		t.Errorf("got %+v", b)
	}
	hidden, _ := n.Find("hidden", nil, "", nil)
	if _, err := n.Backing(hidden); vctest.AsError(err) == nil || vctest.AsError(err).Reason != vcfault.ReasonMissingPrivilege {
		t.Errorf("a port group whose switch is hidden: %v", err)
	}
}
