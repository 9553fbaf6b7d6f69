package managed

import (
	"fmt"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Details is the rest of a VM's configuration, regardless of privileges.
type Details struct {
	VM
	Annotation string
	ManagedBy  *types.ManagedByInfo
	NICs       []NIC
	Disks      []Disk
	// Pool, Host and Datastore (of the VM home) are inventory paths. A template has no pool.
	Pool, Host, Datastore string
	// Policies are the ids of the storage policies requested for the VM home at creation.
	Policies []string
	// Customization is the last specification given at creation or by CustomizeVM_Task.
	Customization *types.CustomizationSpec
	// VAppProperties reports whether the VM has vApp properties.
	VAppProperties bool
	// TPM is the secret of its virtual TPM; empty without one.
	TPM string
	// HostName is the host name that the guest reports.
	HostName string
}

// NIC is a network adapter.
type NIC struct {
	Key     int32
	Network string // name
	MAC     string
	Type    string // "vmxnet3", "e1000", ...
}

// Disk is a virtual disk.
type Disk struct {
	Key       int32
	Datastore string // inventory path
	File      string // "[datastore] directory/file.vmdk"
	Parent    string // the file of its parent disk; empty if none
	Policies  []string
}

// Details describes the VM or template with a path or name.
func (v *Objects) Details(where string) (Details, error) {
	ref, err := v.Find(where)
	if err != nil {
		return Details{}, err
	}
	v.world.RLock()
	defer v.world.RUnlock()
	vm, ok := v.objects.Get(ref).(*simulator.VirtualMachine)
	if !ok {
		return Details{}, fmt.Errorf("details of %s: not a VM", where)
	}
	ctx := v.world.Context()
	d := Details{VM: v.look(ctx, vm), Policies: v.policies[ref].home}
	if spec := v.customized[ref]; spec != nil {
		d.Customization, err = copyCustomization(*spec)
	}
	v.objects.WithLock(ctx, ref, func() { v.detail(vm, &d) })
	return d, err
}

// detail reads the VM's own properties. The caller holds its lock.
func (v *Objects) detail(vm *simulator.VirtualMachine, d *Details) {
	dc := v.world.DatacenterOf(vm.Self)
	d.Annotation, d.HostName = vm.Config.Annotation, vm.Guest.HostName
	d.VAppProperties = vm.Config.VAppConfig != nil
	if tpm := tpmOf(vm.Config.Hardware.Device); tpm != nil {
		d.TPM = string(tpm.EndorsementKeyCertificate[0])
	}
	if by := vm.Config.ManagedBy; by != nil {
		copied := *by
		d.ManagedBy = &copied
	}
	if vm.ResourcePool != nil {
		d.Pool = v.world.Path(*vm.ResourcePool)
	}
	if vm.Runtime.Host != nil {
		d.Host = v.world.Path(*vm.Runtime.Host)
	}
	d.Datastore = v.datastorePath(dc, vm.Config.Files.VmPathName)
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	for _, device := range devices {
		key := device.GetVirtualDevice().Key
		switch o := device.(type) {
		case types.BaseVirtualEthernetCard:
			card := o.GetVirtualEthernetCard()
			name, _ := v.networkOf(dc, card.Backing)
			d.NICs = append(d.NICs, NIC{Key: key, Network: name, MAC: card.MacAddress, Type: strings.ToLower(strings.TrimPrefix(devices.TypeName(device), "Virtual"))})
		case *types.VirtualDisk:
			disk := Disk{Key: key, Policies: v.policies[vm.Self].disks[key]}
			if b, ok := o.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
				disk.File, disk.Datastore = b.FileName, v.datastorePath(dc, b.FileName)
				if b.Parent != nil {
					disk.Parent = b.Parent.FileName
				}
			}
			d.Disks = append(d.Disks, disk)
		}
	}
}

// datastorePath returns the inventory path of a file's datastore.
func (v *Objects) datastorePath(dc *simulator.Datacenter, file string) string {
	var path object.DatastorePath
	path.FromString(file)
	if ds := v.objects.FindByName(path.Datastore, dc.Datastore); ds != nil {
		return v.world.Path(ds.Reference())
	}
	return ""
}
