package vcsim

import (
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
	return at(v, "maintain", path, func(ds *simulator.Datastore) types.BaseMethodFault {
		ds.Summary.MaintenanceMode = string(mode)
		v.world.Mark(ds.Self)
		return nil
	})
}

// UnmountDatastore unmounts the datastore at path from the hosts of the cluster at clusterPath.
func (v *inventory) UnmountDatastore(path, clusterPath string) error {
	ref, err := v.Find(path)
	if err != nil {
		return err
	}
	return at(v, "unmount "+path+" from", clusterPath, func(cluster *simulator.ClusterComputeResource) types.BaseMethodFault {
		ds := v.objects.Get(ref).(*simulator.Datastore)
		ds.Host = slices.DeleteFunc(slices.Clone(ds.Host), func(m types.DatastoreHostMount) bool { return slices.Contains(cluster.Host, m.Key) })
		cluster.Datastore = slices.DeleteFunc(slices.Clone(cluster.Datastore), func(x types.ManagedObjectReference) bool { return x == ds.Self })
		v.world.Mark(ds.Self, cluster.Self)
		return nil
	})
}
