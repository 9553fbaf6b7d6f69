package v1alpha1

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase sums up a group in one word.
// +kubebuilder:validation:Enum=PENDING;RUNNING;ERROR
type Phase string

// The phases of a group.
const (
	// PhasePending is everything that is neither of the other two.
	PhasePending Phase = "PENDING"
	// PhaseRunning means exactly the desired members, all ready, nothing in progress.
	PhaseRunning Phase = "RUNNING"
	// PhaseError means blocked until an operator acts; lastMessage says how.
	PhaseError Phase = "ERROR"
)

// VmGroupStatus is the observed state of a group.
type VmGroupStatus struct {
	// observedGeneration is the generation of the spec that this status describes. Metacontroller sets it.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is PENDING, RUNNING or ERROR.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// currentReplicas is the number of members that exist in vCenter.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas"`
	// desiredReplicas is the desired number of members: spec.replicas.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`
	// readyReplicas is the number of members that are ready, as spec.readiness says.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of members that have been ready for spec.update.minReadySeconds and are not about to be taken down.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// updatedReplicas is the number of members that match the spec: cloned from it, and of its size.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// standbyReplicas is the number of standby members. No other number counts them.
	// +optional
	StandbyReplicas int32 `json:"standbyReplicas,omitempty"`
	// selector selects the objects that belong to this group (for the scale subresource).
	// +optional
	Selector string `json:"selector,omitempty"`
	// lastMessage says what is happening, or what prevents it.
	// +optional
	LastMessage string `json:"lastMessage,omitempty"`
	// summary is the beginning of lastMessage, at most 100 bytes, for a column of kubectl get.
	// +optional
	Summary string `json:"summary,omitempty"`
	// vCenterUUID is the instanceUuid of the vCenter that has the members. The server acts on another vCenter only if
	// vm.codeconnect.vmworld.com/moved-to-vcenter names that.
	// +optional
	VCenterUUID string `json:"vCenterUUID,omitempty"`
	// conditions are Ready, VCenterReachable and MembersDiffer, and each other condition that is True. A condition that was True and cannot be
	// evaluated now is Unknown.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// members are the group's VMs, by ordinal: at most 4000.
	// +kubebuilder:validation:MaxItems=4000
	// +listType=atomic
	// +optional
	Members []Member `json:"members,omitempty"`
	// standby are the group's standby members, by ordinal.
	// +listType=atomic
	// +optional
	Standby []StandbyMember `json:"standby,omitempty"`
	// quarantined are removed VMs that are kept, powered off. They are not members.
	// +listType=atomic
	// +optional
	Quarantined []Quarantined `json:"quarantined,omitempty"`
	// givenUp are VMs that were missing and that the group gave up, the latest last: at most 100. If such a VM comes back while the group has
	// all its members without it, the server shuts the VM down and keeps it.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	GivenUp []GivenUp `json:"givenUp,omitempty"`
	// strays are VMs that have this group's stamp, and that the server couldn't verify as the group's: VMs that were restored from a backup, copied, or
	// given a forged stamp. The server doesn't change or count them. The list has at most 100.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Strays []Stray `json:"strays,omitempty"`
	// names are what the names in the spec mean in vCenter: at most 500. A name keeps its meaning as long as that object has the name, whatever other
	// object gets it, too.
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	// +optional
	Names []NamedObject `json:"names,omitempty"`
	// adopted are the entries of spec.adopt that became members.
	// +listType=atomic
	// +optional
	Adopted []string `json:"adopted,omitempty"`
	// disks are the persistent disks of the group's ordinals: at most 4000. A detached disk waits for the next member of its ordinal. To
	// remove one, use govc disk.rm and the annotation vm.codeconnect.vmworld.com/give-up-disks.
	// +kubebuilder:validation:MaxItems=4000
	// +listType=atomic
	// +optional
	Disks []PersistentDisk `json:"disks,omitempty"`
	// update is the progress of an update.
	// +optional
	Update *UpdateProgress `json:"update,omitempty"`
	// trial records whether members that are made from the present spec become ready.
	// +optional
	Trial *Trial `json:"trial,omitempty"`
	// canary records the targets of earlier updates, which spec.update.canary needs.
	// +optional
	Canary *CanaryProgress `json:"canary,omitempty"`
	// orphaned is true if the group was deleted with --cascade=orphan: the server releases its VMs, as with spec.deletion.policy Retain.
	// +optional
	Orphaned bool `json:"orphaned,omitempty"`
	// finalizingSince is when the server first learned that the group is being deleted, by the server's clock. Some steps of the deletion wait
	// from then on until no other replica of the server can act for the group (--lease).
	// +optional
	FinalizingSince metav1.Time `json:"finalizingSince,omitzero"`
}

// MaxNames bounds status.names: ten networks in each of 32 zones, and the rest.
const MaxNames = 500

// NamedObject is the object in vCenter that a name in the spec means.
type NamedObject struct {
	// field of the spec that has the name, such as spec.template.
	// +required
	Field string `json:"field"`
	// name as the spec has it.
	// +required
	Name string `json:"name"`
	// zone is the one of spec.placement.zones in which the name of a network has this meaning.
	// +optional
	Zone string `json:"zone,omitempty"`
	// object is the type and the managed object reference of the object, such as VirtualMachine:vm-42, or the type and the id of an item of a content
	// library.
	// +required
	Object string `json:"object"`
	// ignored are other objects that had the name when it was last looked up: at most 5. The group doesn't use them, also if object loses the name.
	// +kubebuilder:validation:MaxItems=5
	// +listType=atomic
	// +optional
	Ignored []IgnoredObject `json:"ignored,omitempty"`
}

// MaxIgnored bounds NamedObject.Ignored.
const MaxIgnored = 5

// IgnoredObject is an object in vCenter that has a name of the spec without being meant.
type IgnoredObject struct {
	// object is the type and the managed object reference or the id of the object.
	// +required
	Object string `json:"object"`
	// path is the inventory path of the object, or a text that names an item of a content library alone.
	// +required
	Path string `json:"path"`
}

// IsOf reports whether both are what one name of the spec means.
func (o *NamedObject) IsOf(x *NamedObject) bool {
	return o.Field == x.Field && o.Name == x.Name && o.Zone == x.Zone
}

// Equal reports whether all fields are equal.
func (o *NamedObject) Equal(x *NamedObject) bool {
	return o.IsOf(x) && o.Object == x.Object && slices.Equal(o.Ignored, x.Ignored)
}

// Trial records what became of members that were made from one target. If none of them has ever been ready, healing replaces at most one:
// another clone of the same target would be no better.
type Trial struct {
	// target is what the members were made from, as in status.update.
	// +required
	Target string `json:"target"`
	// ready says that a member made from target has been ready.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// generation is the generation of the spec since which the server records replaced.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// replaced are the moRefs of the VMs that healing has begun to replace although none made from target has been ready: at most 2.
	// +kubebuilder:validation:MaxItems=2
	// +listType=atomic
	// +optional
	Replaced []string `json:"replaced,omitempty"`
}

// UpdateProgress is the progress of an update.
type UpdateProgress struct {
	// target is what the update changes members to.
	// +required
	Target string `json:"target"`
	// available is the highest number of updated members that were available at once.
	// +required
	Available int32 `json:"available"`
	// lastProgressTime is when that number was reached.
	// +required
	LastProgressTime metav1.Time `json:"lastProgressTime"`
}

// CanaryProgress records the targets of earlier updates, which spec.update.canary needs.
type CanaryProgress struct {
	// target is what members are made from, as in status.update.
	// +required
	Target string `json:"target"`
	// tried are the targets of earlier updates, the latest last.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Tried []string `json:"tried,omitempty"`
	// back is true if the spec went back to target, so spec.update.canary doesn't pause the replacement of members made from what was tried.
	// +optional
	Back bool `json:"back,omitempty"`
}

// Quarantined is a VM that was removed from the group and that the server keeps, powered off.
type Quarantined struct {
	// name of the VM in vCenter.
	// +required
	Name string `json:"name"`
	// ordinal that the VM had.
	// +required
	Ordinal int32 `json:"ordinal"`
	// moRef is the VM's managed object reference.
	// +required
	MoRef string `json:"moRef"`
	// instanceUUID is the VM's instanceUuid, which identifies it even when it comes back to vCenter with another moRef.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`
	// vmPathName is the datastore path of the VM's .vmx file.
	// +optional
	VMPathName string `json:"vmPathName,omitempty"`
	// reason for the removal: ScaleIn, Update, Healing, Replace or Resize; or Duplicate, if another VM is the member, or if the group gave
	// this VM up before it came back. The server keeps a Duplicate until an operator deletes it.
	// +optional
	Reason string `json:"reason,omitempty"`
	// since is when the quarantine began.
	// +required
	Since metav1.Time `json:"since"`
}

// MaxMembersInStatus bounds status.members: the members of the largest group, those that an update adds to it, and as many again that are missing or that a
// scale-in is about to remove.
const MaxMembersInStatus = 4 * MaxReplicas

// MaxVMsGivenUp bounds status.givenUp.
const MaxVMsGivenUp = 100

// GivenUp is a VM that was missing and that the group gave up.
type GivenUp struct {
	// name of the member that the VM was, <group>-<ordinal>.
	// +required
	Name string `json:"name"`
	// moRef that the VM had.
	// +required
	MoRef string `json:"moRef"`
	// instanceUUID is the VM's instanceUuid, by which the server recognizes it when it comes back with another moRef.
	// +required
	InstanceUUID string `json:"instanceUUID"`
	// vmPathName is the datastore path of the .vmx file that the VM had.
	// +optional
	VMPathName string `json:"vmPathName,omitempty"`
}

// MaxStrays bounds status.strays.
const MaxStrays = 100

// Stray is a VM that has a group's stamp, and that the server couldn't verify as the group's.
type Stray struct {
	// name of the VM in vCenter.
	// +required
	Name string `json:"name"`
	// ordinal in the VM's stamp.
	// +required
	Ordinal int32 `json:"ordinal"`
	// moRef is the VM's managed object reference.
	// +required
	MoRef string `json:"moRef"`
	// instanceUUID is the VM's instanceUuid.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`
	// template is true if the VM was a member until it was converted to a template.
	// +optional
	Template bool `json:"template,omitempty"`
	// message says why the server couldn't verify the VM.
	// +optional
	Message string `json:"message,omitempty"`
}

// Member is one VM of a group, as vCenter shows it.
type Member struct {
	// name of the member, <group>-<ordinal>.
	// +required
	Name string `json:"name"`
	// vmName is the VM's name in vCenter, if the VM was renamed.
	// +optional
	VMName string `json:"vmName,omitempty"`
	// ordinal is the member's number in its group.
	// +required
	Ordinal int32 `json:"ordinal"`
	// moRef is the VM's managed object reference, such as vm-42. If the VM was in another vCenter, and isn't found in this one
	// (vm.codeconnect.vmworld.com/moved-to-vcenter), that vCenter's instanceUuid follows: vm-42:6b1a….
	// +required
	MoRef string `json:"moRef"`
	// instanceUUID is the instanceUuid that the server gave the VM, which identifies it even when it comes back to vCenter with another moRef, or when
	// vCenter changes it.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`
	// vmPathName is the datastore path of the VM's .vmx file. It shows which file to register if the VM leaves vCenter's inventory.
	// +optional
	VMPathName string `json:"vmPathName,omitempty"`
	// powerState is poweredOn, poweredOff or suspended.
	// +optional
	PowerState string `json:"powerState,omitempty"`
	// ips are the addresses that the guest reports: first the static ones, then those of the first of spec.networks, then the primary one. At
	// most 10 in addition to the static ones, and at least one of each family. While VMware Tools are silent, the status keeps the addresses
	// until the VM is powered off.
	// +optional
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
	// bootTime is when the VM was powered on, by vCenter's clock, once VMware Tools have reported since.
	// +optional
	BootTime metav1.Time `json:"bootTime,omitzero"`
	// zone is the one of spec.placement.zones that the member belongs to.
	// +optional
	Zone string `json:"zone,omitempty"`
	// host is the ESXi host that the VM is on.
	// +optional
	Host string `json:"host,omitempty"`
	// revision is a short hash of what the VM was cloned from.
	// +optional
	Revision string `json:"revision,omitempty"`
	// ready reports whether the member is ready, as spec.readiness says.
	// +required
	Ready bool `json:"ready"`
	// lastTransitionTime is when ready was last seen to change.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// vanishedAt is when the server found the member missing: vCenter no longer has its VM, and no event says that the VM was destroyed. It
	// remains set after the VM came back, as long as the group has one member too many.
	// +optional
	VanishedAt metav1.Time `json:"vanishedAt,omitzero"`
	// heldUntil is the latest time at which the server takes this member down; until then, annotations of the group hold it
	// (spec.deletion.holdTimeoutSeconds).
	// +optional
	HeldUntil metav1.Time `json:"heldUntil,omitzero"`
	// replace is Held if spec.replace named this VM before it vanished, so that entry doesn't give it up.
	// +optional
	Replace ReplaceState `json:"replace,omitempty"`
	// reason says in one word why the member is not ready or differs from the spec.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says in a sentence why the member is not ready or differs from the spec.
	// +optional
	Message string `json:"message,omitempty"`
}

// NameInVCenter is the VM's name in vCenter.
func (m *Member) NameInVCenter() string { return cmp.Or(m.VMName, m.Name) }
