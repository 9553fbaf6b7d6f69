package vsphere

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Do carries out one step: it starts the step's task, waits for it to end, and waits until a read of the VM that began after
// that is published. So the inventory shows the effect when Do returns. Errors are *vcfault.Error. It also returns what the step's
// tasks took.
//
// Every step may be retried, whatever the last try did: if nothing is left to do, that is success.
func (v *VCenter) Do(ctx context.Context, ref plan.Ref, a plan.Action) (plan.Took, error) {
	var took plan.Took
	opID := "vmgroup-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	began := time.Now()
	ctx = secret.WithBag(ctx)
	if a.Details != nil {
		secret.BagOf(ctx).Add(a.Details.UserData.Reveal())
	}
	ctx, lastCall := session.WithLastCall(context.WithValue(ctx, types.ID{}, opID))
	ends := v.inFlight.Begin(ref.UID, a)
	err := v.act(actFor(ctx, ref, a, &took), ref, a)
	if errors.Is(err, vcfault.ErrTaskLost) {
		err = v.outcome(actFor(ctx, ref, a, &took), ref, a, err)
	}
	ends()
	took.Overload, took.Unanswered = vcfault.Overload(err, a.Op == plan.Clone), vcfault.Unanswered(err)
	if err != nil {
		err = v.nameMissing(ctx, a, lastCall(), vcfault.Classify("", err))
	}
	line, what := v.log.Info(), "done"
	if err != nil {
		line, what = v.log.Warn().Err(err), "failed"
	}
	line = line.Str("group", ref.String()).Str("op", string(a.Op)).Str("reason", a.Reason).Str("opID", opID).Dur("durationSeconds", time.Since(began))
	if a.MemberKey() {
		line = line.Str("vm", a.VM)
		what = a.VM + " " + what
	}
	line.Msg(string(a.Op) + " " + what)
	if err == nil {
		return took, nil
	}
	v.reader.Touch(concerned(a)...) // what the plan was made from may be out of date
	op := string(a.Op)
	if a.MemberKey() {
		op += " " + a.VM
	}
	return took, vcfault.Classify(op, err)
}

// outcome finds out what became of a step whose task vCenter no longer knows, which is no failure: vCenter 8.0.1 keeps completed tasks for
// 60 s (config.task.minCompletedLifetime), so each task that ends during an outage that lasts longer is lost. It reads what the step is
// about, and takes the step once more: if nothing is left to do, that is success.
func (v *VCenter) outcome(ctx context.Context, ref plan.Ref, a plan.Action, lost error) error {
	v.log.Info().Stringer("group", ref).Str("op", string(a.Op)).Str("vm", a.VM).Msg("vCenter no longer knows the step's task; what it was about is read")
	for _, o := range concerned(a) {
		if err := v.reader.Read(ctx, o); err != nil {
			return lost
		}
	}
	return v.act(ctx, ref, a)
}

// concerned returns the objects that an action was planned from.
func concerned(a plan.Action) []types.ManagedObjectReference {
	var refs []types.ManagedObjectReference
	switch {
	case a.Op == plan.Clone:
		refs = append(refs, inventory.VMRef(a.Template), inventory.FolderRef(a.Folder))
	case a.Op == plan.CreateQuarantine:
		refs = append(refs, inventory.FolderRef(a.Folder))
	case a.Op == plan.Move:
		refs = append(refs, inventory.VMRef(a.MoRef), inventory.FolderRef(a.Folder))
	case a.Op == plan.RemoveFolder:
		refs = append(refs, inventory.FolderRef(a.MoRef))
	case a.MoRef != "":
		refs = append(refs, inventory.VMRef(a.MoRef))
	}
	return refs
}

func (v *VCenter) act(ctx context.Context, ref plan.Ref, a plan.Action) error {
	switch a.Op {
	case plan.CreateFolder:
		return v.createFolder(ctx, ref, a)
	case plan.Clone:
		return v.clone(ctx, ref, a)
	case plan.PowerOn, plan.PowerOff:
		return v.power(ctx, ref, a)
	case plan.ShutdownGuest:
		return v.shutdownGuest(ctx, ref, a)
	case plan.Reset:
		return v.reset(ctx, ref, a)
	case plan.Mark, plan.Unmark:
		return v.mark(ctx, ref, a)
	case plan.Quarantine:
		return v.quarantine(ctx, ref, a)
	case plan.Release:
		return v.release(ctx, ref, a)
	case plan.Adopt:
		return v.adopt(ctx, ref, a)
	case plan.Prepare:
		return v.prepare(ctx, ref, a)
	case plan.SetRules:
		return v.setRules(ctx, ref, a)
	case plan.Reconfigure:
		return v.resize(ctx, ref, a)
	case plan.SetDisks:
		return v.setDisks(ctx, ref, a)
	case plan.DeleteDisks:
		return v.deleteDisks(ctx, ref, a)
	case plan.CreateQuarantine:
		return v.createQuarantine(ctx, a)
	case plan.Rename:
		return v.rename(ctx, ref, a)
	case plan.Move:
		return v.move(ctx, ref, a)
	case plan.Destroy:
		return v.destroy(ctx, ref, a)
	case plan.RemoveFolder:
		return v.removeFolder(ctx, ref, a)
	case plan.ConfirmGone:
		return v.confirmGone(ctx, ref, a)
	}
	return vcfault.New(vcfault.ReasonInternal, true, "The server has no step %q.", a.Op)
}

// Call makes a call that was planned from the inventory, but only in the vCenter that the inventory was read from.
func (v *VCenter) Call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return v.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		if v.inventory.VCenter() != s.UUID {
			return vcfault.New(plan.ReasonVCenterChanged, false, "Another vCenter answers now; its inventory is read first.")
		}
		if err := v.mayAct(ctx); err != nil {
			return err
		}
		return f(ctx, s)
	})
}

// Task starts a task and waits for it to end.
func (v *VCenter) Task(ctx context.Context, start func(context.Context, *session.Session) (types.ManagedObjectReference, error)) (*types.TaskInfo, error) {
	var task types.ManagedObjectReference
	err := v.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		task, err = start(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return v.await(ctx, task)
}

// await waits for a task of the step in ctx to end.
func (v *VCenter) await(ctx context.Context, task types.ManagedObjectReference) (*types.TaskInfo, error) {
	who, is := ctx.Value(acting{}).(*actor)
	kind := ""
	if is {
		v.inFlight.Await(who.uid, who.vm, task)
		kind = who.kind()
	}
	info, err := v.tasks.Wait(ctx, task, kind)
	if is {
		queued, ran := tasks.Times(info)
		who.took.Queued += queued
		who.took.Ran += ran
	}
	return info, err
}

// own returns the group's member that an action is for. The server acts on no other VM.
func (v *VCenter) own(ref plan.Ref, a plan.Action) (*inventory.Member, error) {
	m := v.inventory.Member(a.MoRef)
	if m == nil || m.Stamp.UID != ref.UID || m.Stamp.Ordinal != a.Ordinal {
		return nil, notOurs(a)
	}
	return m, nil
}

func notOurs(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The VM of %s no longer has this group's stamp, so it was not touched; it is read again.", a.VM)
}
