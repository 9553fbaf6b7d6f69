package vcsim

import (
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/course"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/fcd"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/managed"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/wire"
)

// These are the names of the packages below that users of a vCenter need: no other package imports those packages.

// Objects of the inventory.
type (
	// VM is the current state of a VM, regardless of privileges.
	VM = managed.VM
	// Details is the rest of a VM's configuration, regardless of privileges.
	Details = managed.Details
	// NIC is a network adapter.
	NIC = managed.NIC
	// Disk is a virtual disk.
	Disk = managed.Disk
	// FirstClassDisk is the current state of a first-class disk, regardless of privileges.
	FirstClassDisk = fcd.FirstClassDisk
	// Write is what a guest wrote to a first-class disk in one period of power.
	Write = fcd.Write
	// Rule is a DRS affinity or anti-affinity rule.
	Rule = managed.Rule
	// Kept is a VM that was unregistered with its folder and still has its files on the datastore.
	Kept = managed.Kept
	// Guest configures what starts in a VM that is powered on, resumed or reset.
	Guest = managed.Guest
	// Health is the state of a guest.
	Health = managed.Health
	// DRS is how a cluster places VMs. The zero value is fully automated.
	DRS = managed.DRS
	// Backup is the state that a backup of vCenter preserves.
	Backup = managed.Backup
	// Question is a question of a VM, which blocks the VM until it is answered.
	Question = managed.Question
	// Latency is the duration of tasks by kind.
	Latency = course.Latency
	// Limits bound how many tasks run at once.
	Limits = course.Limits
	// Kind is a kind of task, by vCenter's TaskInfo.descriptionId.
	Kind = managed.Kind
)

// MovedOrCopied is the question at power-on of a VM whose files were moved, copied or registered again.
var MovedOrCopied = managed.MovedOrCopied

// The states of health. A hung guest has no VMware Tools and no address.
const (
	Healthy        = managed.Healthy
	HungUntilReset = managed.HungUntilReset
	Hung           = managed.Hung
)

// The kinds of tasks for FailTask and Latency.
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
	CreateDisk           = fcd.Create
	ExtendDisk           = fcd.Extend
	DeleteDisk           = fcd.Delete
	UpdateDiskMetadata   = fcd.UpdateMetadata
)

// Wires and the ways to break their calls.
type (
	// Wire is a listener of the vCenter whose connections and calls break on demand.
	Wire = wire.Wire
	// Call is one call over a wire.
	Call = wire.Call
	// Break says how to break a call.
	Break = wire.Break
	// BreakKind is a way to break a call.
	BreakKind = wire.BreakKind
	// Entry is a call and its outcome.
	Entry = wire.Entry
)

// The ways to break a call.
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
