package vcsim

import (
	"fmt"
	"path"
	"reflect"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Coming is how a VM comes from one vCenter to another.
type Coming string

// The ways: its host is added, its .vmx file is registered, or it is migrated by a vMotion between the two. A migrated VM is on another datastore.
const (
	ByHost     Coming = "discovered"
	ByRegister Coming = "registered"
	ByVMotion  Coming = "migrated"
)

// Take takes the VM with a path out of another vCenter, and adds it to the folder at a path of this one, with another moRef and without tags. Its power
// state, configuration and first-class disks are as before. Hosts, datastores and networks have the same names in both.
//
// Of a vMotion, the first vCenter posts com.vmware.vc.vm.SrcVmMigratedEvent and the second com.vmware.vc.vm.DstVmMigratedEvent (as monitoring software
// names them: sexibytes/sexigraf#325).
func (v *VCenter) Take(from *VCenter, where, folderPath string, how Coming) error {
	folder, err := v.Find(folderPath)
	if err != nil {
		return fmt.Errorf("take %s: %w", where, err)
	}
	var d removedVM
	var disks []fcd
	err = from.changeVM("take", where, func(_ *simulator.Context, vm *simulator.VirtualMachine) types.BaseMethodFault {
		ctx := from.adminContext()
		if how == ByVMotion {
			from.post(ctx, migration(from.vmEvent(vm).Event, "com.vmware.vc.vm.SrcVmMigratedEvent"))
		}
		from.removeVM(ctx, vm)
		gone := from.removedVMs[len(from.removedVMs)-1]
		from.forgetRemoved(gone)
		copied, config := *gone.vm, copyOf(reflect.ValueOf(*gone.vm.Config)).Interface().(types.VirtualMachineConfigInfo)
		copied.Config, copied.Snapshot, copied.RootSnapshot = &config, nil, nil
		d = removedVM{vm: &copied, host: gone.host, health: gone.health}
		for _, one := range from.inventory.disks.in(config.Hardware.Device) {
			disks = append(disks, *one)
			delete(from.inventory.disks.disks, one.id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	v.world.Lock()
	defer v.world.Unlock()
	return v.settle(&d, disks, v.objects.Get(folder).(*simulator.Folder), how)
}

// settle adds a VM of another vCenter. The caller holds the world lock.
func (v *VCenter) settle(d *removedVM, disks []fcd, folder *simulator.Folder, how Coming) error {
	host := v.hostNamed(d.host)
	if host == nil {
		return fmt.Errorf("take %s: host %s is not in the inventory", d.vm.Name, d.host)
	}
	vm := d.vm
	var file object.DatastorePath
	file.FromString(vm.Config.Files.VmPathName)
	datastores := v.world.DatacenterOf(host.Self).Datastore
	at, is := v.objects.FindByName(file.Datastore, datastores).(*simulator.Datastore)
	if how == ByVMotion {
		at, is = v.objects.Get(datastores[len(datastores)-1]).(*simulator.Datastore)
	}
	if !is {
		return fmt.Errorf("take %s: datastore %s is not in the inventory", vm.Name, file.Datastore)
	}
	in := func(name string) string {
		var p object.DatastorePath
		p.FromString(name)
		makeFiles(at.Summary.Url, p.Path)
		return (&object.DatastorePath{Datastore: at.Name, Path: p.Path}).String()
	}
	vm.Config.Files.VmPathName = in(vm.Config.Files.VmPathName)
	keepLog(at.Summary.Url, path.Join(path.Dir(vm.Config.Files.VmPathName), "vmware.log"))
	for i := range disks {
		one := disks[i]
		one.datastore, one.file = at.Self, in(one.file)
		v.inventory.disks.disks[one.id] = &one
	}
	vm.Config.Hardware.Device = rebased(vm.Config.Hardware.Device, func(_ int32, b flat) *flat {
		b.FileName, b.Datastore, b.Parent = in(b.FileName), &at.Self, nil
		return &b
	})
	vm.Datastore, d.pool = []types.ManagedObjectReference{at.Self}, *v.clusterOf(&host.Self).ResourcePool
	ctx := v.adminContext()
	added := v.inventory.addVM(ctx, d, folder, host, "")
	its := v.vmEvent(added)
	switch how {
	case ByHost:
		defer asUser(ctx, "")()
		v.post(ctx, &types.VmDiscoveredEvent{VmEvent: its})
	case ByRegister:
		v.post(ctx, &types.VmRegisteredEvent{VmEvent: its})
	case ByVMotion:
		v.post(ctx, migration(its.Event, "com.vmware.vc.vm.DstVmMigratedEvent"))
	}
	return nil
}

func migration(of types.Event, kind string) *types.EventEx {
	return &types.EventEx{Event: of, EventTypeId: kind, ObjectType: of.Vm.Vm.Type, ObjectId: of.Vm.Vm.Value, ObjectName: of.Vm.Name}
}
