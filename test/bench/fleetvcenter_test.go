package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// fleet is an embedded vCenter with a large inventory at rest. Half of the VMs are members, in groups of ten.
type fleet struct {
	*vcsim.VCenter
	groups int
}

const perGroup = 10

// newFleet starts a vCenter with this number of VMs, whose guests report this number of addresses each.
func newFleet(b *testing.B, vms, addresses int) *fleet {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	v, err := vcsim.Start(vcsim.Config{Hosts: max(2, vms/40), Guest: vcsim.Guest{Tools: true}})
	must(err)
	f := &fleet{VCenter: v, groups: max(1, vms/2/perGroup)}
	const source = "/DC0/vm/source"
	must(v.CloneVM("/DC0/vm/vm-operator-template", "/DC0/vm", "source"))
	must(v.SetHotAdd(source, true, true))
	must(v.Reconfigure(source, types.VirtualMachineConfigSpec{NumCPUs: 2, MemoryMB: 4096}))
	must(v.PowerOn(source))
	one, err := v.Details(source)
	must(err)
	disk := object.VirtualDeviceList(one.Config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil))[0].(*types.VirtualDisk)
	disks := fmt.Sprintf("%d=%s", disk.Key, disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo).Uuid)
	revision := plan.Revision(&v1alpha1.VmGroupSpec{Template: "vm-operator-template"})
	booted := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	fill := func(folder string, names []string, stampOf func(i int32, vm *mo.VirtualMachine) string, network int) {
		_, err := v.MakeFolder(folder)
		must(err)
		must(v.AddCopies(source, folder, names, func(i int, vm *mo.VirtualMachine) {
			ip := fmt.Sprintf("10.%d.%d.%d", network/250, network%250, i+1)
			vm.Runtime.BootTime, vm.Guest.IpAddress = &booted, ip
			nic := types.GuestNicInfo{Network: "VM Network", MacAddress: "00:50:56:a1:2b:3c", Connected: true, DeviceConfigId: 4000, IpConfig: new(types.NetIpConfigInfo)}
			for more := range addresses {
				if more > 0 {
					ip = fmt.Sprintf("fd00:1111:2222:3333:4444:%x:%x:%x", 0x1000+network, 0x1000+i, 0x1000+more)
				}
				nic.IpAddress = append(nic.IpAddress, ip)
				nic.IpConfig.IpAddress = append(nic.IpConfig.IpAddress, types.NetIpConfigInfoIpAddress{IpAddress: ip, PrefixLength: 16, State: string(types.NetIpConfigInfoIpAddressStatusPreferred)})
			}
			vm.Guest.Net = []types.GuestNicInfo{nic}
			if stampOf != nil {
				vm.Config.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: stampOf(int32(i), vm)}}
			}
		}))
	}
	for g := range f.groups {
		var names []string
		for o := range int32(perGroup) {
			names = append(names, plan.MemberName(groupName(g), o))
		}
		fill(folderOf(g), names, func(i int32, vm *mo.VirtualMachine) string {
			s := stamp.Stamp{Namespace: namespaceOf(g), Name: groupName(g), UID: uid(g), Ordinal: i, Generation: 1, Revision: revision, RevisionAlgorithm: plan.RevisionAlgorithm,
				InstanceUUID: vm.Config.InstanceUuid, VCenter: v.InstanceUUID(), Created: booted, Disks: disks}
			return s.Encode()
		}, g)
	}
	for left, n := vms-f.groups*perGroup, 0; left > 0; left, n = left-100, n+1 {
		var names []string
		for i := range min(100, left) {
			names = append(names, fmt.Sprintf("app-server-%05d", n*100+i))
		}
		fill(fmt.Sprintf("/DC0/vm/team-%d", n), names, nil, 50000+n)
	}
	return f
}

func namespaceOf(group int) string { return fmt.Sprintf("ns%d", group/100) }
func groupName(group int) string   { return fmt.Sprintf("g%d", group) }
func folderOf(group int) string {
	return "/DC0/vm/vm-operator/" + namespaceOf(group) + "/" + groupName(group)
}

// PowerOff powers a member off, and returns the time until the server has powered the member on again.
func (f *fleet) PowerOff(group, ordinal int) (time.Duration, error) {
	member := folderOf(group) + "/" + plan.MemberName(groupName(group), int32(ordinal))
	if err := f.VCenter.PowerOff(member); err != nil {
		return 0, err
	}
	began, limit := time.Now(), time.After(30*time.Second)
	for {
		changed := f.Changed()
		vm, err := f.Details(member)
		if err != nil || vm.Power == types.VirtualMachinePowerStatePoweredOn {
			return time.Since(began), err
		}
		select {
		case <-changed:
		case <-limit:
			return 0, fmt.Errorf("%s stays off", member)
		}
	}
}
