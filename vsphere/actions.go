// This file carries out a step: its lease, its calls and tasks, and its error. It also tracks the steps in flight, and which of them are
// stalled: those are reported until they make progress or end.
//
// Locks: inFlight.mu is taken before those of packages inventory and tasks.

package vsphere

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/role"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Do carries out one step: it starts the step's task, waits for it to end, and waits until a read of the VM that began after
// that is published. So the inventory shows the effect when Do returns. Errors are *vcfault.Error. It also returns what the step's
// tasks took.
//
// Every step can be retried, whatever the last try did: if nothing is left to do, that is success.
func (v *VCenter) Do(ctx context.Context, ref plan.Ref, a plan.Action) (plan.Took, error) {
	opID := "vmgroup-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	began := time.Now()
	var record session.Record
	if a.Details() != nil {
		record.Secrets.Add(a.Details().UserData.Reveal())
	}
	ctx = session.WithRecord(context.WithValue(ctx, types.ID{}, opID), &record)
	ends := v.inFlight.Begin(ref.UID, a)
	var took plan.Took
	err := v.step(ref, a, &took).act(ctx)
	if errors.Is(err, vcfault.ErrTaskLost) {
		err = v.step(ref, a, &took).outcome(ctx, err)
	}
	ends()
	took.Overload, took.Unanswered = vcfault.Overload(err, a.Op == plan.Clone), vcfault.Unanswered(err)
	if err != nil {
		err = v.nameMissing(ctx, a, record.Method(), vcfault.Classify("", err))
	}
	v.tell(ref, a, opID, began, err)
	if err == nil {
		return took, nil
	}
	v.reader.Touch(concerned(a)...) // the plan may rest on facts that are out of date
	op := string(a.Op)
	if a.MemberKey() {
		op += " " + a.VM
	}
	return took, vcfault.Classify(op, err)
}

// tell logs how a step ended. What fails again and again, it logs only now and then.
func (v *VCenter) tell(ref plan.Ref, a plan.Action, opID string, began time.Time, err error) {
	line := v.log.Info()
	switch {
	case err == nil && a.Again:
		line = v.log.Debug()
	case err == nil:
		v.troubles.done(ref.UID, a.Op)
	default:
		why := vcfault.Classify("", err)
		tell, times := v.troubles.failed(troubleKey{ref.UID, a.Op, why.Reason}, time.Now())
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
	if a.MemberKey() {
		line = line.Str("vm", a.VM)
	}
	if err == nil {
		line.Msg("step done")
		return
	}
	line.Msg("step failed")
}

// outcome handles a step whose task vCenter no longer knows, which is no failure: vCenter 8.0.1 keeps completed tasks for 60 s
// (config.task.minCompletedLifetime), so a longer outage loses each task that ends during it. outcome reads the step's objects and repeats the
// step: if nothing is left to do, that is success.
func (st *step) outcome(ctx context.Context, lost error) error {
	st.log.Info().Stringer("group", st.ref).Str("op", string(st.action.Op)).Str("vm", st.action.VM).Msg("vCenter no longer knows the step's task; what it was about is read")
	for _, o := range concerned(st.action) {
		if err := st.reader.Read(ctx, o); err != nil {
			return lost
		}
	}
	return st.act(ctx)
}

// concerned returns the objects that an action was planned from.
func concerned(a plan.Action) []types.ManagedObjectReference {
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
	return vcfault.New(vcfault.ReasonInternal, true, "The server has no step %q.", st.action.Op)
}

// step is one action that is carried out, for a group.
type step struct {
	calls
	ref    plan.Ref
	action plan.Action
}

// step returns a step that has done nothing yet. It adds to took what its tasks take.
func (v *VCenter) step(ref plan.Ref, a plan.Action, took *plan.Took) *step {
	return &step{calls{v.parts, &actor{uid: ref.UID, vm: a.VM, op: a.Op, took: took}}, ref, a}
}

// calls are the calls of one step, one after the other, each of which needs the group's lease; or calls of no step, which need none.
type calls struct {
	*parts
	by *actor // nil: of no step
}

// actor is the step that makes calls: its group, its Action.VM, its kind, how many tasks it has begun, and how long they took so far.
type actor struct {
	uid  apitypes.UID
	vm   string
	op   plan.Op
	nth  int
	took *plan.Took
}

// kind tells the tasks of steps apart by how long they take: a step's first task is of another kind than its second.
func (s *actor) kind() string {
	s.nth++
	return fmt.Sprint(s.op, s.nth)
}

// withoutLease returns calls that need no lease: those that finish a step that has begun, and that vCenter refuses if anybody changed the VM
// meanwhile.
func (c calls) withoutLease() calls { return calls{parts: c.parts} }

// canAct checks, right before a call, that its group is still under lease. A step is several calls, and between two of them this process may
// have been suspended, or a call may have taken long: then another replica may have acted, and earlier reads are old. Most of vCenter's
// calls, such as PowerOffVM_Task, have no parameter to guard against that.
func (c calls) canAct() error {
	if c.by == nil || c.cfg.Leased == nil || c.cfg.Leased(c.by.uid, c.by.vm) {
		return nil
	}
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The last hook call for the group was too long ago for a step to continue, or says that the group is deleted; it is planned again.")
}

// Call makes a call that was planned from the inventory, but only in the vCenter that the inventory was read from, and under lease.
func (c calls) Call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return c.client.Call(ctx, func(ctx context.Context, s *session.Session) error {
		if c.inventory.VCenter() != s.UUID {
			return vcfault.New(plan.ReasonVCenterChanged, false, "Another vCenter answers now; its inventory is read first.")
		}
		if err := c.canAct(); err != nil {
			return err
		}
		return f(ctx, s)
	})
}

// Task starts a task and waits for it to end.
func (c calls) Task(ctx context.Context, start func(context.Context, *session.Session) (types.ManagedObjectReference, error)) (*types.TaskInfo, error) {
	var task types.ManagedObjectReference
	err := c.Call(ctx, func(ctx context.Context, s *session.Session) (err error) {
		task, err = start(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.await(ctx, task)
}

// await waits for a task to end.
func (c calls) await(ctx context.Context, task types.ManagedObjectReference) (*types.TaskInfo, error) {
	if c.by == nil {
		return c.tasks.Wait(ctx, task, "")
	}
	c.inFlight.Await(c.by.uid, c.by.vm, task)
	info, err := c.tasks.Wait(ctx, task, c.by.kind())
	queued, ran := tasks.Times(info)
	c.by.took.Queued += queued
	c.by.took.Ran += ran
	return info, err
}

// own returns the group's member that an action is for. The server acts on no other VM.
func (st *step) own() (*inventory.Member, error) { return st.ownOf(st.ref, st.action) }

// vm is the VM that the action is for.
func (st *step) vm() types.ManagedObjectReference { return inventory.VMRef(st.action.MoRef) }

// ownOf returns the group's member that an action is for, or is forecast for.
func (v *parts) ownOf(ref plan.Ref, a plan.Action) (*inventory.Member, error) {
	m := v.inventory.Member(a.MoRef)
	if m == nil || m.Stamp.UID != ref.UID || m.Stamp.Ordinal != a.Ordinal {
		return nil, notOurs(a)
	}
	return m, nil
}

func notOurs(a plan.Action) *vcfault.Error {
	return vcfault.New(vcfault.ReasonConcurrentAccess, false, "The VM of %s no longer has this group's stamp, so it was not touched; it is read again.", a.VM)
}

// unfencedMost bounds the calls that take a member down: ShutdownGuest, PowerOffVM_Task, ResetVM_Task. They
// have no changeVersion, so the facts that such a call was planned from may be outdated when it arrives; when it is given up, its
// connection is closed. The bound is far below a lease, and below the default of spec.deletion.shutdownTimeoutSeconds: no replica powers
// a VM off, or on again, while its guest may still get the request. vCenter answers all three at once, and the work continues by itself.
const unfencedMost = 15 * time.Second

// unfenced bounds the time of such a call.
func unfenced(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, unfencedMost)
}

const (
	// questionPatience is how long a step can wait for the answer to its VM's question before it gives its slot back. An operator who is there
	// and sees the condition answers within a minute; at night nobody does.
	questionPatience = time.Minute
	// progressPatience is the same for a task without progress: longer than vCenter takes for one percent of a
	// large clone (1 TB at 20 MB/s: 9 minutes).
	progressPatience = 10 * time.Minute
	// stallInterval is how often a step is checked for that.
	stallInterval = time.Minute
)

// inFlight are the running steps, and their tasks.
type inFlight struct {
	inventory *inventory.Inventory
	tasks     *tasks.Tasks
	// changed makes the loop plan a group again.
	changed func(group apitypes.UID)

	mu    sync.Mutex
	steps map[apitypes.UID]map[string]*flight // by group and Action.VM
}

// flight is a running step. Its group's other steps are for other VMs.
type flight struct {
	op    plan.Op
	moRef string
	began time.Time
	task  types.ManagedObjectReference // the newest
	host  string                       // chosen for a clone
}

// newInFlight returns an inFlight without any step.
func newInFlight(n *inventory.Inventory, t *tasks.Tasks, changed func(group apitypes.UID)) *inFlight {
	return &inFlight{inventory: n, tasks: t, changed: changed, steps: map[apitypes.UID]map[string]*flight{}}
}

// Begin adds a step until ends is called. While it is stalled, its group is planned again now and then: its slot is free.
func (u *inFlight) Begin(group apitypes.UID, a plan.Action) (ends func()) {
	s := &flight{op: a.Op, moRef: a.MoRef, began: time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.steps[group] == nil {
		u.steps[group] = map[string]*flight{}
	}
	u.steps[group][a.VM] = s
	var look *time.Timer
	look = time.AfterFunc(stallInterval, func() {
		u.mu.Lock()
		on := u.steps[group][a.VM] == s
		stalled := on && u.stall(s) != nil
		if on {
			look.Reset(stallInterval)
		}
		u.mu.Unlock()
		if stalled {
			u.changed(group)
		}
	})
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		look.Stop()
		if u.steps[group][a.VM] == s {
			delete(u.steps[group], a.VM)
		}
		if len(u.steps[group]) == 0 {
			delete(u.steps, group)
		}
	}
}

// TakingAway reports whether any group has a step that removes something, so that a group may be gone soon.
func (u *inFlight) TakingAway() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, steps := range u.steps {
		for _, s := range steps {
			if s.op.TakesAway() && s.op != plan.ConfirmGone {
				return true
			}
		}
	}
	return false
}

// Await notes the task that a step waits for; vm is its Action.VM.
func (u *inFlight) Await(group apitypes.UID, vm string, task types.ManagedObjectReference) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.steps[group][vm]; s != nil {
		s.task = task
	}
}

// Place chooses a host for a clone, and notes it. choose gets how many of the group's running clones go onto which hosts, by
// moRef, and returns one, or nil.
func (u *inFlight) Place(group apitypes.UID, vm string, choose func(on map[string]int) *types.ManagedObjectReference) {
	u.mu.Lock()
	defer u.mu.Unlock()
	on := map[string]int{}
	for _, s := range u.steps[group] {
		on[s.host]++
	}
	host := choose(on)
	if s := u.steps[group][vm]; s != nil && host != nil {
		s.host = host.Value
	}
}

// Stalled returns a group's stalled steps, by Action.VM, and why; nil if there are none.
func (u *inFlight) Stalled(group apitypes.UID) (all map[string]plan.Fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for vm, s := range u.steps[group] {
		fault := u.stall(s)
		if fault == nil {
			continue
		}
		if all == nil {
			all = map[string]plan.Fault{}
		}
		all[vm] = *fault
	}
	return all
}

// stall returns why a step is stalled; nil if it is not. The caller holds mu.
func (u *inFlight) stall(s *flight) *plan.Fault {
	if m := u.inventory.Member(s.moRef); m != nil && m.Question != "" && time.Since(s.began) >= questionPatience {
		return &vcfault.New(vcfault.ReasonQuestionPending, true, "The VM waits for an answer in vCenter: %s", m.Question).Fault
	}
	if s.task.Value != "" && u.tasks.Still(s.task) >= progressPatience {
		return &vcfault.New(vcfault.ReasonTaskStalled, true,
			"vCenter's task for it has made no progress for %d minutes: look in vCenter's list of tasks what it waits for, or cancel it there.", int(progressPatience.Minutes())).Fault
	}
	return nil
}

// vCenter does not always name the missing privilege: the fault of a task may say System.Modify, or nothing. role.CouldLack knows which
// privileges the call can need, and vCenter tells which of these the account lacks on the object.

// nameMissing makes an error about a missing privilege name the privilege itself, and the object by its path. If vCenter does not
// answer, the error stays as it is.
func (c calls) nameMissing(ctx context.Context, a plan.Action, method string, e *vcfault.Error) *vcfault.Error {
	lacks := vcfault.LacksIn(e.Err)
	if e.Reason != vcfault.ReasonMissingPrivilege || len(lacks) == 0 {
		return e
	}
	var texts []string
	for _, l := range lacks {
		path := c.lackedOn(ctx, a, l.On)
		for _, id := range c.inTruth(ctx, method, l) {
			texts = append(texts, vcfault.Lack{ID: id, On: l.On}.Text(path))
		}
	}
	named := *e
	named.Message = vcfault.LackMessage(texts)
	return &named
}

// inTruth returns the missing privileges: the one that vCenter names; or, if it names none, or one that every role has,
// those of the call that the account lacks on the object.
func (c calls) inTruth(ctx context.Context, method string, l vcfault.Lack) []string {
	if l.ID != "" && !strings.HasPrefix(l.ID, "System.") {
		return []string{l.ID}
	}
	on := cmp.Or(l.On, &types.ManagedObjectReference{})
	could := role.CouldLack(method, on.Type)
	if len(could) == 0 {
		return []string{l.ID}
	}
	var held map[string]bool
	if l.On != nil {
		_ = c.Call(ctx, func(ctx context.Context, s *session.Session) error { // without an answer, all could be missing
			all, err := session.HeldPrivileges(ctx, s, []types.ManagedObjectReference{*on})
			held = all[*on]
			return err
		})
	}
	var all, needed []string
	for _, p := range could {
		if held == nil || held[p.ID] {
			continue
		}
		all = append(all, p.ID)
		if p.Needed() {
			needed = append(needed, p.ID)
		}
	}
	switch {
	case len(needed) > 0: // nothing works without these; the others may not be needed
		return needed
	case len(all) > 0:
		return all
	}
	ids := make([]string, len(could))
	for i, p := range could {
		ids[i] = p.ID
	}
	return []string{strings.Join(ids, " or ")}
}

// lackedOn returns the path of the object that a privilege is missing on. For members it names their folder, where the
// privilege should be granted.
func (c calls) lackedOn(ctx context.Context, a plan.Action, on *types.ManagedObjectReference) string {
	switch {
	case on == nil:
		return ""
	case on.Type == "VirtualMachine" && on.Value != plan.ArgsOf[plan.CloneArgs](a.Args).Template:
		m, path, _ := c.inventory.Holder(on.Value)
		if m == nil {
			_, path, _ = c.inventory.Holder(a.Folder())
			path += "/"
		}
		return "the VMs in " + path[:strings.LastIndexByte(path, '/')]
	}
	path := ""
	_ = c.Call(ctx, func(ctx context.Context, s *session.Session) (err error) { // without an answer, the message has its moRef
		path, err = session.PathOf(ctx, s, *on)
		return err
	})
	return path
}
