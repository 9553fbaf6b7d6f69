package vsphere

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// removal is a step on the way of a member out of its group.
type removal struct{ *step }

// mark records in a member's stamp that it is chosen to go, or that it stays.
// Because of changeVersion vCenter refuses it if anybody changed the VM since it was read: of two replicas, one
// sees the other's change.
func (r removal) mark(ctx context.Context) error {
	m, err := r.own()
	if err != nil {
		return err
	}
	next := stampAfter(m, r.action)
	done := next == m.Stamp // nothing to do, and published
	if done && r.action.Op == plan.Unmark {
		return r.awaitPower(ctx, inventory.VMRef(m.MoRef), tasks.TakingDown...)
	}
	if done {
		return nil
	}
	if err := r.unchanged(m); err != nil {
		return err
	}
	if r.action.Op == plan.Unmark {
		if err := r.writeStamp(ctx, m.MoRef, m.ChangeVersion, next.Encode()); err != nil {
			return err
		}
		return r.awaitPower(ctx, inventory.VMRef(m.MoRef), tasks.TakingDown...)
	}
	if successor := plan.ArgsOf[plan.MarkArgs](r.action.Args).Successor; successor != nil {
		if err := r.rehearse(ctx, *successor); err != nil {
			return vcfault.Untried(err)
		}
	}
	err = r.reconfigure(ctx, inventory.VMRef(m.MoRef), types.VirtualMachineConfigSpec{ChangeVersion: m.ChangeVersion,
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: next.Encode()}}})
	// Another replica may have marked another member meanwhile, and the stream may not have shown it yet. Both read
	// all members after they wrote their own mark, so at least one of them sees both marks before it takes its member
	// down: otherwise the two together could take down too many. A mark whose answer was lost may exist as well, so that is waited for, too.
	if err := cmp.Or(err, r.readMembers(ctx)); err != nil {
		return err
	}
	r.marks.Store(m.MoRef, next.MarkedAt)
	return nil
}

// readMembers reads all members of the group.
func (st *step) readMembers(ctx context.Context) error {
	st.reader.Touch(st.inventory.MemberRefs(st.ref.UID)...)
	return st.reader.Read(ctx, st.vm())
}

// readSinceMark makes sure that this process has read all members of the group since a member was marked, before it takes that member
// down. The process that writes a mark has (mark). Any other process may see this mark, and not yet the one that a third replica has
// written for another member: it would take down one member, and the third replica another one.
func (st *step) readSinceMark(ctx context.Context, m *inventory.Member) error {
	if at, known := st.marks.Load(m.MoRef); known && m.Stamp.MarkedAt.Equal(at.(time.Time)) {
		return nil
	}
	planned := st.memberStates()
	if err := st.readMembers(ctx); err != nil {
		return err
	}
	st.marks.Store(m.MoRef, m.Stamp.MarkedAt)
	if !maps.Equal(planned, st.memberStates()) {
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "Members of %s have changed since it was planned that %s goes; it is planned again.", st.ref, st.action.VM)
	}
	return nil
}

// memberState is what a plan depends on that another replica changes.
type memberState struct {
	changeVersion string
	power         plan.PowerState
}

// memberStates returns the states of the group's members, by moRef.
func (st *step) memberStates() map[string]memberState {
	states := map[string]memberState{}
	for _, ref := range st.inventory.MemberRefs(st.ref.UID) {
		if m := st.inventory.Member(ref.Value); m != nil {
			states[ref.Value] = memberState{m.ChangeVersion, m.Power}
		}
	}
	return states
}

// stampAfter returns the member's stamp as a step leaves it that marks it, or takes its mark off.
func stampAfter(m *inventory.Member, a plan.Action) stamp.Stamp {
	vm, next := m.Stamp.Onto(m.VM), m.Stamp
	vm.Restamp(&a, stamp.Time(time.Now()))
	next.Marked, next.Why, next.MarkedAt, next.Generation = vm.Marked, vm.Why, vm.MarkedAt, vm.Generation
	next.Quarantined, next.Shutdown = vm.Quarantined, vm.Shutdown
	return next
}

// quarantine records in a marked member's stamp that it is no longer a member. The VM must be off, but another replica of the
// server, which does not know of the mark yet, may be powering it on now.
func (r removal) quarantine(ctx context.Context) error {
	m, err := r.own()
	if err != nil {
		return err
	}
	if !m.Stamp.Quarantined.IsZero() {
		return nil // nothing to do, and published
	}
	if err := r.unchanged(m); err != nil {
		return err
	}
	vm := r.vm()
	if err := r.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
		return err
	}
	now, err := r.lookUnchanged(ctx, m)
	switch {
	case err != nil:
		return err
	case now.Power != types.VirtualMachinePowerStatePoweredOff:
		return notOff(now.Power)
	}
	next := m.Stamp
	next.Quarantined = stamp.Time(time.Now())
	if err := r.writeStamp(ctx, r.action.MoRef, m.ChangeVersion, next.Encode()); err != nil {
		return err
	}
	if late := r.inventory.Member(r.action.MoRef); late != nil && late.Power == plan.PoweredOn {
		if err := r.restamp(ctx, late, func(s *stamp.Stamp) { s.Quarantined = time.Time{} }); err != nil {
			return err
		}
		return notOff(types.VirtualMachinePowerStatePoweredOn)
	}
	return nil
}

func notOff(power types.VirtualMachinePowerState) *vcfault.Error {
	return vcfault.New(vcfault.ReasonInvalidPowerState, false, "The VM is %s, so it was not put into quarantine; its state is read again.", power)
}

// destroy removes a member and the disks that its clone made, after it has read the stamp again from vCenter. It first detaches
// disks from elsewhere, and keeps them.
func (r removal) destroy(ctx context.Context) error {
	vm, id := r.vm(), plan.VMID{MoRef: r.action.MoRef}
	for awaited := false; ; awaited = true {
		now, err := r.ReadFresh(ctx, vm)
		if vcfault.MissingObject(err) == vm {
			return r.reader.Read(ctx, vm)
		}
		if err != nil {
			return err
		}
		if err := check(now, r.ref, r.action); err != nil {
			return err
		}
		id.InstanceUUID = now.InstanceUUID
		if plan.ArgsOf[plan.DestroyArgs](r.action.Args).NeverOn {
			if err := r.neverOn(ctx, now); err != nil {
				return err
			}
		}
		kept := now.ForeignDisks()
		if len(kept) == 0 {
			break
		}
		if !awaited { // a running power-on: changeVersion, which guards the change, does not tell
			if err := r.awaitPower(ctx, vm, tasks.PoweringOn...); err != nil {
				return err
			}
			continue
		}
		if err := cmp.Or(partable(now, r.action), detachable(now, r.action, kept)); err != nil {
			return err
		}
		if err := r.detach(ctx, now, kept); err != nil {
			return err
		}
	}
	var vcenter string
	_, err := r.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		vcenter = s.UUID
		res, err := methods.Destroy_Task(ctx, s.Vim, &types.Destroy_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	if err != nil && vcfault.MissingObject(err) != vm {
		return err
	}
	r.asked.Delete(r.action.MoRef)
	r.marks.Delete(r.action.MoRef)
	if err != nil {
		return r.reader.Read(ctx, vm)
	}
	r.inventory.Destroyed(id)
	r.clones.HasRemoved(r.ref.UID)
	return r.reader.Report(ctx, inventory.Reading{VCenter: vcenter, Gone: []string{r.action.MoRef}})
}

// partable reports whether disks can be detached from a VM that goes: its guest must not run without them.
func partable(x *FreshVM, a plan.Action) error {
	if x.Power == types.VirtualMachinePowerStatePoweredOff {
		return nil
	}
	return vcfault.New(vcfault.ReasonInvalidPowerState, false, "%s is %s, so its disks were not detached; it is read again.", a.VM, x.Power)
}

// detachable reports whether vCenter can detach disks and keep their files. It cannot if one is part of a snapshot: "Cannot
// remove virtual disk from the virtual machine because it or one of its parent disks is part of a snapshot of the virtual machine"
// (pyvmomi-community-samples#352, terraform-provider-vsphere#1651). Then the VM writes to a delta of it. The snapshots belong to an
// operator or to backup software, and the server must not remove them.
func detachable(x *FreshVM, a plan.Action, kept []*types.VirtualDisk) error {
	if !x.Snapshots {
		return nil
	}
	var held []string
	for _, disk := range kept {
		if disks.IsDelta(disk) {
			held = append(held, disks.Base(disk))
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.Sort(held)
	return vcfault.New(vcfault.ReasonDiskInSnapshot, true, "A disk from elsewhere (%s) is part of a snapshot, so vCenter does not detach it, and would delete it with the VM: remove the snapshots of %s.",
		vcfault.FirstFew(held), a.VM)
}

// detach removes disks from a VM and keeps their files: a device change without a file operation. The stamp says so in the same change:
// if the VM is not destroyed then, and stays, it needs its persistent disks again.
func (r removal) detach(ctx context.Context, now *FreshVM, kept []*types.VirtualDisk) error {
	spec := types.VirtualMachineConfigSpec{ChangeVersion: now.ChangeVersion}
	has, _ := stamp.Read(now.Stamp, now.InstanceUUID, true)
	ordinals := plan.Persistent(has.Given)
	for _, disk := range kept {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk})
		if ours := disk.VDiskId != nil && slices.ContainsFunc(ordinals, func(d plan.MemberDisk) bool { return d.ID == disk.VDiskId.Id }); ours {
			r.log.Info().Str("group", r.ref.String()).Str("vm", r.action.VM).Str("disk", disks.File(disk)).Msg("detaching and keeping a persistent disk")
			continue
		}
		r.log.Warn().Str("group", r.ref.String()).Str("vm", r.action.VM).Str("disk", disks.File(disk)).Msg("detaching and keeping a disk that the clone did not make")
	}
	if len(ordinals) > 0 {
		has.Given = plan.PartDisks(has.Given, plan.PartedKept, nil)
		spec.ExtraConfig = []types.BaseOptionValue{&types.OptionValue{Key: stamp.Key, Value: has.Encode()}}
	}
	return r.reconfigure(ctx, r.vm(), spec)
}

// groupRemoval is a step that ends a group whose members are gone.
type groupRemoval struct{ *step }

const (
	// confirmEvery is how often groups are confirmed to be gone while no others may be about to follow.
	confirmEvery = 50 * time.Millisecond
	// confirmSeldom is how often while other groups may be about to follow; where a read takes long, it is confirmRest times as long as
	// that, up to confirmMost.
	confirmSeldom, confirmRest, confirmMost = time.Second, 10, 10 * time.Second
)

// confirmGone reads everything again. A clone outlives the process that started it and is invisible until it is
// registered, so it looks at the tasks first: a clone that is no longer among them has ended, and the read that begins
// afterwards has its VM. Groups that go at the same time do so together: reading everything is one call for all of them.
// It lists the clones before it waits for that, or the removal of the folder did: one that begins later has no folder to land in, and is
// not waited for.
func (g groupRemoval) confirmGone(ctx context.Context) error {
	if err := g.noCloneRunning(ctx, plan.ArgsOf[plan.ConfirmArgs](g.action.Args).Since); err != nil {
		return err
	}
	for seldom := nextOf(min(max(confirmSeldom, confirmRest*time.Duration(g.scanTook.Load())), confirmMost)); ; {
		if !session.Sleep(ctx, time.Until(nextOf(confirmEvery))) {
			return ctx.Err()
		}
		if !time.Now().Before(seldom) || !g.inFlight.TakingAway() {
			break
		}
	}
	began := time.Now()
	// It reads the rules, too: another replica may have made some for the group since.
	if err := g.reader.ScanWithClusters(ctx); err != nil {
		return err
	}
	g.scanTook.Store(int64(time.Since(began)))
	if names := g.inventory.MemberNames(g.ref.UID); len(names) > 0 {
		return vcfault.New(plan.ReasonRemoving, false, "vCenter still has %s.", vcfault.FirstFew(names))
	}
	return nil
}

// nextOf returns the next of the times that are that long apart.
func nextOf(every time.Duration) time.Time { return time.Now().Truncate(every).Add(every) }

// removeFolder removes the group's folder if a fresh read shows it empty.
func (g groupRemoval) removeFolder(ctx context.Context) error {
	if err := g.noCloneRunning(ctx, plan.ArgsOf[plan.ConfirmArgs](g.action.Args).Since); err != nil {
		return err
	}
	folder := inventory.FolderRef(g.action.MoRef)
	now, err := g.look(ctx, folder)
	if vcfault.MissingObject(err) == folder {
		return g.reader.Read(ctx, folder)
	}
	if err != nil {
		return err
	}
	if !g.inventory.IsFolderOf(now.Name, now.Parent, g.ref) {
		return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The folder of %s was renamed or moved, so it was not removed.", g.ref)
	}
	if err := g.empty(ctx, folder, now.Children); err != nil {
		if vcfault.Classify("", err).Reason == plan.ReasonFolderHoldsStranger {
			g.clones.Forget(g.ref.UID) // the folder stays, so a clone that another replica begins from now on can land
		}
		return err
	}
	folders := withQuarantine(folder, g.inventory.Below(g.action.MoRef, plan.QuarantineFolder))
	err = g.unregisterAndDestroy(ctx, folders...)
	if vcfault.MissingObject(err) == folder { // somebody else has removed it
		err = g.reader.Read(ctx, folders...)
	}
	if err != nil {
		return g.keptFolder(err)
	}
	return nil
}

// empty checks, by fresh reads, that what was found in the group's folder is nothing but an empty quarantine.
func (g groupRemoval) empty(ctx context.Context, folder types.ManagedObjectReference, found []types.ManagedObjectReference) error {
	quarantine := inventory.FolderRef(g.inventory.Below(folder.Value, plan.QuarantineFolder))
	if at := slices.Index(found, quarantine); at >= 0 {
		kept, err := g.look(ctx, quarantine)
		if err != nil && vcfault.MissingObject(err) != quarantine {
			return err
		}
		found = slices.Concat(found[:at], found[at+1:], kept.Children)
	}
	if len(found) > 0 {
		if err := g.reader.Read(ctx, found...); err != nil {
			return err
		}
	}
	var unmanaged []string
	for _, child := range found {
		m, path, known := g.inventory.Holder(child.Value)
		if m != nil && m.Stamp.UID == g.ref.UID || m == nil && !known {
			return vcfault.New(plan.ReasonRemoving, false, "A VM of the group is still in its folder; it is removed first.")
		}
		unmanaged = append(unmanaged, path)
	}
	if len(unmanaged) == 0 {
		return nil
	}
	slices.Sort(unmanaged)
	return vcfault.New(plan.ReasonFolderHoldsStranger, false, "The group's folder contains other objects (%s): move them elsewhere, and the folder is removed.", vcfault.FirstFew(unmanaged))
}

// look reads a folder whose content must be seen.
func (g groupRemoval) look(ctx context.Context, folder types.ManagedObjectReference) (freshFolder, error) {
	now, err := g.freshFolder(ctx, folder)
	if err == nil && !now.Seen {
		err = vcfault.New(vcfault.ReasonMissingPrivilege, true, "The content of the folder of %s cannot be seen: grant the privilege System.View on it.", g.ref)
	}
	return now, err
}

// noCloneRunning checks that none of the clones that were queued or running at its first call for this group
// is any more. A task does not name its destination, so any clone of our user may be the group's that this process has not begun for another
// group. That first list, and no clock, tells which ones are older than the end of the group. A group may stop being selected several
// times: another since begins a new list. Where all of that list have ended, no call asks again.
func (g groupRemoval) noCloneRunning(ctx context.Context, since time.Time) error {
	if g.clones.Ended(g.ref.UID, since) {
		return nil
	}
	began := time.Now()
	running, err := g.recentClones(ctx)
	if err != nil {
		return err
	}
	if left := g.clones.Left(g.ref.UID, since, began, running); left > 0 {
		return vcfault.New(vcfault.ReasonCloneRunning, false, "Clones that may be this group's are still running in vCenter; the server waits for them.")
	}
	return nil
}

// withQuarantine returns a folder and the quarantine in it, if it has one.
func withQuarantine(folder types.ManagedObjectReference, quarantine string) []types.ManagedObjectReference {
	if quarantine == "" {
		return []types.ManagedObjectReference{folder}
	}
	return []types.ManagedObjectReference{folder, inventory.FolderRef(quarantine)}
}

// unregisterAndDestroy removes the first of these folders, and the others that are in it. If a VM gets into it at the last moment,
// UnregisterAndDestroy_Task only unregisters that VM and keeps its disks. Destroy_Task of a vCenter would delete them. But every vCenter has
// the other method: what lacks it is govmomi's simulator, whose Destroy_Task of a folder leaves the VMs (test/plain has that).
func (g groupRemoval) unregisterAndDestroy(ctx context.Context, folders ...types.ManagedObjectReference) error {
	var vcenter string
	_, err := g.Task(ctx, func(ctx context.Context, s *session.Session) (task types.ManagedObjectReference, err error) {
		vcenter = s.UUID
		res, err := methods.UnregisterAndDestroy_Task(ctx, s.Vim, &types.UnregisterAndDestroy_Task{This: folders[0]})
		if err == nil {
			return res.Returnval, nil
		}
		if !vcfault.Has[*types.MethodNotFound](err) {
			return task, err
		}
		destroy, err := methods.Destroy_Task(ctx, s.Vim, &types.Destroy_Task{This: folders[0]})
		if err == nil {
			task = destroy.Returnval
		}
		return task, err
	})
	if err != nil {
		return err
	}
	gone := inventory.Reading{VCenter: vcenter}
	for _, folder := range folders {
		gone.Gone = append(gone.Gone, folder.Value)
	}
	return g.reader.Report(ctx, gone)
}

// keptFolder turns the failure to remove an empty folder into FolderStays, if vCenter will refuse it again: a deletion does
// not wait for that, nor for an unmanaged VM in the folder. The server tries no other way: Destroy_Task needs the same
// privilege, and would delete the disks of a VM that gets into the folder.
func (g groupRemoval) keptFolder(err error) error {
	if !vcfault.Has[types.BaseNoPermission](err) && !vcfault.Has[*types.NotSupported](err) &&
		!vcfault.Has[*types.NotImplemented](err) && !vcfault.Has[*types.MethodDisabled](err) {
		return err
	}
	g.clones.Forget(g.ref.UID) // as for a folder that contains unmanaged VMs: a later clone can land in it
	stays := vcfault.New(plan.ReasonFolderStays, false, "The group's folder is empty but stays, because vCenter refuses to remove it: remove it by hand. vCenter's answer: %s",
		vcfault.Classify("", err).Message)
	stays.Err = err
	return stays
}
