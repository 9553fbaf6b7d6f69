package role

import (
	"slices"
	"strings"

	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// calling is one method of vCenter's APIs that the server uses.
type calling struct {
	// needs are the privileges of the least role, and of Trial, that it can need.
	needs []string
	// doc is the source of that: the method's page in VMware's API reference if it is empty.
	doc string
}

// Where the privileges are documented. A SOAP method's own page says "Required privileges", in the Virtual Infrastructure JSON
// API: https://developer.broadcom.com/xapis/virtual-infrastructure-json-api/latest/
const (
	// docTasks: "Deploy a virtual machine from a template" needs, on the destination folder, Create from existing and Add
	// new disk; and Network.Assign on the network. "Moving an object ... requires appropriate privileges on the object
	// itself, the source parent object, and the destination parent object."
	// https://docs.vmware.com/en/VMware-vSphere/6.7/com.vmware.vsphere.vm_admin.doc/GUID-4D0F8E63-2961-4B71-B365-BBFA24673FDB.html
	docTasks = "Tasks"
	// docDestroy: "The appropriate privilege must be held on the parent of the destroyed entity as well as the entity itself."
	docDestroy = "on the parent, too"
	// docInventory: "a user or group must have this privilege assigned in both the object and its parent object."
	// https://docs.vmware.com/en/VMware-vSphere/8.0/vsphere-security/GUID-C81A92E3-4A73-4CE7-88D5-031079A53693.html
	docInventory = "Inventory"
	// docTags: https://developer.vmware.com/apis/vsphere-automation/latest/cis/tagging/tag_association/, and the names in
	// https://docs.vmware.com/en/VMware-vSphere/8.0/vsphere-security/GUID-2F8C5B02-7EF6-428A-BDB6-B2CC3D307097.html
	docTags = "Tags"
	// docLibrary: https://developer.broadcom.com/xapis/vsphere-automation-api/latest/api/vcenter/vm-template/library-items/templateLibraryItem/get/,
	// and the names in https://docs.vmware.com/en/VMware-vSphere/8.0/vsphere-security/GUID-D490C499-8D68-42A1-AEB2-781F1DDA8A93.html
	docLibrary = "Libraries"
	// docPBM: view is required on the root vCenter.
	// docDisks: the page says System.View or System.Read, and marks the datastore, which needs FileManagement as for the others.
	// OpenShift grants Datastore.FileManagement on the datastores of the vSphere CSI driver's disks.
	// https://github.com/openshift/installer: privileges.md among its documents for users of vSphere.
	docDisks = "OpenShift"
	docPBM   = "Storage"
)

// calls are all methods that the server and `vmgroup check` can use. REST calls are named as session.RESTCall names them.
var calls = map[string]calling{
	"RetrieveServiceContent":          {needs: []string{privAnyone}},
	"Login":                           {needs: []string{privAnyone}},
	"Logout":                          {needs: []string{privView}},
	"CurrentTime":                     {needs: []string{privView}},
	"RetrieveProperties":              {needs: []string{privAnyone, privRead}},
	"RetrievePropertiesEx":            {needs: []string{privAnyone, privRead}},
	"ContinueRetrievePropertiesEx":    {needs: []string{privAnyone, privRead}},
	"CreatePropertyCollector":         {needs: []string{privView}},
	"DestroyPropertyCollector":        {needs: []string{privView}},
	"CreateFilter":                    {needs: []string{privView, privRead}},
	"DestroyPropertyFilter":           {needs: []string{privView}},
	"WaitForUpdatesEx":                {needs: []string{privView}},
	"FindByInventoryPath":             {needs: []string{privView}},
	"FindChild":                       {needs: []string{privView}},
	"QueryEvents":                     {needs: []string{privView}},
	"CreateCollectorForEvents":        {needs: []string{privView}},
	"ReadNextEvents":                  {needs: []string{privView}, doc: "as CreateCollectorForEvents"},
	"DestroyCollector":                {needs: []string{privView}, doc: "as CreateCollectorForEvents"},
	"FindExtension":                   {needs: []string{privView}},
	"RecommendDatastores":             {needs: []string{privView, "Datastore.AllocateSpace", "Resource.AssignVMToPool", "VirtualMachine.Provisioning.DeployTemplate"}, doc: "and those of the clone"},
	"FetchUserPrivilegeOnEntities":    {needs: []string{privView}},
	"CreateFolder":                    {needs: []string{"Folder.Create"}},
	"UnregisterAndDestroy_Task":       {needs: []string{"Folder.Delete", privUnregister}, doc: "Unregister: for a folder with VMs, " + docInventory},
	"RegisterVM_Task":                 {needs: []string{"VirtualMachine.Inventory.Register", "Resource.AssignVMToPool"}},
	"MoveIntoFolder_Task":             {needs: []string{"VirtualMachine.Inventory.Move"}, doc: "on both folders, too: " + docTasks},
	"CloneVM_Task":                    {needs: []string{"VirtualMachine.Provisioning.DeployTemplate", "VirtualMachine.Provisioning.Clone", "VirtualMachine.Inventory.CreateFromExisting", "VirtualMachine.Config.AddNewDisk", "Resource.AssignVMToPool", "Datastore.AllocateSpace", "Network.Assign", "VirtualMachine.Provisioning.Customize", "VirtualMachine.Config.CPUCount", "VirtualMachine.Config.Memory", "VirtualMachine.Config.AdvancedConfig", "VirtualMachine.Config.Settings", "VirtualMachine.Config.Annotation", "VirtualMachine.Config.ManagedBy", "VirtualMachine.Config.AddRemoveDevice", "VirtualMachine.Config.Resource", "VirtualMachine.Config.EditDevice", "VirtualMachine.Config.DiskExtend", "VApp.ApplicationConfig"}, doc: "an encrypted template also needs Cryptographer.Clone; AddNewDisk, Network.Assign: " + docTasks + "; Config: as ReconfigVM_Task"},
	"ReconfigVM_Task":                 {needs: []string{"VirtualMachine.Config.AdvancedConfig", "VirtualMachine.Config.CPUCount", "VirtualMachine.Config.Memory", "VirtualMachine.Config.Rename", "VirtualMachine.Config.Annotation", "VirtualMachine.Config.ManagedBy", "VirtualMachine.Config.RemoveDisk", "VirtualMachine.Config.AddNewDisk", "VirtualMachine.Config.AddExistingDisk", "VirtualMachine.Config.ChangeTracking", "VirtualMachine.Config.EditDevice", "VirtualMachine.Config.DiskExtend"}},
	"Destroy_Task":                    {needs: []string{"VirtualMachine.Inventory.Delete"}, doc: docDestroy},
	"PowerOnVM_Task":                  {needs: []string{"VirtualMachine.Interact.PowerOn"}, doc: docTasks + " names the datacenter, too"},
	"PowerOnMultiVM_Task":             {needs: []string{"VirtualMachine.Interact.PowerOn", privView}, doc: "System.View on the datacenter"},
	"PowerOffVM_Task":                 {needs: []string{"VirtualMachine.Interact.PowerOff"}},
	"ResetVM_Task":                    {needs: []string{"VirtualMachine.Interact.Reset"}},
	"ShutdownGuest":                   {needs: []string{"VirtualMachine.Interact.PowerOff"}},
	"ReconfigureComputeResource_Task": {needs: []string{"Host.Inventory.EditCluster"}},
	"AddCustomFieldDef":               {needs: []string{"Global.ManageCustomFields"}},
	"SetField":                        {needs: []string{"Global.SetCustomField"}},
	"GetCustomizationSpec":            {needs: []string{"VirtualMachine.Provisioning.ReadCustSpecs"}},

	"CreateDisk_Task":                            {needs: []string{privFiles, "Datastore.AllocateSpace", "StorageProfile.View"}, doc: docDisks},
	"ListVStorageObject":                         {needs: []string{privRead, privFiles}, doc: docDisks},
	"RetrieveVStorageObject":                     {needs: []string{privRead, privFiles}, doc: docDisks},
	"RetrieveVStorageObjectAssociations":         {needs: []string{privRead, privFiles}, doc: docDisks},
	"VCenterUpdateVStorageObjectMetadataEx_Task": {needs: []string{privFiles}},
	"ExtendDisk_Task":                            {needs: []string{privFiles, "VirtualMachine.Config.DiskExtend"}, doc: docDisks},
	"DeleteVStorageObject_Task":                  {needs: []string{privFiles}},

	"PbmRetrieveServiceContent": {needs: []string{privView}, doc: docPBM},
	"PbmQueryProfile":           {needs: []string{"StorageProfile.View"}, doc: docPBM},
	"PbmRetrieveContent":        {needs: []string{"StorageProfile.View"}, doc: docPBM},
	"PbmCheckRequirements":      {needs: []string{"StorageProfile.View"}, doc: docPBM},

	"POST session":                                  {needs: []string{privAnyone}},
	"GET session":                                   {needs: []string{privView}},
	"DELETE session":                                {needs: []string{privView}},
	"GET tagging/category":                          {needs: []string{privRead}, doc: docTags},
	"GET tagging/tag":                               {needs: []string{privRead}, doc: docTags},
	"tagging/tag list-tags-for-category":            {needs: []string{privRead}, doc: docTags},
	"tagging/tag-association list-attached-tags":    {needs: []string{privRead}, doc: docTags},
	"tagging/tag-association " + session.AttachTags: {needs: []string{privTagging + "AttachTag", privTagging + "ObjectAttachable", privRead}, doc: docTags},
	"tagging/tag-association " + session.DetachTags: {needs: []string{privTagging + "AttachTag", privTagging + "ObjectAttachable", privRead}, doc: docTags},
	"POST tagging/category":                         {needs: []string{privTagging + "CreateCategory"}, doc: docTags},
	"content/library find":                          {needs: []string{privRead}, doc: docLibrary},
	"content/library/item find":                     {needs: []string{privRead}, doc: docLibrary},
	"GET content/library":                           {needs: []string{privRead}, doc: docLibrary},
	"GET content/library/item":                      {needs: []string{privRead}, doc: docLibrary},
	"GET vcenter/vm-template/library-items":         {needs: []string{privRead}, doc: docLibrary},
	"POST tagging/tag":                              {needs: []string{privTagging + "CreateTag"}, doc: docTags},
}

// Outside returns the calls, by their names in the metrics or in the embedded vCenter's Calls, that
// are not among the methods that the least role covers.
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

// plainCall returns the name of a call as in calls: a REST call can be named
// "POST /rest/com/vmware/cis/tagging/tag/id:?~action=list-tags-for-category".
func plainCall(name string) string {
	method, path, is := strings.Cut(name, " /rest/")
	if !is {
		return name
	}
	path, action, _ := strings.Cut(path, "?~action=")
	return session.RESTName(method, path, action)
}
