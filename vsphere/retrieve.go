package vsphere

import (
	"context"
	"errors"
	"slices"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// The properties that are read. The keyed path makes vCenter send one extraConfig entry instead of all.
const stampPath = `config.extraConfig["` + StampKey + `"]`

var (
	// lightPaths suffice to tell whose a VM is: that is all that is kept of most.
	lightPaths = []string{"name", "parent", "parentVApp", "config.template", "config.instanceUuid", stampPath,
		"runtime.connectionState"}
	fullPaths = append(slices.Clone(lightPaths), "config.changeVersion", "config.hardware.numCPU",
		"config.hardware.memoryMB", "config.hardware.numCoresPerSocket", "config.cpuHotAddEnabled", "config.memoryHotAddEnabled",
		"config.hotPlugMemoryLimit", "runtime.powerState", "runtime.bootTime", "runtime.host", "guest.ipAddress", "guest.net",
		"guest.toolsRunningStatus")
)

func placeProps() []types.PropertySpec {
	return []types.PropertySpec{
		{Type: "Folder", PathSet: []string{"name", "parent"}},
		{Type: "Datacenter", PathSet: []string{"name", "parent"}},
		{Type: "VirtualApp", PathSet: []string{"name", "parentFolder"}},
	}
}

// allPlaces traverses from the root folder to every folder and VM. There is no ContainerView in it, and no step
// from a vApp to one nested in it: with that step vcsim, which does not heed the types in a traversal, would go
// from VM to pool to VM for ever. What is in a nested vApp is read by its moRef, but not watched.
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

// pagesMost bounds the pages of one answer. vCenter's are of about a hundred objects or more, and it has 45,000 VMs at most
// (VMware Configuration Maximums, vCenter Server 8.0).
const pagesMost = 5000

// endless is the fault for an answer whose pages do not come to an end.
func endless(method string) *Error {
	return notVCenterAPI(method, errors.New("the answer has no last page"))
}

// retrieve makes one RetrievePropertiesEx, however many pages its answer has.
func retrieve(ctx context.Context, s *session, spec types.PropertyFilterSpec) ([]types.ObjectContent, error) {
	pc := s.vim.ServiceContent.PropertyCollector
	res, err := methods.RetrievePropertiesEx(ctx, s.vim, &types.RetrievePropertiesEx{
		This: pc, SpecSet: []types.PropertyFilterSpec{spec}})
	if err != nil || res.Returnval == nil {
		return nil, err
	}
	objects, token := res.Returnval.Objects, res.Returnval.Token
	for pages := 1; token != ""; pages++ {
		if pages == pagesMost {
			return nil, endless("ContinueRetrievePropertiesEx")
		}
		more, err := methods.ContinueRetrievePropertiesEx(ctx, s.vim, &types.ContinueRetrievePropertiesEx{This: pc, Token: token})
		if err != nil {
			return nil, err
		}
		objects, token = append(objects, more.Returnval.Objects...), more.Returnval.Token
	}
	return objects, unauthenticated(objects)
}

// unauthenticated gives an error if properties are missing because the session has ended: vCenter may say that for
// each property (MissingProperty.fault) instead of refusing the call. It says nothing about the objects.
func unauthenticated(objects []types.ObjectContent) error {
	for _, o := range objects {
		for _, m := range o.MissingSet {
			if err := missing(m.Fault.Fault); err != nil {
				return err
			}
		}
	}
	return nil
}

// bulk is how many objects are read with one call.
const bulk = 500

// readRefs reads VMs and places by their moRefs into r. One dead moRef fails a whole call: it is dropped, for
// that is the confirmation that it is gone, and the others are read again.
func readRefs(ctx context.Context, s *session, refs []types.ManagedObjectReference, r *Reading) error {
	for chunk := range slices.Chunk(refs, bulk) {
		chunk = slices.Clone(chunk)
		for len(chunk) > 0 {
			objects, err := retrieve(ctx, s, fullSpec(chunk))
			if err == nil {
				before := len(r.Machines)
				r.decode(objects)
				r.hide(chunk)
				for i := range r.Machines[before:] {
					r.Machines[before+i].Whole = true
				}
				break
			}
			at := slices.Index(chunk, missingObject(err))
			if at < 0 {
				return err
			}
			r.Gone = append(r.Gone, chunk[at].Value)
			chunk = slices.Delete(chunk, at, at+1)
		}
	}
	return nil
}

// missingObject is what a ManagedObjectNotFound is about; the zero reference if err is something else.
func missingObject(err error) types.ManagedObjectReference {
	var gone *types.ManagedObjectNotFound
	if _, is := fault.As(err, &gone); is {
		return gone.Obj
	}
	return types.ManagedObjectReference{}
}

// fullSpec reads everything that is kept of a member; the hosts' names come along with the same call.
func fullSpec(refs []types.ManagedObjectReference) types.PropertyFilterSpec {
	spec := types.PropertyFilterSpec{PropSet: append(placeProps(),
		types.PropertySpec{Type: "VirtualMachine", PathSet: fullPaths},
		types.PropertySpec{Type: "HostSystem", PathSet: []string{"name"}})}
	host := []types.BaseSelectionSpec{&types.TraversalSpec{Type: "VirtualMachine", Path: "runtime.host"}}
	for _, ref := range refs {
		o := types.ObjectSpec{Obj: ref}
		if ref.Type == "VirtualMachine" {
			o.SelectSet = host
		}
		spec.ObjectSet = append(spec.ObjectSet, o)
	}
	return spec
}
