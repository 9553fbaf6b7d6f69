package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// lookout counts the available members whenever vCenter has changed, from outside. Available are those that are on, whose Tools run (which is when they are ready), and that are not
// marked to leave.
type lookout struct {
	w    *whole
	stop func()

	mu       sync.Mutex // guards what follows
	floor    int        // below it no step of ours may take the count
	last     int
	looks    int
	breaches []string
	twins    int
}

func (w *whole) newWatch() *lookout {
	o := &lookout{w: w}
	o.stop = w.onChange(o.look)
	return o
}

// lower takes the floor down to n, if it is not below.
func (o *lookout) lower(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.floor = min(o.floor, n)
}

// keep sets the floor: from now on, so many are there.
func (o *lookout) keep(n int) {
	o.look()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.floor = n
}

func (o *lookout) look() {
	var n, twins int
	seen := map[int32]bool{}
	var who []string
	for _, vm := range o.w.own() {
		stamp, _ := o.w.stamps.of(vm)
		if !stamp.Marked && hasTools(vm) {
			n++
		}
		if seen[stamp.Ordinal] {
			twins++
		}
		seen[stamp.Ordinal] = true
		who = append(who, fmt.Sprintf("%s %s tools %t marked %t", vm.Name, vm.Power, vm.Tools, stamp.Marked))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks++
	if n < o.last && n < o.floor {
		text := fmt.Sprintf("%d members are available, %d were, and %d must be: %s", n, o.last, o.floor, strings.Join(who, ", "))
		o.breaches = append(o.breaches, text)
		o.w.say("VIOLATION: %s", text)
	}
	if twins > 0 && o.twins == 0 {
		o.w.say("VIOLATION: two members of one ordinal")
	}
	o.last, o.twins = n, max(o.twins, twins)
}

// end ends the watch, and says what was not as promised.
func (o *lookout) end() {
	o.stop()
	for _, text := range o.breaches {
		o.w.t.Errorf("availability: %s", text)
	}
	if o.twins > 0 {
		o.w.t.Errorf("there were two members of one ordinal")
	}
}

// plant puts a VM of somebody else's into a folder.
func (w *whole) plant(folder, name string) {
	w.t.Helper()
	_, err := w.AddVM(folder, name)
	w.must(err)
}

// meet puts unmanaged VMs where the group is, by now: one of a member's name, and a copy of a member, stamp and all.
func (w *whole) meet(folder string) {
	w.t.Helper()
	w.plant(folder, "web-0")
	w.must(w.CloneVM(w.own()[0].Path, folder, "web-1"))
	w.know()
}

// know records what the unmanaged VMs are: all VMs outside of the group's folder.
func (w *whole) know() {
	now := w.others()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unmanaged = now
}

// own are the members, as their stamps tell: a stamp that names another VM's instanceUuid is a copy.
func (w *whole) own() []vcsim.VM {
	return slices.DeleteFunc(w.VMs(), func(vm vcsim.VM) bool {
		stamp, is := w.stamps.of(vm)
		return !is || stamp.InstanceUUID != vm.InstanceUUID || vm.Template || !stamp.Quarantined.IsZero()
	})
}

// stamps remembers what texts say: the same few are read again and again.
type stamps struct {
	mu   sync.Mutex
	read map[string]stamp.Stamp
}

func (s *stamps) of(vm vcsim.VM) (bears stamp.Stamp, is bool) {
	text := vm.ExtraConfig[stamp.Key]
	if text == "" {
		return bears, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bears, is = s.read[text]
	if !is {
		var err error
		if bears, err = stamp.Decode(text); err != nil {
			return bears, false
		}
		s.read[text], is = bears, true
	}
	return bears, is
}

func (w *whole) others() map[string]string {
	all := map[string]string{}
	for _, vm := range w.VMs() {
		if len(vm.Path) > len(web) && vm.Path[:len(web)+1] == web+"/" {
			continue
		}
		keys := slices.Sorted(maps.Keys(vm.ExtraConfig))
		text := fmt.Sprintf("%s %s %d CPUs %d MB %s", vm.Path, vm.Power, vm.CPUs, vm.MemoryMB, vm.InstanceUUID)
		for _, key := range keys {
			text += fmt.Sprintf(" %s=%s", key, vm.ExtraConfig[key])
		}
		all[vm.Ref.Value] = text
	}
	return all
}

// look reports the unmanaged VMs that changed.
func (w *whole) look() {
	w.t.Helper()
	now := w.others()
	for ref, was := range w.unmanaged {
		if now[ref] != was {
			w.wrongf("the unmanaged VM %s was %q and is %q", ref, was, now[ref])
		}
	}
}

// left says what the delete left behind.
func (w *whole) left() {
	w.t.Helper()
	for _, vm := range w.VMs() {
		if w.unmanaged[vm.Ref.Value] == "" {
			w.wrongf("%s is left behind", vm.Path)
		}
	}
	if _, err := w.Find(web); err == nil {
		w.wrongf("the group's folder is left behind")
	}
}

// close stops the server, and says which sessions it left.
func (w *whole) close() {
	w.t.Helper()
	w.watch.end()
	w.sessions("at the end", 1)
	w.enter("stop")
	w.server.stop()
	w.sessions("are left after the stop", 0)
}

// sessions demands that there are no more than those in use and those that nobody can end.
func (w *whole) sessions(when string, inUse int) {
	w.t.Helper()
	soap, rest := w.orphans()
	if n := w.Sessions(); n > inUse+soap {
		w.wrongf("%d sessions %s; %d may be lost", n, when, soap)
	}
	if n := w.RESTSessions(); n > inUse+rest {
		w.wrongf("%d REST sessions %s; %d may be lost", n, when, rest)
	}
}

// orphans counts the sessions that nobody can end: each process that was killed leaves its own, a login whose answer was
// lost one that nobody can know of, and a logout that did not reach vCenter the one that it was for.
func (w *whole) orphans() (soap, rest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.struck {
		switch unheard := s.kind == breakReplyLost || s.kind == breakStalled; {
		case s.kind == breakKilledBefore || s.kind == breakKilledAfter:
			soap++
			rest++
		case s.method == "Logout", s.method == "Login" && unheard:
			soap++
		case s.method == restLogout, s.method == restLogin && unheard:
			rest++
		}
	}
	return soap, rest
}

const (
	restLogin  = "POST /rest/com/vmware/cis/session"
	restLogout = "DELETE /rest/com/vmware/cis/session"
)

// calls counts what the replicas asked of vCenter, by method.
func (w *whole) calls() map[string]int {
	n := map[string]int{}
	for _, wire := range w.wires {
		for _, c := range wire.Calls() {
			n[c.Method]++
		}
	}
	return n
}
