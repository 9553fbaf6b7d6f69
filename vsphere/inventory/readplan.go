package inventory

import (
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
)

func placeProps() []types.PropertySpec {
	return []types.PropertySpec{
		{Type: "Folder", PathSet: []string{"name", "parent"}},
		{Type: "Datacenter", PathSet: []string{"name", "parent"}},
		{Type: "VirtualApp", PathSet: []string{"name", "parentFolder"}},
	}
}

// allPlaces traverses from the root folder to every folder and VM. There is no ContainerView in it, and no step
// from a vApp to one nested in it: with that step vcsim, which ignores the types in a traversal, would go
// from VM to pool to VM forever. A VM in a nested vApp is read by its moRef, but not watched.
func allPlaces(root types.ManagedObjectReference) []types.ObjectSpec {
	again := []types.BaseSelectionSpec{
		&types.SelectionSpec{Name: "children"},
		&types.SelectionSpec{Name: "datacenter"},
		&types.SelectionSpec{Name: "vapp"},
	}
	return []types.ObjectSpec{{Obj: root, SelectSet: []types.BaseSelectionSpec{
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "children"}, Type: "Folder", Path: "childEntity", SelectSet: again},
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "datacenter"}, Type: "Datacenter", Path: "vmFolder", SelectSet: again},
		&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "vapp"}, Type: "VirtualApp", Path: "vm"},
	}}}
}

// allClusters traverses from the root folder to every cluster and standalone host, and to no VM.
func allClusters(root types.ManagedObjectReference) types.PropertyFilterSpec {
	again := []types.BaseSelectionSpec{&types.SelectionSpec{Name: "children"}, &types.SelectionSpec{Name: "datacenter"}}
	return types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: root, SelectSet: []types.BaseSelectionSpec{
			&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "children"}, Type: "Folder", Path: "childEntity", SelectSet: again},
			&types.TraversalSpec{SelectionSpec: types.SelectionSpec{Name: "datacenter"}, Type: "Datacenter", Path: "hostFolder", SelectSet: again},
		}}},
		PropSet: []types.PropertySpec{
			{Type: "ComputeResource", PathSet: []string{"name", "host"}},
			{Type: "ClusterComputeResource", PathSet: []string{"name", "host", "configurationEx"}},
		},
	}
}

var (
	// lightPaths suffice to tell the owner of a VM, which is all that is kept of most VMs.
	lightPaths = []string{"name", "parent", "parentVApp", "config.template", "config.instanceUuid", stamp.Path,
		"runtime.connectionState"}
	fullPaths = append(slices.Clone(lightPaths), "config.changeVersion", "config.hardware.numCPU",
		"config.hardware.memoryMB", "config.hardware.numCoresPerSocket", "config.hardware.autoCoresPerSocket", "config.cpuHotAddEnabled", "config.memoryHotAddEnabled",
		"config.hotPlugMemoryLimit", "runtime.powerState", "runtime.bootTime", "runtime.host", "runtime.question", "guest.ipAddress", "guest.net", "guest.customizationInfo",
		"guest.toolsRunningStatus")
)
