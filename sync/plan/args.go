package plan

import "time"

// Args are the arguments of one kind of step beyond the fields that every Action has:
//
//	step                                         args
//	-------------------------------------------  ----------------
//	Clone                                        CloneArgs
//	Adopt                                        AdoptArgs
//	Reconfigure                                  ResizeArgs
//	Move, CreateQuarantine                       MoveArgs
//	Rename                                       RenameArgs
//	Mark                                         MarkArgs
//	PowerOn                                      PowerOnArgs
//	PowerOff                                     PowerOffArgs
//	DeleteDisks                                  DeleteDisksArgs
//	Destroy                                      DestroyArgs
//	RemoveFolder, ConfirmGone                    ConfirmArgs
//	CreateFolder, Prepare, SetDisks, SetRules    *Details
//	the others                                   none
//
// An Action without Args has the zero value of its kind's type.
type Args interface{ args() }

// ArgsOf returns the arguments of a step; the zero value if they aren't of type T.
func ArgsOf[T Args](a Args) T {
	of, _ := a.(T)
	return of
}

// CloneArgs say what a member is cloned from, and where to. Folder and Template are moRefs; Fingerprint is the template's.
type CloneArgs struct {
	Folder, Template, Fingerprint string
	Revision                      string
	CPU                           int32
	MemoryMB                      int64
	// Standby reports whether the clone is a standby member.
	Standby bool
	Details *Details
}

// AdoptArgs are what an Adopt writes into the stamp. Entry is the entry of spec.adopt that names the VM.
type AdoptArgs struct {
	Entry, Revision, Fingerprint string
	Details                      *Details
}

// ResizeArgs are the size that a Reconfigure gives a VM. Hot reports whether the VM is on. Like is a Clone with the wanted reservations,
// limits and shares; nil if the VM already has them.
type ResizeArgs struct {
	CPU      int32
	MemoryMB int64
	Hot      bool
	Like     *Action
}

// MoveArgs are the moRef of the folder that a VM is moved into, or that the quarantine is made in.
type MoveArgs struct{ Folder string }

// RenameArgs are the name that a VM gets.
type RenameArgs struct{ Name string }

// MarkArgs are what a Mark writes into the stamp. Successor is the Clone that follows if the mark is for a replacement, otherwise nil: if
// vCenter lacks something that this Clone needs, the Mark writes nothing, and its fault is Untried.
type MarkArgs struct {
	Reason    MarkReason
	Successor *Action
}

// PowerOnArgs say whether a PowerOn promotes a standby member.
type PowerOnArgs struct{ Promotes bool }

// PowerOffArgs describe a PowerOff. Unheeded: the guest was asked to shut down, and didn't in time; a replica that has not asked the guest
// itself asks it first. Deleted: the member's group is being deleted, so the step doesn't read the VM afterwards, because the Destroy reads it.
type PowerOffArgs struct{ Unheeded, Deleted bool }

// DeleteDisksArgs are the ids of the disks that DeleteDisks deletes.
type DeleteDisksArgs struct{ IDs []string }

// DestroyArgs guard a Destroy. NeverOn allows it only if the VM was never powered on. Keeps are the ids of the persistent disks that
// outlive the VM: if the stamp says that another replica has deleted one of them, the VM is kept until the status no longer lists that
// disk.
type DestroyArgs struct {
	NeverOn bool
	Keeps   []string
}

// ConfirmArgs say since when this process has known that a group is deleted, or no longer selected. For each such time, the step lists
// again the clones that the group's end waits for.
type ConfirmArgs struct{ Since time.Time }

func (CloneArgs) args()       {}
func (AdoptArgs) args()       {}
func (ResizeArgs) args()      {}
func (MoveArgs) args()        {}
func (RenameArgs) args()      {}
func (MarkArgs) args()        {}
func (PowerOnArgs) args()     {}
func (PowerOffArgs) args()    {}
func (DeleteDisksArgs) args() {}
func (DestroyArgs) args()     {}
func (ConfirmArgs) args()     {}
func (*Details) args()        {}

// Details returns the Details of a Clone, Adopt, Prepare, SetDisks, SetRules or CreateFolder; nil for other steps.
func (a Action) Details() *Details {
	switch of := a.Args.(type) {
	case CloneArgs:
		return of.Details
	case AdoptArgs:
		return of.Details
	case *Details:
		return of
	}
	return nil
}

// Standby reports whether a Clone makes a standby member, or a PowerOn promotes one.
func (a Action) Standby() bool {
	return ArgsOf[CloneArgs](a.Args).Standby || ArgsOf[PowerOnArgs](a.Args).Promotes
}

// Folder is the moRef of the folder that a VM is cloned or moved into.
func (a Action) Folder() string {
	if of, is := a.Args.(CloneArgs); is {
		return of.Folder
	}
	return ArgsOf[MoveArgs](a.Args).Folder
}
