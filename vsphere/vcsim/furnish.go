package vcsim

import (
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vim25/types"
)

// The objects of a furnished vCenter that the settings of a server name.
const (
	// LegacyFolder is the folder of VMs that no group has: a server can adopt them if its settings allow it.
	LegacyFolder = "/DC0/vm/legacy"
	furnishedEFI = "/DC0/vm/templates/ubuntu-24.04"
)

// furnish adds what the samples of manifests/samples name: templates, VMs to adopt, networks, tags, a content library, a storage policy, DRS host groups, a
// customization specification, and a key provider.
func (v *VCenter) furnish() error {
	const cluster, host = "/DC0/host/DC0_C0", "/DC0/host/DC0_C0/DC0_C0_H0"
	v.AddKeyProvider()
	template := func() (ref types.ManagedObjectReference, err error) {
		if _, err = v.MakeFolder("/DC0/vm/templates"); err != nil {
			return ref, err
		}
		return v.AddTemplate("/DC0/vm/templates", "ubuntu-24.04")
	}
	for _, add := range []func() error{
		func() error { return v.addNetworks("front", "mirror") },
		func() error {
			ref, err := template()
			if err != nil {
				return err
			}
			if err := v.AddLibrary("golden"); err != nil {
				return err
			}
			return v.AddLibraryItem("golden", "ubuntu-24.04", library.ItemTypeVMTX, ref)
		},
		func() error { return v.BootWithEFI(furnishedEFI) },
		func() error { _, err := v.AddSnapshot(furnishedEFI, "2026-11"); return err },
		func() error { _, err := v.MakeFolder(LegacyFolder); return err },
		func() error { _, err := v.AddVM(LegacyFolder, "web-a"); return err },
		func() error { _, err := v.AddVM(LegacyFolder, "web-b"); return err },
		func() error { _, err := v.AddVM(LegacyFolder, "batch-a"); return err },
		func() error { _, err := v.AddTag("team", "shop"); return err },
		func() error { _, err := v.AddTag("team", "batch"); return err },
		func() error { _, err := v.AddStoragePolicy("Gold"); return err },
		func() error { return v.SetHostGroup(cluster, "licensed", host) },
		func() error { return v.SetHostGroup(cluster, "site-a", host) },
		func() error { return v.SetHostGroup(cluster, "site-b", host) },
		func() error { return v.AddCustomizationSpec("windows", true) },
	} {
		if err := add(); err != nil {
			return fmt.Errorf("furnish the vCenter: %w", err)
		}
	}
	return nil
}

// addNetworks adds standard networks to DC0, its clusters and hosts.
func (v *VCenter) addNetworks(names ...string) error {
	v.world.Lock()
	defer v.world.Unlock()
	for _, name := range names {
		at := v.objects.Any("HostSystem").(*simulator.HostSystem)
		system := v.objects.Get(*at.ConfigManager.NetworkSystem).(*simulator.HostNetworkSystem)
		if res := system.AddPortGroup(v.world.Context(), &types.AddPortGroup{This: system.Self, Portgrp: types.HostPortGroupSpec{Name: name, VswitchName: "vSwitch0"}}); res.Fault() != nil {
			return fmt.Errorf("add network %s: %s", name, res.Fault().String)
		}
	}
	return nil
}
