package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// Defaults of the policies, for fields that are not set.
const (
	// DefaultMaxSurge and DefaultMaxUnavailable are those of a Deployment.
	DefaultMaxSurge       = "25%"
	DefaultMaxUnavailable = "25%"
	// DefaultProgressDeadline is in seconds. Clones take minutes, so it is longer than a Deployment's.
	DefaultProgressDeadline = 1800
	// DefaultReadinessTimeout is in seconds.
	DefaultReadinessTimeout = 600
	// DefaultMaxUnhealthy is that of Cluster API's older MachineHealthChecks, as a share of the group.
	DefaultMaxUnhealthy = "40%"
	// DefaultMaxConcurrent is how many members are healed at once, as a share of the group.
	DefaultMaxConcurrent = "10%"
	// DefaultShutdownTimeout is in seconds.
	DefaultShutdownTimeout = 60
	// MaxSeconds bounds every number of seconds in the spec: 30 days.
	MaxSeconds = 2592000
	// MaxListed bounds every list of members in the spec.
	MaxListed = 1000
	// MaxMemberName bounds the name of a member, a DNS label, in characters.
	MaxMemberName = 63
	// MaxMoRefLength bounds a moRef, and MaxAdoptLength an entry of spec.adopt, in characters.
	MaxMoRefLength = 63
	MaxAdoptLength = 1024
)

// ReadinessCheck says what makes a member ready.
// +kubebuilder:validation:Enum=PoweredOn;ToolsRunning;GuestIP
type ReadinessCheck string

// The readiness checks. Each includes the one before.
const (
	// ReadyPoweredOn: the VM is powered on, on a host that vCenter reaches.
	ReadyPoweredOn ReadinessCheck = "PoweredOn"
	// ReadyToolsRunning: VMware Tools run in its guest (guest.toolsRunningStatus is guestToolsRunning).
	ReadyToolsRunning ReadinessCheck = "ToolsRunning"
	// ReadyGuestIP: Tools report an address that is neither link-local nor loopback.
	ReadyGuestIP ReadinessCheck = "GuestIP"
)

// Readiness says when a member is ready. readyReplicas, updates and healing use it.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.tcpSocket) && has(self.httpGet))",message="tcpSocket and httpGet exclude each other: remove one",fieldPath=".httpGet",reason=FieldValueInvalid
type Readiness struct {
	// check is what makes a member ready: PoweredOn (the default), ToolsRunning (VMware Tools run in the guest), or
	// GuestIP (Tools report an address that is neither link-local nor loopback). Each includes the one before. What Tools
	// reported since the VM was powered on counts while they are silent.
	// +default="PoweredOn"
	// +optional
	Check ReadinessCheck `json:"check,omitempty"`
	// initialDelaySeconds is how long after power-on a member may be unready before the time-out begins, in
	// seconds: 0 (the default) to 2592000 (30 days).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// timeoutSeconds is how long a powered-on member may stay unready before it is unhealthy and spec.healing applies, in
	// seconds: 1 to 2592000 (30 days), default 600.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	// +default=600
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// tcpSocket makes a member ready only while one of its ports accepts connections from the server. The server asks the first
	// of the addresses in its status, within its --probe-networks. Not together with httpGet.
	// +optional
	TCPSocket *TCPSocket `json:"tcpSocket,omitempty"`
	// httpGet makes a member ready only while it answers an HTTP request of the server with a status of 200 to 399. The server asks the
	// first of the addresses in its status, within its --probe-networks. Not together with tcpSocket.
	// +optional
	HTTPGet *HTTPGet `json:"httpGet,omitempty"`
	// periodSeconds is how often a member is asked, in seconds: 1 to 3600, default 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`
	// probeTimeoutSeconds is how long an answer may take, in seconds: 1 to 60, default 1. (A Pod's probe calls it timeoutSeconds.)
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	// +optional
	ProbeTimeoutSeconds *int32 `json:"probeTimeoutSeconds,omitempty"`
	// successThreshold is how many answers in a row make a member ready: 1 to 100, default 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`
	// failureThreshold is how many failures in a row make a member unready: 1 to 100, default 3. When all members that answered before
	// fail together, the path to them is suspected (the condition ReadinessDoubted), and nothing changes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// UpdateStrategy says whether members that differ from the spec are updated automatically.
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
type UpdateStrategy string

// The update strategies.
const (
	// UpdateRolling updates members a few at a time.
	UpdateRolling UpdateStrategy = "RollingUpdate"
	// UpdateOnDelete updates no member: only new members, for whatever reason, use the new spec.
	UpdateOnDelete UpdateStrategy = "OnDelete"
)

// ResizeWay says how a change of cpu or memory reaches the members.
// +kubebuilder:validation:Enum=Auto;InPlace;Replace
type ResizeWay string

// The ways to resize.
const (
	// ResizeAuto is InPlace; a member whose VM cannot take the new size is replaced.
	ResizeAuto ResizeWay = "Auto"
	// ResizeInPlace adds to the running VM if it allows that; otherwise it shuts the VM down, changes it and powers it on.
	ResizeInPlace ResizeWay = "InPlace"
	// ResizeReplace replaces the member with a new clone.
	ResizeReplace ResizeWay = "Replace"
)

// TemplateChange says what to do when a template is published again under the same name.
// +kubebuilder:validation:Enum=Ignore;Replace
type TemplateChange string

// What to do when a template is published again.
const (
	// TemplateChangeIgnore: the condition TemplateChanged reports it, and nothing is done.
	TemplateChangeIgnore TemplateChange = "Ignore"
	// TemplateChangeReplace: the members are replaced, as if spec.template had changed.
	TemplateChangeReplace TemplateChange = "Replace"
)

// Update says how a changed spec reaches the members: a few at a time, so that enough of them stay available.
// A member is available when it has been ready for minReadySeconds.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable) && string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge and maxUnavailable may not both be 0: no member could ever be replaced",fieldPath=".maxUnavailable",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.minReadySeconds) || self.minReadySeconds < (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 1800)",message="progressDeadlineSeconds (default 1800) must be greater than minReadySeconds",fieldPath=".progressDeadlineSeconds",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.maxAgeSeconds) || self.maxAgeSeconds > (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 1800)",message="maxAgeSeconds must be greater than progressDeadlineSeconds (default 1800)",fieldPath=".maxAgeSeconds",reason=FieldValueInvalid
type Update struct {
	// strategy says when: RollingUpdate (the default) updates members that differ from the spec automatically; with OnDelete, only
	// new members use the new spec (because one was deleted, or named in spec.replace).
	// +default="RollingUpdate"
	// +optional
	Strategy UpdateStrategy `json:"strategy,omitempty"`
	// resize says how a change of cpu or memory reaches the members. InPlace: added to the running VM where its hot-plug flags
	// allow it; otherwise the guest is shut down, the VM changed and powered on. Replace: a new clone. Auto (the default):
	// in place, and by a new clone where the VM refuses.
	// +default="Auto"
	// +optional
	Resize ResizeWay `json:"resize,omitempty"`
	// maxSurge is how many extra members beyond spec.replicas an update may create: a number, or a percentage
	// of spec.replicas, rounded up: 0 to 1000, or 0% to 100%; default 25%. It and maxUnavailable may not both be 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +default="25%"
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// maxUnavailable is how many of spec.replicas may be unavailable during an update: a number, or a percentage of
	// spec.replicas, rounded down: 0 to 1000, or 0% to 100%; default 25%. It and maxSurge may not both be 0; if
	// their percentages come out as 0, it is 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +default="25%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// minReadySeconds is how long a member must be ready to count as available, in seconds: 0 (the default) to
	// 2592000 (30 days), and less than progressDeadlineSeconds.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// canary pauses an update, while it is set, once this many members are updated: a number, or a
	// percentage of spec.replicas, rounded up: 0 to 1000, or 0% to 100%; not set by default. Remove it to continue.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +optional
	Canary *intstr.IntOrString `json:"canary,omitempty"`
	// paused holds an update while it is true. Healing and scaling continue. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// progressDeadlineSeconds is how long an update may make no progress, while members that it created are not
	// available, before it stops and reports it, in seconds: 1 to 2592000 (30 days), default 1800. It must be greater
	// than minReadySeconds.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	// +default=1800
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// onTemplateChange says what to do when the template's disks changed, or another template took its name:
	// Ignore (the default; the condition TemplateChanged reports it) or Replace the members.
	// +default="Ignore"
	// +optional
	OnTemplateChange TemplateChange `json:"onTemplateChange,omitempty"`
	// maxAgeSeconds is how old members become, in seconds: 3600 (an hour) to 31536000 (365 days), and greater than progressDeadlineSeconds;
	// not set by default. Older ones are replaced as if the spec had changed. So that members that were made together don't all go
	// together, each goes at an age of its own between 90% of that and all of it.
	// +kubebuilder:validation:Minimum=3600
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
	// windows are when an update may begin to take members down, whatever it is for (the spec, a template's version, age): at most 20. By
	// default, or with none, it may at any time. What was begun is finished after they close. Healing, scaling and spec.replace don't wait
	// for them, nor do sizes that grow while a VM runs.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Windows []Window `json:"windows,omitempty"`
}

// HealingAction says what to do with an unhealthy member.
// +kubebuilder:validation:Enum=RestartThenReplace;Replace;None
type HealingAction string

// What to do with an unhealthy member.
const (
	HealRestartThenReplace HealingAction = "RestartThenReplace"
	HealReplace            HealingAction = "Replace"
	HealNone               HealingAction = "None"
)

// Healing says what to do with members that are powered on and stay unready past spec.readiness.timeoutSeconds.
// (In any case, a member that is powered off is powered on, one that was destroyed is recreated, and
// one that vCenter cannot reach is left alone.)
type Healing struct {
	// action says what: RestartThenReplace (the default) resets the VM, and replaces it if it stays unready for as long again;
	// Replace replaces it at once; None leaves it.
	// +default="RestartThenReplace"
	// +optional
	Action HealingAction `json:"action,omitempty"`
	// maxUnhealthy is how many members may be unready for healing to continue: a number, or a percentage of
	// spec.replicas, rounded down: 0 to 1000, or 0% to 100%, default 40%; one is always allowed. Above it the cause is
	// likely elsewhere: healing is suspended, and the condition HealingSuspended lists the members.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +default="40%"
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// maxConcurrent is how many members may be healed at once: a number, or a percentage of spec.replicas, rounded up:
	// 1 to 1000, or 1% to 100%; default 10%.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9][0-9]?)%$') : (self >= 1 && self <= 1000)",message="must be a number from 1 to 1000 or a percentage from 1% to 100%"
	// +default="10%"
	// +optional
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
	// replaceVanishedAfterSeconds gives up members that have vanished from vCenter without having been destroyed (their host was removed
	// from the inventory, say), this long after they were missed, in seconds: 60 to 2592000 (30 days). Such a VM may still run, so there
	// may be two of one name and address until it comes back, and is powered off and kept. By default members that have vanished are kept.
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	ReplaceVanishedAfterSeconds *int32 `json:"replaceVanishedAfterSeconds,omitempty"`
}

// ScaleInOrder says which of the healthy and updated members go first.
// +kubebuilder:validation:Enum=HighestOrdinal;Oldest;Newest
type ScaleInOrder string

// The orders of scale-in.
const (
	ScaleInHighestOrdinal ScaleInOrder = "HighestOrdinal"
	ScaleInOldest         ScaleInOrder = "Oldest"
	ScaleInNewest         ScaleInOrder = "Newest"
)

// ScaleIn says which members go first when there are more than spec.replicas: those in remove, then the unready, then
// those that differ from the spec, then by order; those in protected last.
//
// +kubebuilder:validation:XValidation:rule="!has(self.protected) || !has(self.remove) || self.protected.size() * self.remove.size() > 500000 || !self.remove.exists(n, n in self.protected)",message="a member may not be both in protected and in remove",fieldPath=".remove",reason=FieldValueInvalid
type ScaleIn struct {
	// order of the healthy and updated members: HighestOrdinal (the default), Oldest or Newest (by when
	// they were cloned or adopted).
	// +default="HighestOrdinal"
	// +optional
	Order ScaleInOrder `json:"order,omitempty"`
	// protected are names of members ("web-0") that go last, and never while others can: at most 1000. Updates and
	// healing replace them like any other.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Protected []string `json:"protected,omitempty"`
	// remove are names of members ("web-3") that go first when there are too many: at most 1000, none of them in
	// protected. It removes no member by itself: lower replicas as well.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Remove []string `json:"remove,omitempty"`
}

// Replacement names a member to replace once.
type Replacement struct {
	// name of the member ("web-1").
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// moRef of the VM to replace ("vm-42", from status.members; letters, digits and '-', at most 63). Once
	// that VM is gone, the request is done, and may stay in the spec.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]+$`
	// +required
	MoRef string `json:"moRef"`
}

// DeletionPolicy says what becomes of the VMs when the group is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// What becomes of the VMs when the group is deleted.
const (
	// DeletionDelete removes them and their disks.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionRetain leaves them as they are, as ordinary VMs.
	DeletionRetain DeletionPolicy = "Retain"
)

// Deletion says how members are removed.
type Deletion struct {
	// policy applies when the group is deleted: Delete (the default) removes its VMs and their disks. Retain powers
	// nothing off, removes the stamp, and so leaves ordinary VMs behind; adopted ones get their name and folder back.
	// +default="Delete"
	// +optional
	Policy DeletionPolicy `json:"policy,omitempty"`
	// shutdownTimeoutSeconds is how long a guest may take to shut down before its VM is powered off, in seconds: 0 (power
	// off at once) to 2592000 (30 days), default 60. A guest without running VMware Tools is powered
	// off at once. Also for the power cycle of a resize.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +default=60
	// +optional
	ShutdownTimeoutSeconds *int32 `json:"shutdownTimeoutSeconds,omitempty"`
	// quarantineSeconds is how long a member that scale-in, an update or healing removed is kept, powered off and in
	// the folder "quarantine" of its group, before it is destroyed, in seconds: 0 (the default: destroyed at once) to
	// 2592000 (30 days). If replicas rises meanwhile, a member that fits the spec comes back. Deleting the
	// group destroys them at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	QuarantineSeconds int32 `json:"quarantineSeconds,omitempty"`
	// holdTimeoutSeconds lets annotations of the group hold members that are about to be taken down, for so long at most, in seconds:
	// 1 to 2592000 (30 days), or 0 (the default: none is held). An annotation whose key begins with hold.vm.codeconnect.vmworld.com/ and continues
	// as you like, and whose value is a member and its moRef (web-1/vm-42), keeps that VM from being removed or powered off, from when it is
	// marked until the annotation is removed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	HoldTimeoutSeconds int32 `json:"holdTimeoutSeconds,omitempty"`
}

// ReplaceState says what an entry of spec.replace does for a member that has vanished.
// +kubebuilder:validation:Enum=Held
type ReplaceState string

// ReplaceHeld: nothing, because the entry is older than that.
const ReplaceHeld ReplaceState = "Held"
