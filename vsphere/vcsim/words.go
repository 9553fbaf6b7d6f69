package vcsim

import (
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/managed"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/wire"
)

// What the packages below export to users of a vCenter, under the names of this package: no other package imports them.

// VMs, and what else there is.
type (
	// VM is a VM as it is now, regardless of privileges.
	VM = managed.VM
	// Details is everything else that a VM was given, regardless of privileges.
	Details = managed.Details
	// NIC is a network adapter.
	NIC = managed.NIC
	// Disk is a virtual disk.
	Disk = managed.Disk
	// Rule is a DRS rule about VMs.
	Rule = managed.Rule
	// Kept is a VM that was unregistered with a folder, and whose files are still on the datastore.
	Kept = managed.Kept
	// Guest says what comes up in a VM that is powered on, resumed or reset.
	Guest = managed.Guest
	// Health is how a guest is.
	Health = managed.Health
	// DRS is how a cluster places VMs. The zero value is fully automated.
	DRS = managed.DRS
	// Backup is what a backup of vCenter knows.
	Backup = managed.Backup
	// Question is what a VM asks. Until it is answered the VM stands still.
	Question = managed.Question
	// Latency is how long the tasks of each kind take.
	Latency = managed.Latency
	// Kind is a kind of task, by vCenter's TaskInfo.descriptionId.
	Kind = managed.Kind
)

// MovedOrCopied is what a VM asks at power-on whose files were moved, copied or registered again.
var MovedOrCopied = managed.MovedOrCopied

// The states of health. A sick guest has no VMware Tools and no address.
const (
	Well           = managed.Well
	SickUntilReset = managed.SickUntilReset
	SickForGood    = managed.SickForGood
)

// The kinds of tasks that FailTask and Latency know.
const (
	Clone                = managed.Clone
	PowerOn              = managed.PowerOn
	PowerOff             = managed.PowerOff
	Suspend              = managed.Suspend
	Reset                = managed.Reset
	ShutdownGuest        = managed.ShutdownGuest
	RebootGuest          = managed.RebootGuest
	Reconfigure          = managed.Reconfigure
	Rename               = managed.Rename
	Destroy              = managed.Destroy
	Relocate             = managed.Relocate
	PromoteDisks         = managed.PromoteDisks
	CreateVM             = managed.CreateVM
	RegisterVM           = managed.RegisterVM
	MoveInto             = managed.MoveInto
	RenameFolder         = managed.RenameFolder
	DestroyFolder        = managed.DestroyFolder
	UnregisterAndDestroy = managed.UnregisterAndDestroy
	PowerOnByDRS         = managed.PowerOnByDRS
	CreateSnapshot       = managed.CreateSnapshot
	RemoveSnapshots      = managed.RemoveSnapshots
	Customize            = managed.Customize
	ReconfigureCluster   = managed.ReconfigureCluster
)

// The ways to a vCenter, and how they break.
type (
	// Wire is a way to this vCenter: a listener of its own, whose connections and calls break as it is told.
	Wire = wire.Wire
	// Call is one call by a wire.
	Call = wire.Call
	// Break says what becomes of a call.
	Break = wire.Break
	// BreakKind is a way to break.
	BreakKind = wire.BreakKind
	// Entry is a call and what became of it.
	Entry = wire.Entry
)

// The ways to break.
const (
	Pass         = wire.Pass
	Refused      = wire.Refused
	ReplyLost    = wire.ReplyLost
	SessionGone  = wire.SessionGone
	Faulted      = wire.Faulted
	Stalled      = wire.Stalled
	KilledBefore = wire.KilledBefore
	KilledAfter  = wire.KilledAfter
)
