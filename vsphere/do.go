// This file dispatches: it carries out one action as a step, repeats a step whose task vCenter lost, and logs how it ended.

package vsphere

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Do carries out one step: it starts the step's task, waits for the task to end, and then reads the VM, so that the inventory shows the effect
// when Do returns. Took is the time that the step's tasks took. Errors are *vcfault.Error.
//
// Every step can be retried, whatever the last try did: a step that finds nothing left to do succeeds.
func (v *VCenter) Do(ctx context.Context, ref plan.Ref, a plan.Action) (plan.StepResult, error) {
	opID := "vmgroup-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	began := time.Now()
	var record session.Record
	if a.Details() != nil {
		record.Secrets.Add(a.Details().UserData.Reveal())
	}
	ctx = session.WithRecord(context.WithValue(ctx, types.ID{}, opID), &record)
	ends := v.inFlight.Begin(ref.UID, a)
	var took plan.StepResult
	if !a.Again.IsZero() {
		took.Undoers = v.step(ref, a, &took).undoers(ctx)
	}
	err := v.step(ref, a, &took).act(ctx)
	if errors.Is(err, vcfault.ErrTaskLost) {
		err = v.step(ref, a, &took).repeatLost(ctx, err)
	}
	ends()
	took.Overload, took.Unanswered = vcfault.Overload(err, a.Op == plan.Clone), vcfault.Unanswered(err)
	if err != nil {
		err = v.nameCause(ctx, a, v.namePrivileges(ctx, a, record.Method(), vcfault.Classify("", err)))
	}
	v.logOutcome(ref, a, opID, began, err)
	if err == nil {
		return took, nil
	}
	v.reader.Enqueue(objectsOf(a)...) // the facts that the action was planned from may be out of date
	op := string(a.Op)
	if a.ConcernsMember() {
		op += " " + a.Key
	}
	return took, vcfault.Classify(op, err)
}

// logOutcome logs how a step ended. Of repeated failures it logs only some (troubles).
func (v *VCenter) logOutcome(ref plan.Ref, a plan.Action, opID string, began time.Time, err error) {
	line := v.log.Info()
	switch {
	case err == nil && !a.Again.IsZero():
		line = v.log.Debug()
	case err == nil:
		v.troubles.forget(ref.UID, a.Op)
	default:
		why := vcfault.Classify("", err)
		tell, times := v.troubles.countFailure(troubleKey{ref.UID, a.Op, why.Reason}, time.Now())
		switch {
		case why.Missing || !tell: // the status names what is missing
			line = v.log.Debug()
		default:
			line = v.log.Warn()
		}
		if line = line.Err(err); times > 1 {
			line = line.Int("times", times)
		}
	}
	line = line.Str("group", ref.String()).Str("op", string(a.Op)).Str("reason", a.Reason).Str("opID", opID).Dur("durationSeconds", time.Since(began))
	if a.ConcernsMember() {
		line = line.Str("vm", a.Key)
	}
	if err == nil {
		line.Msg("step done")
		return
	}
	line.Msg("step failed")
}

// repeatLost handles a step whose task vCenter no longer knows. That is no failure: vCenter 8.0.1 keeps completed tasks for 60 s
// (config.task.minCompletedLifetime), so each task that ends during a longer outage is lost. repeatLost reads the step's objects and repeats the
// step, which succeeds if nothing is left to do.
func (st *step) repeatLost(ctx context.Context, lost error) error {
	st.log.Info().Stringer("group", st.ref).Str("op", string(st.action.Op)).Str("vm", st.action.Key).Msg("vCenter no longer knows the step's task; re-reading the objects of the step")
	for _, o := range objectsOf(st.action) {
		if err := st.reader.Read(ctx, o); err != nil {
			return lost
		}
	}
	return st.act(ctx)
}

// objectsOf returns the objects that an action was planned from, which are read again when its step fails.
func objectsOf(a plan.Action) []types.ManagedObjectReference {
	var refs []types.ManagedObjectReference
	switch {
	case a.Op == plan.Clone:
		refs = append(refs, inventory.VMRef(plan.ArgsOf[plan.CloneArgs](a.Args).Template), inventory.FolderRef(a.Folder()))
	case a.Op == plan.CreateQuarantine:
		refs = append(refs, inventory.FolderRef(a.Folder()))
	case a.Op == plan.Move:
		refs = append(refs, inventory.VMRef(a.MoRef), inventory.FolderRef(a.Folder()))
	case a.Op == plan.RemoveFolder:
		refs = append(refs, inventory.FolderRef(a.MoRef))
	case a.MoRef != "":
		refs = append(refs, inventory.VMRef(a.MoRef))
	}
	return refs
}

func (st *step) act(ctx context.Context) error {
	switch st.action.Op {
	case plan.CreateFolder:
		return folders{st}.createFolder(ctx)
	case plan.Clone:
		return st.clone(ctx)
	case plan.PowerOn, plan.PowerOff:
		return power{st}.run(ctx)
	case plan.ShutdownGuest:
		return power{st}.shutdownGuest(ctx)
	case plan.Reset:
		return power{st}.reset(ctx)
	case plan.Mark, plan.Unmark:
		return removal{st}.mark(ctx)
	case plan.Quarantine:
		return removal{st}.quarantine(ctx)
	case plan.Release:
		return adoption{st}.release(ctx)
	case plan.Adopt:
		return adoption{st}.adopt(ctx)
	case plan.Restamp:
		return st.bringUpToDate(ctx)
	case plan.Prepare:
		return preparation{st}.run(ctx)
	case plan.SetRules:
		return rules{st}.setRules(ctx)
	case plan.Reconfigure:
		return st.resize(ctx)
	case plan.SetDisks:
		return memberDisks{st}.setDisks(ctx)
	case plan.DeleteDisks:
		return memberDisks{st}.deleteDisks(ctx)
	case plan.CreateQuarantine:
		return folders{st}.createQuarantine(ctx)
	case plan.Rename:
		return folders{st}.rename(ctx)
	case plan.Move:
		return folders{st}.move(ctx)
	case plan.Destroy:
		return removal{st}.destroy(ctx)
	case plan.RemoveFolder:
		return groupRemoval{st}.removeFolder(ctx)
	case plan.ConfirmGone:
		return groupRemoval{st}.confirmGone(ctx)
	}
	return vcfault.ForOperator(vcfault.ReasonInternal, "The server has no step %q.", st.action.Op)
}

// step returns the step of an action. The step adds the time of its tasks to took.
func (v *VCenter) step(ref plan.Ref, a plan.Action, took *plan.StepResult) *step {
	return &step{calls{v.parts, &actor{uid: ref.UID, vm: a.Key, op: a.Op, took: took}}, ref, a}
}
