package vcsim

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// checkDevices rejects device changes on which the simulator panics, or which it wrongly allows, and completes copies of the others. The caller
// holds the world lock.
//
//   - A device to remove or edit must exist; otherwise the fault is InvalidDeviceSpec.
//   - A disk that is edited keeps its file; a delta cannot grow.
//   - A disk that is part of a snapshot can be removed only with its files: "Cannot remove virtual disk from the virtual machine because it
//     or one of its parent disks is part of a snapshot of the virtual machine" (pyvmomi-community-samples#352), an InvalidDeviceSpec
//     (vsphere-storage-for-docker#399). A disk attached after the snapshot is not part of it (OpenNebula#2275).
//   - The network of an adapter must be in the VM's datacenter; otherwise the fault is InvalidDeviceBacking.
//   - A PCI device of the host needs a VM that is off, and hardware version 17.
//   - An adapter without an address gets a unique one. [doc] VirtualEthernetCard.addressType: "Assigned: MAC address assigned by
//     VirtualCenter".
func (v *inventory) checkDevices(vm *simulator.VirtualMachine, changes []types.BaseVirtualDeviceConfigSpec) ([]types.BaseVirtualDeviceConfigSpec, types.BaseMethodFault) {
	checked := slices.Clone(changes)
	gone := make(map[int32]bool)
	for i, change := range changes {
		spec := *change.GetVirtualDeviceConfigSpec()
		key := spec.Device.GetVirtualDevice().Key
		old := slices.IndexFunc(vm.Config.Hardware.Device, func(d types.BaseVirtualDevice) bool { return d.GetVirtualDevice().Key == key })
		switch spec.Operation {
		case types.VirtualDeviceConfigSpecOperationRemove:
			if old < 0 || gone[key] {
				return nil, invalidDevice(i, "virtualDeviceSpec.device.key")
			}
			if disk, is := vm.Config.Hardware.Device[old].(*types.VirtualDisk); is && spec.FileOperation == "" && v.inSnapshot(vm, disk) {
				return nil, invalidDevice(i, "virtualDeviceSpec.device")
			}
			gone[key] = true
			spec.Device = vm.Config.Hardware.Device[old] // the simulator would use the request's device
			checked[i] = &spec
			continue
		case types.VirtualDeviceConfigSpecOperationEdit:
			if old < 0 || gone[key] {
				return nil, invalidDevice(i, "virtualDeviceSpec.device.key")
			}
			if disk, is := vm.Config.Hardware.Device[old].(*types.VirtualDisk); is {
				if spec.Device = grown(disk, spec.Device); spec.Device == nil {
					return nil, new(types.InvalidDeviceOperation)
				}
				checked[i] = &spec
			}
		}
		if v.profiles.encrypts(spec.Profile) {
			v.encryptDisk(&spec)
			checked[i] = &spec
		}
		if _, is := spec.Device.(*types.VirtualTPM); is {
			if fault := v.takesTPM(vm); fault != nil {
				return nil, fault
			}
			spec.Device = newTPM()
			checked[i] = &spec
			continue
		}
		if _, is := spec.Device.(*types.VirtualPCIPassthrough); is && spec.Operation == types.VirtualDeviceConfigSpecOperationAdd {
			if fault := takesPCI(vm); fault != nil {
				return nil, fault
			}
		}
		card, ok := spec.Device.(types.BaseVirtualEthernetCard)
		if !ok {
			continue
		}
		if !v.reachable(vm, card.GetVirtualEthernetCard().Backing) {
			return nil, &types.InvalidDeviceBacking{InvalidDeviceSpec: *invalidDevice(i, "virtualDeviceSpec.device.backing")}
		}
		if had, ok := deviceAt(vm, old).(types.BaseVirtualEthernetCard); ok && spec.Operation == types.VirtualDeviceConfigSpecOperationEdit {
			keepMAC(card.GetVirtualEthernetCard(), had.GetVirtualEthernetCard())
		}
		v.setMAC(card.GetVirtualEthernetCard())
	}
	return checked, nil
}

func deviceAt(vm *simulator.VirtualMachine, i int) types.BaseVirtualDevice {
	if i < 0 {
		return nil
	}
	return vm.Config.Hardware.Device[i]
}

// keepMAC keeps an adapter's address if an edit does not set it.
func keepMAC(card, had *types.VirtualEthernetCard) {
	if card.MacAddress == "" {
		card.MacAddress, card.AddressType = had.MacAddress, had.AddressType
	}
}

func invalidDevice(index int, property string) *types.InvalidDeviceSpec {
	return &types.InvalidDeviceSpec{InvalidVmConfig: types.InvalidVmConfig{Property: property}, DeviceIndex: int32(index)}
}

// setMAC gives an adapter without an address a unique one. The simulator makes addresses from three digits of the VM's uuid, which can collide.
func (v *inventory) setMAC(card *types.VirtualEthernetCard) {
	if card.MacAddress != "" {
		return
	}
	v.lastMAC++
	n := v.lastMAC
	// vCenter assigns 00:50:56 and a fourth byte from 80 to bf.
	card.MacAddress = fmt.Sprintf("00:50:56:%02x:%02x:%02x", 0x80+n>>16&0x3f, n>>8&0xff, n&0xff)
	card.AddressType = string(types.VirtualEthernetCardMacTypeAssigned)
}

// reachable reports whether the network of a backing exists in the VM's datacenter.
func (v *inventory) reachable(vm *simulator.VirtualMachine, backing types.BaseVirtualDeviceBackingInfo) bool {
	dc := v.world.DatacenterOf(vm.Self)
	if dc == nil {
		return false
	}
	_, found := v.networkOf(dc, backing)
	return found
}

// networkOf finds the network of a backing and returns its name, or that of the opaque network behind a port group.
func (v *inventory) networkOf(dc *simulator.Datacenter, backing types.BaseVirtualDeviceBackingInfo) (name string, found bool) {
	for _, ref := range dc.Network {
		switch n := v.objects.Get(ref).(type) {
		case *simulator.DistributedVirtualPortgroup:
			b, ok := backing.(*types.VirtualEthernetCardDistributedVirtualPortBackingInfo)
			if ok && b.Port.PortgroupKey == n.Key && b.Port.SwitchUuid == v.switchOf(n) {
				return v.opaqueNetworkOf(dc, n), true
			}
		case *mo.OpaqueNetwork:
			b, ok := backing.(*types.VirtualEthernetCardOpaqueNetworkBackingInfo)
			if s, is := n.Summary.(*types.OpaqueNetworkSummary); ok && is &&
				s.OpaqueNetworkId == b.OpaqueNetworkId && s.OpaqueNetworkType == b.OpaqueNetworkType {
				return n.Name, true
			}
		case *mo.Network:
			if b, ok := backing.(*types.VirtualEthernetCardNetworkBackingInfo); ok && b.DeviceName == n.Name {
				return n.Name, true
			}
		}
	}
	return "", false
}

func (v *inventory) switchOf(pg *simulator.DistributedVirtualPortgroup) string {
	if ref := pg.Config.DistributedVirtualSwitch; ref != nil {
		if s, ok := v.objects.Get(*ref).(*simulator.DistributedVirtualSwitch); ok {
			return s.Uuid
		}
	}
	return ""
}

// opaqueNetworkOf names the opaque network that a port group carries, or else the port group: since vSphere 7, a request for the opaque network
// yields an adapter on the port group.
func (v *inventory) opaqueNetworkOf(dc *simulator.Datacenter, pg *simulator.DistributedVirtualPortgroup) string {
	for _, ref := range dc.Network {
		if n, ok := v.objects.Get(ref).(*mo.OpaqueNetwork); ok && pg.Config.LogicalSwitchUuid != "" {
			if s, ok := n.Summary.(*types.OpaqueNetworkSummary); ok && s.OpaqueNetworkId == pg.Config.LogicalSwitchUuid {
				return n.Name
			}
		}
	}
	return pg.Name
}

// rebase replaces the backings of a VM's disks.
func (v *inventory) rebase(ctx *simulator.Context, vm *simulator.VirtualMachine, to func(key int32, b flat) *flat) {
	v.Amend(ctx, vm, types.PropertyChange{Name: "config.hardware.device", Val: rebased(vm.Config.Hardware.Device, to)})
}

// ShowContentIDs hides the contentIds of a VM's or template's disks, or shows them again, without a new changeVersion. Disks that were
// written while their contentIds were hidden have new ones.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "Content ID of the virtual disk file, if available."
func (v *inventory) ShowContentIDs(where string, shown bool) error {
	return v.changeVM("show the contentIds of", where, func(ctx *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		v.objects.AtomicUpdate(ctx, vm, []types.PropertyChange{{Name: "config.hardware.device", Val: rebased(vm.Config.Hardware.Device, func(key int32, b flat) *flat {
			id := diskID{vm.Self, key}
			if b.ContentId = cmp.Or(b.ContentId, v.contents[id]); !shown {
				v.contents[id], b.ContentId = b.ContentId, ""
			}
			return &b
		})}})
		return nil
	})
}

// diskID identifies a disk by its VM and its key.
type diskID struct {
	vm  types.ManagedObjectReference
	key int32
}

// moveDisk moves a disk and its deltas to another datastore, into the directory for the VM's files. It does not move the parent of a linked
// clone.
//
// [doc] vSphere 8.0, Migration with Storage vMotion: it "changes virtual machine files on the destination datastore to match the inventory name of
// the virtual machine".
func (v *inventory) moveDisk(ctx *simulator.Context, vm *simulator.VirtualMachine, at types.VirtualMachineRelocateSpecDiskLocator) {
	datastore := v.objects.Get(at.Datastore).(*simulator.Datastore)
	to, directory := object.DatastorePath{Datastore: datastore.Name}, v.directory(vm.Name)
	move := func(key int32, b flat) *flat {
		if key != at.DiskId {
			return &b
		}
		moved := b
		for link := &moved; ; link = link.Parent {
			var file object.DatastorePath
			file.FromString(link.FileName)
			to.Path = path.Join(directory, vm.Name+diskSuffix.FindString(file.Path))
			link.FileName, link.Datastore = to.String(), &at.Datastore
			makeFiles(datastore.Summary.Url, to.Path)
			if link.Parent == nil || !isDelta(file.Path) {
				return &moved
			}
			parent := *link.Parent
			link.Parent = &parent
		}
	}
	for _, snapshot := range v.snapshotsOf(vm) {
		snapshot.Config.Hardware.Device = rebased(snapshot.Config.Hardware.Device, move)
	}
	v.rebase(ctx, vm, move)
}

// snapshotsOf returns all snapshots of a VM.
func (v *inventory) snapshotsOf(vm *simulator.VirtualMachine) (all []*simulator.VirtualMachineSnapshot) {
	var walk func([]types.ManagedObjectReference)
	walk = func(refs []types.ManagedObjectReference) {
		for _, ref := range refs {
			if snapshot, is := v.objects.Get(ref).(*simulator.VirtualMachineSnapshot); is {
				all = append(all, snapshot)
				walk(snapshot.ChildSnapshot)
			}
		}
	}
	walk(vm.RootSnapshot)
	return all
}

// grown returns a disk with the size of an edit and its own file; nil if the disk is a delta, whose size can't change.
func grown(disk *types.VirtualDisk, as types.BaseVirtualDevice) types.BaseVirtualDevice {
	b, is := disk.Backing.(*flat)
	edited, editing := as.(*types.VirtualDisk)
	if !editing || is && b.Parent != nil {
		return nil
	}
	larger := *edited
	larger.Backing = disk.Backing
	return &larger
}

// inSnapshot reports whether a disk, or a parent of it, is part of a snapshot of the VM.
func (v *inventory) inSnapshot(vm *simulator.VirtualMachine, disk *types.VirtualDisk) bool {
	files := map[string]bool{}
	if b, is := disk.Backing.(*flat); is {
		for ; b != nil; b = b.Parent {
			files[b.FileName] = true
		}
	}
	return slices.ContainsFunc(v.snapshotsOf(vm), func(s *simulator.VirtualMachineSnapshot) bool {
		return slices.ContainsFunc(disksIn(s.Config.Hardware.Device), func(d *types.VirtualDisk) bool {
			b, is := d.Backing.(*flat)
			return is && files[b.FileName]
		})
	})
}

// disksIn returns the virtual disks among devices.
func disksIn(devices []types.BaseVirtualDevice) (disks []*types.VirtualDisk) {
	for _, d := range devices {
		if disk, ok := d.(*types.VirtualDisk); ok {
			disks = append(disks, disk)
		}
	}
	return disks
}

// flat is the type of the backings of all disks in this vCenter.
type flat = types.VirtualDiskFlatVer2BackingInfo

// rebased copies devices with other backings for the disks.
func rebased(devices []types.BaseVirtualDevice, to func(key int32, b flat) *flat) []types.BaseVirtualDevice {
	devices = slices.Clone(devices)
	for i, d := range devices {
		disk, is := d.(*types.VirtualDisk)
		if !is {
			continue
		}
		if b, is := disk.Backing.(*flat); is {
			copied := *disk
			copied.Backing = to(disk.Key, *b)
			devices[i] = &copied
		}
	}
	return devices
}

// makeFiles creates empty files for a disk at a path below a datastore's directory: the simulator looks for them when a disk is attached or
// edited.
func makeFiles(directory, file string) {
	file = path.Join(directory, file)
	_ = os.MkdirAll(path.Dir(file), 0o750) // if this fails, the simulator doesn't find the files
	for _, name := range []string{file, strings.TrimSuffix(file, ".vmdk") + "-flat.vmdk"} {
		_ = os.WriteFile(name, nil, 0o600)
	}
}

// newContentID returns a new content id: 32 hexadecimal digits, as vCenter's.
func newContentID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// rewritten copies the devices and gives each disk a new content id.
//
// [doc] VirtualDiskFlatVer2BackingInfo.contentId: "if two disk backings have the same content ID and are
// not currently being written to, then reads ... will return the same data".
func rewritten(devices []types.BaseVirtualDevice) []types.BaseVirtualDevice {
	return rebased(devices, func(_ int32, b flat) *flat {
		b.ContentId = newContentID()
		return &b
	})
}

// deltaFile matches the name of a snapshot's delta: "web-0-000001.vmdk" for "web-0.vmdk".
var deltaFile = regexp.MustCompile(`-(\d{6})\.vmdk$`)

// diskSuffix is what the name of a disk's file has after its VM's: "_1.vmdk" for the second disk.
var diskSuffix = regexp.MustCompile(`(_\d+)?(-\d{6})?\.vmdk$`)

// deltaOf returns the backing to which a VM writes after a snapshot: a child in the same directory, with the same uuid, which the guest sees.
//
// [doc] VirtualDiskFlatVer2BackingInfo.parent: "The parent of this virtual disk file, if this is a delta disk".
func deltaOf(_ int32, of flat) *flat {
	n := 0
	if found := deltaFile.FindStringSubmatch(of.FileName); found != nil {
		n, _ = strconv.Atoi(found[1])
	}
	child := of
	child.Parent = &of
	stem := strings.TrimSuffix(deltaFile.ReplaceAllString(of.FileName, ".vmdk"), ".vmdk")
	child.FileName = fmt.Sprintf("%s-%06d.vmdk", stem, n+1)
	return &child
}

// merged returns a backing without the deltas of snapshots. It keeps the parent of a linked clone.
func merged(_ int32, b flat) *flat {
	for deltaFile.MatchString(b.FileName) && b.Parent != nil {
		content := b.ContentId
		b = *b.Parent
		b.ContentId = content
	}
	return &b
}

// isDelta reports whether a file has the name of a snapshot's delta.
func isDelta(file string) bool { return deltaFile.MatchString(file) }
