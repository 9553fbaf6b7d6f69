package test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// watch looks at vCenter during a whole life, and reports states and events that must never occur:
//
// - two VMs of one ordinal that are both on and not marked, in vCenter's inventory or not, unless an operator made that possible:
// the server relies on a VM's name in its folder as a lock, which a rename or move of the VM or the folder breaks, and a user who gives up a vanished
// VM accepts the risk
// - a VM with the stamp of a group that was finalized
// - in a peaceful life, fewer working members than promised: see leastOf
// - a VM of backup software or of a stranger, with a stamp, that was renamed or has another stamp
// - an Event that blames an account for what no operator did: see checkBlame
//
// It also keeps the diary of the life.
type watch struct {
	mu         sync.Mutex
	began      time.Time
	diary      []string
	wrongs     []string
	uid        types.UID
	buried     []types.UID
	least      int                    // the number of members that, as promised, always work
	duplicates string                 // why there may be two VMs of one ordinal; empty: there must be none
	unlisted   map[string]bool        // VMs, by instanceUuid, that no status listed when vCenter changed their instanceUuid: nothing shows whose they are
	excused    map[string]bool        // VMs, by instanceUuid, that a user gave up, or that were in quarantine, while they were not in the inventory
	seen       lastSeen               // how each VM looked last, for the diary
	changed    time.Time              // when seen last changed
	written    map[string]string      // the owners of the persistent disks that guests wrote to, by id
	wanted     int                    // the smallest number of members that any spec wanted since the group last was as its spec says
	byHand     time.Time              // when an operator last removed a member
	stamped    map[string]memberState // how each member looked last, by moRef
	touched    map[string]bool        // by moRef: the VMs that operators powered off or removed, or tried to
	deleting   bool                   // whether the group is being deleted
	stray      map[string]*vcsim.VM   // by moRef: how each VM looked last that has a stamp and that the server must not touch
	without    map[int64]bool         // the generations of the spec whose template doesn't exist
}

// memberState is what a look at vCenter showed of a member.
type memberState struct {
	stamp.Stamp
	on bool // whether the member was powered on at this look or an earlier one
}

func newWatch() *watch {
	return &watch{began: time.Now(), seen: map[string]string{}, excused: map[string]bool{}, unlisted: map[string]bool{}, touched: map[string]bool{}}
}

func (w *watch) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diary = append(w.diary, fmt.Sprintf("%8.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// sayOnce is say, but doesn't repeat the diary's last line.
func (w *watch) sayOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	again := len(w.diary) > 0 && w.diary[len(w.diary)-1][9:] == text
	w.mu.Unlock()
	if !again {
		w.say("%s", text)
	}
}

func (w *watch) violated(text string) {
	w.mu.Lock()
	if len(w.wrongs) < 5 {
		w.wrongs = append(w.wrongs, text)
	}
	w.mu.Unlock()
	w.say("!!! %s", text)
}

func (w *watch) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.diary)
}

func (w *watch) wrong() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrongs)
}

// watches sets the group to watch. It is called when the group is created, so nothing is promised yet.
func (w *watch) watches(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uid, w.least, w.duplicates, w.wanted, w.deleting, w.without = uid, 0, "", 0, false, map[int64]bool{}
}

// wants notes how many members the spec wants. An edit can only lower the noted number, because steps for the former spec may still be running.
func (w *watch) wants(n int32, edit bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !edit || int(n) < w.wanted {
		w.wanted = int(n)
	}
}

// removesByHand notes that an operator removes a member.
func (w *watch) removesByHand() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byHand = time.Now()
}

// finalized notes that a group was finalized.
func (w *watch) finalized(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buried, w.least = append(w.buried, uid), 0
}

// duplicatesByHand notes that an operator made two VMs of one ordinal possible, and how.
func (w *watch) duplicatesByHand(how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.duplicates = how
}

func (w *watch) isExcused(instanceUUID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.excused[instanceUUID]
}

// excuse notes VMs outside vCenter's inventory that may come back or continue to run, which isn't the server's fault.
func (w *watch) excuse(instanceUUIDs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range instanceUUIDs {
		w.excused[id] = true
	}
}

// unlist notes a VM that no status listed when vCenter changed its instanceUuid: it stays if its group is deleted before an operator sets that back.
func (w *watch) unlist(instanceUUID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unlisted[instanceUUID] = true
}

// promised sets how many members must work from now on.
func (w *watch) promised(least int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.least = least
}

// promises tells the watch about an edit or a deletion of the group. It lowers the promised number of members if the new spec promises fewer, but never
// raises it: promised does so once the group is as its spec says.
func (l *life) promises() {
	least := l.leastOf(&l.group.Spec)
	if l.deleting {
		least = 0
	}
	l.watch.mu.Lock()
	defer l.watch.mu.Unlock()
	l.watch.least, l.watch.deleting = min(l.watch.least, least), l.deleting
	l.watch.without[l.group.Generation] = l.group.Spec.Template == noTemplate
}

// leastOf returns how many members a spec promises to keep working: replicas minus maxUnavailable.
func (l *life) leastOf(s *v1alpha1.VmGroupSpec) int {
	count := func(v *intstr.IntOrString, up bool) int {
		byDefault := intstr.FromString("25%")
		if v == nil {
			v = &byDefault
		}
		n, _ := intstr.GetScaledValueFromIntOrPercent(v, int(*s.Replicas), up)
		return n
	}
	unavailable := count(s.Update.MaxUnavailable, false)
	if unavailable == 0 && (count(s.Update.MaxSurge, true) == 0 || s.HasPersistentDisks()) {
		unavailable = 1
	}
	return max(0, int(*s.Replicas)-unavailable)
}

// look looks at vCenter once. It reads the promised number before and after the read of vCenter, and uses the smaller one, because an edit may lower it
// during the read.
func (w *watch) look(l *life) {
	w.mu.Lock()
	uid, buried, least := w.uid, slices.Clone(w.buried), w.least
	enough, strays := len(w.wrongs) > 0, maps.Clone(w.stray)
	w.mu.Unlock()
	if enough {
		return
	}
	vms, away := l.AllVMs()
	w.mu.Lock()
	if w.uid != uid {
		w.mu.Unlock()
		return
	}
	least, duplicates := min(least, w.least), w.duplicates
	excused, unlisted := maps.Clone(w.excused), maps.Clone(w.unlisted)
	w.mu.Unlock()

	w.note(vms)
	working, on := 0, map[int32]string{}
	for _, vm := range slices.Concat(vms, away) {
		stamp, err := stampOf(vm)
		if err != nil || !stamp.Owned(stamp.UID, vm.First) || excused[vm.First] || isStray(vm) || vm.Template {
			continue
		}
		if slices.Contains(buried, stamp.UID) && !unlisted[vm.First] {
			l.t.Errorf("a VM of a group that was finalized: %s (%s) of %s", vm.Path, vm.Ref.Value, stamp.UID)
			return
		}
		if stamp.UID != uid || !stamp.Quarantined.IsZero() || !isOn(vm) {
			continue
		}
		if (vm.Tools || !l.profile.tools) && (!stamp.Marked || l.profile.replicas > 1) { // with several replicas, a marked member counts, because two replicas may mark different members and withdraw the marks
			working++
		}
		if other := on[stamp.Ordinal]; other != "" && !stamp.Marked && duplicates == "" {
			l.t.Errorf("two VMs of one ordinal: %s and %s (%s)", other, vm.Path, vm.Ref.Value)
			return
		}
		if !stamp.Marked {
			on[stamp.Ordinal] = fmt.Sprintf("%s (%s)", vm.Path, vm.Ref.Value)
		}
	}
	if wrong := w.wrongStrays(vms, strays); wrong != "" {
		l.t.Errorf("%s", wrong)
	}
	if wrong := w.wrongDisks(l, vms); wrong != "" {
		l.t.Errorf("%s", wrong)
	}
	if l.profile.peaceful && working < least {
		l.t.Errorf("fewer working members than promised: %d, not %d", working, least)
	}
	if wrong := w.wrongRemovals(vms); wrong != "" && l.profile.peaceful {
		l.t.Errorf("%s", wrong)
	}
}

// replacing are the reasons for taking down a member that gets a successor.
var replacing = []plan.MarkReason{plan.MarkReasonUpdate, plan.MarkReasonResize, plan.MarkReasonReplace, plan.MarkReasonHealing}

// wrongRemovals reports what the server must never do to members: remove a member without a mark, leave fewer members after a scale-in than the spec wants
// (invariant 14), or mark a member for an update or a replacement while its spec allows no successor (invariant 13). It assumes that only the server
// removes members.
func (w *watch) wrongRemovals(vms []vcsim.VM) (wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, stay := map[string]memberState{}, 0
	for _, vm := range vms {
		s, err := stampOf(vm)
		if err != nil || !s.Owned(w.uid, vm.First) || isStray(vm) {
			continue
		}
		now[vm.Ref.Value] = memberState{s, isOn(vm)}
		if s.Quarantined.IsZero() && !s.Standby {
			stay++
		}
	}
	for ref, s := range w.stamped {
		is, there := now[ref]
		if is.on = is.on || s.on; there {
			now[ref] = is
		}
		switch {
		case there && is.Marked && !s.Marked && !w.deleting && w.without[is.Generation] && slices.Contains(replacing, is.Why):
			return fmt.Sprintf("%s of ordinal %d is marked for %s while no successor can be made", ref, is.Ordinal, is.Why)
		case there || w.deleting || s.Standby || !s.Quarantined.IsZero() || s.UID != w.uid || time.Since(w.byHand) < leaseTime:
		case !s.Marked && s.on:
			return fmt.Sprintf("%s of ordinal %d is gone, and was not marked", ref, s.Ordinal)
		case s.Marked && s.Why == plan.MarkReasonScaleIn && stay < w.wanted:
			return fmt.Sprintf("a scale-in removes %s of ordinal %d, and leaves %d members of %d", ref, s.Ordinal, stay, w.wanted)
		}
	}
	w.stamped = now
	return ""
}

// note records in the diary which VMs changed.
func (w *watch) note(vms []vcsim.VM) {
	w.mu.Lock()
	changes := w.seen.changes(vms)
	if len(changes) > 0 {
		w.changed = time.Now()
	}
	w.mu.Unlock()
	for _, text := range changes {
		w.say("    %s", text)
	}
}

// lastSeen has a description of each VM that has a stamp, by moRef.
type lastSeen map[string]string

// changes returns what changed since the last call.
func (g *lastSeen) changes(vms []vcsim.VM) (changes []string) {
	now := lastSeen{}
	for _, vm := range vms {
		stamp, err := stampOf(vm)
		if err != nil {
			continue
		}
		text := fmt.Sprintf("%s %s, generation %d, %s", vm.Path, vm.Power, stamp.Generation, stamp.Revision)
		if stamp.Marked {
			text += ", marked for " + string(stamp.Why)
		}
		if !stamp.Quarantined.IsZero() {
			text += ", in quarantine"
		}
		if now[vm.Ref.Value] = text; (*g)[vm.Ref.Value] != text {
			changes = append(changes, vm.Ref.Value+": "+text)
		}
	}
	for ref := range *g {
		if now[ref] == "" {
			changes = append(changes, ref+" is gone, or has no stamp")
		}
	}
	*g = now
	slices.Sort(changes)
	return changes
}

// still reports whether a life should stop waiting: vCenter hasn't changed for patience, or the wait has lasted for five times patience.
func (w *watch) still(began time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := began
	if w.changed.After(began) {
		since = w.changed
	}
	return time.Since(since) > patience || time.Since(began) > 5*patience
}

func isStamped(vm vcsim.VM) bool {
	stamp, err := stampOf(vm)
	return err == nil && stamp.Owned(stamp.UID, vm.First)
}
