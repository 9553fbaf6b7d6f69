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

// availability counts the available members whenever vCenter changes. A member is available if it is on, its Tools run (which makes
// it ready), and it isn't marked.
type availability struct {
	w    *whole
	stop func()

	mu       sync.Mutex // guards the fields below
	floor    int        // the server must not bring the count below it
	last     int
	looks    int
	breaches []string
	twins    int
}

func (w *whole) newWatch() *availability {
	o := &availability{w: w}
	o.stop = w.onChange(o.look)
	return o
}

// lower reduces the floor to n, if it is higher.
func (o *availability) lower(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.floor = min(o.floor, n)
}

// keep sets the floor: from now on, this many must be available.
func (o *availability) keep(n int) {
	o.look()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.floor = n
}

func (o *availability) look() {
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
		text := fmt.Sprintf("%d members are available, down from %d; %d must be: %s", n, o.last, o.floor, strings.Join(who, ", "))
		o.breaches = append(o.breaches, text)
		o.w.say("VIOLATION: %s", text)
	}
	if twins > 0 && o.twins == 0 {
		o.w.say("VIOLATION: two members of one ordinal")
	}
	o.last, o.twins = n, max(o.twins, twins)
}

// end ends the watch, and reports every broken promise.
func (o *availability) end() {
	o.stop()
	for _, text := range o.breaches {
		o.w.t.Errorf("availability: %s", text)
	}
	if o.twins > 0 {
		o.w.t.Errorf("two members had one ordinal")
	}
}

// plant makes an unmanaged VM in a folder.
func (w *whole) plant(folder, name string) {
	w.t.Helper()
	_, err := w.AddVM(folder, name)
	w.must(err)
}

// meet makes unmanaged VMs in the group's folder, which exists by now: one with a member's name, and a copy of a member, stamp
// included.
func (w *whole) meet(folder string) {
	w.t.Helper()
	w.plant(folder, "web-0")
	w.must(w.CloneVM(w.own()[0].Path, folder, "web-1"))
	w.know()
}

// know records the unmanaged VMs: all VMs outside the group's folder.
func (w *whole) know() {
	now := w.others()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unmanaged = now
}

// own are the members, by their stamps: a stamp that names another VM's instanceUuid marks a copy.
func (w *whole) own() []vcsim.VM {
	return slices.DeleteFunc(w.VMs(), func(vm vcsim.VM) bool {
		stamp, is := w.stamps.of(vm)
		return !is || stamp.InstanceUUID != vm.InstanceUUID || vm.Template || !stamp.Quarantined.IsZero()
	})
}

// stamps caches decoded stamps: the same few are read again and again.
type stamps struct {
	mu   sync.Mutex
	read map[string]stamp.Stamp
}

func (s *stamps) of(vm vcsim.VM) (decoded stamp.Stamp, is bool) {
	text := vm.ExtraConfig[stamp.Key]
	if text == "" {
		return decoded, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	decoded, is = s.read[text]
	if !is {
		var err error
		if decoded, err = stamp.Decode(text); err != nil {
			return decoded, false
		}
		s.read[text], is = decoded, true
	}
	return decoded, is
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

// look reports unmanaged VMs that have changed.
func (w *whole) look() {
	w.t.Helper()
	now := w.others()
	for ref, was := range w.unmanaged {
		if now[ref] != was {
			w.wrongf("unmanaged VM %s: %q before, %q now", ref, was, now[ref])
		}
	}
}

// left reports what the delete left behind.
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

// close stops the server, and reports the sessions that it leaves.
func (w *whole) close() {
	w.t.Helper()
	w.watch.end()
	w.sessions("at the end", 1)
	w.enter("stop")
	w.server.stop()
	w.sessions("are left after the stop", 0)
}

// sessions checks that there are no sessions beyond those in use and those that nothing can end.
func (w *whole) sessions(when string, inUse int) {
	w.t.Helper()
	soap, rest := w.orphans()
	if n := w.Sessions(); n > inUse+soap {
		w.wrongf("%d sessions %s, want at most %d", n, when, soap)
	}
	if n := w.RESTSessions(); n > inUse+rest {
		w.wrongf("%d REST sessions %s, want at most %d", n, when, rest)
	}
}

// orphans counts the sessions that nothing can end: that of each process that was killed, that of a login whose reply was lost, and
// that of a logout that did not reach vCenter.
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

// calls counts the replicas' calls to vCenter, by method.
func (w *whole) calls() map[string]int {
	n := map[string]int{}
	for _, wire := range w.wires {
		for _, c := range wire.Calls() {
			n[c.Method]++
		}
	}
	return n
}
