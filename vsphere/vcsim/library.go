package vcsim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// libraries are the content libraries of govmomi's simulator, extended by the VM templates of items, which the simulator lacks
// (v0.56.0, vapi/simulator/simulator.go:3345). An OVF is a VM, and its deployments are copies of the VM: the simulator's own deployments need
// files, take no time, and know neither license agreements nor networks.
type libraries struct {
	world     *world
	api       *rest.Client         // of the admin
	templates map[string]*template // by the item's id
}

// template is the VM template that an item is, or the VM from which an OVF was exported.
type template struct {
	item string // the item's name
	ref  types.ManagedObjectReference
	ovf  *OVF // nil if the item is a VM template
}

// OVF has the properties of an item that is an OVF.
type OVF struct {
	EULAs, Networks []string
	// Bytes is the size of its disks.
	Bytes int64
	// Version is the version of its files; 0 means 1.
	Version int
	// Uncached reports whether its library is a subscribed one and its files have not been downloaded.
	Uncached bool
}

// change changes the libraries as the admin.
func (l *libraries) change(what string, do func(context.Context, *library.Manager) error) error {
	if err := do(context.Background(), library.NewManager(l.api)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// AddLibrary creates a content library.
func (l *libraries) AddLibrary(name string) error {
	return l.change("add library "+name, func(ctx context.Context, m *library.Manager) error {
		datastore := l.world.Objects.Any("Datastore").Reference().Value
		_, err := m.CreateLibrary(ctx, library.Library{Name: name, Type: "LOCAL", Storage: []library.StorageBacking{{DatastoreID: datastore, Type: "DATASTORE"}}})
		return err
	})
}

// RenameLibrary gives a content library another name, which others may have (govmomi#1581).
func (l *libraries) RenameLibrary(name, to string) error {
	return l.change("rename library "+name, func(ctx context.Context, m *library.Manager) error {
		x, err := m.GetLibraryByName(ctx, name)
		if err != nil {
			return err
		}
		x.Name = to
		return m.UpdateLibrary(ctx, x)
	})
}

// AddLibraryItem adds an item to a library: a VM template, an OVF ("ovf") of a VM, or an item of another kind. Two items can have one name.
func (l *libraries) AddLibraryItem(in, name, kind string, ref types.ManagedObjectReference) error {
	return l.change("add item "+name, func(ctx context.Context, m *library.Manager) error {
		of, err := m.GetLibraryByName(ctx, in)
		if err != nil {
			return err
		}
		id, err := m.CreateLibraryItem(ctx, library.Item{Name: uuid.NewString(), LibraryID: of.ID, Type: kind})
		if err != nil {
			return err
		}
		made := &template{item: name, ref: ref}
		if kind == library.ItemTypeOVF {
			made.ovf = &OVF{Networks: []string{"VM Network"}}
		}
		if made.ovf != nil || kind == library.ItemTypeVMTX {
			l.world.Lock()
			l.templates[id] = made
			l.world.Unlock()
		}
		return m.UpdateLibraryItem(ctx, &library.Item{ID: id, Name: name})
	})
}

// Library returns the id of the only library with a name.
func (l *libraries) Library(name string) (id string, err error) {
	err = l.change("find library "+name, func(ctx context.Context, m *library.Manager) error {
		x, err := m.GetLibraryByName(ctx, name)
		if err == nil {
			id = x.ID
		}
		return err
	})
	return id, err
}

// RenameLibraryItem gives the only item with a name in a library another name, which others may have.
func (l *libraries) RenameLibraryItem(in, name, to string) error {
	return l.change("rename item "+name, func(ctx context.Context, m *library.Manager) error {
		id, err := itemIn(ctx, m, in, name)
		if err == nil {
			err = m.UpdateLibraryItem(ctx, &library.Item{ID: id, Name: to})
		}
		return err
	})
}

// LibraryItem returns the id of the only item with a name in a library.
func (l *libraries) LibraryItem(in, name string) (id string, err error) {
	err = l.change("find item "+name, func(ctx context.Context, m *library.Manager) error {
		id, err = itemIn(ctx, m, in, name)
		return err
	})
	return id, err
}

func itemIn(ctx context.Context, m *library.Manager, in, name string) (string, error) {
	of, err := m.GetLibraryByName(ctx, in)
	if err != nil {
		return "", err
	}
	ids, err := m.FindLibraryItems(ctx, library.FindItem{LibraryID: of.ID, Name: name})
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("%d items are named %s", len(ids), name)
	}
	return strings.Join(ids, ""), err
}

// EditOVF changes the properties of the OVFs with that name.
func (l *libraries) EditOVF(name string, change func(*OVF)) {
	l.world.Lock()
	defer l.world.Unlock()
	for _, t := range l.templates {
		if t.item == name && t.ovf != nil {
			change(t.ovf)
		}
	}
}

// CheckIn makes another VM template the newest version of the items with that name.
func (l *libraries) CheckIn(name string, ref types.ManagedObjectReference) {
	l.world.Lock()
	defer l.world.Unlock()
	for _, t := range l.templates {
		if t.item == name {
			t.ref = ref
		}
	}
}

// RemoveLibraryItem removes the items with that name.
func (l *libraries) RemoveLibraryItem(name string) error {
	return l.change("remove item "+name, func(ctx context.Context, m *library.Manager) error {
		ids, err := m.FindLibraryItems(ctx, library.FindItem{Name: name})
		for i := 0; err == nil && i < len(ids); i++ {
			err = m.DeleteLibraryItem(ctx, &library.Item{ID: ids[i]})
		}
		return err
	})
}

// RemoveLibraryItemByID removes an item.
func (l *libraries) RemoveLibraryItemByID(id string) error {
	return l.change("remove item "+id, func(ctx context.Context, m *library.Manager) error {
		return m.DeleteLibraryItem(ctx, &library.Item{ID: id})
	})
}

// describe answers a call with the VM template of an item.
func (l *libraries) describe(w http.ResponseWriter, id string) {
	if t := l.templates[id]; t != nil && t.ovf == nil {
		answerJSON(w, vcenter.TemplateInfo{VmTemplate: t.ref.Value})
		return
	}
	refuseREST(w, &types.NotFound{})
}

// The paths of calls about an OVF, up to the item's id.
const (
	restItem     = rest.Path + "/com/vmware/content/library/item/id:"
	restSyncItem = rest.Path + "/com/vmware/content/library/subscribed-item/id:"
	restOVF      = rest.Path + "/com/vmware/vcenter/ovf/library-item/id:"
)

// answerOVF answers a call about an OVF, and reports whether it is one.
func (a *restAPI) answerOVF(w http.ResponseWriter, r *http.Request, user string) bool {
	path, id, _ := strings.Cut(r.URL.Path, "/id:")
	t := a.templates[id]
	if t == nil || t.ovf == nil {
		return false
	}
	switch path += "/id:"; {
	case path == restItem && r.Method == http.MethodGet:
		inner := newAnswer()
		a.inner.ServeHTTP(inner, r)
		var known struct{ Value library.Item }
		if json.Unmarshal(inner.Body.Bytes(), &known) != nil || known.Value.ID == "" { // the item was removed
			inner.writeTo(w)
			return true
		}
		known.Value.ContentVersion, known.Value.Cached = strconv.Itoa(max(t.ovf.Version, 1)), !t.ovf.Uncached
		answerJSON(w, known.Value)
	case path == restSyncItem:
		t.ovf.Uncached = false
		answerJSON(w, nil)
	case path == restOVF && r.URL.Query().Get("~action") == "filter":
		answerJSON(w, vcenter.FilterResponse{Name: t.item, EULAs: t.ovf.EULAs, Networks: t.ovf.Networks, AdditionalParams: []vcenter.AdditionalParams{
			{Class: "com.vmware.vcenter.ovf.size_params", Type: vcenter.TypeSizeParams, ApproximateSparseDeploymentSize: t.ovf.Bytes}}})
	case path == restOVF:
		a.deploy(w, r, t, user)
	default:
		return false
	}
	return true
}

// deploy deploys an OVF. Its VM exists from the beginning, while vCenter copies the disks. If the caller hangs up, vCenter removes the VM.
//
// [doc] vcenter/ovf/library-item, deploy: the VM is powered off. vcenter/ovfs, deploy: "In part 1: The server creates all inventory objects …
// In part 2: The server transfers disk contents … If the import process fails or times out, all created inventory objects are removed".
func (a *restAPI) deploy(w http.ResponseWriter, r *http.Request, t *template, user string) {
	var how vcenter.Deploy
	if json.NewDecoder(r.Body).Decode(&how) != nil {
		refuseREST(w, &types.InvalidArgument{InvalidProperty: "body"})
		return
	}
	ctx, ended := a.v.world.Context(), make(chan struct{})
	ctx.Session = &simulator.Session{UserSession: types.UserSession{UserName: user}}
	var vm *simulator.VirtualMachine
	pool, _ := a.v.world.Objects.Get(types.ManagedObjectReference{Type: "ResourcePool", Value: how.ResourcePoolID}).(mo.Entity)
	if pool == nil {
		refuseREST(w, new(types.NotFound))
		return
	}
	task := a.v.inventory.begin(&call{ctx, "ImportVApp"}, work{
		kind: ImportVApp, entity: pool, name: how.Name,
		check: func(ctx *simulator.Context) (fault types.BaseMethodFault) {
			vm, fault = a.create(ctx, t, &how)
			return fault
		},
		do: func(*simulator.Context) (types.AnyType, types.BaseMethodFault) {
			if a.v.world.Objects.Get(vm.Self) == nil {
				return nil, new(types.RequestCanceled)
			}
			return vm.Self, nil
		},
		end: func() { close(ended) },
	})
	a.v.current.unlocked = true
	a.v.world.Unlock()
	select {
	case <-ended:
	case <-r.Context().Done():
	case <-a.v.world.Ctx.Done():
		return
	}
	a.v.world.Lock()
	defer a.v.world.Unlock()
	j, known := a.v.world.Objects.Get(task).(*job)
	switch {
	case r.Context().Err() != nil && vm != nil && a.v.world.Objects.Get(vm.Self) != nil:
		_, _ = a.v.inventory.destroy(ctx, vm)
	case known && j.Info.State == types.TaskInfoStateSuccess:
		answerJSON(w, vcenter.Deployment{Succeeded: true, ResourceID: &vcenter.ResourceID{Type: vm.Self.Type, Value: vm.Self.Value}})
	case known && j.Info.Error != nil:
		if vm != nil && a.v.world.Objects.Get(vm.Self) != nil {
			_, _ = a.v.inventory.destroy(ctx, vm)
		}
		answerJSON(w, vcenter.Deployment{Error: &vcenter.DeploymentError{Errors: []vcenter.OVFError{{Category: "SERVER", Error: &vcenter.Error{
			Class: "com.vmware.vapi.std.errors.error", Messages: []rest.LocalizableMessage{{DefaultMessage: fmt.Sprintf("%T", j.Info.Error.Fault)}}}}}}})
	}
}

// create makes the VM of a deployment. The caller holds the world lock.
//
// [doc] vcenter/ovf/library-item, DeploymentTarget.host_id: without it, "the server will automatically select a target host from the resource
// pool if [it] is a stand-alone host or a cluster with Distributed Resource Scheduling (DRS) enabled". No source shows what happens otherwise.
func (a *restAPI) create(ctx *simulator.Context, t *template, how *vcenter.Deploy) (*simulator.VirtualMachine, types.BaseMethodFault) {
	source, is := a.v.world.Objects.Get(t.ref).(*simulator.VirtualMachine)
	if !is || len(t.ovf.EULAs) > 0 && !how.AcceptAllEULA {
		return nil, &types.InvalidArgument{InvalidProperty: "accept_all_EULA"}
	}
	for _, name := range t.ovf.Networks {
		if !slices.ContainsFunc(how.NetworkMappings, func(m vcenter.NetworkMapping) bool { return m.Key == name && a.network(m.Value) != nil }) {
			return nil, &types.InvalidArgument{InvalidProperty: "network_mappings"}
		}
	}
	pool := types.ManagedObjectReference{Type: "ResourcePool", Value: how.ResourcePoolID}
	spec := types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &pool}, Config: &types.VirtualMachineConfigSpec{Annotation: how.Annotation}}
	switch {
	case how.HostID != "":
		spec.Location.Host = &types.ManagedObjectReference{Type: "HostSystem", Value: how.HostID}
	case a.v.inventory.firstWithoutDRS(a.v.inventory.hostsOf(pool)) != nil:
		return nil, &types.InvalidArgument{InvalidProperty: "target.host_id"}
	}
	if how.DefaultDatastoreID != "" {
		spec.Location.Datastore = &types.ManagedObjectReference{Type: "Datastore", Value: how.DefaultDatastoreID}
	}
	made, fault := a.v.inventory.clone(ctx, source, place{types.ManagedObjectReference{Type: "Folder", Value: how.FolderID}, escape(how.Name)}, spec)
	if fault != nil {
		return nil, fault
	}
	vm := a.v.world.Objects.Get(made.(types.ManagedObjectReference)).(*simulator.VirtualMachine)
	left := how.NetworkMappings
	for _, d := range vm.Config.Hardware.Device {
		if card, is := d.(types.BaseVirtualEthernetCard); is && len(left) > 0 {
			to := a.network(left[0].Value)
			card.GetVirtualEthernetCard().Backing = &types.VirtualEthernetCardNetworkBackingInfo{
				VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: to.Entity().Name}, Network: types.NewReference(to.Reference())}
			left = left[1:]
		}
	}
	return vm, nil
}

// network returns a network by the value of its moRef; nil if there is none.
func (a *restAPI) network(value string) mo.Entity {
	for _, kind := range []string{"Network", "DistributedVirtualPortgroup", "OpaqueNetwork"} {
		if n, is := a.v.world.Objects.Get(types.ManagedObjectReference{Type: kind, Value: value}).(mo.Entity); is {
			return n
		}
	}
	return nil
}
