package planner

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// An update brings members in line with the spec, as a Deployment does with its pods: the group has at most maxSurge members more than
// replicas, and at most maxUnavailable of its replicas are not available. An outdated member is replaced by a new clone; a size is changed
// in place if the VM allows that.

// nominate nominates the members that an update replaces, and decides which members are held as they are. The others are resized in place.
func (u *update) nominate(d *decision, order []int) {
	var differ []*member
	for _, i := range order {
		if m := &d.sets.members[i]; m.differs() != "" {
			differ = append(differ, m)
		}
	}
	u.trackCanary(d, differ)
	slices.SortStableFunc(differ, func(a, b *member) int { return int(oneIf(u.takenBack(b)) - oneIf(u.takenBack(a))) })
	back := 0 // members that match a spec that was taken back; they are the first
	for _, m := range differ {
		back += int(oneIf(u.takenBack(m)))
	}
	keep := 0
	switch {
	case d.sets.holds():
		keep = len(differ)
	case d.facts.policy.Canary == 0: // also those that a scale-in removes
		keep = len(differ) - back
	case d.facts.policy.Canary > 0:
		keep = min(len(differ)-back, max(0, d.facts.want-d.facts.policy.Canary))
	}
	u.findInVain(d)
	if keep < len(differ) || slices.ContainsFunc(d.sets.standby, func(m member) bool { return d.facts.needsClone(&m) }) { // no setting holds standby members
		u.stuck = u.inVainFault()
	}
	if keep < len(differ) {
		u.closed, u.opens = d.facts.outsideWindows()
		d.wake.note(u.opens)
	}
	todo, waits := 0, len(differ) > 0 && d.sets.standbyFirst()
	for n, m := range differ {
		if n >= len(differ)-keep || u.closed && d.facts.startsTakingDown(m) {
			m.fate = held
		}
		todo += int(oneIf(m.fate != held))
	}
	u.trackProgress(d, todo)
	for _, m := range differ {
		isHeld := (m.fate == held || u.stuck != nil) && !d.facts.neverRuns(m) // such a member isn't worth keeping
		switch m.fate = remains; {
		case isHeld:
			m.fate = held
		case waits:
			m.fate = waitsForStandbyMembers
		case m.outdated != "":
			m.nominate(plan.MarkReasonUpdate, "update: it "+m.outdated)
		case d.facts.needsClone(m):
			m.nominate(plan.MarkReasonResize, "resize by a new clone: it "+m.resize)
		}
	}
}

// startsTakingDown reports whether an update would begin to take the member down: it has no mark, and is not changed in place.
func (f *facts) startsTakingDown(m *member) bool {
	inPlace := m.outdated == "" && f.policy.Resize != v1alpha1.ResizeReplace && !f.refusesResize(m)
	return !m.Marked && !(inPlace && (m.Power == plan.PoweredOff || f.hot(m)))
}

// tally keeps for the status what the update has decided, once spec.replace has overruled it: healing or a scale-in can still replace or
// remove a member that the update holds.
func (u *update) tally(members []member) {
	for i := range members {
		m := &members[i]
		u.held += int(oneIf(m.fate == held))
		u.changes = u.changes || m.differs() != "" && m.fate != held && !m.duplicate
		u.waits = u.waits || m.fate == waitsForStandbyMembers
	}
}

// isUpdating reports whether members are to be replaced or resized, now or later, by the update or because spec.replace names them.
func (d *decision) isUpdating() bool {
	return d.update.changes || slices.ContainsFunc(d.sets.members, func(m member) bool { return m.nominated == plan.MarkReasonReplace })
}

// trackCanary records in the status which specs were tried before the spec was edited back, so that a canary does not block the way back:
// members that match a tried spec are replaced first, and none of them is held. A spec counts as edited back if members match it already.
// That depends only on VMs and targets, and not on what else holds members.
func (u *update) trackCanary(d *decision, differ []*member) {
	stored := d.facts.Group.Status.Canary
	if d.facts.revision == "" { // the target is unknown
		u.canary = stored
		return
	}
	if d.facts.policy.Canary < 0 || len(differ) == 0 && len(d.sets.members) == d.facts.want {
		return
	}
	is, was := v1alpha1.CanaryProgress{Target: d.facts.target()}, v1alpha1.CanaryProgress{}
	switch {
	case stored != nil:
		was = *stored
	case d.facts.Group.Status.Update != nil: // the canary was added during an update
		was.Target = d.facts.Group.Status.Update.Target
	}
	switch was.Target {
	case is.Target:
		is.Tried, is.Back = was.Tried, was.Back
	case "":
	default:
		matches := slices.ContainsFunc(d.sets.members, func(m member) bool { return madeFrom(&m) == is.Target })
		is.Back = matches && !(was.Back && slices.Contains(was.Tried, is.Target)) // otherwise the spec was edited forward again
		is.Tried = slices.DeleteFunc(slices.Clone(was.Tried), func(target string) bool { return target == is.Target || target == was.Target })
		if !was.Back { // otherwise it is the target from before the tries
			is.Tried = append(is.Tried, was.Target)
		}
		is.Tried = is.Tried[max(0, len(is.Tried)-maxTried):]
	}
	u.canary = &is
}

// maxTried bounds status.canary.tried.
const maxTried = 8

// takenBack reports whether the member matches a spec that was tried and taken back.
func (u *update) takenBack(m *member) bool {
	return u.canary != nil && u.canary.Back && slices.Contains(u.canary.Tried, madeFrom(m))
}

// trackProgress records in the status when the number of available updated members last grew, as a Deployment does in a condition. An update
// lasts until all members are available; while it is held, it lasts until those are that it has updated.
func (u *update) trackProgress(d *decision, todo int) {
	updated, leaving, waiting := 0, 0, []*member(nil)
	for i := range d.sets.members {
		m := &d.sets.members[i]
		leaving += int(oneIf(m.MarkedForRemoval() && !m.duplicate))
		switch {
		case m.differs() != "" || m.duplicate:
		case m.available():
			updated++
		case !m.MarkedForRemoval():
			waiting = append(waiting, m)
		}
	}
	stored, target := d.facts.Group.Status.Update, d.facts.target()
	if d.facts.revision == "" {
		u.progress = stored
		return
	}
	same, isHeld := stored != nil && stored.Target == target, u.closed || d.sets.holds()
	lacks := d.sets.ordinals-leaving < d.facts.want && !isHeld
	switch none := len(d.sets.members) == 0; { // while there is none, as in an update of a group of one, nothing is made from another spec
	case todo > 0:
	case stored == nil, !same && !none, len(waiting) == 0 && !lacks:
		return
	}
	allowed := d.facts.policy.Deadline + d.facts.DrainTime()
	progress := v1alpha1.UpdateProgress{Target: target, Available: int32(updated), LastProgressTime: metav1.NewTime(d.facts.Now.UTC().Truncate(1e9))}
	if same && stored.Available >= progress.Available {
		progress.Available = stored.Available
		if !d.sets.refreshedSince(stored.LastProgressTime.Time) && !d.sets.holdEnded() && !d.resumes() && !d.overtook(waiting, stored.LastProgressTime.Add(allowed)) {
			progress.LastProgressTime = stored.LastProgressTime
		}
	}
	u.progress = &progress
	if todo == 0 {
		u.late = u.exceeded(d.overdue(waiting, progress.LastProgressTime.Add(allowed), allowed))
		return
	}
	if due := progress.LastProgressTime.Add(allowed); len(waiting) > 0 && d.facts.Now.Before(due) {
		d.wake.note(due)
		return
	}
	if u.stuck != nil {
		return
	}
	u.stuck = u.exceeded(waiting)
}

// overdue returns which of the last members of an update have run for so long without being available. A member that is off, or can't be reached,
// has a fault of its own.
func (d *decision) overdue(waiting []*member, due time.Time, allowed time.Duration) (all []*member) {
	if d.facts.paused() || d.sets.holds() {
		return nil
	}
	for _, m := range waiting {
		if !m.runsUnready() {
			continue
		}
		own := m.unreadySince(d.facts.Now).Add(allowed)
		if own.Before(due) {
			own = due
		}
		if d.facts.Now.Before(own) {
			d.wake.note(own)
			continue
		}
		all = append(all, m)
	}
	return all
}

// exceeded is the fault of members that did not become available in time; nil if there are none.
func (u *update) exceeded(members []*member) *plan.Fault {
	if len(members) == 0 {
		return nil
	}
	u.unavailable = members
	fault := needsOperator(plan.ReasonProgressDeadline)
	return &fault
}

// resumes reports whether, since the status was stored, spec.paused or an outage of vCenter has ended. A Deployment's deadline begins anew when it
// is resumed, too.
func (d *decision) resumes() bool {
	was := d.facts.Group.Status.Conditions
	return meta.IsStatusConditionTrue(was, v1alpha1.ConditionPaused) && !d.facts.paused() || meta.IsStatusConditionFalse(was, v1alpha1.ConditionVCenterReachable)
}

// overtook reports whether the deadline passed before there was a member that could become available: all that wait are new. Their clones may
// have waited for resources.
func (d *decision) overtook(waiting []*member, due time.Time) bool {
	held := meta.FindStatusCondition(d.facts.Group.Status.Conditions, v1alpha1.ConditionUpdateHeld)
	return len(waiting) > 0 && !d.facts.Now.Before(due) && (held == nil || held.Reason != plan.ReasonProgressDeadline) &&
		!slices.ContainsFunc(waiting, func(m *member) bool { return d.facts.Record(m.MoRef, -1) != nil })
}

// refreshedSince reports whether a member that was created since is available. That is progress although the number of updated members need
// not grow: while some become available, others become too old.
func (s *sets) refreshedSince(since time.Time) bool {
	for i := range s.members {
		if m := &s.members[i]; s.facts.policy.MaxAge > 0 && m.available() && m.differs() == "" && m.Created.After(since) {
			return true
		}
	}
	return false
}

// holdEnded reports whether a hold in the stored status is over.
func (s *sets) holdEnded() bool {
	for i := range s.facts.Group.Status.Members {
		r := &s.facts.Group.Status.Members[i]
		over := !r.HeldUntil.IsZero()
		for j := range s.members {
			if m := &s.members[j]; over && m.MoRef == r.MoRef {
				over = m.heldUntil.IsZero()
			}
		}
		if over {
			return true
		}
	}
	return false
}

// target describes what members are updated to. Status messages have it, and updates with different targets are different updates.
func (f *facts) target() string {
	return targetText(f.revision, f.Group.Spec.CPU, f.Group.MemoryMB(), f.allocation)
}

// madeFrom is the target that the member matches.
func madeFrom(m *member) string {
	return targetText(m.Revision, m.CPU, m.MemoryMB, m.Allocation)
}

func targetText(revision string, cpu int32, memoryMB int64, allocation string) string {
	memory := fmt.Sprintf("%d GiB", memoryMB/1024)
	if memoryMB%1024 != 0 {
		memory = fmt.Sprintf("%d MiB", memoryMB)
	}
	text := fmt.Sprintf("%s, %s, %s", revision, plan.Count(int(cpu), "CPU"), memory)
	if allocation != "" {
		text += ", " + allocation
	}
	return text
}

// cyclesLater reports whether a member is to be power-cycled for its size once the standby members are updated. Until then, a helper for the power
// cycles stays, instead of the member.
func (d *decision) cyclesLater(m *member) bool {
	return m.fate == waitsForStandbyMembers && m.outdated == "" && d.facts.policy.Resize != v1alpha1.ResizeReplace && d.facts.startsTakingDown(m)
}

// beyond returns how many extra members are kept for now: during an update, as many as members are not available yet, up to maxSurge.
func (d *decision) beyond() int {
	differ, waiting, cycles := false, 0, 0
	for i := range d.sets.members {
		m := &d.sets.members[i]
		switch {
		case m.nominated != "":
			differ = true
		case d.wantsCycle(m) || d.cyclesLater(m):
			differ = true
			cycles += int(oneIf(d.facts.policy.MinAvailable >= d.facts.want)) // otherwise no extra member helps (helpers)
		case !m.available() && !m.MarkedForRemoval() && m.fate != held, m.inVain && d.update.stuck != nil: // it shows why the update has stopped
			waiting++
		}
		differ = differ || m.differs() != ""
	}
	if !differ && d.update.progress == nil {
		return 0
	}
	if d.facts.revision == "" && d.update.progress != nil {
		return d.facts.policy.Surge
	}
	return min(d.facts.policy.Surge, waiting+cycles)
}

// helpers returns how many extra members are cloned so that others can be power-cycled: none if maxUnavailable allows that without them.
func (d *decision) helpers() int {
	if d.facts.policy.MinAvailable < d.facts.want {
		return 0
	}
	n := 0
	for i := range d.sets.members {
		if d.wantsCycle(&d.sets.members[i]) {
			n++
		}
	}
	return min(d.facts.policy.Surge, n)
}

// surgeText says why the members made now exceed replicas.
func (d *decision) surgeText(made int) string {
	extra, what := d.sets.ordinals+len(d.arriving)+made-d.facts.want, "the update"
	if d.helpers() > 0 {
		what = "the power cycles"
	}
	if extra == 1 {
		return "surge: one extra member during " + what
	}
	return fmt.Sprintf("surge: %d extra members during %s", extra, what)
}

// holds reports whether something keeps all members that differ from the spec as they are.
func (s *sets) holds() bool { return s.facts.policy.Held() || s.suppressed != nil }

// outsideWindows reports whether no window is open, although there are some. until is when a window opens or closes next; zero if none does.
func (f *facts) outsideWindows() (is bool, until time.Time) {
	open, until := openAt(f.Now, windowsOf(f.Group.Spec.Update.Windows))
	return !open && !until.IsZero(), until
}
