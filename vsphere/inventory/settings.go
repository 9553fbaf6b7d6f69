package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// defaultFolder is the root folder when Selection.Folder is empty.
const defaultFolder = "vm-operator"

// Selection says which part of a vCenter the server uses. It is validated once, and immutable.
type Selection struct {
	// Datacenter, Pool and Datastore are names or inventory paths. Empty means the only one there is, and for
	// Datastore the template's own. Pool is a resource pool, or a cluster or host, whose root pool is then used.
	Datacenter, Pool, Datastore string
	// Folder is the root folder below the datacenter's VM folder ("a/b" nests). The server creates it if it is missing.
	Folder string
	// ClusterID names the Kubernetes cluster in the stamp, for people and for restored backups.
	ClusterID string
	// AdoptFrom are the folders from which groups can adopt VMs; none by default.
	AdoptFrom []AdoptRule
	// GuestNetworks are the networks whose addresses members can have: the server ignores other addresses that guests report. If empty, all
	// are allowed.
	GuestNetworks []netip.Prefix
}

// Validate finds errors that need no vCenter to be known.
func (c Selection) Validate() error {
	return errors.Join(c.validateFolder(), validateAdoptRules(c.AdoptFrom))
}

func (c Selection) validateFolder() error {
	for _, part := range c.folderPath() {
		if part == "" || part == "." || part == ".." || len(part) > 80 {
			return fmt.Errorf(`--folder (VC_FOLDER): %q: give a path below the datacenter's VM folder, such as "vm-operator" or "platform/vms", of names of at most 80 characters`, c.Folder)
		}
	}
	return nil
}

// folderPath returns the names of the root folder's path.
func (c Selection) folderPath() []string {
	if c.Folder == "" {
		return []string{defaultFolder}
	}
	return strings.Split(strings.Trim(c.Folder, "/"), "/")
}

// Settings are the objects in this vCenter that the settings name. They are looked up once in each session.
type Settings struct {
	Datacenter     types.ManagedObjectReference
	datacenterName string // "DC0"
	DatacenterPath string // "/DC0"
	// VMFolder is the datacenter's VM folder, and Root the root folder, Selection.Folder below it.
	VMFolder types.ManagedObjectReference
	Root     types.ManagedObjectReference
	RootPath string   // "/DC0/vm/vm-operator"
	path     []string // the names that lead from vmFolder to root
	Pool     types.ManagedObjectReference
	PoolPath string // "/DC0/host/C0/Resources"
	// Datastore is nil for the template's own.
	Datastore     *types.ManagedObjectReference
	datastoreName string
}

// resolveSettings finds what the settings name, and creates the root folder if it is missing. For anything missing or
// ambiguous it returns an error that names the setting's flag and what there is to choose from.
func resolveSettings(ctx context.Context, s *session.Session, cfg Selection) (at *Settings, failure *vcfault.Error) {
	err := session.Contained("the lookup of the settings", func() (err error) {
		at, err = lookUpSettings(ctx, s, cfg)
		return err
	})
	if err != nil {
		return nil, vcfault.Classify("resolve the settings", err)
	}
	return at, nil
}

func lookUpSettings(ctx context.Context, s *session.Session, selection Selection) (*Settings, error) {
	l := NewLookup(s, selection)
	for _, look := range []func(context.Context) error{l.Datacenter, l.Pool, l.Datastore, l.makeRoot} {
		if err := look(ctx); err != nil {
			return nil, err
		}
	}
	return l.at, nil
}

// Lookup looks up what a selection names, object by object: first the datacenter, then the rest in any order.
type Lookup struct {
	s         *session.Session
	selection Selection
	finder    *find.Finder
	at        *Settings
}

// NewLookup returns a Lookup. It makes no call.
func NewLookup(s *session.Session, selection Selection) *Lookup {
	return &Lookup{s: s, selection: selection, finder: find.NewFinder(s.Bounded()), at: &Settings{path: selection.folderPath()}}
}

// Settings returns what was found so far.
func (l *Lookup) Settings() *Settings { return l.at }

// Datacenter finds the datacenter and its VM folder.
func (l *Lookup) Datacenter(ctx context.Context) error {
	all, err := listed(ctx, l.finder.DatacenterList, "/...")
	if err != nil {
		return err
	}
	var candidates []naming.Candidate
	for _, dc := range all {
		candidates = append(candidates, naming.Candidate{Path: dc.InventoryPath, Ref: dc.Reference()})
	}
	i, err := datacenterFlag.Choose(l.selection.Datacenter, candidates)
	if err != nil {
		return err
	}
	dc := all[i]
	l.at.Datacenter, l.at.datacenterName, l.at.DatacenterPath = dc.Reference(), dc.Name(), dc.InventoryPath
	l.finder.SetDatacenter(dc)
	folders, err := dc.Folders(ctx)
	if err != nil {
		return err
	}
	l.at.VMFolder = folders.VmFolder.Reference()
	return nil
}

// Pool finds a cluster or host, and takes its root pool, or a resource pool; by default the only cluster or
// host.
func (l *Lookup) Pool(ctx context.Context) error {
	at, name := l.at, l.selection.Pool
	computes, err := listed(ctx, l.finder.ComputeResourceList, at.DatacenterPath+"/host/...")
	if err != nil {
		return err
	}
	var candidates []naming.Candidate
	for _, c := range computes {
		candidates = append(candidates, naming.Candidate{Path: c.InventoryPath, Ref: c.Reference()})
	}
	i, err := poolFlag.Choose(name, candidates)
	if err == nil {
		pool, err := object.NewComputeResource(l.s.Vim, candidates[i].Ref).ResourcePool(ctx)
		if err != nil {
			return err
		}
		at.Pool, at.PoolPath = pool.Reference(), candidates[i].Path+"/Resources"
		return nil
	}
	if name == "" || vcfault.Classify("", err).Reason != poolFlag.Missing {
		return err
	}
	pools, err := listed(ctx, l.finder.ResourcePoolList, at.DatacenterPath+"/host/...")
	if err != nil {
		return err
	}
	for _, p := range pools {
		candidates = append(candidates, naming.Candidate{Path: p.InventoryPath, Ref: p.Reference()})
	}
	if i, err = poolFlag.Choose(name, candidates); err != nil {
		return err
	}
	at.Pool, at.PoolPath = candidates[i].Ref, candidates[i].Path
	return nil
}

// Datastore finds the datastore; nil in the settings means the template's own.
func (l *Lookup) Datastore(ctx context.Context) error {
	at, name := l.at, l.selection.Datastore
	if name == "" {
		return nil
	}
	all, err := listed(ctx, l.finder.DatastoreList, at.DatacenterPath+"/datastore/...")
	if err != nil {
		return err
	}
	var candidates []naming.Candidate
	for _, ds := range all {
		candidates = append(candidates, naming.Candidate{Path: ds.InventoryPath, Ref: ds.Reference()})
	}
	i, err := datastoreFlag.Choose(name, candidates)
	if err != nil {
		return err
	}
	at.Datastore, at.datastoreName = &candidates[i].Ref, naming.Last(candidates[i].Path)
	return nil
}

// FindRoot follows the root folder's path as far as it exists, and creates nothing. It returns the missing names.
func (l *Lookup) FindRoot(ctx context.Context) (missing []string, err error) {
	at := l.at
	at.Root, at.RootPath = at.VMFolder, at.DatacenterPath+"/vm"
	for i, name := range at.path {
		child, err := object.NewSearchIndex(l.s.Vim).FindChild(ctx, at.Root, name)
		switch {
		case err != nil:
			return nil, err
		case child == nil:
			return at.path[i:], nil
		case child.Reference().Type != "Folder":
			return nil, noFolder(at.RootPath + "/" + name)
		}
		at.Root, at.RootPath = child.Reference(), at.RootPath+"/"+name
	}
	return nil, nil
}

// noFolder is the fault for another object at the root folder's path.
func noFolder(path string) *vcfault.Error {
	return vcfault.ForOperator(vcfault.ReasonFolderNotFound, "%s is not a folder: set --folder to a folder's path, or one that is free.", path)
}

// makeRoot follows the root folder's path and creates missing folders. If another replica creates one
// at the same time, that one is used.
func (l *Lookup) makeRoot(ctx context.Context) error {
	at := l.at
	at.Root, at.RootPath = at.VMFolder, at.DatacenterPath+"/vm"
	for _, name := range at.path {
		ref, err := childFolder(ctx, l.s, at.Root, at.RootPath+"/"+name, name)
		if err != nil {
			return err
		}
		at.Root, at.RootPath = ref, at.RootPath+"/"+name
	}
	return nil
}

// childFolder returns the folder of that name in parent, and creates it if it is missing. path is for the message.
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
			return types.ManagedObjectReference{}, noFolder(path)
		}
		folder, err := object.NewFolder(s.Vim, parent).CreateFolder(ctx, name)
		if err == nil {
			return folder.Reference(), nil
		}
		if !fault.Is(err, &types.DuplicateName{}) {
			return types.ManagedObjectReference{}, err
		}
	}
	return types.ManagedObjectReference{}, vcfault.ForOperator(vcfault.ReasonFolderNotFound,
		"%s is taken by something that vCenter's user cannot see: grant the right to see it, or set --folder.", path)
}

var (
	datacenterFlag = naming.Setting{Word: "datacenter", Flag: "--datacenter", Missing: vcfault.ReasonDatacenterNotFound, Ambiguous: vcfault.ReasonDatacenterAmbiguous}
	poolFlag       = naming.Setting{Word: "cluster or resource pool", Flag: "--pool", Missing: vcfault.ReasonPoolNotFound, Ambiguous: vcfault.ReasonPoolAmbiguous}
	datastoreFlag  = naming.Setting{Word: "datastore", Flag: "--datastore", Missing: vcfault.ReasonDatastoreNotFound, Ambiguous: vcfault.ReasonDatastoreAmbiguous}
)

// found distinguishes a search that found nothing from one that failed.
func found[T any](all []T, err error) ([]T, error) {
	var none *find.NotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	return all, err
}

// listTries bounds the tries of one search, and listPause is the time between two.
const (
	listTries = 5
	listPause = 500 * time.Millisecond
)

// listed searches with govmomi's finder. The finder reads what it lists object by object, so a search fails if any of these
// vanishes during the search, even an irrelevant one (https://github.com/vmware/govmomi/issues/1087): then listed searches again.
func listed[T any](ctx context.Context, list func(context.Context, string) ([]T, error), path string) ([]T, error) {
	for tries := 1; ; tries++ {
		all, err := found(list(ctx, path))
		if vcfault.MissingObject(err).Value == "" || tries == listTries || !session.Sleep(ctx, listPause) {
			return all, err
		}
	}
}
