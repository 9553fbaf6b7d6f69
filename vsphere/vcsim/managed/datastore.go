package managed

import (
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// MaintainDatastore makes the datastore at a path enter or exit maintenance mode.
func (v *Objects) MaintainDatastore(path string, on bool) error {
	mode := types.DatastoreSummaryMaintenanceModeStateNormal
	if on {
		mode = types.DatastoreSummaryMaintenanceModeStateInMaintenance
	}
	return v.changeDatastore(path, func(ds *simulator.Datastore) { ds.Summary.MaintenanceMode = string(mode) })
}

// UnmountDatastore unmounts the datastore at path from the hosts of the cluster at clusterPath.
func (v *Objects) UnmountDatastore(path, clusterPath string) error {
	ref, err := v.Find(clusterPath)
	if err != nil {
		return err
	}
	v.world.RLock()
	cluster, ok := v.objects.Get(ref).(*simulator.ClusterComputeResource)
	v.world.RUnlock()
	if !ok {
		return fmt.Errorf("unmount %s from %s: not a cluster", path, clusterPath)
	}
	return v.changeDatastore(path, func(ds *simulator.Datastore) {
		ds.Host = slices.DeleteFunc(slices.Clone(ds.Host), func(m types.DatastoreHostMount) bool { return slices.Contains(cluster.Host, m.Key) })
		v.objects.WithLock(v.world.Context(), ref, func() {
			cluster.Datastore = slices.DeleteFunc(slices.Clone(cluster.Datastore), func(x types.ManagedObjectReference) bool { return x == ds.Self })
		})
		v.world.Mark(ref)
	})
}

func (v *Objects) changeDatastore(path string, change func(*simulator.Datastore)) error {
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
	v.objects.WithLock(v.world.Context(), ref, func() { change(ds) })
	v.world.Mark(ref)
	return nil
}
