package vcsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// storageManager wraps the StorageResourceManager for one call.
type storageManager struct {
	*simulator.StorageResourceManager
	v *inventory
}

// RecommendDatastores recommends all datastores of a pod for a clone, the emptiest first. The simulator supports a clone into a pod only
// disk by disk.
//
// [doc] StorageDrsPodSelectionSpec.storagePod: "The storage pod where the virtual machine should be located";
// StoragePlacementSpec.folder, vm, cloneName and cloneSpec describe the clone.
func (m *storageManager) RecommendDatastores(ctx *simulator.Context, req *types.RecommendDatastores) soap.HasFault {
	spec := req.StorageSpec
	body := new(methods.RecommendDatastoresBody)
	if property := m.wrong(spec); property != "" {
		body.Fault_ = simulator.Fault("", &types.InvalidArgument{InvalidProperty: "storageSpec." + property})
		return body
	}
	if spec.Type != string(types.StoragePlacementSpecPlacementTypeClone) || len(spec.PodSelectionSpec.InitialVmConfig) > 0 {
		return m.StorageResourceManager.RecommendDatastores(ctx, req)
	}
	pod := m.v.objects.Get(*spec.PodSelectionSpec.StoragePod).(*simulator.StoragePod)
	body.Res = new(types.RecommendDatastoresResponse)
	for i, ds := range m.byFreeSpace(ctx, pod) {
		body.Res.Returnval.Recommendations = append(body.Res.Returnval.Recommendations, recommend(i+1, pod.Self, ds, spec.Vm))
	}
	return body
}

// wrong names the property of a request that is missing or of the wrong type, on which the simulator panics.
func (m *storageManager) wrong(spec types.StoragePlacementSpec) string {
	pods := []*types.ManagedObjectReference{spec.PodSelectionSpec.StoragePod}
	for i := range spec.PodSelectionSpec.InitialVmConfig {
		pods = append(pods, &spec.PodSelectionSpec.InitialVmConfig[i].StoragePod)
	}
	for _, ref := range pods {
		if ref == nil {
			continue
		}
		// Without Storage DRS there are no recommendations.
		pod, ok := m.v.objects.Get(*ref).(*simulator.StoragePod)
		if !ok || !pod.PodStorageDrsEntry.StorageDrsConfig.PodConfig.Enabled {
			return "podSelectionSpec.storagePod"
		}
	}
	if spec.Type != string(types.StoragePlacementSpecPlacementTypeClone) {
		return ""
	}
	switch {
	case spec.Folder == nil:
		return "folder"
	case spec.Vm == nil:
		return "vm"
	case spec.CloneName == "":
		return "cloneName"
	case spec.CloneSpec == nil:
		return "cloneSpec"
	case spec.PodSelectionSpec.StoragePod == nil && len(spec.PodSelectionSpec.InitialVmConfig) == 0:
		return "podSelectionSpec.storagePod"
	}
	return ""
}

// byFreeSpace lists the usable datastores of a pod, the emptiest first.
func (m *storageManager) byFreeSpace(ctx *simulator.Context, pod *simulator.StoragePod) []types.ManagedObjectReference {
	type one struct {
		ref  types.ManagedObjectReference
		free int64
	}
	var all []one
	for _, ref := range pod.ChildEntity {
		ds, ok := m.v.objects.Get(ref).(*simulator.Datastore)
		if !ok {
			continue
		}
		if ds.Summary.Accessible && ds.Summary.MaintenanceMode == string(types.DatastoreSummaryMaintenanceModeStateNormal) {
			all = append(all, one{ref, ds.Summary.FreeSpace})
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.ref.Value, b.ref.Value))
	})
	refs := make([]types.ManagedObjectReference, len(all))
	for i, o := range all {
		refs[i] = o.ref
	}
	return refs
}

func recommend(key int, pod, ds types.ManagedObjectReference, vm *types.ManagedObjectReference) types.ClusterRecommendation {
	return types.ClusterRecommendation{
		Key: strconv.Itoa(key), Type: "V1", Time: time.Now(), Rating: 1,
		Reason: "storagePlacement", ReasonText: "Satisfy storage initial placement requests", Target: &pod,
		Action: []types.BaseClusterAction{&types.StoragePlacementAction{
			ClusterAction: types.ClusterAction{Type: "StoragePlacementV1"},
			Vm:            vm, Destination: ds,
			RelocateSpec: types.VirtualMachineRelocateSpec{Datastore: &ds},
		}},
	}
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
