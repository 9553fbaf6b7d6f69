// Package hardware has the virtual hardware of VMs, as changes of their configuration: the hardware version, reservations, limits and shares, network
// adapters, PCI devices, a virtual TPM, a boot order, and encryption.
package hardware

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// Upgrades has the hardware versions, in ascending order, to which the hosts of a cluster can upgrade VMs.
type Upgrades struct {
	Cluster  string
	Versions []int32
	// hosts are the hosts that have a version, if vCenter lists them ([doc] VirtualMachineConfigOptionDescriptor.host). all are the hosts of any
	// version.
	Hosts map[int32][]types.ManagedObjectReference
	All   []types.ManagedObjectReference
}

// Have reports whether a host has the hardware version, which is assumed if vCenter lists no hosts for the version. x can be nil.
func (x *Upgrades) Have(version int32, host types.ManagedObjectReference) bool {
	return x == nil || len(x.Hosts[version]) == 0 || slices.Contains(x.Hosts[version], host)
}

// Mixed reports whether only some hosts have the hardware version, as far as vCenter lists them. The clone must then be on such a host, because
// its host upgrades it before DRS can choose another one for the power-on. x can be nil.
func (x *Upgrades) Mixed(version int32) bool {
	return x != nil && len(x.Hosts[version]) > 0 && len(x.Hosts[version]) < len(x.All)
}

// ReadUpgrades reads the hardware versions to which the hosts of a cluster can upgrade VMs ([doc] QueryConfigOptionDescriptor).
func ReadUpgrades(ctx context.Context, s *session.Session, cluster types.ManagedObjectReference) (*Upgrades, error) {
	var name string
	var browser types.ManagedObjectReference
	_, err := session.ReadProps(ctx, s, cluster, session.To("name", &name), session.To("environmentBrowser", &browser))
	x := &Upgrades{Cluster: naming.Unescape(name), Hosts: map[int32][]types.ManagedObjectReference{}}
	if err != nil || browser.Value == "" {
		return x, err
	}
	all, err := methods.QueryConfigOptionDescriptor(ctx, s.Vim, &types.QueryConfigOptionDescriptor{This: browser})
	if err != nil {
		return nil, err
	}
	for _, d := range all.Returnval {
		if version := Version(d.Key); version > 0 && d.UpgradeSupported {
			x.Versions, x.Hosts[version] = append(x.Versions, version), d.Host
		}
		for _, host := range d.Host {
			if !slices.Contains(x.All, host) {
				x.All = append(x.All, host)
			}
		}
	}
	slices.Sort(x.Versions)
	return x, nil
}

// Allocate sets the reservations, limits and shares of spec.hardware.
func Allocate(config *types.VirtualMachineConfigSpec, h *v1alpha1.Hardware) {
	config.CpuAllocation = allocationOf(h.CPUReservationMHz, h.CPULimitMHz, h.CPUShares)
	config.MemoryAllocation = allocationOf(h.MemoryReservationMiB, h.MemoryLimitMiB, h.MemoryShares)
	if config.MemoryReservationLockedToMax = h.ReserveAllMemory; len(h.PCIDevices) > 0 {
		config.MemoryReservationLockedToMax = types.NewBool(true)
	}
}

// allocationOf returns an allocation with the fields that are set; nil if none is.
func allocationOf(reservation, limit int32, shares *intstr.IntOrString) *types.ResourceAllocationInfo {
	number := func(n int32) *int64 {
		if n == 0 {
			return nil
		}
		return types.NewInt64(int64(n))
	}
	all := types.ResourceAllocationInfo{Reservation: number(reservation), Limit: number(limit)}
	if shares != nil {
		all.Shares = &types.SharesInfo{Level: types.SharesLevelCustom, Shares: shares.IntVal}
		if shares.Type == intstr.String {
			all.Shares.Level = types.SharesLevel(strings.ToLower(shares.StrVal))
		}
	}
	if all == (types.ResourceAllocationInfo{}) {
		return nil
	}
	return &all
}

// newPCIKey is the temporary key of the first new PCI device; the keys count down. vCenter replaces them.
const newPCIKey = -6000

// AddPCIDevices returns the changes that add PCI devices, each named "vendor:device" or by its vGPU profile. DRS powers the member on on a host whose
// device is free. The devices are added after the clone and its upgrade, because vCenter refuses them with an older hardware version
// (kubernetes-sigs/cluster-api-provider-vsphere#1749, whose fix is #1775).
func AddPCIDevices(names []string) (changes []types.BaseVirtualDeviceConfigSpec, err error) {
	for i, name := range names {
		var backing types.BaseVirtualDeviceBackingInfo = &types.VirtualPCIPassthroughVmiopBackingInfo{Vgpu: name}
		if v1alpha1.PCIDeviceID.MatchString(name) {
			var allowed types.VirtualPCIPassthroughAllowedDevice
			if _, err := fmt.Sscanf(name, "%04x:%04x", &allowed.VendorId, &allowed.DeviceId); err != nil {
				return nil, err
			}
			backing = &types.VirtualPCIPassthroughDynamicBackingInfo{AllowedDevice: []types.VirtualPCIPassthroughAllowedDevice{allowed}}
		}
		changes = append(changes, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd,
			Device:    &types.VirtualPCIPassthrough{VirtualDevice: types.VirtualDevice{Key: newPCIKey - int32(i), Backing: backing}},
		})
	}
	return changes, nil
}

// AddTPM returns the change that adds a virtual TPM, with secrets of its own, to a VM that is off. vCenter is known to accept it for an existing
// VM, but not in a clone spec (hashicorp/packer-plugin-vsphere#150; terraform-provider-vsphere#2590).
func AddTPM() *types.VirtualDeviceConfigSpec {
	return &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: &types.VirtualTPM{VirtualDevice: types.VirtualDevice{Key: -1}}}
}

// BootFirst returns a boot order that begins with that device; nil if device is empty. A boot order has the keys of devices, which are known only
// after the clone. made is the stamp's record of the clone's disks. [doc] VirtualMachineBootOptions.bootOrder: "After list is exhausted, default BIOS boot
// device algorithm is used".
func BootFirst(device v1alpha1.BootDevice, made string, devices []types.BaseVirtualDevice) *types.VirtualMachineBootOptions {
	if device == "" {
		return nil
	}
	var order []types.BaseVirtualMachineBootOptionsBootableDevice
	if device == v1alpha1.BootNetwork {
		for _, card := range NICsIn(devices) {
			order = append(order, &types.VirtualMachineBootOptionsBootableEthernetDevice{DeviceKey: card.GetVirtualDevice().Key})
		}
	}
	if disk := disks.First(made, devices); disk != nil {
		order = append(order, &types.VirtualMachineBootOptionsBootableDiskDevice{DeviceKey: disk.Key})
	}
	return &types.VirtualMachineBootOptions{BootOrder: order}
}

// Cores returns the largest number of cores per socket that divides perSocket and cpu; nil if perSocket divides cpu, or is unknown.
func Cores(perSocket, cpu int32) *int32 {
	if perSocket < 1 || cpu%perSocket == 0 {
		return nil
	}
	for perSocket > 0 {
		cpu, perSocket = perSocket, cpu%perSocket
	}
	return &cpu
}

// Version returns the number of a hardware version, 19 for "vmx-19"; 0 if the text has none.
func Version(text string) (version int32) {
	number, _ := strconv.ParseInt(strings.TrimPrefix(text, "vmx-"), 10, 32)
	return int32(number)
}

// HasTPM reports whether there is a virtual TPM among devices.
func HasTPM(devices []types.BaseVirtualDevice) bool {
	return slices.ContainsFunc(devices, func(d types.BaseVirtualDevice) bool { _, is := d.(*types.VirtualTPM); return is })
}
