package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Ref names a group. The UID is its identity; namespace and name are for people.
type Ref struct {
	Namespace, Name string
	UID             types.UID
}

func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Observed is everything a plan is made from: what Kubernetes and vCenter show now, and what is running.
type Observed struct {
	// Group is the VmGroup: spec, metadata and the status that is stored now. planner.Make does not change it.
	Group *v1alpha1.VmGroup
	// Noticed is the newest status that this process has planned; nil if none. No call may have stored it yet: it says since when what is new
	// has been so.
	Noticed *v1alpha1.VmGroupStatus
	// Finalizing reports whether Metacontroller called /finalize. A Group that has a deletionTimestamp is to be removed;
	// without one, the group's CompositeController no longer selects it, and nothing is removed.
	Finalizing bool
	// Called is when the last hook call for this group came. Only a fresh one allows the server to create a folder. Blind reports whether vCenter's
	// state was unknown then, so that the call says nothing about folders that appear later, or don't.
	Called time.Time
	Blind  bool
	// FolderSeen is when the group's folder was last seen to exist; zero if it never was. A folder that was seen
	// and is gone may have been removed by another replica's finalize: only a call that came later allows to recreate it.
	FolderSeen time.Time
	// OwnFolders are the folders known to be the group's: a hook call came while the folder existed, so that it does not belong to a
	// later group of the same name; or this replica made it; or it had one of the group's VMs. Only these are used.
	OwnFolders []string
	// NewReplace are the entries of spec.replace that came with the newest spec, until a plan was made from it with vCenter's facts; none that
	// came before this process had a call for the group.
	NewReplace []v1alpha1.Replacement
	// NewestStamp is the highest generation ever seen in a stamp of this group, VMs that are gone included.
	NewestStamp int64
	// FinalizingSince is when this process first learned that the group is finalizing, or no longer selected.
	FinalizingSince time.Time
	// Cascade is what the deletion asks for the group's dependents: see Call.
	Cascade metav1.DeletionPropagation
	// Children are the group's child objects as Metacontroller saw them.
	Children map[ChildKey]ObservedChild
	// Related is what the customize hook asked for.
	Related Related
	// SharedClaims says which range of static addresses another group has, too; empty if none is known.
	SharedClaims string
	// ChildrenWantedSince says since when each desired child has been answered but not seen.
	ChildrenWantedSince map[ChildKey]time.Time
	// State is what vCenter says. It must be taken after Pending was.
	State VCenterState
	// Answers are what this replica of the server concluded from asking the members whether their service answers.
	Answers Answers
	// Pending says what is running or backing off, by the name of the member (or by FolderKey).
	Pending map[string]Pending
	// Emptied reports whether ConfirmGone succeeded after finalizing began: a fresh read of vCenter showed no VM of
	// this group, and no running clone. For a group that is no longer selected, it began after every lease was over.
	Emptied bool
	// Lease is how long a hook call permits acting. Resync is how often Metacontroller calls for a settled group.
	Lease, Resync time.Duration
	// Now is the time: time is data here.
	Now time.Time
	// AgesAt is as of when members are too old (update.maxAgeSeconds); zero: Now. A forecast is about those that are so at its beginning.
	AgesAt time.Time
}

// Call is one hook call: the desired state of a group, and what Kubernetes shows of it.
type Call struct {
	Group      *v1alpha1.VmGroup
	Finalizing bool
	Children   map[ChildKey]ObservedChild
	Related    Related
	// Cascade is what a group's deletion asks for its dependents: Orphan or Foreground; empty: Background, or the group isn't deleted.
	Cascade metav1.DeletionPropagation
}

// CascadeOf reads from a group that is being deleted what was asked for its dependents. The garbage collector removes its finalizer
// as soon as it has done its part, so a group that was seen with orphan says so in its status from then on.
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

// Related is what the customize hook asked for: the user data that spec.userData names.
type Related struct {
	// UserData is the text; Digest is a hash of it, for the revision. Both are empty where spec.userData is not set.
	UserData Sensitive
	Digest   string
	// Unrecognized says that no guest reads the text; empty if one might.
	Unrecognized string
	// Fault is why there is no user data although spec.userData names some; nil if there is.
	Fault *Fault
}

// Ref names the group of a call.
func (c *Call) Ref() Ref {
	return Ref{Namespace: c.Group.Namespace, Name: c.Group.Name, UID: c.Group.UID}
}

// Health is how this replica of the server sees vCenter; see VCenterState. Unfit is what in the server's settings keeps it from
// acting.
type Health struct {
	Known        bool
	UnknownSince time.Time
	Fault, Unfit *Fault
	// VCenter is the instanceUuid of the vCenter that was read.
	VCenter string
}

// VCenterState is what vCenter has of a group, as far as known.
type VCenterState struct {
	// Known is false while the inventory is missing, stale or partial. Unknown is not empty.
	Known bool
	// UnknownSince is when Known ceased to be true, or when the process began; zero while it is true.
	UnknownSince time.Time
	// Fault is why the inventory is not known, or what in the server's settings keeps it from acting (then
	// Known may be true); nil when all is well.
	Fault *Fault
	// VCenter is the instanceUuid of the vCenter that was read.
	VCenter string
	// VMs are the VMs with this group's stamp, wherever they are, ordered by ordinal and moRef.
	VMs []VM
	// Gone are those of Query.Recorded that were destroyed, or whose stamp somebody took off, and those in quarantine, or standby, that
	// vCenter does not have: such a VM is off, and its stamp says what it is when it comes back. A recorded VM
	// that is neither in VMs nor in Gone is not seen, but not gone.
	Gone []Gone
	// Vanished are members, recorded or seen before and not Superseded, that vCenter no longer has (it answers ManagedObjectNotFound, or has
	// given the moRef to another VM), without proof that they were destroyed; and those of which that is being found out.
	Vanished []Vanished
	// LastRemoved is the last member that another process of the server destroyed, as far as this one saw it.
	LastRemoved Removed
	// Folder is the moRef of the group's folder; empty while there is none. Quarantine is that of the folder in it
	// for removed members.
	Folder, Quarantine string
	// FolderUnknown reports whether it is not known where groups have their folders, as long as the server's settings do not fit.
	// (If the home in spec.placement cannot be found, there is no folder: a typing error in the spec blocks no deletion.)
	FolderUnknown bool
	// Template is what spec.template names.
	Template Template
	// Target is the datastore, or datastore cluster, that clones of the group go to, by whatever name the spec or the server's settings
	// give it; empty if none is named, so that it is not known before the clone.
	Target string
	// Candidates are what the entries of spec.adopt name, in their order.
	Candidates []Candidate
	// Free are the names in Query.Taken that no object in the group's folder has now.
	Free []string
	// Stalled are the running actions whose tasks are stalled, by member, and why: they take no slot.
	Stalled map[string]Fault
	// RulesOff reports whether the group's DRS rules differ from what Query.Rules wants for the present members;
	// false while that is unknown.
	RulesOff bool
}

// Removed is a member that was destroyed with the server's account, and when this process learned of it. The zero value is none.
type Removed struct {
	Name, MoRef string
	At          time.Time
}

// VMID identifies a VM for its life: a vCenter that was restored from a backup reuses moRefs. InstanceUUID is empty if it is not known.
type VMID struct{ MoRef, InstanceUUID string }

// Gone is a VM that a group no longer has.
type Gone struct {
	MoRef, InstanceUUID string
	// By is who destroyed it, by vCenter's events, or that this process did.
	By Actor
}

// Actor is who did something in vCenter. User is the account, empty if vCenter's events do not tell. Ours reports whether it is the
// server's: this process did it (then User is empty), or another one, or somebody else who has that account.
type Actor struct {
	User string
	Ours bool
}

// Departed are the VMs in Gone by moRef: groups of a thousand members ask for each.
type Departed map[string][]*Gone

// Departed returns Gone by moRef.
func (s *VCenterState) Departed() Departed {
	all := make(Departed, len(s.Gone))
	for i := range s.Gone {
		all[s.Gone[i].MoRef] = append(all[s.Gone[i].MoRef], &s.Gone[i])
	}
	return all
}

// Has reports whether a VM recorded with those identifiers is among them. One that is recorded with an instanceUuid is not gone because
// another record, of its moRef alone, is.
func (d Departed) Has(moRef, instanceUUID string) bool {
	_, is := d.As(moRef, instanceUUID)
	return is
}

// As is Has, and returns who destroyed it.
func (d Departed) As(moRef, instanceUUID string) (by Actor, is bool) {
	for _, x := range d[moRef] {
		if instanceUUID == "" || x.InstanceUUID == instanceUUID {
			return x.By, true
		}
	}
	return Actor{}, false
}

// IsGone is Departed.Has for a single question.
func (s *VCenterState) IsGone(moRef, instanceUUID string) bool {
	return slices.ContainsFunc(s.Gone, func(x Gone) bool {
		return x.MoRef == moRef && (instanceUUID == "" || x.InstanceUUID == instanceUUID)
	})
}

// Vanished is a member that vCenter no longer has, but that may still run.
type Vanished struct {
	MoRef, InstanceUUID, Name string
	Ordinal                   int32
	// How says what removed it from vCenter's inventory, as far as vCenter's events tell; empty while they are being read.
	How string
}

// Candidate is a VM that an entry of spec.adopt names.
type Candidate struct {
	// Entry is the entry as written in the spec.
	Entry string
	// MoRef and Name of the VM, and the moRef of the folder it is in.
	MoRef, Name, Folder string
	// ChangeVersion guards the stamp that is written into it.
	ChangeVersion string
	// Ordinal is what it had in a former incarnation of this group; -1 if it had none.
	Ordinal int32
	// Fault is why it cannot be adopted; nil if it can. For a VM that already has this group's stamp, and so is in
	// State.VMs, Done is set, and Fault is nil.
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
	// Datacenter is where it was looked for.
	Datacenter string
	// Fingerprint distinguishes its disks from those of another template, or of another version of it; empty if unknown.
	Fingerprint string
	// Host is where clones of it copy from; empty if not known.
	Host string
	// Fault is why what it names in a content library cannot be used (yet); nil if it names nothing there that is read.
	Fault *Fault
}

// PowerState is a VM's power state in vSphere's words.
type PowerState string

// The power states (vSphere's VirtualMachinePowerState).
const (
	PoweredOn  PowerState = "poweredOn"
	PoweredOff PowerState = "poweredOff"
	Suspended  PowerState = "suspended"
)

// Text is the state of a VM that does not run, in words.
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
	// Name is its name now: an admin may have renamed it.
	Name string
	// Ordinal, Revision, Generation and Marked come from the stamp. Marked: chosen to go, and Why.
	Ordinal    int32
	Revision   string
	Generation int64
	Marked     bool
	Power      PowerState
	// Reachable is false while the VM is disconnected, inaccessible, orphaned, invalid, or hidden by a lost
	// privilege; Unreachable then says which. Such a VM exists and is left alone.
	Reachable   bool
	Unreachable string
	// Question is the VM's pending question with its choices; empty if there is none. The VM is blocked until somebody answers.
	Question string
	// Customization is the progress of its guest's customization.
	Customization Customization
	CPU           int32
	MemoryMB      int64
	// IPs are the addresses that its guest reports, or reported last since Boot: that VMware Tools are silent takes none away.
	IPs []string
	// Untaken are the static addresses that it was given and that its guest does not report, although it reports others.
	Untaken []string
	Host    string
	// Folder is the moRef of the folder that it is in.
	Folder string
	// Boot is when it was powered on last, by vCenter's clock; zero while it is off.
	Boot time.Time
	// Tools reports whether VMware Tools run in its guest now; Reported, whether they have reported since Boot.
	Tools, Reported bool
	// CPUHotAdd and MemoryHotAdd report whether the running VM can be given more; MaxHotMemoryMB limits its
	// memory (0: unknown).
	CPUHotAdd, MemoryHotAdd bool
	MaxHotMemoryMB          int64
	// ChangeVersion guards a reconfigure: vCenter refuses it when the configuration changed meanwhile.
	ChangeVersion string
	// VCenter is the instanceUuid of the vCenter the VM was made in.
	VCenter string
	// InstanceUUID is the VM's own, for life: it comes back with it.
	InstanceUUID string

	// What follows is from the stamp, like Ordinal and Revision; times are by the clocks of the servers.

	// Created is when it was cloned or adopted; zero if an older server did it.
	Created time.Time
	// Fingerprint is the template's, as it was cloned; Template is what spec.template named it, empty if an older server cloned the VM.
	Fingerprint, Template string
	// Why it is marked. Quarantined is since when it has been in quarantine; zero if it is not.
	Why         Why
	Quarantined time.Time
	// Shutdown is the last time that its guest was asked to shut down.
	Shutdown Moment
	// Restarted is when it was last reset because it stayed unready; else zero.
	Restarted time.Time
	// Former is what an adopted VM was before.
	Former Former
	// MarkedAt is when it was marked; zero if it is not, or an older server did it.
	MarkedAt time.Time
	// Home is where its group's folder was when it was cloned (Home.String).
	Home string
	// Addresses are the static addresses that it was given (AddressText).
	Addresses string
	// Standby reports whether it was cloned as a standby member, and not promoted since.
	Standby bool
	// Prepared is what Prepare did (PreparationOf); empty if nothing; it begins with Unprepared if that is due before the first power-on.
	Prepared string
	// Disks are those that the spec gave it (DiskText); empty if none.
	Disks string
	// Allocation are the reservations, limits and shares that the spec gave it (AllocationOf); empty if none.
	Allocation string
}

// Why is why a member is marked: to be removed, or to be powered off for a while.
type Why string

// The reasons for a mark. A member with WhyPowerCycle stays: it is powered off for its new size, and on again.
const (
	WhyScaleIn Why = "ScaleIn"
	WhyUpdate  Why = "Update"
	WhyResize  Why = "Resize"
	WhyHealing Why = "Healing"
	WhyReplace Why = "Replace"
	// WhyDuplicate: another VM is the member. It is kept in quarantine, without an end.
	WhyDuplicate Why = "Duplicate"

	WhyPowerCycle Why = "PowerCycle"
)

// HasReported reports whether VMware Tools have reported since the VM was powered on.
func (vm *VM) HasReported() bool { return vm.Tools || vm.Reported || len(vm.IPs) > 0 }

// Reached are the addresses by which a running VM is reached, the best first: those that its guest reports, or reported last since it was
// powered on; or, if it has reported none, the static ones that it was given.
func (vm *VM) Reached() []string {
	if len(vm.IPs) > 0 {
		return vm.IPs
	}
	return vm.Given()
}

// Given are the static addresses that its guest is to take, by adapter. An adopted VM has none.
func (vm *VM) Given() []string {
	if vm.Former != (Former{}) {
		return nil
	}
	return AddressesIn(vm.Addresses)
}

// Moment is a time while a VM was on, and the VM's Boot then, which shows whether the VM was powered on again
// since, without comparing vCenter's clock with the server's.
type Moment struct{ At, Boot time.Time }

// bootTolerance is less than any VM takes to be powered off and on.
const bootTolerance = 2 * time.Second

// SameBoot reports whether two readings of a VM's Boot are of the same power-on; zero is of none. vCenter derives the time from what the
// host reports (all VMs of one host of a recorded vCenter 8.0.1 share their fraction of a second), so after a vMotion or a reconnect of
// the host it may be a fraction of a second off.
func SameBoot(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < bootTolerance
}

// Former is what an adopted VM was before: the entry of spec.adopt, its name, and the moRef of its folder.
type Former struct{ Entry, Name, Folder string }

// IsStandby reports whether the VM is a standby member. One that somebody powered on is a member, whatever its stamp says.
func (vm *VM) IsStandby() bool {
	return vm.Standby && vm.Power == PoweredOff && vm.Quarantined.IsZero()
}

// State is the state of a pending action.
type State string

// The states of a pending action.
const (
	// Running: vCenter's task is running, or has ended but its effect is not visible in the inventory yet.
	Running State = "Running"
	// BackingOff: the last try failed; the next waits.
	BackingOff State = "BackingOff"
	// Due: the last try failed; the next can begin.
	Due State = "Due"
)

// Pending is an action that was started and may not be visible yet, or one that failed and waits.
type Pending struct {
	Op      Op
	Ordinal int32
	MoRef   string
	State   State
	// Fault is why the last try failed; the zero Fault while there was none.
	Fault Fault
	// Home is where a Clone goes (Home.String), and Standby reports whether it makes a standby member.
	Home    string
	Standby bool
	// Why is what a Mark leaves in the stamp.
	Why Why
	// Tried is the step for the same VM that failed before this one began, and may have taken it down (Op.TakesDown);
	// empty if there was none.
	Tried Op
}

// Unrehearsed reports whether a Mark was not written because the clone of the successor cannot be made.
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

// Keys of actions that concern no single member, in Action.VM and Observed.Pending. No VM has such a name.
const (
	FolderKey  = ""
	ConfirmKey = "*"
	RulesKey   = "/rules"
)

// Owns reports whether a folder is known to be the group's: see OwnFolders, or a member is in it.
func (o *Observed) Owns(folder string) bool {
	return slices.Contains(o.OwnFolders, folder) ||
		slices.ContainsFunc(o.State.VMs, func(vm VM) bool { return vm.Folder == folder && vm.Quarantined.IsZero() })
}

// ClockSkew is how far ahead another replica's clock can be; a later time is ignored.
const ClockSkew = time.Minute

// Lets reports whether a failure does not delay an action: it concerned another VM of that name; or a power-on, which
// backs off because the guest halts again and again, and which affects no other step; or it says that a duplicate was in use, and
// is to be kept.
func (p *Pending) Lets(a Action) bool {
	return p.State == BackingOff && (p.MoRef != "" && p.MoRef != a.MoRef || p.Op == PowerOn && a.Op != PowerOn ||
		p.Fault.Reason == ReasonDuplicateMember && a.Op != p.Op)
}

// Unselected reports whether the call is a finalize for a group that is not being deleted.
func (c *Call) Unselected() bool { return c.Finalizing && c.Group.DeletionTimestamp.IsZero() }

// Unselected reports whether the group is not being deleted and its CompositeController no longer selects it.
func (o *Observed) Unselected() bool { return o.Finalizing && o.Group.DeletionTimestamp.IsZero() }

// Records are what a status and vCenter tell of the members of a group, for questions about many vanished ones.
type Records struct {
	byMoRef map[string][]*v1alpha1.Member
	shown   map[int32]bool // the ordinals whose recorded member vCenter shows
}

// RecordsOf returns the records of members in a status, and of the VMs that vCenter shows.
func RecordsOf(recorded []v1alpha1.Member, vms []VM) Records {
	r := Records{make(map[string][]*v1alpha1.Member, len(recorded)), make(map[int32]bool, len(recorded))}
	here := make(map[string][]string, len(vms)) // instanceUuids
	for i := range vms {
		here[vms[i].MoRef] = append(here[vms[i].MoRef], vms[i].InstanceUUID)
	}
	for i := range recorded {
		m := &recorded[i]
		r.byMoRef[m.MoRef] = append(r.byMoRef[m.MoRef], m)
		if slices.ContainsFunc(here[m.MoRef], func(id string) bool { return m.InstanceUUID == "" || id == "" || id == m.InstanceUUID }) {
			r.shown[m.Ordinal] = true
		}
	}
	return r
}

// Has reports whether the status has a vanished member.
func (r *Records) Has(x *Vanished) bool { return slices.ContainsFunc(r.byMoRef[x.MoRef], x.Is) }

// Supersede reports whether another VM is the member now that x was: the status has that one and not x, and vCenter shows it.
func (r *Records) Supersede(x *Vanished) bool { return !r.Has(x) && r.shown[x.Ordinal] }

// Is reports whether a recorded member is the vanished one.
func (x *Vanished) Is(m *v1alpha1.Member) bool {
	return x.MoRef == m.MoRef && (m.InstanceUUID == "" || x.InstanceUUID == "" || x.InstanceUUID == m.InstanceUUID)
}
