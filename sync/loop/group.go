package loop

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// group is what the loop remembers of one VmGroup between its calls. Loop.mu guards it.
type group struct {
	ref             plan.Ref
	call            plan.Call // the newest
	renewed         time.Time // when it came
	calls           int       // that renewed it
	due             time.Time // when the next one is due
	busy            bool      // steps run, or its plan says that it is in progress
	finalizing      bool      // sticky: a finalizing group never comes back
	finalizingSince time.Time
	orphaned        bool      // sticky: a call of its deletion showed that its dependents are to stay
	statusWritten   time.Time // when a call first showed its present status, since it is finalizing
	membersWritten  time.Time // when a call first showed the present ConfigMap of members
	emptied         bool      // ConfirmGone succeeded since
	finalized       bool      // a call was answered with finalized: true
	blind           bool      // vCenter's state was unknown when the newest call came
	folderSeen      time.Time // when vCenter last showed the group's folder
	folderMade      bool      // CreateFolder succeeded, and vCenter hasn't been observed since
	ownFolders      []string  // moRefs of folders that were at the group's path: see plan.Observed
	memberFolders   []string  // and of those elsewhere that members were in
	newestStamp     int64     // the highest generation seen in a stamp
	unselected      unselected

	waits    []limiter.Work         // it waits for a slot for any one of these
	reserved *limiter.Work          // the slot for its next round, because it waited for one
	running  map[string]plan.Action // by member
	limited  map[string]*limiter.Running
	began    map[string]time.Time  // when they began
	stalled  map[string]plan.Fault // of these, those that are stalled: they take no slot
	outdated map[string]bool       // of these, those that began before the group was finalizing
	failures map[string]failure    // by member
	// limit bounds the actions at once after a failure: 1, then doubling with every success (slow start).
	// Zero: no bound.
	limit      int
	crashLoops map[string]crashLoop // by member
	// lostMany: many members were lost at once, and the limit was reduced for that.
	lostMany bool
	wakes    time.Time // the next time at which it is planned again by itself

	status   v1alpha1.VmGroupStatus      // the last answer's
	awaited  map[plan.ChildKey]time.Time // since when children have been answered but not seen
	lastLine string                      // the last transition that was logged
	planned  planned                     // the newest plan
	history  []plan.ActionReport         // the last actions that ended, newest first; never changed
	events   events
}

// failure is why an action's last try failed, and until when the next one waits.
type failure struct {
	action plan.Action
	fault  plan.Fault
	tries  int
	took   time.Duration // how long the try ran
	until  time.Time
	tried  plan.Op // what failed before for the same VM, and may have taken it down
}

// before returns the op that failed earlier for the action's VM, and may have taken the VM down. That stays uncertain until something succeeds.
func (f *failure) before(a plan.Action) plan.Op {
	switch {
	case f.action.MoRef != a.MoRef:
		return ""
	case f.action.Op != a.Op && f.action.Op.TakesDown() && !f.fault.Untried:
		return f.action.Op
	}
	return f.tried
}

func newGroup(call plan.Call) *group {
	return &group{ref: call.Ref(), running: map[string]plan.Action{}, limited: map[string]*limiter.Running{}, began: map[string]time.Time{}, outdated: map[string]bool{},
		failures: map[string]failure{}, awaited: map[plan.ChildKey]time.Time{}, crashLoops: map[string]crashLoop{}}
}

func (g *group) copy() *group {
	c := *g
	return &c
}

// renew stores a call. A call with a lower generation than known is stale: it renews nothing and is answered from what is known, unless an
// operator undoes that very generation. A new generation, or other user data, means that an operator has acted, so all failed actions are
// retried at once.
func (g *group) renew(call plan.Call, now time.Time) (taken bool) {
	switch {
	case call.Unselected():
		return false // it must leave no trace
	case g.finalizing && !call.Finalizing && call.Group.DeletionTimestamp.IsZero():
		return false // older than the deletion, whatever its generation
	case g.call.Group != nil && call.Group.Generation < g.call.Group.Generation && !call.Finalizing &&
		call.Group.UndoneGeneration() != g.call.Group.Generation:
		return false
	}
	g.selected()
	g.sawAnswer(&call)
	g.sawWrites(&call, now)
	if g.call.Group != nil && (call.Group.Generation > g.call.Group.Generation || !call.Finalizing && call.Related.Digest != g.call.Related.Digest) {
		clear(g.failures)
		g.limit = 0
	}
	g.call, g.renewed, g.calls = call, now, g.calls+1
	g.orphaned = g.orphaned || call.Cascade == metav1.DeletePropagationOrphan
	g.blind = true // until vCenter is observed
	if call.Finalizing && !g.finalizing {
		g.finalizing, g.finalizingSince, g.emptied = true, now, false
		clear(g.failures)
		g.limit = 0
		for vm := range g.running {
			g.outdated[vm] = true
		}
	}
	return true
}

// preview applies a call to a copy that is thrown away.
func (g *group) preview(call plan.Call, now time.Time) {
	if g.finalizing && call.Group.DeletionTimestamp.IsZero() { // a manifest: the group is being deleted nevertheless
		deleted := *call.Group
		deleted.DeletionTimestamp = g.call.Group.DeletionTimestamp
		call.Group = &deleted
	}
	g.call, g.renewed = call, now
	if call.Finalizing && !g.finalizing {
		g.finalizing, g.finalizingSince = true, now
	}
}

// observe returns the group's part of an observation: everything but vCenter's state, which must be read afterwards
// (read your writes: what is no longer pending is already visible).
func (g *group) observe(cfg Config, now time.Time) plan.Observed {
	o := plan.Observed{
		Group: g.call.Group, Finalizing: g.finalizing, Called: g.renewed, Blind: g.blind, FinalizingSince: g.finalizingSince,
		FolderSeen: g.folderSeen, OwnFolders: slices.Concat(g.ownFolders, g.memberFolders), NewestStamp: g.newestStamp,
		Children: g.call.Children, Related: g.call.Related, ChildrenWantedSince: maps.Clone(g.awaited), Emptied: g.emptied,
		Lease: cfg.Lease, Resync: cfg.Resync, Now: now, Cascade: g.call.Cascade,
	}
	if g.orphaned {
		o.Cascade = metav1.DeletePropagationOrphan
	}
	if len(o.Group.Status.Conditions) == 0 && len(g.status.Conditions) > 0 {
		withStatus := *o.Group // a stale parent, or one sent by hand, has no status: the last answer's is used
		withStatus.Status = g.status
		o.Group = &withStatus
	}
	if len(g.running)+len(g.failures) > 0 {
		o.Pending = make(map[string]plan.Pending, len(g.running)+len(g.failures))
	}
	past := g.past(now)
	for vm, f := range g.failures {
		p := plan.Pending{Op: f.action.Op, Ordinal: f.action.Ordinal, MoRef: f.action.MoRef, State: plan.BackingOff, Fault: f.fault, Why: plan.ArgsOf[plan.MarkArgs](f.action.Args).Why, Standby: f.action.Standby()}
		if past[f.kind()] {
			p.State, p.Fault = plan.Due, plan.Fault{}
		} else if !now.Before(f.until) {
			p.State = plan.Due
		}
		p.Tried = f.tried
		o.Pending[vm] = p
	}
	for vm, a := range g.running {
		p := plan.Pending{Op: a.Op, Ordinal: a.Ordinal, MoRef: a.MoRef, State: plan.Running, Why: plan.ArgsOf[plan.MarkArgs](a.Args).Why, Standby: a.Standby()}
		f := g.failures[vm]
		if f.action.Op == a.Op && !past[f.kind()] {
			p.Fault = f.fault
		}
		p.Tried = f.before(a)
		if a.Details() != nil {
			p.Home = a.Details().Home
		}
		o.Pending[vm] = p
	}
	return o
}

// forgetUnwanted forgets failures of actions that no plan wants any more, but only a while after their retry was due: until then their effect
// is uncertain, and the planner is careful with such a member.
func (g *group) forgetUnwanted(r *plan.Result, now time.Time) {
	for vm, f := range g.failures {
		if _, again := g.running[vm]; again || now.Sub(f.until) < unwantedAfter || r.Wants(vm, f.action.Op) {
			continue
		}
		delete(g.failures, vm)
	}
}

const unwantedAfter = time.Minute

// saw remembers the observed facts that must outlast their objects.
func (g *group) saw(o *plan.Observed) {
	if o.State.Folder != "" && o.Now.After(g.folderSeen) {
		g.folderSeen = o.Now
	}
	if g.finalizing && len(g.ownFolders) == 0 && !g.emptied {
		g.ownFolders = owning(g.ownFolders, o.State.Folder)
	}
	for i := range o.State.VMs {
		g.newestStamp = max(g.newestStamp, o.State.VMs[i].Generation)
		switch folder := o.State.VMs[i].Folder; {
		case !o.State.VMs[i].Quarantined.IsZero():
		case folder == o.State.Folder:
			g.ownFolders = owning(g.ownFolders, folder)
		default:
			g.memberFolders = owning(g.memberFolders, folder)
		}
	}
}

// owns reports whether a call proves that the folder at the group's path belongs to it. Until a finalize call is
// answered with finalized: true, the group exists. (A finalize may be stale, and reach a replica that does not know that the group has
// ended: for a group that had another folder before, it proves nothing.)
func (g *group) owns(call *plan.Call) bool {
	return !call.Finalizing || !g.finalized && len(g.ownFolders) == 0
}

// owning adds a folder, if there is one, to the group's own.
func owning(folders []string, folder string) []string {
	if folder == "" || slices.Contains(folders, folder) {
		return folders
	}
	return append(slices.Clip(folders), folder) // observations share the slice
}

// slowStart makes the group start slowly when many of its members were lost at once, because the new ones may be lost for the same reason.
func (g *group) slowStart(lost bool) {
	if lost && !g.lostMany && g.limit == 0 {
		g.limit = 1
	}
	g.lostMany = lost
}

// startable returns the actions that can start now, within the group's limit.
func (g *group) startable(actions []plan.Action) []plan.Action {
	if g.limit > 0 && g.atWork() >= g.limit {
		return nil
	}
	return actions
}

// How long a failed action waits: doubling from the first to the last, by the kind of its fault.
const (
	waitFirst, waitLast           = time.Second, 2 * time.Minute // may pass by itself
	operatorFirst, operatorLast   = 5 * time.Second, time.Minute // an operator has to act; a retry is cheap
	transientFirst, transientLast = time.Second, 4 * time.Second // passes by itself soon

	// watchedLast is operatorLast for one of those that failed the same way, for its first watchedTries: an operator who removes the cause
	// sees within ten seconds that it is gone. The others follow when that one succeeds (retryLike).
	watchedLast  = 4 * time.Second
	watchedTries = 120
)

// ended records the end of an action and returns when to try it again; zero if there is nothing to wait for.
func (g *group) ended(a plan.Action, err error, now time.Time, jitter func(most time.Duration) time.Duration) (retry time.Duration) {
	took := now.Sub(g.began[a.VM])
	delete(g.running, a.VM)
	delete(g.began, a.VM)
	delete(g.stalled, a.VM)
	delete(g.outdated, a.VM)
	if err == nil {
		g.retryLike(a.VM, now)
		delete(g.failures, a.VM)
		if a.Op == plan.ConfirmGone { // it counts only for the time that it was started for
			since := plan.ArgsOf[plan.ConfirmArgs](a.Args).Since
			g.emptied = g.emptied || since.Equal(g.finalizingSince)
			g.unselected.emptied = g.unselected.emptied || since.Equal(g.unselected.since)
		}
		if g.limit *= 2; g.limit > maxLimit {
			g.limit = 0
		}
		switch a.Op {
		case plan.CreateFolder: // the folder exists, though the inventory may be unknown by now
			g.folderSeen, g.folderMade = now, true
		case plan.PowerOn:
			return g.poweredOn(a, now)
		case plan.ShutdownGuest, plan.PowerOff:
			delete(g.crashLoops, a.VM) // it did not halt by itself
		}
		return 0
	}
	was := g.failures[a.VM]
	f := failure{action: a, fault: faultOf(err), tries: was.tries + 1, took: took, tried: was.before(a)}
	if was.action.Op != a.Op {
		f.tries = 1
	} else if was.action.MoRef == a.MoRef && !was.fault.Untried {
		f.fault.Untried = false // the earlier try may have been carried out
	}
	first, last := waitFirst, waitLast
	switch {
	case f.fault.NeedsOperator:
		first, last = operatorFirst, operatorLast
		if f.tries <= watchedTries && !g.othersTry(a, f.fault, now.Add(watchedLast)) {
			last = watchedLast
		}
	case f.fault.Transient:
		first, last = transientFirst, transientLast
	}
	retry = min(first<<min(f.tries-1, 20), last)
	retry += jitter(retry/5 + 1)
	f.until = now.Add(retry)
	g.failures[a.VM] = f
	g.limit = 1
	return retry
}

// maxLimit is where slow start ends: from there on, only the slots bound the actions at once.
const maxLimit = 64

// faultOf returns why an action failed; the zero Fault if it did not.
func faultOf(err error) plan.Fault {
	if err == nil {
		return plan.Fault{}
	}
	fault := plan.Fault{Reason: "Internal", Message: err.Error()}
	var typed interface{ PlanFault() plan.Fault }
	if errors.As(err, &typed) {
		fault = typed.PlanFault()
	}
	fault.Message = plan.Bounded(fault.Message, plan.TextMost)
	return fault
}

// answered remembers the answer, and logs a line if the group's state changed.
func (g *group) answered(log zerolog.Logger, o *plan.Observed, r *plan.Result) {
	g.finalized = g.finalized || r.Finalized
	if r.Status.Phase != "" {
		g.status = r.Status
	}
	if o.State.Known {
		for key := range g.awaited {
			if _, seen := o.Children[key]; seen || !wanted(r.Children, key) {
				delete(g.awaited, key)
			}
		}
		for _, c := range r.Children {
			if _, seen := o.Children[c.Key]; !seen && g.awaited[c.Key].IsZero() {
				g.awaited[c.Key] = o.Now
			}
		}
	}
	if line := string(r.Status.Phase) + r.Status.LastMessage; line != g.lastLine {
		g.lastLine = line
		log.Info().Stringer("group", g.ref).Str("phase", string(r.Status.Phase)).
			Int32("current", r.Status.CurrentReplicas).Int32("desired", r.Status.DesiredReplicas).
			Str("status", r.Status.LastMessage).Msg("status changed")
	}
}

func wanted(children []plan.Child, key plan.ChildKey) bool {
	for i := range children {
		if children[i].Key == key {
			return true
		}
	}
	return false
}
