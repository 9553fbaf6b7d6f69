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
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// watch looks at vCenter during a whole life, and takes down what must never be:
//
//   - two VMs of one ordinal that are both on and not chosen to go, in vCenter's inventory or not, unless an operator made that
//     possible: one who renames or moves a VM, or its folder, opens the lock that its name is; and one who gives up a VM that
//     vanished takes the blame
//   - a VM that bears the stamp of a group that was finalized
//   - in a peaceful life, fewer members at work than promised: see leastOf
//
// It keeps the diary, too.
type watch struct {
	mu      sync.Mutex
	began   time.Time
	diary   []string
	wrongs  []string
	uid     types.UID
	buried  []types.UID
	least   int             // how many are promised to be at work
	twins   string          // why there may be twins; empty: there may be none
	excused map[string]bool // VMs, by instanceUuid, that a user gave up, or that were in quarantine, when they were not in the inventory
	seen    glances         // what was last seen of each VM, for the diary
	news    time.Time       // when any of that changed last
}

func newWatch() *watch {
	return &watch{began: time.Now(), seen: map[string]string{}, excused: map[string]bool{}}
}

func (w *watch) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diary = append(w.diary, fmt.Sprintf("%8.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// sayOnce says nothing that was just said.
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

func (w *watch) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.diary)
}

func (w *watch) wrong() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrongs)
}

// follows makes a group the one that is watched, from its creation on: nothing is promised yet.
func (w *watch) follows(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uid, w.least, w.twins = uid, 0, ""
}

// buries notes that a group was finalized.
func (w *watch) buries(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buried, w.least = append(w.buried, uid), 0
}

// twinsByHand notes that an operator opened the lock.
func (w *watch) twinsByHand(how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.twins = how
}

// excuse notes VMs that nobody is to blame for when they come back, or run on where vCenter does not see them.
func (w *watch) excuse(instanceUUIDs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range instanceUUIDs {
		w.excused[id] = true
	}
}

// promised: so many are at work, and are to be from now on.
func (w *watch) promised(least int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.least = least
}

// promises takes the promise down to what the spec says now; it rises only when that is reached.
func (l *life) promises() {
	least := l.leastOf(&l.group.Spec)
	if l.deleting {
		least = 0
	}
	l.watch.mu.Lock()
	defer l.watch.mu.Unlock()
	l.watch.least = min(l.watch.least, least)
}

// leastOf is how many members a spec promises to keep at work: replicas less maxUnavailable.
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
	if unavailable == 0 && count(s.Update.MaxSurge, true) == 0 {
		unavailable = 1
	}
	return max(0, int(*s.Replicas)-unavailable)
}

// look looks at vCenter once. What is promised is asked before and after, for it may change meanwhile.
func (w *watch) look(l *life) {
	w.mu.Lock()
	uid, buried, least := w.uid, slices.Clone(w.buried), w.least
	enough := len(w.wrongs) > 0
	w.mu.Unlock()
	if enough {
		return
	}
	vms, away := l.VMs(), l.Away()
	w.mu.Lock()
	if w.uid != uid {
		w.mu.Unlock()
		return
	}
	least, twins := min(least, w.least), w.twins
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
		if vm.Tools || !l.temper.tools {
			working++
		}
		if other := on[stamp.Ordinal]; other != "" && !stamp.Marked && twins == "" {
			l.t.Errorf("two VMs of one ordinal: %s and %s (%s)", other, vm.Path, vm.Ref.Value)
			return
		}
		if !stamp.Marked {
			on[stamp.Ordinal] = fmt.Sprintf("%s (%s)", vm.Path, vm.Ref.Value)
		}
	}
	if l.temper.peaceful && working < least {
		l.t.Errorf("fewer at work than promised: %d, not %d", working, least)
	}
}

// note says in the diary what changed of the VMs.
func (w *watch) note(vms []vcsim.VM) {
	w.mu.Lock()
	news := w.seen.news(vms)
	if len(news) > 0 {
		w.news = time.Now()
	}
	w.mu.Unlock()
	for _, text := range news {
		w.say("    %s", text)
	}
}

// glances are the VMs that bear a stamp, by their moRefs, in words.
type glances map[string]string

// news says what changed since it was last asked for.
func (g *glances) news(vms []vcsim.VM) (news []string) {
	now := glances{}
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
			news = append(news, vm.Ref.Value+": "+text)
		}
	}
	for ref := range *g {
		if now[ref] == "" {
			news = append(news, ref+" is gone, or bears no stamp")
		}
	}
	*g = now
	slices.Sort(news)
	return news
}

// still reports whether nothing has changed since a time for as long as patience, or it took far too long in any case.
func (w *watch) still(began time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := began
	if w.news.After(began) {
		since = w.news
	}
	return time.Since(since) > patience || time.Since(began) > 5*patience
}

func isStamped(vm vcsim.VM) bool {
	stamp, err := stampOf(vm)
	return err == nil && stamp.Owned(stamp.UID, vm.InstanceUUID)
}
