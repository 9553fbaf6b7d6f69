package vcsim

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// rights are the permissions of the clients, without Admin.
type rights struct {
	world   *world
	objects *simulator.Registry // of the world

	profiles *storagePolicies

	role   *role // nil: all privileges
	hidden map[types.ManagedObjectReference]bool
	// readable are the objects that the clients may read, with their contents, and above those that contain them; a nil readable is all objects.
	readable, above map[types.ManagedObjectReference]bool
	readsRoot       bool
}

// newRights grants the clients everything.
func newRights(w *world, p *storagePolicies) *rights {
	return &rights{world: w, objects: w.Objects, profiles: p, hidden: make(map[types.ManagedObjectReference]bool)}
}

// Admit returns the fault if a client's call is not permitted, or nil.
func (v *rights) Admit(ctx *simulator.Context, m *simulator.Method) types.BaseMethodFault {
	if ctx.Session == nil {
		return nil // NotAuthenticated comes first
	}
	if hidden, ok := v.hiddenArgument(m); ok {
		return &types.NoPermission{Object: &hidden, PrivilegeId: "System.View"}
	}
	return v.forbidden(m)
}

// everyRole are the privileges that vCenter adds to every role.
//
// [doc] vSphere Security, "Using Roles to Assign Privileges": every new role has System.Anonymous, System.View and System.Read.
var everyRole = []string{"System.Anonymous", "System.View", "System.Read"}

// role is the privileges of the clients; a nil role has all.
type role struct {
	privileges map[string]bool
	// withdrawn are the objects on and below which a privilege is not held.
	withdrawn map[string]map[types.ManagedObjectReference]bool
}

// Restrict gives the clients a role with exactly these privileges on all objects. A call without the privileges that VMware's API reference
// lists (needs) gets NoPermission with the first missing one.
func (v *rights) Restrict(privileges ...string) {
	r := &role{privileges: make(map[string]bool), withdrawn: make(map[string]map[types.ManagedObjectReference]bool)}
	for _, p := range slices.Concat(everyRole, privileges) {
		r.privileges[p] = true
	}
	v.world.Lock()
	defer v.world.Unlock()
	v.role = r
}

// Withdraw removes a privilege of the role on some objects and their contents or, without objects, everywhere.
func (v *rights) Withdraw(privilege string, on ...types.ManagedObjectReference) {
	v.world.Lock()
	defer v.world.Unlock()
	if v.role == nil {
		return
	}
	if len(on) == 0 {
		delete(v.role.privileges, privilege)
	}
	for _, ref := range on {
		if v.role.withdrawn[privilege] == nil {
			v.role.withdrawn[privilege] = make(map[types.ManagedObjectReference]bool)
		}
		v.role.withdrawn[privilege][ref] = true
	}
}

// Unrestrict grants the clients everything again.
func (v *rights) Unrestrict() {
	v.world.Lock()
	defer v.world.Unlock()
	v.role = nil
}

// holds reports whether the role has a privilege on an object. It has none on a hidden object. The caller holds the world lock.
func (v *rights) holds(privilege string, ref types.ManagedObjectReference) bool {
	if v.hides(ref) || v.onlyContains(ref) && privilege != "System.View" && (ref != v.world.Root() || privilege == "System.Read") {
		return false
	}
	if v.role == nil {
		return true
	}
	if !v.role.privileges[privilege] {
		return false
	}
	for at := range v.world.Up(ref) {
		if v.role.withdrawn[privilege][at] {
			return false
		}
	}
	return true
}

// privilegeNeed is a privilege required on an object.
type privilegeNeed struct {
	privilege string
	on        types.ManagedObjectReference
}

// forbidden returns the fault if the role does not allow a call, or nil.
func (v *rights) forbidden(m *simulator.Method) types.BaseMethodFault {
	if v.role == nil && !v.hidesAny() {
		return nil
	}
	for _, n := range v.needs(m) {
		if !v.holds(n.privilege, n.on) {
			return &types.NoPermission{Object: &n.on, PrivilegeId: n.privilege}
		}
	}
	return nil
}

// neededOnObject and neededOnRoot are the privileges of the methods that require one, on their object or on the root folder.
var (
	neededOnObject = map[string]string{
		"CreateFolder":                    "Folder.Create",
		"MarkAsTemplate":                  "VirtualMachine.Provisioning.MarkAsTemplate",
		"PowerOnVM_Task":                  "VirtualMachine.Interact.PowerOn",
		"PowerOffVM_Task":                 "VirtualMachine.Interact.PowerOff",
		"RelocateVM_Task":                 "Resource.ColdMigrate",
		"ShutdownGuest":                   "VirtualMachine.Interact.PowerOff",
		"ResetVM_Task":                    "VirtualMachine.Interact.Reset",
		"UpgradeVM_Task":                  "VirtualMachine.Config.UpgradeVirtualHardware",
		"ReconfigureComputeResource_Task": "Host.Inventory.EditCluster",
	}
	neededOnRoot = map[string]string{
		"AddCustomFieldDef":    "Global.ManageCustomFields",
		"GetCustomizationSpec": "VirtualMachine.Provisioning.ReadCustSpecs",
		"PbmQueryProfile":      "StorageProfile.View",
		"PbmRetrieveContent":   "StorageProfile.View",
		"PbmCheckRequirements": "StorageProfile.View",

		"PbmQueryIOFiltersFromProfileId": "StorageProfile.View",
	}
)

// needs returns the privileges that a call requires. The caller holds the world lock.
//
// [doc] "Required privileges" of each method in the Virtual Infrastructure JSON API 8.0. CloneVM_Task needs Create from existing and Add
// new disk on the folder, and Network.Assign on the networks, by vSphere Security, "Required Privileges for Common Tasks"; and, for the
// changes of its spec.config, the privileges of ReconfigVM_Task. Destroy_Task: "must be held on the parent of the destroyed entity as well
// as the entity itself".
func (v *rights) needs(m *simulator.Method) []privilegeNeed {
	if privilege := neededOnObject[m.Name]; privilege != "" {
		return []privilegeNeed{{privilege, m.This}}
	}
	if privilege := neededOnRoot[m.Name]; privilege != "" {
		return []privilegeNeed{{privilege, v.world.Root()}}
	}
	switch req := m.Body.(type) {
	case *types.CloneVM_Task:
		return v.cloneNeeds(m.This, req)
	case *types.ReconfigVM_Task:
		return append(configNeeds(&req.Spec, m.This), v.encryptionNeeds(&req.Spec, m.This)...)
	case *types.UnregisterAndDestroy_Task:
		return append(v.alsoOnParent("Folder.Delete", m.This), v.unregisterNeeds(m.This)...)
	case *types.Destroy_Task:
		privilege := "VirtualMachine.Inventory.Delete"
		if m.This.Type == "Folder" {
			privilege = "Folder.Delete"
		}
		return v.alsoOnParent(privilege, m.This)
	case *types.MoveIntoFolder_Task:
		all := []privilegeNeed{{"VirtualMachine.Inventory.Move", m.This}}
		for _, ref := range req.List {
			all = append(all, v.alsoOnParent("VirtualMachine.Inventory.Move", ref)...)
		}
		return all
	case *types.RegisterVM_Task:
		all := []privilegeNeed{{"VirtualMachine.Inventory.Register", m.This}}
		if req.Pool != nil {
			all = append(all, privilegeNeed{"Resource.AssignVMToPool", *req.Pool})
		}
		return all
	case *types.PowerOnMultiVM_Task:
		all := []privilegeNeed{{"System.View", m.This}}
		for _, ref := range req.Vm {
			all = append(all, privilegeNeed{"VirtualMachine.Interact.PowerOn", ref})
		}
		return all
	case *types.SetField:
		return []privilegeNeed{{"Global.SetCustomField", req.Entity}}
	case *types.CreateDisk_Task:
		at := req.Spec.BackingSpec.GetVslmCreateSpecBackingSpec().Datastore
		return []privilegeNeed{{"Datastore.FileManagement", at}, {"Datastore.AllocateSpace", at}}
	case *types.ListVStorageObject:
		return []privilegeNeed{{"Datastore.FileManagement", req.Datastore}}
	case *types.RetrieveVStorageObject:
		return []privilegeNeed{{"Datastore.FileManagement", req.Datastore}}
	case *types.VCenterUpdateVStorageObjectMetadataEx_Task:
		return []privilegeNeed{{"Datastore.FileManagement", req.Datastore}}
	case *types.ExtendDisk_Task:
		return []privilegeNeed{{"Datastore.FileManagement", req.Datastore}}
	case *types.DeleteVStorageObject_Task:
		return []privilegeNeed{{"Datastore.FileManagement", req.Datastore}}
	}
	return nil
}

// unregisterNeeds returns the privileges to unregister the VMs in a folder: Unregister is needed "in both the object and its parent object"
// (vSphere Security, Virtual Machine Inventory Privileges).
func (v *rights) unregisterNeeds(folder types.ManagedObjectReference) (all []privilegeNeed) {
	if f, is := v.objects.Get(folder).(*simulator.Folder); is {
		for _, child := range f.ChildEntity {
			if child.Type == "VirtualMachine" {
				all = append(all, privilegeNeed{"VirtualMachine.Inventory.Unregister", child}, privilegeNeed{"VirtualMachine.Inventory.Unregister", folder})
			}
		}
	}
	return all
}

func (v *rights) alsoOnParent(privilege string, ref types.ManagedObjectReference) []privilegeNeed {
	all := []privilegeNeed{{privilege, ref}}
	if parent := v.world.ParentOf(ref); parent != nil {
		all = append(all, privilegeNeed{privilege, *parent})
	}
	return all
}

func (v *rights) cloneNeeds(source types.ManagedObjectReference, req *types.CloneVM_Task) []privilegeNeed {
	vm, ok := v.objects.Get(source).(*simulator.VirtualMachine)
	if !ok {
		return nil
	}
	provision, own := "VirtualMachine.Provisioning.Clone", []types.ManagedObjectReference(nil)
	var networks []types.ManagedObjectReference
	if vm.Config.Template {
		provision = "VirtualMachine.Provisioning.DeployTemplate"
	}
	own, networks = slices.Clone(vm.Datastore), slices.Clone(vm.Network)
	all := []privilegeNeed{{provision, source}, {"VirtualMachine.Inventory.CreateFromExisting", req.Folder}, {"VirtualMachine.Config.AddNewDisk", req.Folder}}
	if req.Spec.Customization != nil {
		all = append(all, privilegeNeed{"VirtualMachine.Provisioning.Customize", source})
	}
	if pool := req.Spec.Location.Pool; pool != nil {
		all = append(all, privilegeNeed{"Resource.AssignVMToPool", *pool})
	}
	if at := req.Spec.Location.Datastore; at != nil {
		own = []types.ManagedObjectReference{*at}
	}
	for _, ds := range own {
		all = append(all, privilegeNeed{"Datastore.AllocateSpace", ds})
	}
	if config := req.Spec.Config; config != nil {
		all = append(all, configNeeds(config, req.Folder)...)
		if wanted := v.networksIn(config.DeviceChange); wanted != nil {
			networks = wanted
		}
	}
	for _, network := range networks {
		all = append(all, privilegeNeed{"Network.Assign", network})
	}
	return all
}

// networksIn returns the networks of added adapters; nil if there are none.
func (v *rights) networksIn(changes []types.BaseVirtualDeviceConfigSpec) (refs []types.ManagedObjectReference) {
	for _, change := range changes {
		spec := change.GetVirtualDeviceConfigSpec()
		card, is := spec.Device.(types.BaseVirtualEthernetCard)
		if !is || spec.Operation != types.VirtualDeviceConfigSpecOperationAdd {
			continue
		}
		switch backing := card.GetVirtualEthernetCard().Backing.(type) {
		case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
			refs = append(refs, types.ManagedObjectReference{Type: "DistributedVirtualPortgroup", Value: backing.Port.PortgroupKey})
		case *types.VirtualEthernetCardNetworkBackingInfo:
			for _, network := range v.objects.All("Network") {
				if network.Entity().Name == backing.DeviceName {
					refs = append(refs, network.Reference())
				}
			}
		}
	}
	return refs
}

// configPrivileges are the privileges that the fields of a VirtualMachineConfigSpec require ([doc] the "Reconfigure privilege" of each); those
// of devices depend on what changes.
var configPrivileges = map[string]string{
	"NumCPUs": "VirtualMachine.Config.CPUCount", "NumCoresPerSocket": "VirtualMachine.Config.CPUCount", "CpuHotAddEnabled": "VirtualMachine.Config.CPUCount",
	"MemoryMB": "VirtualMachine.Config.Memory", "MemoryHotAddEnabled": "VirtualMachine.Config.Memory",
	"CpuAllocation": "VirtualMachine.Config.Resource", "MemoryAllocation": "VirtualMachine.Config.Resource",
	"MemoryReservationLockedToMax": "VirtualMachine.Config.Resource",
	"ExtraConfig":                  "VirtualMachine.Config.AdvancedConfig",
	"Name":                         "VirtualMachine.Config.Rename",
	"Annotation":                   "VirtualMachine.Config.Annotation",
	"ChangeTrackingEnabled":        "VirtualMachine.Config.ChangeTracking",
	"ManagedBy":                    "VirtualMachine.Config.ManagedBy",
	"VAppConfig":                   "VApp.ApplicationConfig", "VAppConfigRemoved": "VApp.ApplicationConfig",
	"InstanceUuid": "VirtualMachine.Config.Settings", "Uuid": "VirtualMachine.Config.Settings", "Tools": "VirtualMachine.Config.Settings",
	"Flags": "VirtualMachine.Config.Settings", "BootOptions": "VirtualMachine.Config.Settings", "PowerOpInfo": "VirtualMachine.Config.Settings",
	"ChangeVersion": "", "DeviceChange": "", "VmProfile": "",
}

// configNeeds returns the privileges that a change of a VM's configuration requires.
func configNeeds(spec *types.VirtualMachineConfigSpec, on types.ManagedObjectReference) (all []privilegeNeed) {
	add := func(is bool, privilege string) {
		if is && privilege != "" {
			all = append(all, privilegeNeed{privilege, on})
		}
	}
	for field, value := range reflect.ValueOf(spec).Elem().Fields() {
		add(!value.IsZero() && (value.Kind() != reflect.Slice || value.Len() > 0), configPrivileges[field.Name])
	}
	for _, change := range spec.DeviceChange {
		device, disk := change.GetVirtualDeviceConfigSpec().Device.(*types.VirtualDisk)
		switch operation := change.GetVirtualDeviceConfigSpec().Operation; {
		case operation == types.VirtualDeviceConfigSpecOperationEdit:
			add(true, "VirtualMachine.Config.EditDevice")
			add(disk && device.CapacityInBytes > 0, "VirtualMachine.Config.DiskExtend") // also for a disk that keeps its size
		case !disk:
			add(true, "VirtualMachine.Config.AddRemoveDevice")
		case operation == types.VirtualDeviceConfigSpecOperationRemove:
			add(true, "VirtualMachine.Config.RemoveDisk")
		case change.GetVirtualDeviceConfigSpec().FileOperation == "":
			add(true, "VirtualMachine.Config.AddExistingDisk")
		default:
			add(true, "VirtualMachine.Config.AddNewDisk")
		}
	}
	return all
}

// encryptionNeeds returns the privileges that a change of a VM requires because its files are, or become, encrypted.
//
// [doc] vSphere Security, Cryptographic Operations Privileges: "Encrypt: encrypt a virtual machine or a virtual machine disk"; "Add disk: add
// a disk to an encrypted virtual machine"; both on the virtual machine. "Encrypt new: ... or a disk during disk creation", on its folder.
func (v *rights) encryptionNeeds(spec *types.VirtualMachineConfigSpec, on types.ManagedObjectReference) (all []privilegeNeed) {
	vm, is := v.objects.Get(on).(*simulator.VirtualMachine)
	if !is {
		return nil
	}
	encrypts := v.profiles.encrypts(spec.VmProfile)
	for _, change := range spec.DeviceChange {
		c := change.GetVirtualDeviceConfigSpec()
		_, tpm := c.Device.(*types.VirtualTPM)
		_, disk := c.Device.(*types.VirtualDisk)
		adds := c.Operation == types.VirtualDeviceConfigSpecOperationAdd
		encrypts = encrypts || adds && tpm || !adds && v.profiles.encrypts(c.Profile)
		if adds && disk && encrypted(vm) {
			all = append(all, privilegeNeed{"Cryptographer.AddDisk", on})
		}
		if adds && disk && v.profiles.encrypts(c.Profile) && vm.Parent != nil {
			all = append(all, privilegeNeed{"Cryptographer.EncryptNew", *vm.Parent})
		}
	}
	if encrypts {
		all = append(all, privilegeNeed{"Cryptographer.Encrypt", on})
	}
	return all
}

// AdmitREST returns the fault if a client's call of the REST API is not permitted, or nil.
//
// [doc] vSphere Automation API, tagging: "the create category privilege", "the create tag privilege", "the attach tag
// privilege on the tag"; vcenter/ovf/library-item deploy: VApp.Import on the pool and the folder; content/library/subscribed-item sync:
// ContentLibrary.SyncLibraryItem. vSphere Security: Assign or Unassign vSphere Tag on Object.
func (v *rights) AdmitREST(r *http.Request) types.BaseMethodFault {
	var needed []string
	switch action := r.URL.Query().Get("~action"); {
	case strings.HasPrefix(action, "attach"), strings.HasPrefix(action, "detach"):
		needed = []string{"InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable"}
	case action == "deploy":
		needed = []string{"VApp.Import"}
	case strings.HasPrefix(r.URL.Path, restSyncItem):
		needed = []string{"ContentLibrary.SyncLibraryItem"}
	case r.Method == http.MethodPost && action == "" && r.URL.Path == restTagging+"/tag":
		needed = []string{"InventoryService.Tagging.CreateTag"}
	case r.Method == http.MethodPost && action == "" && r.URL.Path == restTagging+"/category":
		needed = []string{"InventoryService.Tagging.CreateCategory"}
	}
	for _, privilege := range needed {
		if !v.holds(privilege, v.world.Root()) {
			return &types.NoPermission{PrivilegeId: privilege}
		}
	}
	return nil
}

// authorizationManager reports privileges according to Restrict and Withdraw.
type authorizationManager struct {
	*simulator.AuthorizationManager
	v *rights
}

// FetchUserPrivilegeOnEntities ignores the user: all clients have one role.
func (a *authorizationManager) FetchUserPrivilegeOnEntities(req *types.FetchUserPrivilegeOnEntities) soap.HasFault {
	inner := a.AuthorizationManager.FetchUserPrivilegeOnEntities(req).(*methods.FetchUserPrivilegeOnEntitiesBody)
	for i := range inner.Res.Returnval {
		r := &inner.Res.Returnval[i]
		all := append(slices.Clone(r.Privileges), newPrivileges...)
		if a.v.role != nil {
			all = slices.Collect(maps.Keys(a.v.role.privileges))
		}
		r.Privileges = slices.DeleteFunc(all, func(p string) bool { return !a.v.holds(p, r.Entity) })
		slices.SortFunc(r.Privileges, cmp.Compare)
	}
	return inner
}

// newPrivileges are missing in the simulator's list, which is that of an older vCenter.
var newPrivileges = []string{
	"InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable", "InventoryService.Tagging.CreateTag",
	"InventoryService.Tagging.CreateCategory", "StorageProfile.View", "VirtualMachine.Config.ManagedBy",
}
