package plan

import "fmt"

// Op is one kind of step. Each is a single vCenter task (or a single read, for ConfirmGone), so that a crash
// between any two steps, or inside one, is continued by the next plan.
type Op string

// The steps, in the order of their rank: what finishes something begun comes first.
const (
	// CreateFolder makes the group's folder <root>/<namespace>/<group>. An existing one is success.
	CreateFolder Op = "CreateFolder"
	// PowerOn powers a member on (or resumes it).
	PowerOn Op = "PowerOn"
	// Unmark takes the mark off a member that was chosen to be removed and is wanted after all.
	Unmark Op = "Unmark"
	// Clone makes a member from the template, powered off, in the group's folder, its stamp in the clone spec.
	Clone Op = "Clone"
	// Mark writes into a member's stamp that it is chosen to be removed, and by which generation, guarded by its
	// changeVersion.
	Mark Op = "Mark"
	// PowerOff powers a member off that is to be destroyed.
	PowerOff Op = "PowerOff"
	// Destroy removes a member and its disks; the stamp is read once more before.
	Destroy Op = "Destroy"
	// RemoveFolder removes the group's folder, once a fresh read shows it empty and no clone under way. A folder
	// that holds strangers is kept: fault FolderHoldsStranger.
	RemoveFolder Op = "RemoveFolder"
	// ConfirmGone reads vCenter afresh; success means: no VM of the group, and no clone of ours under way.
	ConfirmGone Op = "ConfirmGone"
)

// Action is one step that is wanted now. It is comparable: equal observations give equal actions.
type Action struct {
	Op Op
	// VM is the name of the member ("web-0"), whatever an admin renamed its VM to; FolderKey for the group's folder.
	VM string
	// Ordinal of the member.
	Ordinal int32
	// MoRef of the VM (or, for RemoveFolder, of the folder) that is acted on; empty for Clone and CreateFolder.
	MoRef string
	// Reason says in words why the action is there.
	Reason string

	// What a Clone is made from. Folder and Template are moRefs. Generation is also what Mark and Unmark leave in
	// the stamp: a copy of the server that knows only an older one then leaves the group alone.
	Folder, Template string
	CPU              int32
	MemoryMB         int64
	Revision         string
	Generation       int64
	// ChangeVersion guards Mark and Unmark.
	ChangeVersion string
	// NeverOn tells that Destroy is for a VM that was never powered on, and for no other.
	NeverOn bool
	// Marked tells that PowerOff and Destroy are for a member that bears the mark, and for no other: if the mark
	// was withdrawn meanwhile, it stays.
	Marked bool
}

// MemberKey tells that the action concerns one member, whose name is VM.
func (a Action) MemberKey() bool { return a.VM != FolderKey && a.VM != ConfirmKey }

// MemberName is the name of the member with that ordinal: "<group>-<ordinal>".
func MemberName(group string, ordinal int32) string { return fmt.Sprintf("%s-%d", group, ordinal) }
