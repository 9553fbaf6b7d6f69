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
	// DefaultMaxUnhealthy is a share of the group, after the 40% of Cluster API's older MachineHealthChecks.
	DefaultMaxUnhealthy = "40%"
	// DefaultMaxConcurrent is the share of the group that can be healed at once.
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

// Readiness says when a member is ready.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.tcpSocket) && has(self.httpGet))",message="tcpSocket and httpGet exclude each other: remove one",fieldPath=".httpGet",reason=FieldValueInvalid
type Readiness struct {
	// check is what makes a member ready: PoweredOn (the default), ToolsRunning, or GuestIP (VMware Tools report an address that is neither
	// link-local nor loopback). Each includes the one before. A report of VMware Tools counts until the VM is powered off.
	// +default="PoweredOn"
	// +optional
	Check ReadinessCheck `json:"check,omitempty"`
	// initialDelaySeconds is the time from power-on until timeoutSeconds begins to count, in seconds: 0 (the default) to 2592000 (30 days).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// timeoutSeconds is the time after which a powered-on member that isn't ready counts as unhealthy, in seconds: 1 to 2592000 (30 days),
	// default 600.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	// +default=600
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// tcpSocket makes a member ready only while this port accepts connections from the server. The server connects to the first address in the
	// member's status, if its flag --probe-networks allows that address. Excludes httpGet.
	// +optional
	TCPSocket *TCPSocket `json:"tcpSocket,omitempty"`
	// httpGet makes a member ready only while it answers the server's GET request with a status of 200 to 399. The server sends the request to
	// the first address in the member's status, if its flag --probe-networks allows that address. Excludes tcpSocket.
	// +optional
	HTTPGet *HTTPGet `json:"httpGet,omitempty"`
	// periodSeconds is the time between two probes of a member, in seconds: 1 to 3600, default 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`
	// probeTimeoutSeconds is the time after which a probe without an answer fails, in seconds: 1 to 60, default 1. (A Pod's probe calls it
	// timeoutSeconds.)
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	// +optional
	ProbeTimeoutSeconds *int32 `json:"probeTimeoutSeconds,omitempty"`
	// successThreshold is the number of consecutive successful probes that make a member ready: 1 to 100, default 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`
	// failureThreshold is the number of consecutive failed probes that make a member unready: 1 to 100, default 3. If all members that
	// answered before fail together, they stay ready (condition ProbesSuppressed).
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
	// UpdateOnDelete updates no existing member: only new members use the new spec.
	UpdateOnDelete UpdateStrategy = "OnDelete"
)

// ResizeWay says how a change of cpu or memory, or of their reservations, limits and shares, reaches the members.
// +kubebuilder:validation:Enum=Auto;InPlace;Replace
type ResizeWay string

// The ways to resize.
const (
	// ResizeAuto resizes in place, and replaces a member whose VM refuses the new size.
	ResizeAuto ResizeWay = "Auto"
	// ResizeInPlace changes the running VM if the VM allows that; otherwise it shuts the VM down, changes it and powers it on.
	ResizeInPlace ResizeWay = "InPlace"
	// ResizeReplace replaces the member with a new clone.
	ResizeReplace ResizeWay = "Replace"
)

// TemplateChange says what to do when a template is published again under the same name.
// +kubebuilder:validation:Enum=Ignore;Replace
type TemplateChange string

// What to do when a template is published again.
const (
	// TemplateChangeIgnore only reports the change, with the condition TemplateChanged.
	TemplateChangeIgnore TemplateChange = "Ignore"
	// TemplateChangeReplace replaces the members, as if spec.template had changed.
	TemplateChangeReplace TemplateChange = "Replace"
)

// Update says how a changed spec reaches the members.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable) && string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge and maxUnavailable cannot both be 0: no member could ever be replaced",fieldPath=".maxUnavailable",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.minReadySeconds) || self.minReadySeconds < (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 1800)",message="progressDeadlineSeconds (default 1800) must be greater than minReadySeconds",fieldPath=".progressDeadlineSeconds",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.maxAgeSeconds) || self.maxAgeSeconds > (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 1800)",message="maxAgeSeconds must be greater than progressDeadlineSeconds (default 1800)",fieldPath=".maxAgeSeconds",reason=FieldValueInvalid
type Update struct {
	// strategy is RollingUpdate (the default), which updates members that differ from the spec, or OnDelete: only new members use the new
	// spec.
	// +default="RollingUpdate"
	// +optional
	Strategy UpdateStrategy `json:"strategy,omitempty"`
	// resize says how a change of cpu or memory, or of their reservations, limits and shares, reaches the members: InPlace (while the VM runs,
	// if it allows that, otherwise with a power cycle), Replace (with a new clone), or Auto (the default: in place, or with a new clone if the
	// VM refuses the new size).
	// +default="Auto"
	// +optional
	Resize ResizeWay `json:"resize,omitempty"`
	// maxSurge is how many members beyond spec.replicas an update can create: a number, or a percentage of spec.replicas, rounded up: 0 to
	// 1000, or 0% to 100%; default 25%.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +default="25%"
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// maxUnavailable is how many of spec.replicas can be unavailable during an update: a number, or a percentage of spec.replicas, rounded
	// down: 0 to 1000, or 0% to 100%; default 25%. maxUnavailable and maxSurge cannot both be 0; if both percentages round to 0,
	// maxUnavailable is 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +default="25%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// minReadySeconds is how long a member must be ready to count as available, in seconds: 0 (the default) to 2592000 (30 days), and less
	// than progressDeadlineSeconds.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// canary pauses an update when this many members are updated: a number, or a percentage of spec.replicas, rounded up: 0 to 1000, or 0% to
	// 100%. To continue the update, remove the field.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +optional
	Canary *intstr.IntOrString `json:"canary,omitempty"`
	// paused pauses updates. Healing and scaling continue. Default false.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// progressDeadlineSeconds stops the update after this long without progress while new members are unavailable, in seconds: 1 to 2592000
	// (30 days), default 1800; more than minReadySeconds.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	// +default=1800
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// onTemplateChange says what to do when a template with other disks is published under the same name: Ignore (the default: only the
	// condition TemplateChanged reports it) or Replace (replace the members).
	// +default="Ignore"
	// +optional
	OnTemplateChange TemplateChange `json:"onTemplateChange,omitempty"`
	// maxAgeSeconds is the age at which members are replaced, in seconds: 3600 (an hour) to 31536000 (365 days), and more than
	// progressDeadlineSeconds. The server replaces each member at a different age between 90% and 100% of maxAgeSeconds.
	// +kubebuilder:validation:Minimum=3600
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
	// windows are the times in which an update can begin to take members down: at most 20; by default any time. The server finishes a member
	// that it has begun to replace even if the window closes. Healing, scaling and spec.replace do not wait for windows.
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
type Healing struct {
	// action is RestartThenReplace (the default: reset the VM, and replace it if it isn't ready after spec.readiness.timeoutSeconds again),
	// Replace (at once) or None.
	// +default="RestartThenReplace"
	// +optional
	Action HealingAction `json:"action,omitempty"`
	// maxUnhealthy is how many members can be unhealthy before healing is suspended: a number, or a percentage of spec.replicas, rounded
	// down: 0 to 1000, or 0% to 100%, default 40%; one is always allowed.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be a number from 0 to 1000 or a percentage from 0% to 100%"
	// +default="40%"
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`
	// maxConcurrent is how many members can be healed at once: a number, or a percentage of spec.replicas, rounded up: 1 to 1000, or 1% to
	// 100%; default 10%.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9][0-9]?)%$') : (self >= 1 && self <= 1000)",message="must be a number from 1 to 1000 or a percentage from 1% to 100%"
	// +default="10%"
	// +optional
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
	// replaceVanishedAfterSeconds is the time after which the server replaces a missing member, in seconds: 60 to 2592000 (30 days). The
	// missing VM may still run, with the same name and address as its replacement. By default the server doesn't replace missing members.
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	ReplaceVanishedAfterSeconds *int32 `json:"replaceVanishedAfterSeconds,omitempty"`
}

// ScaleInOrder says which of otherwise equal members a scale-in removes first.
// +kubebuilder:validation:Enum=HighestOrdinal;Oldest;Newest
type ScaleInOrder string

// The orders of scale-in.
const (
	ScaleInHighestOrdinal ScaleInOrder = "HighestOrdinal"
	ScaleInOldest         ScaleInOrder = "Oldest"
	ScaleInNewest         ScaleInOrder = "Newest"
)

// ScaleIn says which members the server removes first when there are more than spec.replicas: those that were missing and that vCenter shows
// again; those that are already marked for removal; those in remove; those that aren't ready, or whose guests are shutting down; those marked
// for a power cycle; those that differ from the spec; the others. Members in protected that weren't missing come last, in the same order. Of
// equal members, one of the zone with the most members comes first, then order decides. Updated members beyond update.canary come before those
// that differ. With persistent disks, the server removes only members whose ordinals are replicas or more.
//
// +kubebuilder:validation:XValidation:rule="!has(self.protected) || !has(self.remove) || self.protected.size() * self.remove.size() > 500000 || !self.remove.exists(n, n in self.protected)",message="a member cannot be both in protected and in remove",fieldPath=".remove",reason=FieldValueInvalid
type ScaleIn struct {
	// order in which members are removed that are otherwise equal: HighestOrdinal (the default), Oldest or Newest (by the time at which they
	// were cloned or adopted).
	// +default="HighestOrdinal"
	// +optional
	Order ScaleInOrder `json:"order,omitempty"`
	// protected are names of members ("web-0") that a scale-in removes last: at most 1000. Updates and healing replace these members like any
	// other.
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Protected []string `json:"protected,omitempty"`
	// remove are names of members ("web-3") that a scale-in removes first: at most 1000, none of them in protected. To remove them, also lower
	// replicas.
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
	// moRef of the VM to replace, from status.members ("vm-42"): letters, digits, '-' and ':', at most 63. Once that VM is gone, the entry has
	// no effect.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:-]+$`
	// +required
	MoRef string `json:"moRef"`
}

// DeletionPolicy says what happens to the VMs when the group is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

// What happens to the VMs when the group is deleted.
const (
	// DeletionDelete removes them and their disks.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionRetain leaves them as they are, as ordinary VMs.
	DeletionRetain DeletionPolicy = "Retain"
)

// Deletion says how members are removed.
type Deletion struct {
	// policy is Delete (the default), which removes the VMs and their disks with the group, or Retain, which leaves the VMs as they are and
	// removes the server's stamp from them.
	// +default="Delete"
	// +optional
	Policy DeletionPolicy `json:"policy,omitempty"`
	// shutdownTimeoutSeconds is the time that a guest has to shut down before the server powers its VM off, in seconds: 0 (power off at once)
	// to 2592000 (30 days), default 60. A VM without running VMware Tools is powered off at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +default=60
	// +optional
	ShutdownTimeoutSeconds *int32 `json:"shutdownTimeoutSeconds,omitempty"`
	// quarantineSeconds is the time for which the server keeps a VM, powered off, that scale-in, an update or healing removed from the group,
	// before it destroys the VM, in seconds: 0 (the default: destroy at once) to 2592000 (30 days). Deleting the group destroys such VMs at
	// once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	QuarantineSeconds int32 `json:"quarantineSeconds,omitempty"`
	// holdTimeoutSeconds is the longest time for which annotations of the group can delay taking a member down, in seconds: 1 to 2592000 (30
	// days), or 0 (the default: the server ignores the annotations). The annotation's key begins with hold.vm.codeconnect.vmworld.com/, and
	// its value is a member and its moRef (web-1/vm-42).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +optional
	HoldTimeoutSeconds int32 `json:"holdTimeoutSeconds,omitempty"`
}

// ReplaceState says what an entry of spec.replace does for a missing member.
// +kubebuilder:validation:Enum=Held
type ReplaceState string

// ReplaceHeld: the entry has no effect, because it is older than the member's disappearance.
const ReplaceHeld ReplaceState = "Held"
