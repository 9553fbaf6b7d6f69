package recording

import (
	"slices"
	"strings"
)

// allowed are the texts that a recording keeps, by type and field of vSphere's API: VMware or govmomi chose them, not a user. Numbers,
// booleans, times, enumerations and the ids of managed objects are kept without being listed.
var allowed = []string{
	"AboutInfo.name", "AboutInfo.fullName", "AboutInfo.vendor", "AboutInfo.version", "AboutInfo.build", "AboutInfo.osType",
	"AboutInfo.productLineId", "AboutInfo.apiType", "AboutInfo.apiVersion",
	"PropertySpec.type", "PropertySpec.pathSet", "TraversalSpec.type", "TraversalSpec.path", "TraversalSpec.name", "SelectionSpec.name",
	"DynamicProperty.name", "PropertyChange.name", "MissingProperty.path",
	"UpdateSet.version", "WaitForUpdatesExRequestType.version",
	"TaskInfo.key", "TaskInfo.name", "TaskInfo.descriptionId", "TaskInfo.parentTaskKey", "TaskInfo.rootTaskKey",
	"VirtualMachineConfigInfo.changeVersion", "VirtualMachineConfigInfo.version", "VirtualMachineConfigInfo.guestId",
	"VirtualMachineConfigSpec.changeVersion", "VirtualMachineConfigSpec.version", "VirtualMachineConfigSpec.guestId",
	"VirtualMachineConfigOptionDescriptor.key",
	"GuestInfo.toolsStatus", "GuestInfo.toolsRunningStatus", "GuestInfo.toolsVersionStatus2", "GuestInfo.guestState", "GuestInfo.guestId",
	"GuestInfoCustomizationInfo.customizationStatus",
	"NetIpConfigInfoIpAddress.origin", "NetIpConfigInfoIpAddress.state",
	"EventFilterSpec.eventTypeId", "EventEx.eventTypeId",
	"LocalizableMessage.key", "NoPermission.privilegeId", "InvalidProperty.name", "InvalidArgument.invalidProperty", "UserPrivilegeResult.privileges",
	"Fault.faultcode", "VirtualDiskFlatVer2BackingInfo.diskMode",
}

// allowedPaths are the properties whose values are kept even if they are strings.
var allowedPaths = []string{
	"config.changeVersion", "config.version", "config.guestId", "guest.toolsStatus", "guest.toolsRunningStatus", "guest.toolsVersionStatus2",
	"guest.guestState", "info.descriptionId", "info.key", "info.name", "info.parentTaskKey",
}

// allowedKeys are the keys of extraConfig and options that are kept. Their values are replaced.
var allowedKeys = []string{"OverrideAutomationLevel",
	"guestinfo.metadata", "guestinfo.metadata.encoding", "guestinfo.userdata", "guestinfo.userdata.encoding", "guestinfo.ignition.config.data"}

// restAllowed are the fields of the vSphere Automation API whose texts are kept, and restIDs those with ids of managed objects.
var (
	restAllowed = map[string]bool{"type": true, "kind": true, "creation_type": true, "error_type": true, "cardinality": true, "cached": true}
	restIDs     = map[string]bool{"id": true, "vm_template": true, "object_id": true}
)

func isAllowed(at place, text string) bool {
	switch at.field {
	case "DynamicProperty.val", "PropertyChange.val":
		return slices.Contains(allowedPaths, at.path)
	case "OptionValue.key":
		return slices.Contains(allowedKeys, text) || strings.HasPrefix(text, "codeconnect.vmworld.com.vmgroup.") || strings.HasPrefix(text, "guestinfo.vmgroup-")
	}
	return slices.Contains(allowed, at.field)
}
