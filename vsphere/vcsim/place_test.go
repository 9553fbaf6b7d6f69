package vcsim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// cloneAs clones the template with a changed spec.
func (c *client) cloneAs(t testing.TB, name string, change func(*types.VirtualMachineCloneSpec)) error {
	t.Helper()
	spec := c.cloneSpec(new(types.VirtualMachineConfigSpec))
	change(&spec)
	task, err := c.template.Clone(c.ctx, c.folder, name, spec)
	if err != nil {
		return err
	}
	return task.Wait(c.ctx)
}

func details(t testing.TB, v *vcsim.VCenter, where string) vcsim.Details {
	t.Helper()
	d, err := v.Details(where)
	ok(t, err)
	return d
}

func found(t testing.TB, v *vcsim.VCenter, path string) types.ManagedObjectReference {
	t.Helper()
	ref, err := v.Find(path)
	ok(t, err)
	return ref
}

// finder searches in DC0.
func (c *client) finder(t testing.TB) *find.Finder {
	t.Helper()
	f := find.NewFinder(c.Client.Client)
	dc, err := f.Datacenter(c.ctx, "DC0")
	ok(t, err)
	return f.SetDatacenter(dc)
}

// replaceNICs removes the template's adapters and adds one for each network.
func (c *client) replaceNICs(t testing.TB, networks ...string) []types.BaseVirtualDeviceConfigSpec {
	t.Helper()
	devices, err := c.template.Device(c.ctx)
	ok(t, err)
	changes, err := devices.SelectByType((*types.VirtualEthernetCard)(nil)).ConfigSpec(types.VirtualDeviceConfigSpecOperationRemove)
	ok(t, err)
	var cards object.VirtualDeviceList
	for i, name := range networks {
		network, err := c.finder(t).Network(c.ctx, name)
		ok(t, err)
		backing, err := network.EthernetCardBackingInfo(c.ctx)
		ok(t, err)
		card, err := devices.CreateEthernetCard("vmxnet3", backing)
		ok(t, err)
		card.GetVirtualDevice().Key = int32(-100 - i)
		cards = append(cards, card)
	}
	added, err := cards.ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	ok(t, err)
	return append(changes, added...)
}

func TestCloneGetsTheRequestedNetworks(t *testing.T) {
	inABubble(t, vcsim.Config{Portgroups: 1, OpaqueNetworks: 2}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		want := []string{"VM Network", "DC0_DVPG0", "DC0_NSX1"}
		seen := make(map[string]bool)
		for i := range 3 {
			name := fmt.Sprint("vm-", i)
			ok(t, c.cloneAs(t, name, func(spec *types.VirtualMachineCloneSpec) { spec.Location.DeviceChange = c.replaceNICs(t, want...) }))
			d := details(t, v, name)
			var got []string
			for _, nic := range d.NICs {
				got = append(got, nic.Network)
				if nic.Type != "vmxnet3" || !strings.HasPrefix(nic.MAC, "00:50:56:") || seen[nic.MAC] {
					t.Errorf("%s has %+v", name, nic)
				}
				seen[nic.MAC] = true
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s has the networks %v, want %v", name, got, want)
			}
		}
		if got := details(t, v, template).NICs; len(got) != 1 || got[0].Network != "VM Network" {
			t.Errorf("the template has the networks %v", got)
		}
		vm := object.NewVirtualMachine(c.Client.Client, theVM(t, v, "vm-0").Ref)
		devices, err := vm.Device(c.ctx)
		ok(t, err)
		card := devices.SelectByType((*types.VirtualEthernetCard)(nil))[0].(*types.VirtualVmxnet3)
		mac := card.MacAddress
		card.MacAddress, card.AddressType = "", ""
		card.Backing = &types.VirtualEthernetCardNetworkBackingInfo{VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"}}
		ok(t, vm.EditDevice(c.ctx, card))
		if nics := details(t, v, "vm-0").NICs; len(nics) != 3 || !slices.ContainsFunc(nics, func(n vcsim.NIC) bool { return n.MAC == mac }) {
			t.Errorf("after an edit: %+v", nics)
		}
		var props mo.VirtualMachine
		ok(t, c.RetrieveOne(c.ctx, vm.Reference(), []string{"network", "summary.config.numEthernetCards"}, &props))
		if len(props.Network) != 3 || props.Summary.Config.NumEthernetCards != 3 {
			t.Errorf("got the networks %v and %d adapters", props.Network, props.Summary.Config.NumEthernetCards)
		}
	})
}

func TestCloneFailsForAMissingNetworkOrDevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Portgroups: 1, Datacenters: 2})
		c := loginTo(t, v)
		for name, backing := range map[string]types.BaseVirtualDeviceBackingInfo{
			"standard": &types.VirtualEthernetCardNetworkBackingInfo{
				VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "gone"},
			},
			"port group": &types.VirtualEthernetCardDistributedVirtualPortBackingInfo{
				Port: types.DistributedVirtualSwitchPortConnection{PortgroupKey: "dvportgroup-gone", SwitchUuid: "gone"},
			},
			"opaque": &types.VirtualEthernetCardOpaqueNetworkBackingInfo{OpaqueNetworkId: "gone", OpaqueNetworkType: "nsx.LogicalSwitch"},
			"none":   nil,
		} {
			err := c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) {
				card := new(types.VirtualVmxnet3)
				card.Key, card.Backing = -1, backing
				spec.Location.DeviceChange = []types.BaseVirtualDeviceConfigSpec{
					&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: card},
				}
			})
			if err == nil {
				t.Errorf("%s: the clone succeeds", name)
				continue
			}
			wantFault[*types.InvalidDeviceBacking](t, err)
		}
		for _, op := range []types.VirtualDeviceConfigSpecOperation{types.VirtualDeviceConfigSpecOperationRemove, types.VirtualDeviceConfigSpecOperationEdit} {
			wantFault[*types.InvalidDeviceSpec](t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) {
				spec.Location.DeviceChange = []types.BaseVirtualDeviceConfigSpec{
					&types.VirtualDeviceConfigSpec{Operation: op, Device: &types.VirtualE1000{VirtualEthernetCard: types.VirtualEthernetCard{VirtualDevice: types.VirtualDevice{Key: 4711}}}},
				}
			}))
		}
		if n := len(v.VMs()); n != 1 {
			t.Errorf("got %d VMs, want only the template", n)
		}
	})
}

// loginTo is login for inventories with several datacenters, clusters or pools.
func loginTo(t testing.TB, v *vcsim.VCenter) *client {
	t.Helper()
	c := dial(t, v)
	f := c.finder(t)
	vm, err := f.VirtualMachine(c.ctx, template)
	ok(t, err)
	c.template, c.pool = vm, found(t, v, "/DC0/host/DC0_C0/Resources")
	c.folder = object.NewFolder(c.Client.Client, found(t, v, "/DC0/vm"))
	return c
}

func TestCloneHasTheRequestedPlacement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Clusters: 2, Pools: 1, Datastores: 2})
		c := loginTo(t, v)
		pool, ds := found(t, v, "/DC0/host/DC0_C1/Resources/DC0_C1_RP1"), found(t, v, "/DC0/datastore/LocalDS_1")
		ok(t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) {
			spec.Location.Pool, spec.Location.Datastore = &pool, &ds
			spec.Config.Annotation = "ours"
			spec.Config.ManagedBy = &types.ManagedByInfo{ExtensionKey: "com.example", Type: "vm"}
		}))
		d := details(t, v, "vm")
		if d.Pool != "/DC0/host/DC0_C1/Resources/DC0_C1_RP1" || !strings.HasPrefix(d.Host, "/DC0/host/DC0_C1/") ||
			d.Datastore != "/DC0/datastore/LocalDS_1" || d.Disks[0].Datastore != d.Datastore || d.Disks[0].Parent != "" {
			t.Errorf("pool %s, host %s, datastore %s, disks %+v", d.Pool, d.Host, d.Datastore, d.Disks)
		}
		if d.Annotation != "ours" || d.ManagedBy == nil || *d.ManagedBy != (types.ManagedByInfo{ExtensionKey: "com.example", Type: "vm"}) {
			t.Errorf("annotation %q, managedBy %+v", d.Annotation, d.ManagedBy)
		}
		if d := details(t, v, template); d.Annotation != "" || d.ManagedBy != nil || d.Pool != "" {
			t.Errorf("got the template %+v", d)
		}
	})
}

func TestCloneFailsForAnInvalidLocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{Clusters: 2, Datacenters: 2})
		c := loginTo(t, v)
		here, there := found(t, v, "/DC0/datastore/LocalDS_0"), found(t, v, "/DC1/datastore/LocalDS_0")
		elsewhere, host := found(t, v, "/DC1/host/DC1_C0/Resources"), found(t, v, "/DC0/host/DC0_C1/DC0_C1_H0")
		for what, change := range map[string]func(*types.VirtualMachineRelocateSpec){
			"a datastore as the pool":   func(at *types.VirtualMachineRelocateSpec) { at.Pool = &here },
			"a pool as the datastore":   func(at *types.VirtualMachineRelocateSpec) { at.Datastore = at.Pool },
			"another datacenter's pool": func(at *types.VirtualMachineRelocateSpec) { at.Pool = &elsewhere },
			"another cluster's host":    func(at *types.VirtualMachineRelocateSpec) { at.Host = &host },
			"two folders":               func(at *types.VirtualMachineRelocateSpec) { f := found(t, v, "/DC1/vm"); at.Folder = &f },
			"an unknown move":           func(at *types.VirtualMachineRelocateSpec) { at.DiskMoveType = "sideways" },
			"a missing policy":          func(at *types.VirtualMachineRelocateSpec) { at.Profile = profile("gone") },
			"a missing disk":            func(at *types.VirtualMachineRelocateSpec) { at.Disk = disk(4711, here, "gone") },
			"a disk with a missing policy": func(at *types.VirtualMachineRelocateSpec) {
				at.Disk = disk(details(t, v, template).Disks[0].Key, here, "gone")
			},
		} {
			err := c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) { change(&spec.Location) })
			if err == nil {
				t.Errorf("%s: the clone succeeds", what)
				continue
			}
			t.Log(what, wantFault[*types.InvalidArgument](t, err).InvalidProperty)
		}
		wantFault[*types.InvalidDatastore](t, c.cloneAs(t, "vm", func(spec *types.VirtualMachineCloneSpec) { spec.Location.Datastore = &there }))
		if n := len(v.VMs()); n != 1 {
			t.Errorf("got %d VMs, want only the template", n)
		}
	})
}

func profile(id string) []types.BaseVirtualMachineProfileSpec {
	return []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: id}}
}

func disk(key int32, ds types.ManagedObjectReference, policy string) []types.VirtualMachineRelocateSpecDiskLocator {
	return []types.VirtualMachineRelocateSpecDiskLocator{{DiskId: key, Datastore: ds, Profile: profile(policy)}}
}
