package plan

import "time"

// Args are what one kind of step needs beyond what every Action has:
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
// An Action without Args is one whose Args are the zero value of that type.
type Args interface{ args() }

// ArgsOf returns the arguments of a step; the zero value if it has none of that type.
func ArgsOf[T Args](a Args) T {
	of, _ := a.(T)
	return of
}

// CloneArgs are what a member is made from, and where. Folder and Template are moRefs; Fingerprint is the template's.
type CloneArgs struct {
	Folder, Template, Fingerprint string
	Revision                      string
	CPU                           int32
	MemoryMB                      int64
	// Standby: it makes a standby member.
	Standby bool
	Details *Details
}

// AdoptArgs are what an Adopt writes into the stamp. Entry is the entry of spec.adopt that it carries out.
type AdoptArgs struct {
	Entry, Revision, Fingerprint string
	Details                      *Details
}

// ResizeArgs are the size that a Reconfigure gives. Hot: its VM is on. Like is the Clone that would have the reservations, limits and shares
// that it gives; nil: the VM has them.
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

// MarkArgs are what a Mark leaves in the stamp. Successor is the Clone that follows if the mark is for a member that is replaced: if what
// it needs is not there, nothing is written, and the fault is Untried. Otherwise nil.
type MarkArgs struct {
	Why       Why
	Successor *Action
}

// PowerOnArgs say whether a PowerOn promotes a standby member.
type PowerOnArgs struct{ Promotes bool }

// PowerOffArgs say of which kind a PowerOff is. Unheeded: it is for a guest that was asked to shut down, and did not in time; a replica that
// has not asked it asks it now. Deleted: it is for a member of a group that is deleted, which is not read afterwards, for its Destroy reads it.
type PowerOffArgs struct{ Unheeded, Deleted bool }

// DeleteDisksArgs are the ids of the disks that DeleteDisks deletes.
type DeleteDisksArgs struct{ IDs []string }

// DestroyArgs guard a Destroy. NeverOn allows it only if the VM was never powered on. Keeps are the ids of the persistent disks that
// outlive the VM: if another replica has deleted one, the VM, whose stamp tells, stays until the status has left it out.
type DestroyArgs struct {
	NeverOn bool
	Keeps   []string
}

// ConfirmArgs say since when this process has known that a group is deleted, or no longer selected. The clones that its end waits for are
// listed again for each such time.
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

// Details are those of a Clone, Adopt, Prepare, SetDisks, SetRules or CreateFolder; nil for the others.
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
