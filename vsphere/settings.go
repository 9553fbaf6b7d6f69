package vsphere

import (
	"context"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// settings is where in this vCenter the settings point to. It is resolved once a session.
type settings struct {
	datacenter     types.ManagedObjectReference
	datacenterName string // "DC0"
	datacenterPath string // "/DC0"
	// vmFolder is the datacenter's VM folder, root is Config.Folder below it.
	vmFolder types.ManagedObjectReference
	root     types.ManagedObjectReference
	rootPath string   // "/DC0/vm/vm-operator"
	path     []string // the names that lead from vmFolder to root
	pool     types.ManagedObjectReference
	poolPath string // "/DC0/host/C0/Resources"
	// datastore is nil for the template's own.
	datastore *types.ManagedObjectReference
}

// resolveSettings finds what the settings name, and makes the root folder if it is missing. Whatever is missing or
// ambiguous gives an error that names the setting's flag and what there is to choose from.
func resolveSettings(ctx context.Context, s *session.Session, cfg Selection) (at *settings, failure *vcfault.Error) {
	err := session.Contained("the lookup of the settings", func() (err error) {
		at, err = lookUpSettings(ctx, s, cfg)
		return err
	})
	if err != nil {
		return nil, vcfault.Classify("resolve the settings", err)
	}
	return at, nil
}

func lookUpSettings(ctx context.Context, s *session.Session, cfg Selection) (*settings, error) {
	finder := find.NewFinder(s.Bounded())
	dc, err := resolveDatacenter(ctx, finder, cfg.Datacenter)
	if err != nil {
		return nil, err
	}
	finder.SetDatacenter(dc)
	folders, err := dc.Folders(ctx)
	if err != nil {
		return nil, err
	}
	at := &settings{
		datacenter:     dc.Reference(),
		datacenterName: dc.Name(),
		datacenterPath: dc.InventoryPath,
		vmFolder:       folders.VmFolder.Reference(),
		path:           cfg.folderPath(),
	}
	if err := at.resolvePool(ctx, s, finder, cfg.Pool); err != nil {
		return nil, err
	}
	if err := at.resolveDatastore(ctx, finder, cfg.Datastore); err != nil {
		return nil, err
	}
	if err := at.resolveRoot(ctx, s, cfg.folderPath()); err != nil {
		return nil, err
	}
	return at, nil
}

func resolveDatacenter(ctx context.Context, finder *find.Finder, name string) (*object.Datacenter, error) {
	all, err := found(finder.DatacenterList(ctx, "/..."))
	if err != nil {
		return nil, err
	}
	var candidates []candidate
	for _, dc := range all {
		candidates = append(candidates, candidate{dc.InventoryPath, dc.Reference()})
	}
	i, err := datacenterFlag.choose(name, candidates)
	if err != nil {
		return nil, err
	}
	return all[i], nil
}

// resolvePool takes a cluster or host, and its root pool, or a resource pool; by default the only cluster or
// host there is.
func (at *settings) resolvePool(ctx context.Context, s *session.Session, finder *find.Finder, name string) error {
	computes, err := found(finder.ComputeResourceList(ctx, at.datacenterPath+"/host/..."))
	if err != nil {
		return err
	}
	var candidates []candidate
	for _, c := range computes {
		candidates = append(candidates, candidate{c.InventoryPath, c.Reference()})
	}
	i, err := poolFlag.choose(name, candidates)
	if err == nil {
		pool, err := object.NewComputeResource(s.Vim, candidates[i].ref).ResourcePool(ctx)
		if err != nil {
			return err
		}
		at.pool, at.poolPath = pool.Reference(), candidates[i].path+"/Resources"
		return nil
	}
	if name == "" || vcfault.Classify("", err).Reason != poolFlag.missing {
		return err
	}
	pools, err := found(finder.ResourcePoolList(ctx, at.datacenterPath+"/host/..."))
	if err != nil {
		return err
	}
	for _, p := range pools {
		candidates = append(candidates, candidate{p.InventoryPath, p.Reference()})
	}
	if i, err = poolFlag.choose(name, candidates); err != nil {
		return err
	}
	at.pool, at.poolPath = candidates[i].ref, candidates[i].path
	return nil
}

func (at *settings) resolveDatastore(ctx context.Context, finder *find.Finder, name string) error {
	if name == "" {
		return nil
	}
	all, err := found(finder.DatastoreList(ctx, at.datacenterPath+"/datastore/..."))
	if err != nil {
		return err
	}
	var candidates []candidate
	for _, ds := range all {
		candidates = append(candidates, candidate{ds.InventoryPath, ds.Reference()})
	}
	i, err := datastoreFlag.choose(name, candidates)
	if err != nil {
		return err
	}
	at.datastore = &candidates[i].ref
	return nil
}

// resolveRoot goes down the root folder's path and makes what is missing. Another replica may make
// it at the same moment: then it is there.
func (at *settings) resolveRoot(ctx context.Context, s *session.Session, path []string) error {
	at.root, at.rootPath = at.vmFolder, at.datacenterPath+"/vm"
	for _, name := range path {
		ref, err := childFolder(ctx, s, at.root, at.rootPath+"/"+name, name)
		if err != nil {
			return err
		}
		at.root, at.rootPath = ref, at.rootPath+"/"+name
	}
	return nil
}

// childFolder gives the folder of that name in parent; it makes it if it is missing. path is for the message.
func childFolder(ctx context.Context, s *session.Session, parent types.ManagedObjectReference, path, name string) (types.ManagedObjectReference, error) {
	for range 2 {
		child, err := object.NewSearchIndex(s.Vim).FindChild(ctx, parent, name)
		if err != nil {
			return types.ManagedObjectReference{}, err
		}
		if child != nil {
			if ref := child.Reference(); ref.Type == "Folder" {
				return ref, nil
			}
			return types.ManagedObjectReference{}, vcfault.New(vcfault.ReasonFolderNotFound, true,
				"%s is no folder: set --folder to a path that is one, or is free.", path)
		}
		folder, err := object.NewFolder(s.Vim, parent).CreateFolder(ctx, name)
		if err == nil {
			return folder.Reference(), nil
		}
		if !fault.Is(err, &types.DuplicateName{}) {
			return types.ManagedObjectReference{}, err
		}
	}
	return types.ManagedObjectReference{}, vcfault.New(vcfault.ReasonFolderNotFound, true,
		"%s is taken by something that vCenter's user may not see: grant the right to see it, or set --folder.", path)
}
