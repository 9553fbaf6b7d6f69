package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Ref names a group. The UID is its identity; namespace and name are for messages.
type Ref struct {
	Namespace, Name string
	UID             types.UID
}

func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Observed is everything that a plan is made from: what Kubernetes and vCenter show now, and which actions run.
type Observed struct {
	// Group is the VmGroup: spec, metadata and the status that is stored now. planner.Make does not change it.
	Group *v1alpha1.VmGroup
	// LastPlannedStatus is the newest status that this process has planned; nil if none. Kubernetes may not have stored it yet: the planner takes from
	// it when a new condition or a changed readiness began.
	LastPlannedStatus *v1alpha1.VmGroupStatus
	// Finalizing reports whether Metacontroller called /finalize. A Group that has a deletionTimestamp is to be removed;
	// without one, the group's CompositeController no longer selects it, and the server removes nothing.
	Finalizing bool
	// Called is when the last hook call for this group came. Only a recent call allows the server to create a folder. Blind reports whether
	// vCenter's state was unknown during that call, so that the call doesn't show whether a folder existed then.
	Called time.Time
	Blind  bool
	// FolderSeen is when the group's folder was last seen to exist; zero if it never was. If the folder is gone since, another replica's
	// finalize may have removed it: only a later call allows the server to recreate it.
	FolderSeen time.Time
	// OwnFolders are the folders known to be the group's: a hook call came while the folder existed, so that it does not belong to a later
	// group of the same name; or this replica created it; or it contained one of the group's VMs. The server uses only these.
	OwnFolders []string
	// NewReplace are the entries of spec.replace that the newest spec added, until a plan was made from that spec while vCenter's state was
	// known. Entries that existed at this process's first call for the group are not new.
	NewReplace []v1alpha1.Replacement
	// NewestStamp is the highest generation ever seen in a stamp of this group, including VMs that are gone; or, since etcd was restored from a
	// backup, in a hook call.
	NewestStamp int64
	// FinalizingSince is when this process first learned that the group is finalizing, or no longer selected.
	FinalizingSince time.Time
	// EditedTooOften is since when the group has been edited more often than the server acts on, and the newest edit waits; zero if it doesn't. Then no
	// step begins, and vCenter isn't asked for what the spec names.
	EditedTooOften time.Time
	// NotBegun reports whether the group itself was not edited, but is new, and its namespace has had more groups deleted than the server acts on.
	NotBegun bool
	// Older is the newest hook call, if Group is from an earlier one that it can't follow; nil otherwise.
	Older *OlderCall
	// Cascade is the deletion's propagation policy: see Call.
	Cascade metav1.DeletionPropagation
	// Children are the group's child objects as Metacontroller saw them.
	Children map[ChildKey]ObservedChild
	// ChildLabels are the labels that the children take from the group.
	ChildLabels LabelKeys
	// Related is the user data that the customize hook asked for.
	Related Related
	// SharedClaims says which range of static addresses overlaps another group's; empty if none is known.
	SharedClaims string
	// ChildrenWantedSince says since when each desired child has been in the answers but not among the observed children.
	ChildrenWantedSince map[ChildKey]time.Time
	// State is vCenter's state. It must be read after Pending.
	State VCenterState
	// Answers are what this replica of the server concluded from probing the members.
	Answers Answers
	// Pending are the actions that run or back off, by the name of the member (or by FolderKey).
	Pending map[string]Pending
	// Emptied reports whether ConfirmGone succeeded after finalizing began: a fresh read of vCenter showed no VM of
	// this group, and no running clone. For a group that is no longer selected, the ConfirmGone began after every lease had ended.
	Emptied bool
	// Lease is how long after a hook call the server can act. Resync is the longest time between two calls for a settled group.
	Lease, Resync time.Duration
	// Now is the present time. A plan reads no clock.
	Now time.Time
	// AgesAt is the time at which members' ages are compared with update.maxAgeSeconds; zero: Now. A forecast sets it to its beginning, so
	// that it doesn't replace members for reaching the age later.
	AgesAt time.Time
}

// OlderCall is a hook call that can't follow an earlier one: it has a lower generation, or the earlier one was of the group's deletion, and
// this one has no deletionTimestamp. The call was delayed, its sender's cache lags behind, or etcd was restored from a backup.
type OlderCall struct {
	// Generation and Children are the call's.
	Generation int64
	Children   map[ChildKey]ObservedChild
}

// Call is one hook call: the desired state of a group, and what Kubernetes has for it.
type Call struct {
	Group      *v1alpha1.VmGroup
	Finalizing bool
	Children   map[ChildKey]ObservedChild
	Related    Related
	// Cascade is the propagation policy of a group's deletion: Orphan or Foreground; empty: Background, or the group isn't being deleted.
	Cascade metav1.DeletionPropagation
}

// CascadeOf returns the propagation policy of a group that is being deleted, from its finalizers. The garbage collector removes its
// finalizer when it is done, so the status remembers that a group had the one for orphan.
// (https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/controller/garbagecollector/garbagecollector.go, attemptToOrphanWorker.)
func CascadeOf(g *v1alpha1.VmGroup) metav1.DeletionPropagation {
	switch {
	case g.DeletionTimestamp.IsZero():
		return ""
	case g.Status.Orphaned || slices.Contains(g.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(g.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return ""
}

// Related is the user data that spec.userData names, which the customize hook asked for.
type Related struct {
	// UserData is the text; Digest is its hash, for the revision. Both are empty if spec.userData is not set.
	UserData Sensitive
	Digest   string
	// Unrecognized says that the text is in no format that guests read; empty if it is in one.
	Unrecognized string
	// Fault is why there is no user data although spec.userData names some; nil if there is.
	Fault *Fault
}

// Ref names the group of a call.
func (c *Call) Ref() Ref {
	return Ref{Namespace: c.Group.Namespace, Name: c.Group.Name, UID: c.Group.UID}
}

// Health says whether this replica of the server can read vCenter; see VCenterState. Unfit is the fault in the server's settings that keeps
// the server from acting.
type Health struct {
	Known        bool
	UnknownSince time.Time
	Fault, Unfit *Fault
	// VCenter is the instanceUuid of the vCenter that was read.
	VCenter string
}

// VCenterState is what vCenter has for a group, as far as known.
type VCenterState struct {
	// Known is false while the inventory is missing, stale or partial. An unknown inventory is not an empty one.
	Known bool
	// UnknownSince is when Known ceased to be true, or when the process began; zero while it is true.
	UnknownSince time.Time
	// Fault is why the inventory is not known, or which of the server's settings keeps it from acting (then Known may be true); nil if
	// neither.
	Fault *Fault
	// VCenter is the instanceUuid of the vCenter that was read.
	VCenter string
	// VMs are the group's VMs, wherever they are, ordered by ordinal and moRef. Strays are the VMs with this group's stamp that nothing shows to
	// be the group's (Weigh), in the same order.
	VMs    []VM
	Strays []Stray
	// Gone are the VMs of Query.Recorded that were destroyed or whose stamp was removed, and VMs in quarantine and standby members that
	// vCenter does not have: such a VM is off, and if it comes back, its stamp says what it is. A recorded VM that is neither in VMs nor in
	// Gone wasn't seen, which doesn't prove that it is gone.
	Gone []Gone
	// Vanished are members, recorded or seen before and not superseded, that vCenter no longer has (it answers ManagedObjectNotFound, or has
	// given the moRef to another VM), without proof that they were destroyed. While the server looks for that proof, they are listed here,
	// too.
	Vanished []Vanished
	// LastRemoved is the last member that another process of the server destroyed, as far as this one saw it.
	LastRemoved Removed
	// Folder is the moRef of the group's folder; empty while there is none. Quarantine is the moRef of the folder for removed members in it.
	Folder, Quarantine string
	// FolderUnknown reports whether the server doesn't know where groups have their folders, because its settings don't match vCenter. (If
	// vCenter doesn't have the datacenter or folder of spec.placement, the group has no folder: an error in the spec must not block a
	// deletion.)
	FolderUnknown bool
	// Template is what spec.template names.
	Template Template
	// Names are what names in the spec mean, as they were looked up since the group's status was written.
	Names []v1alpha1.NamedObject
	// Target is the datastore or datastore cluster of the group's clones, as the spec or the server's settings name it; empty if neither names
	// one, so that it isn't known before the clone.
	Target string
	// Candidates are the VMs that the entries of spec.adopt name, in the order of the entries.
	Candidates []Candidate
	// Free are the names in Query.Taken that no object in the group's folder has now.
	Free []string
	// Stalled has, by member, why the task of a running action is stalled. Such an action takes no slot.
	Stalled map[string]Fault
	// RulesOff reports whether the group's DRS rules differ from Query.Rules for the present members; false while that is unknown.
	RulesOff bool
}

// Outage is why vCenter's state is unknown, as groups are told; nil while it is known. What only the people who run the server can correct, such as
// its password, concerns no group: groups wait as in any outage, none needs its own operator, and none is told about the server's settings. Health
// has the fault itself.
func (s *VCenterState) Outage() *Fault {
	switch {
	case s.Known:
		return nil
	case s.Fault != nil && s.Fault.NeedsOperator:
		return &Fault{Reason: s.Fault.Reason, Message: "the server can't use vCenter (" + s.Fault.Reason + "): the people who run the server have to correct that, and its page says how"}
	case s.Fault != nil:
		return s.Fault
	}
	return &Fault{Reason: ReasonInventoryNotRead, Message: "vCenter's inventory is being read"}
}

// Candidate is a VM that an entry of spec.adopt names.
type Candidate struct {
	// Entry is the entry as written in the spec.
	Entry string
	// MoRef and Name of the VM, and the moRef of its folder.
	MoRef, Name, Folder string
	// ChangeVersion guards the write of the stamp.
	ChangeVersion string
	// Ordinal is the VM's ordinal in a former group of this name; -1 if it had none.
	Ordinal int32
	// VM is the VM as it is, for previews; nil if Done, or if there is a Fault. Of it, only what no stamp says counts: its hardware and its power state.
	VM *VM
	// Fault is why the VM cannot be adopted; nil if it can. Done reports that the VM already has this group's stamp, and so is in State.VMs;
	// then Fault is nil.
	Fault *Fault
	Done  bool
}

// Template is what spec.template names in vCenter. It is usable if it has exactly one path.
type Template struct {
	MoRef string
	// Paths are the inventory paths of all templates that match.
	Paths []string
	// Others are the names of some existing templates, for the message.
	Others []string
	// Datacenter is the datacenter that was searched.
	Datacenter string
	// Fingerprint distinguishes the template's disks from those of another template or version; empty if unknown.
	Fingerprint string
	// Host is the host from which clones copy the template; empty if unknown.
	Host string
	// Fault is why the item of a content library can't be used (yet); nil if it can, or if spec.template names no item.
	Fault *Fault
	// Meant is what the name meant before, if no template of the inventory has it now, or if it meant an item of a content library: then Namesakes are the
	// templates of the inventory that have it, too.
	Meant     *v1alpha1.NamedObject
	Namesakes []v1alpha1.IgnoredObject
}

// PowerState is a VM's power state in vSphere's words.
type PowerState string

// The power states (vSphere's VirtualMachinePowerState).
const (
	PoweredOn  PowerState = "poweredOn"
	PoweredOff PowerState = "poweredOff"
	Suspended  PowerState = "suspended"
)

// Text returns the state of a VM that doesn't run, in words.
func (p PowerState) Text() string {
	if p == Suspended {
		return "suspended"
	}
	return "powered off"
}

// VM is one virtual machine with a group's stamp.
type VM struct {
	// MoRef identifies the VM within its vCenter.
	MoRef string
	// Name is the VM's present name: an admin may have renamed it.
	Name string
	// Ordinal, Revision, Generation and Marked come from the stamp. Marked: the VM is chosen to be taken down, for MarkReason.
	Ordinal    int32
	Revision   string
	Generation int64
	Marked     bool
	Power      PowerState
	// Reachable is false while the VM is disconnected, inaccessible, orphaned, invalid, or hidden by a lost
	// privilege; Unreachable then says which. Such a VM exists, and the server doesn't change it.
	Reachable   bool
	Unreachable string
	// Question is the VM's pending question with its choices; empty if there is none. The VM is blocked until an operator answers it.
	Question string
	// Customization is the progress of the guest's customization.
	Customization Customization
	CPU           int32
	MemoryMB      int64
	// IPs are the addresses that the guest reported last since BootTime: they are kept while VMware Tools are silent.
	IPs []string
	// UnreportedAddresses are the VM's static addresses that the guest doesn't report, although it reports others.
	UnreportedAddresses []string
	Host                string
	// Folder is the moRef of the VM's folder.
	Folder string
	// IsTemplate reports whether the VM was converted to a template.
	IsTemplate bool
	// File is the datastore path of the VM's .vmx file; empty if not known.
	File string
	// BootTime is when the VM was last powered on, by vCenter's clock; zero while it is off.
	BootTime time.Time
	// Tools reports whether VMware Tools run in the guest now; Reported, whether they have reported since BootTime.
	Tools, Reported bool
	// CPUHotAdd and MemoryHotAdd report whether the running VM can get more CPUs or memory; MaxHotMemoryMB limits that memory (0: unknown).
	CPUHotAdd, MemoryHotAdd bool
	MaxHotMemoryMB          int64
	// ChangeVersion guards a reconfigure: vCenter refuses the reconfigure if the configuration has changed since.
	ChangeVersion string
	// VCenter is the instanceUuid of the vCenter in which the VM was created.
	VCenter string
	// InstanceUUID identifies the VM for its lifetime, also if it comes back with another moRef, or if vCenter changes its instanceUuid. Renumbered is
	// what vCenter changed it to; empty if it didn't, or if the stamp has it.
	InstanceUUID, Renumbered string

	// What follows is from the stamp, like Ordinal and Revision; times are by the clocks of the servers.

	// Created is when the VM was cloned or adopted; zero if an older version of the server did that.
	Created time.Time
	// Fingerprint is the template's at the clone; Template is what spec.template was then, empty if an older version of the server cloned the
	// VM.
	Fingerprint, Template string
	// MarkReason is why the VM is marked. Quarantined is since when it has been in quarantine; zero if it isn't.
	MarkReason  MarkReason
	Quarantined time.Time
	// Shutdown is the last time that the guest was asked to shut down.
	Shutdown Moment
	// Restarted is when healing last reset the VM; zero if never.
	Restarted time.Time
	// Former says what an adopted VM was before its adoption.
	Former Former
	// MarkedAt is when the VM was marked; zero if it isn't marked, or if an older version of the server marked it.
	MarkedAt time.Time
	// Home is where the group's folder was at the clone (Home.String).
	Home string
	// Addresses are the VM's static addresses (AddressText).
	Addresses string
	// Standby reports whether the VM was cloned as a standby member and hasn't been promoted since.
	Standby bool
	// Prepared is the preparation that Prepare made (PreparationOf); empty if none. It begins with Unprepared if the preparation is due before
	// the first power-on.
	Prepared string
	// Tagged is when the VM's tags and attributes were set or compared last; zero if the spec had none then, or if an older version of the server did that.
	Tagged Tagged
	// Disks are the disks that the spec gave the VM (DiskText); empty if none.
	Disks string
	// Allocation are the reservations, limits and shares that the spec gave the VM (AllocationOf); empty if none.
	Allocation string
	// ClonedFor shows what the VM was cloned for (ClonedFor); empty if it was adopted or resized since, or if an older version of the server cloned it.
	ClonedFor string
}

// OutOfReach says, in a note, why vCenter can't reach a VM, and on which host it was last: a host that is down is the cause for all of its VMs.
func OutOfReach(state, host string) string {
	if host == "" {
		return state
	}
	return state + ", on " + host
}

// MarkReason is why a member is marked: it is to be removed, or to be power-cycled.
type MarkReason string

// The reasons for a mark. A member with MarkReasonPowerCycle isn't removed: it is powered off, resized, and powered on again.
const (
	MarkReasonScaleIn MarkReason = "ScaleIn"
	MarkReasonUpdate  MarkReason = "Update"
	MarkReasonResize  MarkReason = "Resize"
	MarkReasonHealing MarkReason = "Healing"
	MarkReasonReplace MarkReason = "Replace"
	// MarkReasonDuplicate: another VM is the member. The server keeps this VM in quarantine without a time limit.
	MarkReasonDuplicate MarkReason = "Duplicate"

	MarkReasonPowerCycle MarkReason = "PowerCycle"
)

// HasReported reports whether VMware Tools have reported since the VM was powered on.
func (vm *VM) HasReported() bool { return vm.Tools || vm.Reported || len(vm.IPs) > 0 }

// ServiceAddresses returns the addresses at which clients reach a running VM, the best first: those that the guest reported last since the VM was
// powered on; or, if it has reported none, the VM's static addresses.
func (vm *VM) ServiceAddresses() []string {
	if len(vm.IPs) > 0 {
		return vm.IPs
	}
	return vm.StaticAddresses()
}

// StaticAddresses returns the VM's static addresses, by adapter. An adopted VM has none.
func (vm *VM) StaticAddresses() []string {
	if vm.Former != (Former{}) {
		return nil
	}
	return AddressesIn(vm.Addresses)
}

// MarkedForRemoval reports whether the VM has a mark, and not only that of a power cycle.
func (vm *VM) MarkedForRemoval() bool { return vm.Marked && vm.MarkReason != MarkReasonPowerCycle }

// Moment is a time while a VM was on, and the VM's BootTime then, which shows whether the VM was powered on again
// since, without comparing vCenter's clock with the server's.
type Moment struct{ At, Boot time.Time }

// bootTolerance is shorter than the power cycle of any VM.
const bootTolerance = 2 * time.Second

// SameBoot reports whether two readings of a VM's BootTime are of the same power-on; a zero reading is of none. vCenter derives the time from
// what the host reports (all VMs of one host of a recorded vCenter 8.0.1 share their fraction of a second), so after a vMotion or a
// reconnect of the host a reading may differ by a fraction of a second.
func SameBoot(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < bootTolerance
}

// Tagged is a time at which a VM's tags and attributes were compared with the spec: the VM's moRef then, because vCenter keeps tags by the moRef, and
// TryAgainOf the group.
type Tagged struct {
	// MoRef is TagDetached if one of vCenter's events says since that a VM of this name lost a tag.
	MoRef, Asked string
	At           time.Time
}

// TagDetached stands for a moRef for which the tags are to be compared again.
const TagDetached = "(a tag was detached)"

// TryAgainOf distinguishes the values of the annotation with which an operator asks for another try; empty without one.
func TryAgainOf(g *v1alpha1.VmGroup) string {
	text := g.Annotations[v1alpha1.AnnotationTryAgain]
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// HasTags reports whether the spec has tags or attributes.
func HasTags(spec *v1alpha1.VmGroupSpec) bool { return len(spec.Tags)+len(spec.CustomAttributes) > 0 }

// Former is what an adopted VM was before: the entry of spec.adopt, its name, and the moRef of its folder.
type Former struct{ Entry, Name, Folder string }

// IsStandby reports whether the VM is a standby member. If an admin powered a standby member on, it is a member, whatever its stamp says.
func (vm *VM) IsStandby() bool {
	return vm.Standby && vm.Power == PoweredOff && vm.Quarantined.IsZero()
}

// State is the state of a pending action.
type State string

// The states of a pending action.
const (
	// Running: vCenter's task is running, or has ended but its effect is not visible in the inventory yet.
	Running State = "Running"
	// BackingOff: the last try failed; the next one waits.
	BackingOff State = "BackingOff"
	// Due: the last try failed; the next one can begin.
	Due State = "Due"
)

// Pending is an action that was started and may not be visible yet, or one that failed and waits.
type Pending struct {
	Op      Op
	Ordinal int32
	MoRef   string
	State   State
	// Fault is why the last try failed; the zero Fault if none has failed.
	Fault Fault
	// Home is the home of the folder that a Clone clones into (Home.String), and Standby reports whether it makes a standby member.
	Home    string
	Standby bool
	// MarkReason is the reason that a Mark writes into the stamp.
	MarkReason MarkReason
	// Tried is a step for the same VM that failed before this one began, and that may have taken the VM down (Op.TakesDown); empty if there
	// was none.
	Tried Op
}

// Unrehearsed reports whether a Mark was not written because the successor can't be cloned.
func (p *Pending) Unrehearsed() bool { return p.Op == Mark && p.Fault.Reason != "" && p.Fault.Untried }

// AnyRunning reports whether an action is running.
func (o *Observed) AnyRunning() bool {
	for _, p := range o.Pending {
		if p.State == Running {
			return true
		}
	}
	return false
}

// Keys of actions that concern no single member, in Action.Key and Observed.Pending. No VM has such a name.
const (
	FolderKey  = ""
	ConfirmKey = "*"
	RulesKey   = "/rules"
)

// Owns reports whether a folder is known to be the group's: it is in OwnFolders, or contains a member.
func (o *Observed) Owns(folder string) bool {
	return slices.Contains(o.OwnFolders, folder) ||
		slices.ContainsFunc(o.State.VMs, func(vm VM) bool { return vm.Folder == folder && vm.Quarantined.IsZero() })
}

// ClockSkew is how far ahead another replica's clock may be. The server ignores a time that is further ahead.
const ClockSkew = time.Minute

// Lets reports whether a failure does not delay an action: the failure concerned another VM of that name; or a power-on, which backs off
// because the guest halts repeatedly, and doesn't affect other steps; or it says that a duplicate was in use, and is to be kept.
func (p *Pending) Lets(a Action) bool {
	return p.State == BackingOff && (p.MoRef != "" && p.MoRef != a.MoRef || p.Op == PowerOn && a.Op != PowerOn ||
		p.Fault.Reason == ReasonDuplicateMember && a.Op != p.Op)
}

// Unselected reports whether the call is a finalize for a group that is not being deleted.
func (c *Call) Unselected() bool { return c.Finalizing && c.Group.DeletionTimestamp.IsZero() }

// Unselected reports whether the group is not being deleted and its CompositeController no longer selects it.
func (o *Observed) Unselected() bool { return o.Finalizing && o.Group.DeletionTimestamp.IsZero() }
