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

// watch looks at vCenter during a whole life, and records what must never happen:
//
// - two VMs of one ordinal that are both on and not marked, in vCenter's inventory or not, unless an operator made that possible:
// renaming or moving a VM, or its folder, opens the lock that its name is, and giving up a VM that vanished accepts the risk
// - a VM with the stamp of a group that was finalized
// - in a peaceful life, fewer working members than promised: see leastOf
// - an Event that blames an account for what no operator did: see judgeBlame
//
// It also keeps the diary.
type watch struct {
	mu         sync.Mutex
	began      time.Time
	diary      []string
	wrongs     []string
	uid        types.UID
	buried     []types.UID
	least      int                 // how many members are promised to work
	duplicates string              // why there may be duplicates; empty: there must be none
	excused    map[string]bool     // VMs, by instanceUuid, that a user gave up, or that were in quarantine, while they were not in the inventory
	seen       lastSeen            // each VM as last seen, for the diary
	changed    time.Time           // when that last changed
	written    map[string]string   // the owners of the persistent disks that guests wrote to, by id
	wanted     int                 // how many members the specs since all was as the spec says want, at least
	byHand     time.Time           // when an operator removed a member last
	stamped    map[string]sighting // as last seen, by moRef
	touched    map[string]bool     // by moRef: the VMs that operators powered off or removed, or may have
	deleting   bool                // the group is
	without    map[int64]bool      // the generations of the spec whose template is not there
}

// sighting is a member as it was seen.
type sighting struct {
	stamp.Stamp
	on bool // now, or before
}

func newWatch() *watch {
	return &watch{began: time.Now(), seen: map[string]string{}, excused: map[string]bool{}, touched: map[string]bool{}}
}

func (w *watch) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diary = append(w.diary, fmt.Sprintf("%8.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// sayOnce leaves out what was just said.
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

// watches sets the group to watch, from its creation on: nothing is promised yet.
func (w *watch) watches(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uid, w.least, w.duplicates, w.wanted, w.deleting, w.without = uid, 0, "", 0, false, map[int64]bool{}
}

// wants notes how many members the spec wants: an edit can only lower the number, as steps for the former spec may be running.
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

// duplicatesByHand notes that an operator opened the lock.
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

// excuse notes VMs that may come back, or run on where vCenter does not see them, through no fault of the server.
func (w *watch) excuse(instanceUUIDs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range instanceUUIDs {
		w.excused[id] = true
	}
}

// promised sets how many members work, and must from now on.
func (w *watch) promised(least int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.least = least
}

// promises tells the watch of the group as it is stored now, and lowers the promise to what its spec says; the promise rises only when that is
// reached.
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

// leastOf is how many members a spec promises to keep working: replicas less maxUnavailable.
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

// look looks at vCenter once. It gets the promise before and after, because the promise may change during the look.
func (w *watch) look(l *life) {
	w.mu.Lock()
	uid, buried, least := w.uid, slices.Clone(w.buried), w.least
	enough := len(w.wrongs) > 0
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
	excused := maps.Clone(w.excused)
	w.mu.Unlock()

	w.note(vms)
	working, on := 0, map[int32]string{}
	for _, vm := range slices.Concat(vms, away) {
		stamp, err := stampOf(vm)
		if err != nil || !stamp.Owned(stamp.UID, vm.InstanceUUID) || excused[vm.InstanceUUID] {
			continue
		}
		if slices.Contains(buried, stamp.UID) {
			l.t.Errorf("a VM of a group that was finalized: %s (%s) of %s", vm.Path, vm.Ref.Value, stamp.UID)
			return
		}
		if stamp.UID != uid || !stamp.Quarantined.IsZero() || !isOn(vm) {
			continue
		}
		if (vm.Tools || !l.profile.tools) && (!stamp.Marked || l.profile.replicas > 1) { // two replicas may mark different ones, and take the marks back
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

// replacing are the reasons to take a member down that another one succeeds.
var replacing = []plan.Why{plan.WhyUpdate, plan.WhyResize, plan.WhyReplace, plan.WhyHealing}

// wrongRemovals says what must never happen to members where only the server removes any: one goes without a mark; a scale-in leaves fewer
// than the spec wants (invariant 14); an update or a replacement chooses one while the spec that it follows can make no successor (13).
func (w *watch) wrongRemovals(vms []vcsim.VM) (wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, stay := map[string]sighting{}, 0
	for _, vm := range vms {
		s, err := stampOf(vm)
		if err != nil || !s.Owned(w.uid, vm.InstanceUUID) {
			continue
		}
		now[vm.Ref.Value] = sighting{s, isOn(vm)}
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
		case s.Marked && s.Why == plan.WhyScaleIn && stay < w.wanted:
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

// lastSeen describes the VMs that have a stamp, by moRef.
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

// still reports whether nothing has changed for as long as patience, or the time since began is far too long in any case.
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
	return err == nil && stamp.Owned(stamp.UID, vm.InstanceUUID)
}
