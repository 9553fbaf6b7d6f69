package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Op is one kind of step. Each is a single vCenter task (or a single read, for ConfirmGone), so that the next plan
// continues after a crash between two steps, or within one.
type Op string

// The steps, in the order of their rank: those that finish something come first, those that take something away last.
const (
	// CreateFolder makes the group's folder <root>/<namespace>/<group>. An existing one is success.
	CreateFolder Op = "CreateFolder"
	// CreateQuarantine makes the folder "quarantine" in the group's folder, Folder. An existing one is success.
	CreateQuarantine Op = "CreateQuarantine"
	// Prepare finishes a member after its clone, before it is powered on for the first time: tags, custom attributes, and
	// the network configuration that needs the adapters' MAC addresses. Later it brings tags and attributes up to date.
	// At its end it records in the stamp what it did, guarded by its changeVersion.
	Prepare Op = "Prepare"
	// SetRules creates, changes or removes the group's DRS rules, so that they follow spec.placement and
	// name the members that exist.
	SetRules Op = "SetRules"
	// Reconfigure gives a member the cpu and memory of the spec, and their reservations, limits and shares, guarded by its
	// changeVersion. Hot tells that it is on.
	Reconfigure Op = "Reconfigure"
	// SetDisks adds the disks of the spec that a member lacks, lets others grow, and records that in the stamp, guarded by its
	// changeVersion. The VM can be running.
	SetDisks Op = "SetDisks"
	// DeleteDisks detaches and deletes the persistent disks GiveUp of a member that is about to go, and takes them out of its stamp.
	DeleteDisks Op = "DeleteDisks"
	// PowerOn powers a member on (or resumes it). A standby member is promoted by it: the stamp says so first, guarded by its
	// changeVersion, and from then on it is a member like any other.
	PowerOn Op = "PowerOn"
	// Unmark takes the mark off a member that was chosen to be removed but stays after all. A VM in quarantine
	// that has its name back becomes a member again by it.
	Unmark Op = "Unmark"
	// Adopt writes a member's stamp into a VM that has none, or that of a former incarnation of the group,
	// guarded by its changeVersion.
	Adopt Op = "Adopt"
	// Rename gives a VM of the group the name NewName.
	Rename Op = "Rename"
	// Move moves a VM of the group into Folder.
	Move Op = "Move"
	// Clone makes a member from the template, powered off, in the group's folder, its stamp in the clone spec.
	Clone Op = "Clone"
	// Mark records in a member's stamp that it is chosen to be removed or power-cycled, why, and by which generation,
	// guarded by its changeVersion.
	Mark Op = "Mark"
	// Reset restarts a member that stays unready: it records the time in the stamp, guarded by its changeVersion, and then
	// resets the VM.
	Reset Op = "Reset"
	// ShutdownGuest records in a member's stamp when its guest is asked to shut down, guarded by its changeVersion, and then
	// asks it.
	ShutdownGuest Op = "ShutdownGuest"
	// PowerOff powers a member off that is to be destroyed, or to be changed.
	PowerOff Op = "PowerOff"
	// Quarantine records in a member's stamp that it is no longer a member, and since when, guarded by its
	// changeVersion.
	Quarantine Op = "Quarantine"
	// Release takes the stamp off a VM, which is unmanaged from then on, guarded by its changeVersion.
	Release Op = "Release"
	// Destroy removes a member and its disks, after its stamp was read again.
	Destroy Op = "Destroy"
	// RemoveFolder removes the group's folder (and the quarantine in it), once a fresh read shows it empty and no clone
	// running. A folder that contains unmanaged VMs is kept: fault FolderHoldsStranger; so is one that vCenter refuses to remove:
	// FolderStays.
	RemoveFolder Op = "RemoveFolder"
	// ConfirmGone reads vCenter again; success means that it has no VM of the group and no running clone of ours.
	ConfirmGone Op = "ConfirmGone"
)

// folderGrace is the maximum age of the last hook call for which a folder can be created.
const folderGrace = 10 * time.Second

// MayCreateFolder reports whether the last hook call, at called, permits creating the group's folder now. A replica of the server whose
// lease has outlived the group must not recreate the folder that another one has removed: so the call is recent, and came after the
// folder was last seen (zero if it never was).
func MayCreateFolder(now, called, seen time.Time) bool {
	return now.Sub(called) <= folderGrace && called.After(seen)
}

// Action is one step that is wanted now. Equal observations give equal actions.
type Action struct {
	Op Op
	// VM is the name of the member ("web-0"), even if an admin renamed its VM; for a VM in quarantine, the name that it
	// has there; FolderKey for the group's folder.
	VM string
	// Ordinal of the member.
	Ordinal int32
	// MoRef of the VM (or, for RemoveFolder, of the folder) that is acted on; empty for Clone and CreateFolder.
	MoRef string
	// Reason says why the action is wanted, for people.
	Reason string

	// ChangeVersion guards what is written into the stamp: Mark, Unmark, Reconfigure, SetDisks, Prepare, Adopt, Rename, Quarantine,
	// Release, Reset, and a PowerOn that promotes.
	ChangeVersion string
	// Generation is left in the stamp by Clone, Adopt, Mark, Unmark, Prepare, SetDisks, a PowerOn that promotes, and the ShutdownGuest
	// of a deletion: a replica of the server that knows only an older one then leaves the group alone.
	Generation int64
	// Marked allows ShutdownGuest, PowerOff, Quarantine and Destroy only if the member has the mark: if the mark was
	// withdrawn meanwhile, the member stays.
	Marked bool
	// Again says that the step's change was made before, more than once, and did not stay. The log need not tell of it again.
	Again bool
	// Args are what this kind of step needs beyond that; nil if nothing.
	Args Args
}

// MemberKey reports whether the action concerns one member, whose name is VM.
func (a Action) MemberKey() bool { return a.VM != FolderKey && a.VM != ConfirmKey && a.VM != RulesKey }

// MemberName is the name of the member with that ordinal: "<group>-<ordinal>".
func MemberName(group string, ordinal int32) string { return fmt.Sprintf("%s-%d", group, ordinal) }

// QuarantineFolder is the name of the folder within the group's, for removed members.
const QuarantineFolder = "quarantine"

// QuarantineName is the name of a VM in quarantine: it leaves the ordinal's name free.
func QuarantineName(group string, ordinal int32, moRef string) string {
	return MemberName(group, ordinal) + "-" + moRef
}

// TakesDown reports whether the member may be down while the step runs, or after it.
func (op Op) TakesDown() bool {
	switch op {
	case ShutdownGuest, PowerOff, Reset, Quarantine, DeleteDisks, Destroy, Release, Unmark:
		return true
	}
	return false
}

// ranks order the steps: those that finish something come first, those that take something away last.
var ranks = []Op{CreateFolder, CreateQuarantine, SetRules, Prepare, Reconfigure, PowerOn, SetDisks, Unmark, Adopt, Rename, Move, Clone, Mark, Reset, ShutdownGuest,
	PowerOff, DeleteDisks, Quarantine, Release, Destroy, RemoveFolder, ConfirmGone}

// TakesAway reports whether the step is one of those that take something away: nobody waits for what follows it.
func (op Op) TakesAway() bool { return slices.Index(ranks, op) >= slices.Index(ranks, Mark) }

// SortByRank orders actions by rank, then by ordinal.
func SortByRank(actions []Action) {
	slices.SortStableFunc(actions, func(a, b Action) int {
		return cmp.Or(cmp.Compare(slices.Index(ranks, a.Op), slices.Index(ranks, b.Op)), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}
