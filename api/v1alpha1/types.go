package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is the kind of a VmGroup.
const Kind = "VmGroup"

// GroupVersion is the API group and version of this package's types.
var GroupVersion = schema.GroupVersion{Group: "vm.codeconnect.vmworld.com", Version: "v1alpha1"}

// Bounds of the spec. The CRD's schema states the same numbers; a test compares the two.
const (
	// MaxNameLength bounds a group's name so that "<name>-<ordinal>", the name of a member, stays a DNS
	// label of at most 63 characters (and so within vSphere's 80) with ordinals of up to five digits.
	MaxNameLength = 57
	// MaxCPU is the most virtual CPUs a VM can have (VMware Configuration Maximums, vSphere 8: 768).
	MaxCPU = 768
	// MaxMemory is the most memory a VM can have, in GiB (VMware Configuration Maximums, vSphere 8: 24 TB).
	MaxMemory = 24576
	// MaxTemplateLength bounds the template's name or inventory path, in characters.
	MaxTemplateLength = 512
	// MaxReplicas bounds the members of a group, and each field that is a number or a percentage of members.
	MaxReplicas = 1000
	// MaxStandby bounds the standby members of a group.
	MaxStandby = 100
	// DefaultReplicas is the number of members if spec.replicas is not set.
	DefaultReplicas = 1
)

// VmGroup is a group of virtual machines in vSphere that are cloned from one template.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:shortName=vg,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.currentReplicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="PENDING, RUNNING or ERROR"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.currentReplicas`,description="Members that exist in vCenter"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`,description="Members that the spec asks for"
// +kubebuilder:printcolumn:name="CPU",type=integer,JSONPath=`.spec.cpu`,description="Virtual CPUs of a member"
// +kubebuilder:printcolumn:name="Memory",type=integer,JSONPath=`.spec.memory`,description="Memory of a member, in GiB"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`,description="The template that members are cloned from"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Members that are ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the group was created"
// +kubebuilder:printcolumn:name="Last_Message",type=string,JSONPath=`.status.summary`,description="What is happening, or what prevents it: the beginning of status.lastMessage"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,priority=1,description="Members that have been ready for long enough (with -o wide)"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`,priority=1,description="Members that match the spec"
// +kubebuilder:printcolumn:name="Standby",type=integer,JSONPath=`.status.standbyReplicas`,priority=1,description="Standby members: cloned, prepared and powered off"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why the group is ready or not: docs/troubleshooting.md explains each reason"
// +kubebuilder:printcolumn:name="VCenter",type=string,JSONPath=`.metadata.labels.vm\.codeconnect\.vmworld\.com/vcenter`,priority=1,description="The install that is to serve the group; empty for the default one"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 57 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label of at most 57 characters (a-z, 0-9 and '-'; no dots), because members are named <name>-<ordinal>",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.scaleIn) || !has(self.spec.scaleIn.protected) || self.spec.scaleIn.protected.all(e, e.matches('-(0|[1-9][0-9]{0,4})$') && e.substring(0, e.lastIndexOf('-')) == self.metadata.name)",message="must be names of members of this group, <metadata.name>-<ordinal>",messageExpression="'must be names of members of this group, such as ' + self.metadata.name + '-0'",fieldPath=".spec.scaleIn.protected",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.spec.scaleIn) || !has(self.spec.scaleIn.remove) || self.spec.scaleIn.remove.all(e, e.matches('-(0|[1-9][0-9]{0,4})$') && e.substring(0, e.lastIndexOf('-')) == self.metadata.name)",message="must be names of members of this group, <metadata.name>-<ordinal>",messageExpression="'must be names of members of this group, such as ' + self.metadata.name + '-0'",fieldPath=".spec.scaleIn.remove",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.spec.replace) || self.spec.replace.all(e, e.name.matches('-(0|[1-9][0-9]{0,4})$') && e.name.substring(0, e.name.lastIndexOf('-')) == self.metadata.name)",message="must be names of members of this group, <metadata.name>-<ordinal>",messageExpression="'must be names of members of this group, such as ' + self.metadata.name + '-0'",fieldPath=".spec.replace",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?status.?currentReplicas.orValue(0) == 0 && oldSelf.spec.?standby.orValue(0) + self.?status.?standbyReplicas.orValue(0) == 0 && self.?status.?phase.orValue(\"\") != \"PENDING\" || (has(self.spec.placement) && has(self.spec.placement.datacenter) ? self.spec.placement.datacenter : \"\") == (has(oldSelf.spec.placement) && has(oldSelf.spec.placement.datacenter) ? oldSelf.spec.placement.datacenter : \"\")",message="cannot be changed while the group has members, or is getting some: scale it (and spec.standby) to 0 first, or make another group",fieldPath=".spec.placement.datacenter",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?status.?currentReplicas.orValue(0) == 0 && oldSelf.spec.?standby.orValue(0) + self.?status.?standbyReplicas.orValue(0) == 0 && self.?status.?phase.orValue(\"\") != \"PENDING\" || (has(self.spec.placement) && has(self.spec.placement.folder) ? self.spec.placement.folder : \"\") == (has(oldSelf.spec.placement) && has(oldSelf.spec.placement.folder) ? oldSelf.spec.placement.folder : \"\")",message="cannot be changed while the group has members, or is getting some: scale it (and spec.standby) to 0 first, or make another group",fieldPath=".spec.placement.folder",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.spec.service) || self.metadata.name.matches('^[a-z]')",message="the Service has the group's name, which must then begin with a letter: rename the group, or remove service",fieldPath=".spec.service",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?status.?currentReplicas.orValue(0) == 0 && self.?status.?phase.orValue(\"\") != \"PENDING\" || !has(oldSelf.spec.disks) || has(self.spec.disks) && [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13].all(i, i >= oldSelf.spec.disks.size() || i < self.spec.disks.size() && self.spec.disks[i].name == oldSelf.spec.disks[i].name && self.spec.disks[i].?persistent.orValue(false) == oldSelf.spec.disks[i].?persistent.orValue(false))",message="disks can only be added, at the end, while the group has members: put those that were there back, in their order, or scale the group to 0 first",fieldPath=".spec.disks",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?status.?currentReplicas.orValue(0) == 0 && self.?status.?phase.orValue(\"\") != \"PENDING\" || !has(oldSelf.spec.disks) || !has(self.spec.disks) || [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13].all(i, i >= oldSelf.spec.disks.size() || i >= self.spec.disks.size() || self.spec.disks[i].name != oldSelf.spec.disks[i].name || self.spec.disks[i].sizeGiB >= oldSelf.spec.disks[i].sizeGiB)",message="a disk cannot shrink: set sizeGiB to at least what it was, or scale the group to 0 first",fieldPath=".spec.disks",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?status.?currentReplicas.orValue(0) == 0 && self.?status.?phase.orValue(\"\") != \"PENDING\" || self.spec.?rootDisk.?sizeGiB.orValue(0) >= oldSelf.spec.?rootDisk.?sizeGiB.orValue(0)",message="a disk cannot shrink: set sizeGiB to at least what it was, or scale the group to 0 first",fieldPath=".spec.rootDisk",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.spec.disks) || self.spec.?replicas.orValue(1) * self.spec.disks.filter(d, d.?persistent.orValue(false)).size() <= 4000",message="replicas times the persistent disks of a member must be at most 4000: use fewer replicas, or several groups",fieldPath=".spec.replicas",reason=FieldValueInvalid
type VmGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is that of any object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec VmGroupSpec `json:"spec"`
	// status is the observed state.
	// +optional
	Status VmGroupStatus `json:"status,omitzero"`
}

// VmGroupSpec is the desired state of a group: what its members are cloned from, and how many.
//
// +kubebuilder:validation:XValidation:rule="!has(self.userData) || self.?customizationSpec.orValue(\"\") == \"\"",message="userData and customizationSpec exclude each other: cloud-init applies the one, vCenter's guest customization the other",fieldPath=".customizationSpec",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?customizationSpec.orValue(\"\") == \"\" || !has(self.networks) || self.networks.all(n, n.?dhcp.orValue(true) || has(n.ipv4) || has(n.ipv6))",message="a customization specification gives each adapter an address: remove it, or dhcp of the adapter that is to have none",fieldPath=".customizationSpec",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?customizationSpec.orValue(\"\") == \"\" || !has(self.networks) || !self.networks.exists(n, has(n.ipv4) && has(n.ipv4.additionalRanges) && n.ipv4.additionalRanges.size() > 0)",message="a customization specification gives each adapter one IPv4 address: remove it, or additionalRanges",fieldPath=".customizationSpec",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.networks) || self.networks.filter(n, n.?ipv4.?gateway.orValue(\"\") != \"\").size() <= 1 && self.networks.filter(n, n.?ipv6.?gateway.orValue(\"\") != \"\").size() <= 1",message="only one adapter can have an IPv4 gateway, and one an IPv6 gateway, because a guest has one default route of each: remove the others",fieldPath=".networks",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.rootDisk) || self.?clone.?mode.orValue(\"\") != \"Linked\"",message="a disk of a linked clone cannot grow: set clone.mode to Full, or remove rootDisk",fieldPath=".rootDisk",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.disks) || !self.disks.exists(d, d.?persistent.orValue(false)) || !has(self.adopt) || self.adopt.size() == 0",message="a group with persistent disks cannot adopt VMs: remove adopt, or adopt the VMs into another group",fieldPath=".adopt",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.disks) || !self.disks.exists(d, d.?persistent.orValue(false)) || self.?deletion.?quarantineSeconds.orValue(0) == 0",message="a group with persistent disks cannot quarantine VMs, because the next VM of the ordinal needs the disks: set quarantineSeconds to 0",fieldPath=".deletion.quarantineSeconds",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.disks) || !self.disks.exists(d, d.?persistent.orValue(false)) || self.?standby.orValue(0) == 0",message="a group with persistent disks cannot have standby members, because each disk belongs to one ordinal: set standby to 0",fieldPath=".standby",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?hardware.?coresPerSocket.orValue(0) == 0 || self.cpu % self.hardware.coresPerSocket == 0",message="must be a multiple of hardware.coresPerSocket",fieldPath=".cpu",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.?hardware.?memoryReservationMiB.orValue(0) <= self.memory * 1024",message="must be at least hardware.memoryReservationMiB",fieldPath=".memory",reason=FieldValueInvalid
type VmGroupSpec struct {
	// cpu is the number of virtual CPUs of each member: 1 to 768.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=768
	// +required
	CPU int32 `json:"cpu"`

	// memory of each member, in GiB: 1 to 24576.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=24576
	// +required
	Memory int32 `json:"memory"`

	// template is the VM template to clone: its name, its inventory path ("/DC0/vm/templates/ubuntu-24.04"), or "library/item" for a VM
	// template or an OVF in a content library; at most 512 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +required
	Template string `json:"template"`

	// replicas is the number of members: 0 to 1000, default 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// standby is the number of members beyond replicas that are cloned, prepared and powered off: 0 to 100, default 0. When a member is
	// missing, the server powers a standby member on instead of cloning a new one. Only status.standbyReplicas counts standby members.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Standby int32 `json:"standby,omitempty"`

	// inventory publishes the members for pods and scripts: ConfigMap (the default) maintains a ConfigMap "<group>-members"; None publishes
	// nothing.
	// +kubebuilder:validation:Enum=ConfigMap;None
	// +default="ConfigMap"
	// +optional
	Inventory Inventory `json:"inventory,omitempty"`

	// paused stops all changes in vCenter; a deletion waits, too. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// readiness says when a member is ready.
	// +optional
	Readiness Readiness `json:"readiness,omitzero"`

	// update says how a changed spec reaches the members.
	// +optional
	Update Update `json:"update,omitzero"`

	// healing says what to do with members that stay unready.
	// +optional
	Healing Healing `json:"healing,omitzero"`

	// scaleIn says which members the server removes first when there are more than replicas.
	// +optional
	ScaleIn ScaleIn `json:"scaleIn,omitzero"`

	// replace names members to replace once, within the limits of spec.update: at most 1000, each moRef once. To replace a missing member, add
	// its entry after the member went missing.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=moRef
	// +optional
	Replace []Replacement `json:"replace,omitempty"`

	// deletion says how members are removed, and what happens to them when the group is deleted.
	// +optional
	Deletion Deletion `json:"deletion,omitzero"`

	// adopt are existing VMs that become members where members are missing: at most 1000 inventory paths ("/DC0/vm/legacy/web-a", of at most
	// 1024 characters) or moRefs ("vm-42"), in folders that the server's flag --adopt-from allows, each without *. From then on the server resizes, replaces
	// and REMOVES these VMs like any other member.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^vm-[0-9]+$|/[^/]+$')",message="must be a VM's inventory path, such as /DC0/vm/legacy/web-a, or its moRef, such as vm-42"
	// +kubebuilder:validation:items:XValidation:rule="!self.contains('*')",message="must name one VM, without *: vmgroup adopt lists the entries for a pattern"
	// +listType=set
	// +optional
	Adopt []string `json:"adopt,omitempty"`

	// clone says how members are cloned.
	// +optional
	Clone Clone `json:"clone,omitzero"`

	// placement says where members run.
	// +optional
	Placement Placement `json:"placement,omitzero"`

	// hardware is the virtual hardware of members, beyond cpu and memory. Default: the template's.
	// +optional
	Hardware Hardware `json:"hardware,omitzero"`

	// rootDisk is the members' copy of the template's first disk. Default: the template's size. For full clones only.
	// +optional
	RootDisk *RootDisk `json:"rootDisk,omitempty"`

	// disks are additional disks of each member, beside those of the template: at most 14. While the group has members, disks can be added at the
	// end of the list, and can grow. Adding the first disk, or changing datastore, storagePolicy or provisioning, replaces the members.
	// +kubebuilder:validation:MaxItems=14
	// +listType=map
	// +listMapKey=name
	// +optional
	Disks []Disk `json:"disks,omitempty"`

	// networks are the network adapters of each member, in order: at most 10. By default members have the template's.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	Networks []Network `json:"networks,omitempty"`

	// userData is what cloud-init or Ignition applies at a member's first boot. A change of the text replaces the members.
	// +optional
	UserData *UserData `json:"userData,omitempty"`

	// customizationSpec is the name of a guest customization specification of vCenter, for guests without cloud-init; at most 80 characters.
	// vCenter then sets the guest's host name and the addresses of spec.networks. Excludes userData.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	CustomizationSpec string `json:"customizationSpec,omitempty"`

	// tags are vSphere tags, attached to members before their first power-on: at most 20.
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=category
	// +listMapKey=name
	// +optional
	Tags []Tag `json:"tags,omitempty"`

	// customAttributes are vSphere custom attributes by name: at most 20, with names of at most 80 and values of at most 255 characters. Names
	// have no leading or trailing blanks. The server creates custom attributes that do not exist.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() >= 1 && name.size() <= 80)",message="must have names of 1 to 80 characters",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() > 80 || name.trim() == name)",message="must not have names with leading or trailing blanks",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(name, self[name].size() <= 255)",message="must have values of at most 255 characters",reason=FieldValueInvalid
	// +optional
	CustomAttributes map[string]string `json:"customAttributes,omitempty"`

	// extraConfig are advanced settings of members' VMX files, by key ("disk.EnableUUID": "TRUE"): at most 20, with keys of at most 128 and
	// values of at most 1024 characters. The server's flag --extra-config must allow each key. Keys have no leading or trailing blanks and no
	// control characters, and no two keys differ in case only. An empty value removes the template's setting. A change replaces the members.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() >= 1 && name.size() <= 128)",message="must have names of 1 to 128 characters",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(name, self[name].size() <= 1024)",message="must have values of at most 1024 characters",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule=`self.all(name, name.size() > 128 || name.trim() == name && !name.matches(r'[\p{C}\p{Zl}\p{Zp}]'))`,message="must not have keys with leading or trailing blanks, or with control characters or other invisible ones",reason=FieldValueInvalid
	// +kubebuilder:validation:XValidation:rule="self.all(name, self.exists_one(other, other.lowerAscii() == name.lowerAscii()))",message="must not have two keys that differ in case only: they are one setting",reason=FieldValueInvalid
	// +optional
	ExtraConfig map[string]string `json:"extraConfig,omitempty"`

	// service creates a Kubernetes Service and EndpointSlices for the members.
	// +optional
	Service *Service `json:"service,omitempty"`
}

// Inventory is a way to publish a group's members.
type Inventory string

// The ways to publish a group's members.
const (
	InventoryConfigMap Inventory = "ConfigMap"
	InventoryNone      Inventory = "None"
)

// VmGroupList is a list of VmGroups.
//
// +kubebuilder:object:root=true
type VmGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VmGroup `json:"items"`
}
