package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Apply changes an observation as the success of an action would. Forecasts and property tests share this model of
// vCenter. Guests boot and halt at once. The slice of VMs is changed in place.
func Apply(o *Observed, a Action) {
	s := &o.State
	switch a.Op {
	case CreateFolder:
		s.Folder = "(new folder)"
		o.OwnFolders = append(slices.Clip(o.OwnFolders), s.Folder)
	case CreateQuarantine:
		s.Quarantine = "(new quarantine)"
	case Clone:
		of := ArgsOf[CloneArgs](a.Args)
		moRef := "new-" + a.Key
		for s.IsGone(moRef, "") || slices.ContainsFunc(s.VMs, func(vm VM) bool { return vm.MoRef == moRef }) ||
			slices.ContainsFunc(s.Vanished, func(x Vanished) bool { return x.MoRef == moRef }) {
			moRef += "-again"
		}
		s.VMs = append(s.VMs, VM{
			MoRef: moRef, Name: a.Key, Ordinal: a.Ordinal, Revision: of.Revision, Generation: a.Generation,
			Power: PoweredOff, Reachable: true, CPU: of.CPU, MemoryMB: of.MemoryMB, VCenter: s.VCenter, Folder: of.Folder,
			Fingerprint: of.Fingerprint, Created: o.Now, Home: a.home(), Addresses: a.addresses(),
			Prepared: a.unprepared(), Disks: a.disks(false), Standby: of.Standby, Template: a.template(), Allocation: a.allocation(), ClonedFor: a.clonedFor(),
		})
	case SetRules:
		s.RulesOff = false
	case Adopt:
		adoptInto(o, a)
	case RemoveFolder:
		s.Folder, s.Quarantine = "", ""
	case ConfirmGone:
		o.Emptied = true
		o.Children = maps.Clone(o.Children)
		clear(o.Children)
	}
	defer o.ruleOut(a)
	at := slices.IndexFunc(s.VMs, func(vm VM) bool { return vm.MoRef == a.MoRef })
	if at < 0 {
		return
	}
	vm := &s.VMs[at]
	if a.Op == Destroy || a.Op == Release {
		s.Gone = append(slices.Clone(s.Gone), Gone{MoRef: vm.MoRef, InstanceUUID: vm.InstanceUUID, By: Actor{Ours: true}})
		s.VMs = slices.Delete(s.VMs, at, at+1)
		return
	}
	vm.change(a, o.Now)
	if a.Op == Restamp && vm.VCenter != "" {
		vm.VCenter = s.VCenter
	}
	o.answer(vm, a.Op)
}

// answer records that the service of a member that boots answers.
func (o *Observed) answer(vm *VM, op Op) {
	if op != PowerOn && op != Reset || !o.Group.Spec.Readiness.Probes() {
		return
	}
	of := maps.Clone(o.Answers.Of)
	if of == nil {
		of = map[string]Answer{}
	}
	of[vm.MoRef] = Answer{Address: AskedAddress(vm.ServiceAddresses()), Concluded: Answering, Refused: o.Answers.NoneAllowed}
	o.Answers.Of = of
}

// AnswerSoon changes an observation as if each member without a conclusion yet answered.
func AnswerSoon(o *Observed) {
	for i := range o.State.VMs {
		vm := &o.State.VMs[i]
		a := o.Answers.Of[vm.MoRef]
		if address := AskedAddress(vm.ServiceAddresses()); address.IsValid() && !a.Refused && (a.Address != address || a.Concluded == "") && !o.Answers.Suppressed {
			o.answer(vm, PowerOn)
		}
	}
}

// Show changes an observation as it looks after Metacontroller applied the children of an answer.
func Show(o *Observed, children []Child) {
	shown := make(map[ChildKey]ObservedChild, len(children))
	for i := range children {
		c := &children[i]
		seen := o.Children[c.Key]
		if fields, is := c.Fields.(EndpointSliceFields); is {
			seen.Endpoints = EndpointsSeen(fields.Endpoints, c.Annotations[v1alpha1.AnnotationTerminatingSince])
		}
		shown[c.Key] = seen
	}
	o.Children = shown
}

// ruleOut records that the DRS rules no longer list exactly the members, after a member was added or removed. (vCenter removes a destroyed
// VM from its rules by itself; a single member needs no anti-affinity rule, and a host group without members needs no rule.)
func (o *Observed) ruleOut(a Action) {
	rules := RulesOf(&o.Group.Spec)
	if o.Finalizing || !rules.Wanted() {
		return
	}
	members, alike := 0, 0 // alike: members that are bound to the same host group
	_, at := rules.HostGroupOf(a.Ordinal)
	for i := range o.State.VMs {
		if vm := &o.State.VMs[i]; vm.Quarantined.IsZero() {
			members++
			if _, its := rules.HostGroupOf(vm.Ordinal); its == at {
				alike++
			}
		}
	}
	off := false
	switch a.Op {
	case Clone, Adopt, Unmark:
		off = rules.KeepApart() && members > 1 || rules.HostGroup != nil
	case Destroy:
		off = rules.KeepApart() && members == 1 || rules.HostGroup != nil && alike == 0
	case Quarantine:
		off = rules.KeepApart() && members == 1 || rules.HostGroup != nil
	}
	o.State.RulesOff = o.State.RulesOff || off
}

func (a *Action) home() string {
	if a.Details() == nil {
		return ""
	}
	return a.Details().Home
}

func (a *Action) template() string {
	if a.Details() == nil || a.Details().Spec == nil {
		return ""
	}
	return a.Details().Spec.Template
}

func (a *Action) allocation() string {
	if a.Details() == nil || a.Details().Spec == nil {
		return ""
	}
	return AllocationOf(a.Details().Spec)
}

func (a *Action) clonedFor() string {
	if a.Details() == nil || a.Details().Spec == nil {
		return ""
	}
	of := ArgsOf[CloneArgs](a.Args)
	return ClonedFor(a.Details().Spec, of.Revision, of.Fingerprint)
}

// unprepared returns the record of the pending preparation in a clone's stamp.
func (a *Action) unprepared() string {
	if a.Details() == nil {
		return ""
	}
	return PreparationDue(a.Details().Prepared, nil)
}

// disks returns the stamp's record of the disks after a Clone or SetDisks.
func (a *Action) disks(persistent bool) string {
	if a.Details() == nil || a.Details().Spec == nil {
		return ""
	}
	var all []MemberDisk
	if root := a.Details().Spec.RootDisk; root != nil {
		all = append(all, MemberDisk{SizeGiB: root.SizeGiB})
	}
	for i := range a.Details().Spec.Disks {
		d := &a.Details().Spec.Disks[i]
		x := MemberDisk{Name: d.Name, SizeGiB: d.SizeGiB, Shape: DiskShape(d)}
		if d.Persistent {
			if !persistent {
				continue
			}
			x.ID, x.Datastore = fmt.Sprintf("disk-%d-%s", a.Ordinal, d.Name), "(a datastore)"
			for _, known := range a.Details().KnownDisks {
				if known.Name == d.Name {
					x.ID, x.Datastore = known.ID, known.Datastore
				}
			}
		}
		all = append(all, x)
	}
	return DiskText(all)
}

// identified returns the stamp's record of the disks once their uuids were read.
func identified(text string) string {
	all := DisksIn(text)
	for i := range all {
		if all[i].Name != "" && all[i].UUID == "" {
			all[i].UUID = NoUUID
		}
	}
	return DiskText(all)
}

func (a *Action) addresses() string {
	if a.Details() == nil {
		return ""
	}
	return a.Details().AddressText
}

// change changes the VM as the action's success would.
func (vm *VM) change(a Action, now time.Time) {
	vm.Restamp(&a, now)
	switch a.Op {
	case PowerOn:
		vm.Power, vm.BootTime, vm.Standby, vm.Generation = PoweredOn, now, false, max(vm.Generation, a.Generation)
		vm.bootGuest()
	case Reset:
		vm.Restarted = now
		vm.bootGuest()
	case PowerOff, ShutdownGuest:
		if a.Op == ShutdownGuest {
			vm.Shutdown = Moment{At: now, Boot: vm.BootTime}
		}
		vm.Power, vm.BootTime, vm.Tools, vm.Reported, vm.IPs, vm.UnreportedAddresses = PoweredOff, time.Time{}, false, false, nil, nil
	case Reconfigure:
		to := ArgsOf[ResizeArgs](a.Args)
		if vm.CPU, vm.MemoryMB = to.CPU, to.MemoryMB; to.Like != nil {
			vm.Allocation = to.Like.allocation()
		}
		vm.ClonedFor = ""
	case Rename:
		vm.Name = ArgsOf[RenameArgs](a.Args).Name
	case Move:
		vm.Folder = a.Folder()
	case Restamp:
		vm.Renumbered = ""
	case Quarantine:
		vm.Quarantined = now
	case Prepare:
		vm.Prepared, vm.Generation = a.Details().Prepared, max(vm.Generation, a.Generation)
		vm.Disks = identified(vm.Disks)
		if spec := a.Details().Spec; spec != nil && HasTags(spec) {
			vm.Tagged = Tagged{MoRef: vm.MoRef, Asked: a.Details().Asked, At: now}
		}
	case DeleteDisks:
		vm.Disks = DiskText(slices.DeleteFunc(DisksIn(vm.Disks), func(d MemberDisk) bool { return slices.Contains(ArgsOf[DeleteDisksArgs](a.Args).IDs, d.ID) }))
	case SetDisks:
		vm.Disks, vm.Generation = identified(a.disks(true)), max(vm.Generation, a.Generation)
	}
}

func (vm *VM) bootGuest() {
	if vm.Tools = true; len(vm.IPs) == 0 {
		vm.IPs = vm.StaticAddresses()
	}
	if len(vm.IPs) == 0 {
		vm.IPs = []string{fmt.Sprintf("198.18.%d.%d", vm.Ordinal/250%256, vm.Ordinal%250+1)} // from a network that is reserved for tests (RFC 2544)
	}
}

// adoptInto makes a candidate a member.
func adoptInto(o *Observed, a Action) {
	s, as := &o.State, ArgsOf[AdoptArgs](a.Args)
	s.Candidates = slices.Clone(s.Candidates)
	for i := range s.Candidates {
		c := &s.Candidates[i]
		if c.MoRef != a.MoRef || c.Done {
			continue
		}
		c.Done = true
		vm := VM{
			MoRef: c.MoRef, Name: c.Name, Folder: c.Folder, Ordinal: a.Ordinal, Revision: as.Revision, Fingerprint: as.Fingerprint,
			Generation: a.Generation, Power: PoweredOff, Reachable: true, CPU: o.Group.Spec.CPU, MemoryMB: o.Group.MemoryMB(),
			VCenter: s.VCenter, Created: o.Now, Home: a.home(), Addresses: a.addresses(), Former: Former{Entry: c.Entry, Name: c.Name, Folder: c.Folder},
		}
		if is := c.VM; is != nil {
			vm.CPU, vm.MemoryMB, vm.Allocation, vm.Power, vm.BootTime = is.CPU, is.MemoryMB, is.Allocation, is.Power, is.BootTime
			vm.Tools, vm.Reported, vm.IPs, vm.CPUHotAdd, vm.MemoryHotAdd, vm.MaxHotMemoryMB = is.Tools, is.Reported, is.IPs, is.CPUHotAdd, is.MemoryHotAdd, is.MaxHotMemoryMB
		}
		s.VMs = append(s.VMs, vm)
	}
}
