package role

import "slices"

// Scope is the kind of object on which a privilege is needed.
type Scope string

// The kinds of objects on which privileges are needed. Permissions must propagate to children, so that one on --folder, the root folder of all groups, is also
// one on the groups' folders and on the members in them; except for those on the root, which need not.
const (
	OnRoot      Scope = "root"
	OnGlobal    Scope = "global"
	OnFolder    Scope = "`--folder`"
	OnTemplate  Scope = "templates"
	OnPool      Scope = "pools"
	OnDatastore Scope = "datastores"
	OnNetwork   Scope = "networks"
	OnCluster   Scope = "clusters"
)

// Privilege is one line of the least role: a privilege that the server's user needs, and why.
type Privilege struct {
	// ID is vCenter's id of the privilege, such as "VirtualMachine.Config.AdvancedConfig".
	ID string
	// On are the kinds of objects on which the privilege is needed.
	On []Scope
	// Why is what the server needs the privilege for.
	Why string
	// Without is what does not work without the privilege; empty if the server then can't create or remove any member.
	Without string
	// Also names other objects on which some groups need the privilege.
	Also string
}

// Needed reports whether the server can't create or remove any member without the privilege.
func (p Privilege) Needed() bool { return p.Without == "" }

const (
	privView    = "System.View"
	privRead    = "System.Read"
	privAnyone  = "System.Anonymous"
	privTagging = "InventoryService.Tagging."

	privFiles      = "Datastore.FileManagement"
	privUnregister = "VirtualMachine.Inventory.Unregister"
)

// ExtensionKey is the key under which an administrator can register this server with vCenter. vCenter then warns people who
// edit the server's VMs.
const ExtensionKey = "com.vmworld.codeconnect.vmgroup"

// Least returns the least role of the server's user, in the order of the table in docs/reference.md. No call of the server needs
// another privilege; Outside lists exceptions.
func Least() []Privilege { return slices.Clone(least) }

var least = []Privilege{
	{ID: privView, On: []Scope{OnRoot}, Why: "the inventory"},
	{ID: privRead, On: []Scope{OnRoot, OnFolder, OnTemplate, OnPool, OnDatastore, OnNetwork}, Why: "the inventory", Also: "distributed switches; global, for content libraries"},
	{ID: "Folder.Create", On: []Scope{OnFolder}, Why: "the groups' folders", Also: "the VM folder, if `--folder` does not exist; `placement.folder`"},
	{ID: "Folder.Delete", On: []Scope{OnFolder}, Why: "the folder of a deleted group", Also: "`placement.folder`"},
	{ID: "VirtualMachine.Provisioning.DeployTemplate", On: []Scope{OnTemplate}, Why: "clone"},
	{ID: "VirtualMachine.Inventory.CreateFromExisting", On: []Scope{OnFolder}, Why: "clone into the folder"},
	{ID: "VirtualMachine.Config.AddNewDisk", On: []Scope{OnFolder}, Why: "the disks of a clone"},
	{ID: "VirtualMachine.Inventory.Delete", On: []Scope{OnFolder}, Why: "destroy"},
	{ID: "VirtualMachine.Config.CPUCount", On: []Scope{OnFolder}, Why: "the size of a clone; resize"},
	{ID: "VirtualMachine.Config.Memory", On: []Scope{OnFolder}, Why: "the size of a clone; resize"},
	{ID: "VirtualMachine.Config.AdvancedConfig", On: []Scope{OnFolder}, Why: "the stamp; user data", Also: "VMs to adopt"},
	{ID: "VirtualMachine.Interact.PowerOn", On: []Scope{OnFolder}, Why: "power"},
	{ID: "VirtualMachine.Interact.PowerOff", On: []Scope{OnFolder}, Why: "power; asking a guest to shut down"},
	{ID: "Datastore.AllocateSpace", On: []Scope{OnDatastore}, Why: "the files of a clone"},
	{ID: "Resource.AssignVMToPool", On: []Scope{OnPool}, Why: "where a clone runs"},
	{ID: "Network.Assign", On: []Scope{OnNetwork}, Why: "a clone's networks"},

	{ID: privRead, On: []Scope{OnCluster}, Why: "DRS, and the hosts of the clusters", Without: "no `placement.antiAffinity` and `placement.hostGroup`; without DRS, vCenter alone chooses the hosts of clones"},
	{ID: "VirtualMachine.Config.Settings", On: []Scope{OnFolder}, Why: "the instanceUuid in a clone's spec; `hardware.bootFirst`, `.secureBoot`, `.bootDelaySeconds`", Without: "no `hardware.bootFirst`, `.secureBoot` and `.bootDelaySeconds`; clones fail where vCenter asks for it (`vmgroup check --deep` shows it)"},
	{ID: "VirtualMachine.Interact.Reset", On: []Scope{OnFolder}, Why: "heal (`action: RestartThenReplace`)", Without: "members are not restarted (`healing.action`)"},
	{ID: "Resource.ColdMigrate", On: []Scope{OnFolder}, Why: "without DRS: move a member that is off away from a host in maintenance", Without: "without DRS, a member that is off on a host in maintenance stays off"},
	{ID: "VirtualMachine.Config.RemoveDisk", On: []Scope{OnFolder}, Why: "detach persistent `disks`, and disks from elsewhere", Without: "no persistent `disks`; a VM that got a disk from elsewhere is not destroyed"},
	{ID: "VirtualMachine.Config.Rename", On: []Scope{OnFolder}, Why: "quarantine, adopt, Retain of what was adopted", Without: "no quarantine and no adoption", Also: "VMs to adopt"},
	{ID: "VirtualMachine.Inventory.Move", On: []Scope{OnFolder}, Why: "quarantine, adopt", Without: "no quarantine and no adoption", Also: "VMs to adopt, and their folders"},
	{ID: "VirtualMachine.Config.Annotation", On: []Scope{OnFolder}, Why: "the members' notes say who owns them", Without: "members have the template's notes"},
	{ID: "VirtualMachine.Config.ManagedBy", On: []Scope{OnFolder}, Why: "`managedBy`, where the extension `" + ExtensionKey + "` is registered", Without: "vCenter does not warn people who edit members"},
	{ID: "VirtualMachine.Config.AddRemoveDevice", On: []Scope{OnFolder}, Why: "`networks`: a clone's own adapters; `hardware.pciDevices`, `hardware.vtpm`", Without: "no `networks`, no `hardware.pciDevices`, no `hardware.vtpm`"},
	{ID: "VApp.ApplicationConfig", On: []Scope{OnFolder}, Why: "remove a template's vApp properties, which cloud-init prefers to guestinfo", Without: "no templates with vApp properties, except with a `customizationSpec`"},
	{ID: "VApp.Import", On: []Scope{OnFolder, OnPool}, Why: "deploy OVFs of content libraries", Without: "no OVF of a content library as a template"},
	{ID: "VirtualMachine.Provisioning.MarkAsTemplate", On: []Scope{OnFolder}, Why: "deploy OVFs of content libraries", Without: "no OVF of a content library as a template"},
	{ID: "ContentLibrary.SyncLibraryItem", On: []Scope{OnGlobal}, Why: "OVFs of a subscribed library that are not downloaded yet", Without: "an OVF of a subscribed library must be downloaded by hand"},
	{ID: "Datastore.FileManagement", On: []Scope{OnDatastore}, Why: "persistent `disks`: create, find, extend, delete", Without: "no persistent `disks`"},
	{ID: "VirtualMachine.Config.AddExistingDisk", On: []Scope{OnFolder}, Why: "persistent `disks`: attach", Without: "no persistent `disks`"},
	{ID: "VirtualMachine.Config.ChangeTracking", On: []Scope{OnFolder}, Why: "persistent `disks` with changed block tracking", Without: "no persistent `disks` with changed block tracking (MissingPrivilege)"},
	{ID: "VirtualMachine.Config.Resource", On: []Scope{OnFolder}, Why: "`hardware`: reservations, limits and shares", Without: "no reservations, limits and shares (`hardware`)"},
	{ID: "VirtualMachine.Config.UpgradeVirtualHardware", On: []Scope{OnFolder}, Why: "`hardware.version`: upgrade clones of an older template", Without: "no `hardware.version` newer than the template's"},
	{ID: "Cryptographer.Encrypt", On: []Scope{OnFolder}, Why: "`storagePolicy` that encrypts; `hardware.vtpm`, where the template has none", Without: "no `storagePolicy` that encrypts, and no `hardware.vtpm` unless the template has one"},
	{ID: "Cryptographer.EncryptNew", On: []Scope{OnFolder}, Why: "clones of encrypted templates; more `disks` that a `storagePolicy` encrypts", Without: "no clones of encrypted templates; members get no more `disks` that a `storagePolicy` encrypts"},
	{ID: "Cryptographer.AddDisk", On: []Scope{OnFolder}, Why: "`disks` of encrypted members", Without: "encrypted members get no persistent `disks`, and no more `disks`"},
	{ID: "VirtualMachine.Config.EditDevice", On: []Scope{OnFolder}, Why: "grow `disks` of the VM; `storagePolicy` that encrypts", Without: "`disks` of a VM keep their size until it is replaced; no `storagePolicy` that encrypts"},
	{ID: "VirtualMachine.Config.DiskExtend", On: []Scope{OnFolder}, Why: "grow `disks`", Without: "`disks` keep their size"},
	{ID: "VirtualMachine.Provisioning.Customize", On: []Scope{OnTemplate}, Why: "`customizationSpec`", Without: "no `customizationSpec`"},
	{ID: "VirtualMachine.Provisioning.ReadCustSpecs", On: []Scope{OnRoot}, Why: "`customizationSpec`", Without: "no `customizationSpec`"},
	{ID: "StorageProfile.View", On: []Scope{OnRoot}, Why: "`storagePolicy`", Without: "no `storagePolicy`"},
	{ID: "Host.Inventory.EditCluster", On: []Scope{OnCluster}, Why: "`placement.antiAffinity`, `placement.hostGroup`", Without: "no `placement.antiAffinity` and `placement.hostGroup`"},
	{ID: privTagging + "AttachTag", On: []Scope{OnGlobal}, Why: "`tags`", Without: "no `tags`"},
	{ID: privTagging + "ObjectAttachable", On: []Scope{OnFolder}, Why: "`tags`", Without: "no `tags`"},
	{ID: privTagging + "CreateTag", On: []Scope{OnGlobal}, Why: "`tags` with `create: true`", Without: "no tag is created (`create: true`)"},
	{ID: privTagging + "CreateCategory", On: []Scope{OnGlobal}, Why: "`tags` with `create: true`", Without: "no category is created (`create: true`)"},
	{ID: "Global.SetCustomField", On: []Scope{OnFolder}, Why: "`customAttributes`", Without: "no `customAttributes`"},
	{ID: "Global.ManageCustomFields", On: []Scope{OnRoot}, Why: "`customAttributes` that are not there yet", Without: "no custom attribute is created"},
}

// Trial returns privileges that the server never needs, and that are not in the least role. Without them, `vmgroup check --deep` skips some
// experiments.
func Trial() []Privilege { return slices.Clone(trial) }

var trial = []Privilege{
	{ID: privUnregister, On: []Scope{OnFolder}, Why: "remove a folder that contains the trial's VM, to see that its files stay"},
	{ID: "VirtualMachine.Inventory.Register", On: []Scope{OnFolder}, Why: "register that VM again"},
	{ID: "VirtualMachine.Provisioning.Clone", On: []Scope{OnFolder}, Why: "clone the trial's VM, to see what tells a copy from it"},
}
