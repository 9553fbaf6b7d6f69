package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Op is a kind of step. A step is a single vCenter task (or a single read, for ConfirmGone), so that the next plan can continue after a
// crash during a step or between two.
type Op string

// The steps, in the order of their rank: steps that finish something come first, steps that remove something last.
const (
	// CreateFolder makes the group's folder <root>/<namespace>/<group>. An existing one is success.
	CreateFolder Op = "CreateFolder"
	// CreateQuarantine makes the folder "quarantine" in the group's folder, Folder. An existing one is success.
	CreateQuarantine Op = "CreateQuarantine"
	// Prepare finishes a member between its clone and its first power-on: tags, custom attributes, and the network configuration, which needs
	// the adapters' MAC addresses. Later it updates tags and attributes. At its end it records in the stamp what it did, guarded by the VM's
	// changeVersion.
	Prepare Op = "Prepare"
	// Restamp writes into a member's stamp what vCenter calls the VM now, guarded by the VM's changeVersion: its instanceUuid (VM.Renumbered), and
	// the vCenter's own.
	Restamp Op = "Restamp"
	// SetRules creates, changes or removes the group's DRS rules, so that they match spec.placement and list the existing members.
	SetRules Op = "SetRules"
	// Reconfigure gives a member the spec's cpu and memory, and their reservations, limits and shares, guarded by the VM's changeVersion.
	// ResizeArgs.Hot says whether the VM is on.
	Reconfigure Op = "Reconfigure"
	// SetDisks adds the disks of the spec that a member lacks, extends others, and records that in the stamp, guarded by the VM's
	// changeVersion. The VM can be running.
	SetDisks Op = "SetDisks"
	// DeleteDisks detaches and deletes persistent disks (DeleteDisksArgs) of a member that is about to be removed, and removes them from its
	// stamp.
	DeleteDisks Op = "DeleteDisks"
	// PowerOn powers a member on (or resumes it). It also promotes a standby member: it first removes that role from the stamp, guarded by the
	// VM's changeVersion, and from then on the VM is a member like any other.
	PowerOn Op = "PowerOn"
	// Unmark removes the mark of a member that was chosen for removal but is kept after all. It also makes a VM in quarantine, once renamed
	// back, a member again.
	Unmark Op = "Unmark"
	// Adopt writes a member's stamp into a VM without a stamp, or with the stamp of a former group of the same name, guarded by the VM's
	// changeVersion.
	Adopt Op = "Adopt"
	// Rename gives a VM of the group the name NewName.
	Rename Op = "Rename"
	// Move moves a VM of the group into Folder.
	Move Op = "Move"
	// Clone makes a member from the template, powered off, in the group's folder. The clone spec contains the stamp, so no VM of the group is
	// ever without one.
	Clone Op = "Clone"
	// Mark records in a member's stamp that it is chosen to be removed or power-cycled, why, and by which generation,
	// guarded by its changeVersion.
	Mark Op = "Mark"
	// Reset restarts a member that stays unready: it records the time in the stamp, guarded by the VM's changeVersion, and then resets the VM.
	Reset Op = "Reset"
	// ShutdownGuest records in a member's stamp when its guest is asked to shut down, guarded by the VM's changeVersion, and then asks the
	// guest.
	ShutdownGuest Op = "ShutdownGuest"
	// PowerOff powers off a member that is to be destroyed or changed.
	PowerOff Op = "PowerOff"
	// Quarantine records in a member's stamp that it is no longer a member, and since when, guarded by its
	// changeVersion.
	Quarantine Op = "Quarantine"
	// Release removes the stamp from a VM, guarded by its changeVersion. The VM is unmanaged from then on.
	Release Op = "Release"
	// Destroy re-reads a member's stamp, and then removes the VM and its disks.
	Destroy Op = "Destroy"
	// RemoveFolder removes the group's folder (and the quarantine in it), once a fresh read shows that the folder is empty and that no clone
	// runs. It keeps a folder that contains unmanaged VMs (fault FolderHoldsStranger), or that vCenter refuses to remove (FolderStays).
	RemoveFolder Op = "RemoveFolder"
	// ConfirmGone reads vCenter again. Success means that vCenter has no VM of the group and that no clone for the group runs.
	ConfirmGone Op = "ConfirmGone"
)

// folderGrace is the maximum age of the last hook call for which a folder can be created.
const folderGrace = 10 * time.Second

// MayCreateFolder reports whether the last hook call, at called, permits creating the group's folder now. A replica of the server whose
// lease outlives the group must not recreate the folder that another replica has removed. So the call must be recent, and must have come
// after the folder was last seen (zero: it never was).
func MayCreateFolder(now, called, seen time.Time) bool {
	return now.Sub(called) <= folderGrace && called.After(seen)
}

// Action is one step that the plan wants now. Equal observations give equal actions.
type Action struct {
	Op Op
	// Key is the name of the member ("web-0"), even if an admin renamed its VM; for a VM in quarantine, its name there; for the group's folder,
	// FolderKey.
	Key string
	// Ordinal of the member.
	Ordinal int32
	// MoRef of the VM (or, for RemoveFolder, of the folder) that is acted on; empty for Clone and CreateFolder.
	MoRef string
	// Reason says why the action is wanted, for people.
	Reason string

	// ChangeVersion guards what is written into the stamp: Restamp, Mark, Unmark, Reconfigure, SetDisks, Prepare, Adopt, Rename, Quarantine,
	// Release, Reset, and a PowerOn that promotes.
	ChangeVersion string
	// Generation is left in the stamp by Clone, Adopt, Mark, Unmark, Prepare, SetDisks, a PowerOn that promotes, and the ShutdownGuest
	// of a deletion: a replica of the server that knows only an older one then leaves the group alone.
	Generation int64
	// Marked allows ShutdownGuest, PowerOff, Quarantine and Destroy only if the stamp still has the mark: a member whose mark was withdrawn is
	// kept.
	Marked bool
	// Leaves is how many members a scale-in must leave when it removes this one; ShutdownGuest, PowerOff, Quarantine and Destroy count them right
	// before they act (Stays). 0: nothing is counted.
	Leaves int
	// Again is when the step that made the same change last began, if the change was made more than once and did not stay; else zero. The log
	// needs no further line about it.
	Again time.Time
	// Args are the further arguments of this kind of step; nil if it has none.
	Args Args
}

// ConcernsMember reports whether the action concerns one member, whose name is Key.
func (a Action) ConcernsMember() bool {
	return a.Key != FolderKey && a.Key != ConfirmKey && a.Key != RulesKey
}

// MemberName is the name of the member with that ordinal: "<group>-<ordinal>".
func MemberName(group string, ordinal int32) string { return fmt.Sprintf("%s-%d", group, ordinal) }

// QuarantineFolder is the name of the folder for removed members, in the group's folder.
const QuarantineFolder = "quarantine"

// QuarantineName is the name of a VM in quarantine. It leaves the member's name free for the next VM of the ordinal.
func QuarantineName(group string, ordinal int32, moRef string) string {
	return MemberName(group, ordinal) + "-" + moRef
}

// kinds are the kinds of steps in the order of their rank: steps that finish something come first, steps that remove something last.
var kinds = []struct {
	op Op
	// takesDown: the member may be down while the step runs, or after it.
	takesDown bool
	// lasts: what the step changes stays until the spec or the members change. If the same change is planned again, something undid it.
	lasts bool
}{
	{op: CreateFolder},
	{op: CreateQuarantine},
	{op: Restamp},
	{op: SetRules, lasts: true},
	{op: Prepare, lasts: true},
	{op: Reconfigure, lasts: true},
	{op: PowerOn},
	{op: SetDisks, lasts: true},
	{op: Unmark, takesDown: true},
	{op: Adopt},
	{op: Rename, lasts: true},
	{op: Move, lasts: true},
	{op: Clone},
	{op: Mark},
	{op: Reset, takesDown: true},
	{op: ShutdownGuest, takesDown: true},
	{op: PowerOff, takesDown: true},
	{op: DeleteDisks, takesDown: true},
	{op: Quarantine, takesDown: true},
	{op: Release, takesDown: true},
	{op: Destroy, takesDown: true},
	{op: RemoveFolder},
	{op: ConfirmGone},
}

// rank returns the place of a kind among all; -1 if it has none.
func (op Op) rank() int {
	for i := range kinds {
		if kinds[i].op == op {
			return i
		}
	}
	return -1
}

// Ops returns all kinds of steps, in the order of their rank.
func Ops() []Op {
	all := make([]Op, len(kinds))
	for i := range kinds {
		all[i] = kinds[i].op
	}
	return all
}

// TakesDown reports whether the member may be down while the step runs, or after it.
func (op Op) TakesDown() bool {
	i := op.rank()
	return i >= 0 && kinds[i].takesDown
}

// Lasts reports whether what the step changes stays until the spec or the members change. If the same change is planned again, something undid it.
func (op Op) Lasts() bool {
	i := op.rank()
	return i >= 0 && kinds[i].lasts
}

// TakesAway reports whether the step removes something, so that no later step depends on it.
func (op Op) TakesAway() bool { return op.rank() >= Mark.rank() }

// SortByRank orders actions by rank, then by ordinal.
func SortByRank(actions []Action) {
	slices.SortStableFunc(actions, func(a, b Action) int {
		return cmp.Or(cmp.Compare(a.Op.rank(), b.Op.rank()), cmp.Compare(a.Ordinal, b.Ordinal))
	})
}
