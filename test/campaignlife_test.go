package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// whole is the life of one group, from its creation to its end, in which one or more calls may break.
type whole struct {
	*rig
	job
	group     *metacontroller.Group
	server    *serverReplica
	wires     []*vcsim.Wire
	watch     *availability
	interfere func(phase string) // calls that the test makes unseen by the campaign
	last      string             // the last phase to run; empty: all
	began     time.Time
	created   map[string]int // the calls until the group was made, by method

	unmanaged map[string]string // what they were, by moRef
	stamps    stamps

	versions [2]types.ManagedObjectReference // of golden, in the shape ofLibrary
	print    string                          // the present version's fingerprint; empty in another shape

	mu     sync.Mutex       // guards the fields below
	struck map[strike]place // where calls were broken
	killed bool             // and no new replica runs yet
	nth    map[string]int
	diary  []string
	phase  string
}

// place is one call of one replica.
type place struct {
	wire *vcsim.Wire
	n    int
}

// shapes are the kinds of lives. Most groups are like the plain one; the rich one makes other calls too.
var shapes = map[string]func(*spec){
	"plain": func(s *spec) {},
	"persistent": func(s *spec) {
		s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 2, Persistent: true, Retention: v1alpha1.DiskRetention{WhenScaled: v1alpha1.RetentionDelete}}}
	},
	"standby": func(s *spec) { s.Standby = 1 },
	ofLibrary: func(s *spec) { s.Template, s.Update.OnTemplateChange = golden, v1alpha1.TemplateChangeReplace },
	"rich": func(s *spec) {
		s.Deletion.QuarantineSeconds, s.Deletion.HoldTimeoutSeconds = 60, 60
		s.Tags = []v1alpha1.Tag{{Category: "team", Name: "shop", Create: true}}
		s.Placement.AntiAffinity = v1alpha1.AntiAffinityPreferred
		s.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 2}}
		s.Networks = []v1alpha1.Network{{Network: "VM Network", IPv4: &v1alpha1.Addresses{Ranges: []string{"10.0.0.10-10.0.0.99"}, PrefixLength: 24}}}
	},
}

// ofLibrary is the shape whose members are cloned from an item of a content library; its roll is a version that is checked in.
const ofLibrary = "library"

// The chapters of a group's life. Each begins with its creation and ends with its deletion, and takes half as long as both in one life.
const (
	scaled  = "scaled"
	updated = "updated"
)

var (
	chapters   = []string{scaled, updated}
	replicasOf = map[string]int32{scaled: 3, updated: 2}
)

// newWhole makes a vCenter with unmanaged VMs in it, and a first replica of the server.
func newWhole(t testing.TB, j job) *whole {
	t.Helper()
	r := memoryRig(t, wayOfName(j.name()), vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}, Hosts: 3, Guest: vcsim.Guest{Tools: true}})
	w := &whole{rig: r, job: j, began: time.Now(),
		created: map[string]int{}, nth: map[string]int{}, struck: map[strike]place{}, unmanaged: map[string]string{}, stamps: stamps{read: map[string]stamp.Stamp{}}}
	if j.shape == ofLibrary {
		w.versions = w.addGolden()
		w.print = w.fingerprint(object.NewVirtualMachine(w.Admin().Client, w.versions[0]))
	}
	w.plant("/DC0/vm", "web-1")
	w.must(w.PowerOn("/DC0/vm/web-1"))
	w.plant("/DC0/vm", "web")
	w.know()
	w.start()
	w.group = w.server.group("web", replicasOf[j.chapter])
	w.group.Spec.Deletion.ShutdownTimeoutSeconds = seconds(60)
	w.group.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: seconds(120), HTTPGet: &v1alpha1.HTTPGet{Port: 80}}
	shapes[j.shape](&w.group.Spec)
	w.watch = w.newWatch()
	return w
}

// start starts a replica of the server with a wire of its own.
func (w *whole) start() {
	w.t.Helper()
	wire := w.wire()
	wire.On(func(c vcsim.Call) vcsim.Break { return w.ask(wire, c) })
	w.wires = append(w.wires, wire)
	w.server = w.serve(func(v *vsphere.Config, l *loop.Config) {
		w.through(wire, v)
		l.Slots = 4
	})
}

// ask decides what happens to a call: each call that is to break breaks once.
func (w *whole) ask(wire *vcsim.Wire, c vcsim.Call) vcsim.Break {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nth[c.Method]++
	i := slices.IndexFunc(w.strikes, func(s strike) bool { return s.method == c.Method && s.nth == w.nth[c.Method] })
	if i < 0 {
		return vcsim.Break{}
	}
	s := w.strikes[i]
	w.struck[s] = place{wire, c.N}
	w.write("the break: %s", s)
	b := s.order()
	if s.kind == taskFails {
		w.FailTask(taskKinds[c.Method], nil, s.fault(), 1)
	}
	if b.Kind == vcsim.KilledBefore || b.Kind == vcsim.KilledAfter {
		w.killed = true
	}
	return b
}

// say adds a line to the diary.
func (w *whole) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(format, args...)
}

func (w *whole) write(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if n := len(w.diary); n > 0 && strings.HasSuffix(w.diary[n-1], " s  "+line) {
		return
	}
	w.diary = append(w.diary, fmt.Sprintf("%9.3f s  %s", time.Since(w.began).Seconds(), line))
}

// wrongf reports a violation.
func (w *whole) wrongf(format string, args ...any) {
	w.t.Helper()
	text := fmt.Sprintf(format, args...)
	w.say("VIOLATION: %s", text)
	w.t.Errorf("%s: %s", w.phase, text)
}

// run runs the life. It stops at the first phase that isn't completed.
func (w *whole) run() {
	g := w.group
	stage := []struct {
		chapter, name string
		do            func()
	}{
		{"", "create", func() {}},
		{scaled, "not selected for a moment", w.unselect},
		{scaled, "scale to 5", func() { w.meet("/DC0/vm/vm-operator/default"); g.Scale(5) }},
		{scaled, "scale to 2", func() { g.Scale(2) }},
		{scaled, "heal one that is off", func() { w.byOperator(func(vm vcsim.VM) error { return w.PowerOff(vm.Path) }) }},
		{scaled, "heal one that is gone", func() { w.byOperator(func(vm vcsim.VM) error { return w.Destroy(vm.Path) }) }},
		{scaled, "heal one that hangs", func() { w.byOperator(func(vm vcsim.VM) error { return w.hangsAtBoot(vm.Path, vcsim.HungUntilReset) }) }},
		{updated, "roll", w.roll},
		{updated, "resize", func() { g.Edit(func(s *spec) { s.CPU, s.Memory = 3, 5 }) }},
		{updated, "more disks", func() {
			if len(g.Spec.Disks) > 0 {
				g.Edit(func(s *spec) {
					s.Disks = append(slices.Clone(s.Disks), v1alpha1.Disk{Name: "log", SizeGiB: 1})
					s.Disks[0].SizeGiB++
				})
			}
		}},
		{updated, "user data", func() {
			g.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": "#cloud-config 1"}}}
			g.Edit(func(s *spec) { s.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}} })
		}},
	}
	for _, s := range stage {
		if s.chapter != "" && s.chapter != w.chapter {
			continue
		}
		w.enter(s.name)
		w.watch.lower(w.promise())
		s.do()
		w.watch.lower(w.promise())
		if w.interfere != nil {
			w.interfere(s.name)
		}
		if !w.drive(w.group.Sync, func(a metacontroller.Answer) bool { return metacontroller.Running(a) && w.differences() == "" }, w.differences) {
			return
		}
		w.look()
		w.watch.keep(w.promise())
		if s.chapter == "" {
			w.created = w.calls()
		}
		if s.name == w.last {
			break
		}
	}
	w.enter("delete")
	w.watch.lower(0)
	g.Generation++
	if w.drive(g.Finalize, func(a metacontroller.Answer) bool { return a.Finalized }, func() string { return fmt.Sprint(refs(w.own())) }) {
		w.look()
		w.left()
	}
}

// roll makes all members outdated.
func (w *whole) roll() {
	if w.job.shape != ofLibrary {
		w.group.Edit(func(s *spec) { s.Template = otherTemplate })
		return
	}
	w.CheckIn("ubuntu", w.versions[1])
	w.print = w.fingerprint(object.NewVirtualMachine(w.Admin().Client, w.versions[1]))
}

// unselect has Metacontroller call finalize as for a group that its CompositeController no longer selects: it is refused, and
// nothing is removed.
func (w *whole) unselect() {
	finalized, said, err := w.group.Unselect(within(w.t))
	w.say("not selected: %s", said)
	if err != nil || finalized {
		w.wrongf("finalized: %t, %v", finalized, err)
	}
}

func (w *whole) enter(phase string) {
	w.mu.Lock()
	w.phase = phase
	w.mu.Unlock()
	w.say("== %s", phase)
}

// byOperator does something to the first member, as an operator would: the promise of availability doesn't cover that.
func (w *whole) byOperator(do func(vcsim.VM) error) {
	w.watch.lower(w.promise() - 1)
	serving := slices.DeleteFunc(w.own(), func(vm vcsim.VM) bool { return vm.Power != types.VirtualMachinePowerStatePoweredOn })
	w.must(do(serving[0]))
}

// promise is how many members the server must keep available: replicas less maxUnavailable, which is 25%, rounded down.
func (w *whole) promise() int {
	n := int(*w.group.Spec.Replicas)
	if n < 4 && w.group.Spec.HasPersistentDisks() {
		return n - 1
	}
	return n - n/4
}

// campaignLimit is how long a phase may take. The longest takes about ten minutes. A step that failed and may have been carried out
// is in doubt for a minute after its next possible retry, which is at most two minutes later.
const campaignLimit = time.Hour

// seldom is the time between two hook calls of a life that only waits. The server needs none to do its work, and Metacontroller's own,
// every two seconds, take more processor time than all the rest of a life. A few lives have those.
const seldom = 15 * time.Second

// drive calls a hook until the answer is as expected. It replaces a replica that was killed.
func (w *whole) drive(call func(context.Context) (metacontroller.Answer, error), holds func(metacontroller.Answer) bool, wrong func() string) bool {
	w.t.Helper()
	began, least := time.Now(), seldom
	if oftenOfName(w.job.name()) {
		least = 0
	}
	for {
		w.mu.Lock()
		killed := w.killed
		w.killed = false
		w.mu.Unlock()
		if killed {
			w.say("a new replica is started")
			dead := w.server
			w.start()
			w.group.URL = w.server.url
			dead.stop()
		}
		a, err := call(within(w.t))
		switch {
		case err != nil:
			w.wrongf("a hook failed: %v", err)
			return false
		case holds(a):
			w.say("%s %d/%d %s", a.Status.Phase, a.Status.CurrentReplicas, a.Status.DesiredReplicas, a.Status.LastMessage)
			return true
		}
		w.say("%s %d/%d %s", a.Status.Phase, a.Status.CurrentReplicas, a.Status.DesiredReplicas, a.Status.LastMessage)
		took := time.Since(began)
		if took > campaignLimit {
			w.wrongf("not reached within %s: %s; status: %s: %s", took.Round(time.Second), wrong(), a.Status.Phase, a.Status.LastMessage)
			return false
		}
		time.Sleep(max(a.Resync(), least))
	}
}

// revision is the revision that the spec asks for.
func (w *whole) revision() string {
	ref, wanted := plan.UserDataOf(&w.group.VmGroup)
	if !wanted {
		return plan.Revision(&w.group.Spec)
	}
	return plan.RevisionWith(&w.group.Spec, ref.Take([]byte(w.group.Related[0].Data["user-data"])).Digest)
}

// differences reports what differs from the spec, including objects of the group that shouldn't exist.
func (w *whole) differences() string {
	s := &w.group.Spec
	seen, standby := map[int32]bool{}, int32(0)
	for _, vm := range w.VMs() {
		if vm.Template || w.unmanaged[vm.Ref.Value] != "" {
			continue
		}
		stamp, err := stamp.Decode(vm.ExtraConfig[stamp.Key])
		name := plan.MemberName("web", stamp.Ordinal)
		switch {
		case err != nil || stamp.UID != w.group.UID || stamp.Marked || !stamp.Quarantined.IsZero() || seen[stamp.Ordinal]:
			return fmt.Sprintf("%s: %v, %+v", vm.Path, err, stamp)
		case w.print != "" && stamp.Fingerprint != w.print:
			return fmt.Sprintf("%s was cloned from %s instead of %s", vm.Path, stamp.Fingerprint, w.print)
		case vm.Path == web+"/"+name && stamp.Standby && vm.Power == types.VirtualMachinePowerStatePoweredOff:
			standby++
		case vm.Path != web+"/"+name || vm.Power != types.VirtualMachinePowerStatePoweredOn || !vm.Tools || stamp.Standby:
			return fmt.Sprintf("%s is %s, tools %t", vm.Path, vm.Power, vm.Tools)
		}
		switch {
		case stamp.Revision != w.revision() || vm.CPUs != s.CPU || vm.MemoryMB != 1024*s.Memory:
			return fmt.Sprintf("%s has %d CPUs, %d MB, revision %s", vm.Path, vm.CPUs, vm.MemoryMB, stamp.Revision)
		}
		if how := plan.DisksToChange(s, stamp.Given) + plan.DisksOtherwise(s, stamp.Given); how != "" {
			return vm.Path + " " + how
		}
		if len(s.Tags) > 0 {
			if tags, err := w.TagsOf(vm.Path); err != nil || fmt.Sprint(tags) != "[team/shop]" {
				return fmt.Sprintf("%s has the tags %v (%v)", vm.Path, tags, err)
			}
		}
		seen[stamp.Ordinal] = true
	}
	if len(seen) != int(*s.Replicas+s.Standby) || standby != s.Standby {
		return fmt.Sprintf("want %d members and %d standby ones, %d are; ordinals: %v", *s.Replicas, s.Standby, standby, seen)
	}
	return ""
}
