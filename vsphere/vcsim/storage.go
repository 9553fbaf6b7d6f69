package vcsim

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// storageManager wraps the StorageResourceManager for one call.
type storageManager struct {
	*simulator.StorageResourceManager
}

// RecommendDatastores recommends the datastores of the pod that a clone names. The simulator recommends those of its disks' pods.
//
// [doc] StorageDrsPodSelectionSpec.storagePod: "The storage pod where the virtual machine should be located".
func (m *storageManager) RecommendDatastores(ctx *simulator.Context, req *types.RecommendDatastores) soap.HasFault {
	named := *req
	if pods := &named.StorageSpec.PodSelectionSpec; pods.StoragePod != nil && len(pods.InitialVmConfig) == 0 {
		pods.InitialVmConfig = []types.VmPodConfigForPlacement{{StoragePod: *pods.StoragePod}}
	}
	return m.StorageResourceManager.RecommendDatastores(ctx, &named)
}

// MaintainDatastore makes the datastore at a path enter or exit maintenance mode.
func (v *inventory) MaintainDatastore(path string, on bool) error {
	mode := types.DatastoreSummaryMaintenanceModeStateNormal
	if on {
		mode = types.DatastoreSummaryMaintenanceModeStateInMaintenance
	}
	return v.changeDatastore(path, func(ds *simulator.Datastore) { ds.Summary.MaintenanceMode = string(mode) })
}

// UnmountDatastore unmounts the datastore at path from the hosts of the cluster at clusterPath.
func (v *inventory) UnmountDatastore(path, clusterPath string) error {
	ref, err := v.Find(clusterPath)
	if err != nil {
		return err
	}
	v.world.Lock()
	cluster, ok := v.objects.Get(ref).(*simulator.ClusterComputeResource)
	v.world.Unlock()
	if !ok {
		return fmt.Errorf("unmount %s from %s: not a cluster", path, clusterPath)
	}
	return v.changeDatastore(path, func(ds *simulator.Datastore) {
		ds.Host = slices.DeleteFunc(slices.Clone(ds.Host), func(m types.DatastoreHostMount) bool { return slices.Contains(cluster.Host, m.Key) })
		cluster.Datastore = slices.DeleteFunc(slices.Clone(cluster.Datastore), func(x types.ManagedObjectReference) bool { return x == ds.Self })
		v.world.Mark(ref)
	})
}

func (v *inventory) changeDatastore(path string, change func(*simulator.Datastore)) error {
	ref, err := v.Find(path)
	if err != nil {
		return err
	}
	v.world.Lock()
	defer v.world.Unlock()
	ds, ok := v.objects.Get(ref).(*simulator.Datastore)
	if !ok {
		return fmt.Errorf("change %s: not a datastore", path)
	}
	change(ds)
	v.world.Mark(ref)
	return nil
}
