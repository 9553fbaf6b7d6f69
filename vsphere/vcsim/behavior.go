package vcsim

import "time"

// Behavior selects how this vCenter, its hosts and its guests misbehave. With the zero value, none misbehaves. Its functions are called with
// locks held and must not call this vCenter; a nil function matches no VM.
type Behavior struct {
	// BreakGuests makes guests that start from now on have no VMware Tools and no address, until a reset.
	BreakGuests func(VM) bool
	// HangShutdown makes guests ignore requests to shut down or reboot. It is called at the time of the halt.
	HangShutdown func(VM) bool
	// IgnoreGuestinfo makes guests that boot from now on ignore cloud-init's metadata and their customization, as a template without
	// cloud-init does: they use DHCP, and keep the template's host name.
	IgnoreGuestinfo func(VM) bool
	// FailCustomizations makes the customization fail in guests, with this error message.
	FailCustomizations func(VM) bool
	CustomizationError string
	// CountSourceAdapters makes vCenter compare a clone's customization with the network adapters of the clone's source, as if the clone kept them.
	CountSourceAdapters bool
	// AskAtPowerOn makes a VM raise a question whenever a client powers it on: the task waits at 95 % for an operator's answer
	// (pyvmomi-community-samples#55). A change of AskAtPowerOn does not end questions that were raised. A power-on by Admin raises none.
	AskAtPowerOn func(VM) bool
	Question     Question

	// RefuseLate makes a clone fail at its end, instead of at once, if another VM in creation has the clone's name.
	RefuseLate bool
	// NameDirectoriesByID gives the directories of clones, and of disks that are moved, UUIDs as names, as on vSAN, instead of the names of
	// their VMs.
	NameDirectoriesByID bool
	// DelayEvents hides new events from clients for a time.
	DelayEvents time.Duration
	// RaiseEventKeys is added to the keys of all events. Event keys are int32, and overflow (vcenter-event-broker-appliance#809).
	RaiseEventKeys int32

	// LagFirstClassDisks makes a disk appear in lists this long after its creation.
	LagFirstClassDisks time.Duration
	// AllowSecondAttach makes vCenter attach a disk to a second VM. When one of the VMs is powered on, a power-on of the others is refused.
	AllowSecondAttach bool
	// RefuseOnlineExtend makes hosts, like those before vSphere 7.0 U2, not extend the disks of running VMs.
	RefuseOnlineExtend bool
}

// Behave changes the behavior, from now on.
func (v *inventory) Behave(change func(*Behavior)) {
	v.world.Lock()
	defer v.world.Unlock()
	change(&v.behavior)
}
