package role

import (
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// calls are all methods that the server and `vmgroup check` call, each with the privileges of the least role and of Trial that it can
// need. REST calls have the names of session.RESTCall.
//
// A SOAP method's own page says "Required privileges", in the Virtual Infrastructure JSON API:
// https://developer.broadcom.com/xapis/virtual-infrastructure-json-api/latest/. The comments behind the calls name what else documents them:
//
//   - Tasks: "Deploy a virtual machine from a template" needs, on the destination folder, Create from existing and Add new disk; and
//     Network.Assign on the network. "Moving an object ... requires appropriate privileges on the object itself, the source parent object,
//     and the destination parent object."
//     https://docs.vmware.com/en/VMware-vSphere/6.7/com.vmware.vsphere.vm_admin.doc/GUID-4D0F8E63-2961-4B71-B365-BBFA24673FDB.html
//   - on the parent, too: "The appropriate privilege must be held on the parent of the destroyed entity as well as the entity itself."
//   - Inventory: "a user or group must have this privilege assigned in both the object and its parent object."
//     https://docs.vmware.com/en/VMware-vSphere/8.0/vsphere-security/GUID-C81A92E3-4A73-4CE7-88D5-031079A53693.html
//   - Tags: https://developer.vmware.com/apis/vsphere-automation/latest/cis/tagging/tag_association/, and the names in
//     https://docs.vmware.com/en/VMware-vSphere/8.0/vsphere-security/GUID-2F8C5B02-7EF6-428A-BDB6-B2CC3D307097.html
//   - Libraries: https://developer.broadcom.com/xapis/vsphere-automation-api/latest/api/vcenter/vm-template/library-items/templateLibraryItem/get/,
//     and the names in https://docs.vmware.com/en/VMware-vSphere/8.0/vsphere-security/GUID-D490C499-8D68-42A1-AEB2-781F1DDA8A93.html
//   - Browser: https://developer.broadcom.com/xapis/vsphere-automation-api/latest/vcenter/environment_browser/config_option_descriptors
//   - Storage (Profile-Driven Storage): view is required on the root vCenter.
//   - OpenShift: the page says System.View or System.Read, and marks the datastore, which needs FileManagement as for the others. OpenShift
//     grants Datastore.FileManagement on the datastores of the vSphere CSI driver's disks (https://github.com/openshift/installer:
//     privileges.md among its documents for users of vSphere).
var calls = map[string][]string{
	"RetrieveServiceContent":          {privAnyone},
	"Login":                           {privAnyone},
	"Logout":                          {privView},
	"CurrentTime":                     {privView},
	"RetrieveProperties":              {privAnyone, privRead},
	"RetrievePropertiesEx":            {privAnyone, privRead},
	"ContinueRetrievePropertiesEx":    {privAnyone, privRead},
	"CreatePropertyCollector":         {privView},
	"DestroyPropertyCollector":        {privView},
	"CreateFilter":                    {privView, privRead},
	"DestroyPropertyFilter":           {privView},
	"WaitForUpdatesEx":                {privView},
	"FindByInventoryPath":             {privView},
	"FindChild":                       {privView},
	"CreateCollectorForEvents":        {privView},
	"ReadNextEvents":                  {privView}, // as CreateCollectorForEvents
	"DestroyCollector":                {privView}, // as CreateCollectorForEvents
	"FindExtension":                   {privView},
	"RecommendDatastores":             {privView, "Datastore.AllocateSpace", "Resource.AssignVMToPool", "VirtualMachine.Provisioning.DeployTemplate"}, // and those of the clone
	"FetchUserPrivilegeOnEntities":    {privView},
	"CreateFolder":                    {"Folder.Create"},
	"UnregisterAndDestroy_Task":       {"Folder.Delete", privUnregister}, // Unregister: for a folder with VMs, Inventory
	"RegisterVM_Task":                 {"VirtualMachine.Inventory.Register", "Resource.AssignVMToPool"},
	"MoveIntoFolder_Task":             {"VirtualMachine.Inventory.Move"}, // on both folders, too: Tasks
	"MarkAsTemplate":                  {"VirtualMachine.Provisioning.MarkAsTemplate"},
	"CloneVM_Task":                    {"VirtualMachine.Provisioning.DeployTemplate", "VirtualMachine.Provisioning.Clone", "VirtualMachine.Inventory.CreateFromExisting", "VirtualMachine.Config.AddNewDisk", "Resource.AssignVMToPool", "Datastore.AllocateSpace", "Network.Assign", "VirtualMachine.Provisioning.Customize", "VirtualMachine.Config.CPUCount", "VirtualMachine.Config.Memory", "VirtualMachine.Config.AdvancedConfig", "VirtualMachine.Config.Settings", "VirtualMachine.Config.Annotation", "VirtualMachine.Config.ManagedBy", "VirtualMachine.Config.AddRemoveDevice", "VirtualMachine.Config.Resource", "VirtualMachine.Config.EditDevice", "VirtualMachine.Config.DiskExtend", "VApp.ApplicationConfig"}, // an encrypted template also needs Cryptographer.Clone; AddNewDisk, Network.Assign: Tasks; Config: as ReconfigVM_Task
	"ReconfigVM_Task":                 {"VirtualMachine.Config.AdvancedConfig", "VirtualMachine.Config.CPUCount", "VirtualMachine.Config.Memory", "VirtualMachine.Config.Resource", "VirtualMachine.Config.Rename", "VirtualMachine.Config.Annotation", "VirtualMachine.Config.ManagedBy", "VirtualMachine.Config.Settings", "VirtualMachine.Config.RemoveDisk", "VirtualMachine.Config.AddNewDisk", "VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.ChangeTracking", "VirtualMachine.Config.EditDevice", "VirtualMachine.Config.DiskExtend", "VirtualMachine.Config.AddRemoveDevice", "Cryptographer.Encrypt", "Cryptographer.EncryptNew", "Cryptographer.AddDisk"},                                           // Cryptographer: vSphere Security, Cryptographic Operations Privileges
	"QueryConfigOptionDescriptor":     {privView},                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                              // of the cluster: Browser
	"UpgradeVM_Task":                  {"VirtualMachine.Config.UpgradeVirtualHardware"},
	"Destroy_Task":                    {"VirtualMachine.Inventory.Delete"},           // on the parent, too
	"PowerOnVM_Task":                  {"VirtualMachine.Interact.PowerOn"},           // Tasks names the datacenter, too
	"PowerOnMultiVM_Task":             {"VirtualMachine.Interact.PowerOn", privView}, // System.View on the datacenter
	"RelocateVM_Task":                 {"Resource.ColdMigrate"},                      // of a VM that is off, within its pool
	"PowerOffVM_Task":                 {"VirtualMachine.Interact.PowerOff"},
	"ResetVM_Task":                    {"VirtualMachine.Interact.Reset"},
	"ShutdownGuest":                   {"VirtualMachine.Interact.PowerOff"},
	"ReconfigureComputeResource_Task": {"Host.Inventory.EditCluster"},
	"AddCustomFieldDef":               {"Global.ManageCustomFields"},
	"SetField":                        {"Global.SetCustomField"},
	"GetCustomizationSpec":            {"VirtualMachine.Provisioning.ReadCustSpecs"},

	"CreateDisk_Task":                            {privFiles, "Datastore.AllocateSpace", "StorageProfile.View"}, // OpenShift
	"ListVStorageObject":                         {privRead, privFiles},                                         // OpenShift
	"RetrieveVStorageObject":                     {privRead, privFiles},                                         // OpenShift
	"RetrieveVStorageObjectAssociations":         {privRead, privFiles},                                         // OpenShift
	"VCenterUpdateVStorageObjectMetadataEx_Task": {privFiles},
	"ExtendDisk_Task":                            {privFiles, "VirtualMachine.Config.DiskExtend"}, // OpenShift
	"DeleteVStorageObject_Task":                  {privFiles},

	"PbmRetrieveServiceContent": {privView},              // Storage
	"PbmQueryProfile":           {"StorageProfile.View"}, // Storage
	"PbmRetrieveContent":        {"StorageProfile.View"}, // Storage
	"PbmCheckRequirements":      {"StorageProfile.View"}, // Storage

	"PbmQueryIOFiltersFromProfileId": {"StorageProfile.View"}, // Storage

	"GET /about":                         {privAnyone}, // of govmomi's simulator alone
	"POST session":                       {privAnyone},
	"GET session":                        {privView},
	"DELETE session":                     {privView},
	"GET tagging/category":               {privRead}, // Tags
	"GET tagging/tag":                    {privRead}, // Tags
	"tagging/tag list-tags-for-category": {privRead}, // Tags
	"tagging/tag-association list-attached-tags":    {privRead},                                                              // Tags
	"tagging/tag-association " + session.AttachTags: {privTagging + "AttachTag", privTagging + "ObjectAttachable", privRead}, // Tags
	"tagging/tag-association " + session.DetachTags: {privTagging + "AttachTag", privTagging + "ObjectAttachable", privRead}, // Tags
	"POST tagging/category":                         {privTagging + "CreateCategory"},                                        // Tags
	"content/library find":                          {privRead},                                                              // Libraries
	"content/library/item find":                     {privRead},                                                              // Libraries
	"GET content/library":                           {privRead},                                                              // Libraries
	"GET content/library/item":                      {privRead},                                                              // Libraries
	"GET vcenter/vm-template/library-items":         {privRead},                                                              // Libraries
	"vcenter/ovf/library-item filter":               {privRead},                                                              // Libraries
	session.DeployOVF:                               {"VApp.Import", "Datastore.AllocateSpace", "Network.Assign", privRead},  // its page; Tasks
	session.SyncItem:                                {"ContentLibrary.SyncLibraryItem"},                                      // its page
	"POST tagging/tag":                              {privTagging + "CreateTag"},                                             // Tags
}

// Outside returns the calls that are not among the methods that the least role covers. Calls have their names in the metrics or in the embedded
// vCenter's Calls.
func Outside(made map[string]int) []string {
	var outside []string
	for name := range made {
		if _, known := calls[plainCall(name)]; !known {
			outside = append(outside, name)
		}
	}
	slices.Sort(outside)
	return outside
}

// plainCall returns a call's name as calls has it: the embedded vCenter names a REST call, for example,
// "POST /rest/com/vmware/cis/tagging/tag/id:?~action=list-tags-for-category".
func plainCall(name string) string {
	method, path, is := strings.Cut(name, " /rest/")
	if !is {
		return name
	}
	path, action, _ := strings.Cut(path, "?~action=")
	return session.RESTName(method, path, action)
}
