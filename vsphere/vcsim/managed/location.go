package managed

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/backing"
)

// locate sets where a clone goes and rejects invalid places, on which the simulator panics. The caller holds the world lock.
//
// [doc] VirtualMachineRelocateSpec.pool: "For a clone operation from a template to a virtual machine, this argument is required"; .host:
// "if a resource pool is specified, the target pool represents a cluster, and this is a clone ..., a random compatible host is chosen";
// .datastore: "If not specified, the current datastore is used". An invalid place is an InvalidArgument, a datastore that the hosts do not
// reach an InvalidDatastore.
func (v *Objects) locate(create *types.CreateVM_Task, source *simulator.VirtualMachine, at types.VirtualMachineRelocateSpec) types.BaseMethodFault {
	pool := at.Pool
	if pool == nil {
		pool = source.ResourcePool
	}
	if pool == nil {
		return wrongLocation("pool")
	}
	if v.objects.Get(*pool) == nil { // it vanished during the latency
		return &types.ManagedObjectNotFound{Obj: *pool}
	}
	if !v.isA(pool, "ResourcePool", "VirtualApp") {
		return wrongLocation("pool")
	}
	create.Pool = *pool
	hosts := v.hostsOf(*pool)
	if at.Host != nil {
		if !slices.Contains(hosts, *at.Host) {
			return wrongLocation("host")
		}
		create.Host = at.Host
	} else if host := v.firstWithoutDRS(hosts); host != nil {
		create.Host = host
	}
	dc, to := v.world.DatacenterOf(*pool), v.world.DatacenterOf(create.This)
	if dc == nil || dc != to {
		return wrongLocation("folder")
	}
	if at.Folder != nil && *at.Folder != create.This { // two different folders are not documented
		return wrongLocation("folder")
	}
	return v.checkDatastore(source, dc, hosts, at.Datastore)
}

// checkDatastore rejects a datastore in maintenance mode, or one that no host of the pool mounts.
func (v *Objects) checkDatastore(source *simulator.VirtualMachine, dc *simulator.Datacenter, hosts []types.ManagedObjectReference, at *types.ManagedObjectReference) types.BaseMethodFault {
	var ds *simulator.Datastore
	if at != nil {
		if v.objects.Get(*at) == nil {
			return &types.ManagedObjectNotFound{Obj: *at}
		}
		if ds, _ = v.objects.Get(*at).(*simulator.Datastore); ds == nil {
			return wrongLocation("datastore")
		}
	} else {
		var path object.DatastorePath
		path.FromString(source.Config.Files.VmPathName)
		if from := v.world.DatacenterOf(source.Self); from != nil { // another datacenter's may have the same name
			ds, _ = v.objects.FindByName(path.Datastore, from.Datastore).(*simulator.Datastore)
		}
	}
	if ds == nil || !slices.Contains(dc.Datastore, ds.Self) || !slices.ContainsFunc(hosts, func(host types.ManagedObjectReference) bool {
		return slices.ContainsFunc(ds.Host, func(mount types.DatastoreHostMount) bool { return mount.Key == host })
	}) {
		fault := new(types.InvalidDatastore)
		if ds != nil {
			fault.Datastore, fault.Name = &ds.Self, ds.Name
		}
		return fault
	}
	if ds.Summary.MaintenanceMode == string(types.DatastoreSummaryMaintenanceModeStateInMaintenance) {
		return &types.InvalidDatastoreState{DatastoreName: ds.Name} // [doc] "in an invalid state (e.g., maintenance mode) for a given operation"
	}
	return nil
}

func wrongLocation(property string) types.BaseMethodFault {
	return &types.InvalidArgument{InvalidProperty: "spec.location." + property}
}

func (v *Objects) isA(ref *types.ManagedObjectReference, kinds ...string) bool {
	return slices.Contains(kinds, ref.Type) && v.objects.Get(*ref) != nil
}

// hostsOf lists the hosts on which a pool's VMs can run.
func (v *Objects) hostsOf(pool types.ManagedObjectReference) []types.ManagedObjectReference {
	for ref := pool; ; {
		switch o := v.objects.Get(ref).(type) {
		case *simulator.ClusterComputeResource:
			return o.Host
		case *mo.ComputeResource:
			return o.Host
		case mo.Entity:
			if o.Entity().Parent == nil {
				return nil
			}
			ref = *o.Entity().Parent
		default:
			return nil
		}
	}
}

// policies are the ids of the storage policies that a VM was created with.
type policies struct {
	home  []string
	disks map[int32][]string // by the disk's key, the same in source and clone
}

// policiesOf reads the storage policies of a clone spec and rejects those that do not exist.
//
// [doc] VirtualMachineRelocateSpec.profile: "Storage profile requirement for Virtual Machine's home directory";
// VirtualMachineRelocateSpecDiskLocator.profile: "Virtual Disk Profile requirement".
func (v *Objects) policiesOf(source *simulator.VirtualMachine, at types.VirtualMachineRelocateSpec) (policies, types.BaseMethodFault) {
	var fault types.BaseMethodFault
	p := policies{disks: make(map[int32][]string)}
	if p.home, fault = v.profileIDs(at.Profile, "profile"); fault != nil {
		return p, fault
	}
	disks := backing.Disks(source.Config.Hardware.Device)
	for i, disk := range at.Disk {
		if !slices.ContainsFunc(disks, func(d *types.VirtualDisk) bool { return d.Key == disk.DiskId }) {
			return p, wrongLocation(fmt.Sprintf("disk[%d].diskId", i))
		}
		if v.objects.Get(disk.Datastore) == nil {
			return p, &types.ManagedObjectNotFound{Obj: disk.Datastore}
		}
		if p.disks[disk.DiskId], fault = v.profileIDs(disk.Profile, fmt.Sprintf("disk[%d].profile", i)); fault != nil {
			return p, fault
		}
	}
	return p, nil
}

func (v *Objects) profileIDs(specs []types.BaseVirtualMachineProfileSpec, property string) (ids []string, fault types.BaseMethodFault) {
	for _, spec := range specs {
		defined, ok := spec.(*types.VirtualMachineDefinedProfileSpec)
		if !ok {
			continue // the default or an empty profile
		}
		if !v.profiles.Has(defined.ProfileId) {
			return nil, wrongLocation(property)
		}
		ids = append(ids, defined.ProfileId)
	}
	return ids, nil
}

// PoliciesOfHome lists the ids of the storage policies of a VM home. The caller holds the world lock.
func (v *Objects) PoliciesOfHome(vm types.ManagedObjectReference) []string {
	return v.policies[vm].home
}
