package vsphere

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Do carries out one step: it starts the step's task, awaits it, and awaits a read of its VM that was begun after
// the task had ended and is published. So whoever looks after Do returned sees what was done. Errors are *Error.
//
// Every step may be tried again, whatever became of the last try: what is already as wanted is success.
func (v *VCenter) Do(ctx context.Context, ref plan.Ref, a plan.Action) error {
	opID := "vmgroup-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	began := time.Now()
	err := v.act(context.WithValue(ctx, types.ID{}, opID), ref, a)
	line, what := v.log.Info(), "done"
	if err != nil {
		line, what = v.log.Warn().Err(err), "failed"
	}
	line = line.Str("group", ref.String()).Str("op", string(a.Op)).Str("opID", opID).Stringer("took", time.Since(began).Round(time.Millisecond))
	if a.MemberKey() {
		line = line.Str("vm", a.VM)
		what = a.VM + " " + what
	}
	line.Msg(string(a.Op) + " " + what)
	if err == nil {
		return nil
	}
	v.reader.touch(concerned(a)...) // what was planned from may be out of date
	return classify(strings.TrimSuffix(string(a.Op)+" "+a.VM, " "+plan.ConfirmKey), err)
}

// concerned are the objects that an action was planned from.
func concerned(a plan.Action) []types.ManagedObjectReference {
	var refs []types.ManagedObjectReference
	switch {
	case a.Op == plan.Clone:
		refs = append(refs, vmRef(a.Template), folderRef(a.Folder))
	case a.Op == plan.RemoveFolder:
		refs = append(refs, folderRef(a.MoRef))
	case a.MoRef != "":
		refs = append(refs, vmRef(a.MoRef))
	}
	return refs
}

func folderRef(moRef string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "Folder", Value: moRef}
}

func (v *VCenter) act(ctx context.Context, ref plan.Ref, a plan.Action) error {
	switch a.Op {
	case plan.CreateFolder:
		return v.createFolder(ctx, ref)
	case plan.Clone:
		return v.clone(ctx, ref, a)
	case plan.PowerOn, plan.PowerOff:
		return v.power(ctx, ref, a)
	case plan.Mark, plan.Unmark:
		return v.mark(ctx, ref, a)
	case plan.Destroy:
		return v.destroy(ctx, ref, a)
	case plan.RemoveFolder:
		return v.removeFolder(ctx, ref, a)
	case plan.ConfirmGone:
		return v.confirmGone(ctx, ref)
	}
	return faultf(ReasonInternal, true, "The server does not know the step %q.", a.Op)
}

// call makes a call that was planned from the inventory: not in another vCenter than that was read from.
func (v *VCenter) call(ctx context.Context, f func(context.Context, *session) error) error {
	return v.client.call(ctx, func(ctx context.Context, s *session) error {
		if v.inventory.from() != s.uuid {
			return faultf(plan.ReasonVCenterChanged, false, "Another vCenter answers than before; its inventory is read first.")
		}
		return f(ctx, s)
	})
}

// task starts a task and awaits it.
func (v *VCenter) task(ctx context.Context, start func(context.Context, *session) (types.ManagedObjectReference, error)) (*types.TaskInfo, error) {
	var task types.ManagedObjectReference
	err := v.call(ctx, func(ctx context.Context, s *session) (err error) {
		task, err = start(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return v.tasks.wait(ctx, task)
}

// own is the group's member that an action is for. Nothing else is ever acted on.
func (v *VCenter) own(ref plan.Ref, a plan.Action) (*member, error) {
	m := v.inventory.member(a.MoRef)
	if m == nil || m.stamp.UID != ref.UID || m.stamp.Ordinal != a.Ordinal {
		return nil, notOurs(a)
	}
	return m, nil
}

func notOurs(a plan.Action) *Error {
	return faultf(ReasonConcurrentAccess, false, "The VM of %s does not bear this group's stamp any more, so it was not touched; it is read anew.", a.VM)
}

// power powers a member on or off. PowerOnVM_Task will do for clusters too: DRS then places the VM by itself if it
// is fully automated, and else where it is; PowerOnMultiVM_Task would add the choice between recommendations,
// which nobody is here to make.
func (v *VCenter) power(ctx context.Context, ref plan.Ref, a plan.Action) error {
	if _, err := v.own(ref, a); err != nil {
		return err
	}
	vm := vmRef(a.MoRef)
	if a.Marked { // looked at afresh: another copy may have withdrawn the mark a moment ago
		now, err := v.lookBefore(ctx, vm)
		if err == nil {
			err = now.check(ref, a)
		}
		if err != nil {
			return err
		}
	}
	wanted := types.VirtualMachinePowerStatePoweredOn
	start := func(ctx context.Context, s *session) (task types.ManagedObjectReference, err error) {
		res, err := methods.PowerOnVM_Task(ctx, s.vim, &types.PowerOnVM_Task{This: vm})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	}
	if a.Op == plan.PowerOff {
		wanted = types.VirtualMachinePowerStatePoweredOff
		start = func(ctx context.Context, s *session) (task types.ManagedObjectReference, err error) {
			res, err := methods.PowerOffVM_Task(ctx, s.vim, &types.PowerOffVM_Task{This: vm})
			if err == nil {
				task = res.Returnval
			}
			return task, err
		}
	}
	_, err := v.task(ctx, start)
	var already *types.InvalidPowerState
	if _, is := fault.As(err, &already); err != nil && !(is && already.ExistingState == wanted) {
		return err
	}
	return v.reader.read(ctx, vm)
}

// mark writes into a member's stamp that it is chosen to be removed, or that it is not. changeVersion makes
// vCenter refuse it if anybody changed the VM since it was read: of two copies of the server, one sees the other.
func (v *VCenter) mark(ctx context.Context, ref plan.Ref, a plan.Action) error {
	m, err := v.own(ref, a)
	if err != nil {
		return err
	}
	stamp, marked := m.stamp, a.Op == plan.Mark
	if stamp.Marked == marked && stamp.Generation >= a.Generation {
		return nil // as wanted, and published
	}
	if m.ChangeVersion == "" || a.ChangeVersion != "" && a.ChangeVersion != m.ChangeVersion {
		return faultf(ReasonConcurrentAccess, false, "Somebody else changed the VM in the meantime; it is read and tried again.")
	}
	stamp.Marked, stamp.Generation = marked, max(stamp.Generation, a.Generation)
	if err := v.reconfigure(ctx, vmRef(a.MoRef), types.VirtualMachineConfigSpec{
		ChangeVersion: m.ChangeVersion,
		ExtraConfig:   []types.BaseOptionValue{&types.OptionValue{Key: StampKey, Value: stamp.Encode()}},
	}); err != nil {
		return err
	}
	return v.reader.read(ctx, vmRef(a.MoRef))
}

func (v *VCenter) reconfigure(ctx context.Context, vm types.ManagedObjectReference, spec types.VirtualMachineConfigSpec) error {
	_, err := v.task(ctx, func(ctx context.Context, s *session) (task types.ManagedObjectReference, err error) {
		res, err := methods.ReconfigVM_Task(ctx, s.vim, &types.ReconfigVM_Task{This: vm, Spec: spec})
		if err == nil {
			task = res.Returnval
		}
		return task, err
	})
	return err
}
