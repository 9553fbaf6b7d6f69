package test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// life is one life of a group: created, disturbed, restored, deleted.
type life struct {
	*rig
	*watch
	profile  profile
	counts   *counts
	rand     *rand.Rand // the random numbers of the current step
	replicas []*chaosReplica
	born     int // replicas started so far
	lives    int // groups of this name so far
	group    *metacontroller.Group
	// deleting is set while the group is being deleted.
	deleting bool
	// ending is set if the life ends with this deletion.
	ending bool
	past   []v1alpha1.VmGroup     // former stored versions of this group, for stale calls
	specs  []v1alpha1.VmGroupSpec // all former and present specs of this group
	// unmanaged are the unmanaged VMs by moRef, as they were when they appeared.
	unmanaged map[string]vcsim.VM
	retagged  map[string]bool // VMs whose tags and attributes an operator changed by hand
	stayed    map[string]bool // members, by instanceUuid, that were missing as their group ended with Retain
	hidden    []vcsim.VM
	unruly    []types.UID // former groups whose DRS rules vCenter refused to remove
	backup    *vcsim.Backup
	etcd      *metacontroller.Group         // a backup of etcd; nil: none was made
	wentBack  bool                          // etcd was restored
	versions  [2]vim.ManagedObjectReference // the VM templates of golden; the first is the present one
	*faults                                 // nil in random lives
	wires     []*vcsim.Wire                 // of all replicas so far
	saved     []savedMember
	// serversOwn are the strays, by their keys, that were made with the server's account.
	serversOwn []string
	asked      time.Time // when a replica was last called to finalize the group because it wasn't selected
}

// siteA and siteB are host groups of each cluster.
const siteA, siteB = "site-a", "site-b"

// docker0 is the address of the docker0 bridge, the same in every guest, so no member can be reached at it.
const docker0 = "172.17.0.1"

// runLife runs the random life of a seed through the steps.
func runLife(t *testing.T, seed uint64, steps []step, planted *defect, counts *counts) outcome {
	return inBubble(t, wayOf(seed), profileOf(seed), planted, counts, func(l *life) {
		if l.profile.up {
			l.settle()
		}
		operations := operationsOf(l.profile)
		for _, s := range steps {
			l.rand = rand.New(rand.NewPCG(s.dice, 0))
			d := named(operations, s.operation)
			counts.add("operation", d.name)
			l.calls()
			l.say("# %d: %s", s.n, d.name)
			d.do(l)
			l.wait(60)
		}
		l.rand = rand.New(rand.NewPCG(seed, 3))
		l.converge()
		if t := l.profile.trouble; t != nil {
			if l.endure(t); !t.ends {
				l.group.Spec.Deletion.Policy = ""
				l.end(false)
				return
			}
			l.converge()
		}
		l.end(l.group.Spec.Deletion.Policy == v1alpha1.DeletionRetain || l.rand.IntN(3) == 0)
	})
}

// inBubble runs a life in a bubble, with its own vCenter and replicas, which end with the life.
func inBubble(t *testing.T, by way, p profile, planted *defect, counts *counts, live func(*life)) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		tr, w := &trial{TB: t}, newWatch()
		tr.report = w.violated
		tr.run(func() { live(newLife(tr, by, w, p, planted, counts)) })
		o = outcome{wrong: w.wrong(), diary: w.lines()}
	})
	return o
}

func newLife(t *trial, by way, w *watch, profile profile, planted *defect, counts *counts) *life {
	l := &life{watch: w, profile: profile, faults: profile.faults, counts: counts, retagged: map[string]bool{}, stayed: map[string]bool{}, unmanaged: map[string]vcsim.VM{},
		rand: rand.New(rand.NewPCG(0, 0)),
		rig: newRigBy(t, by, vcsim.Config{
			Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: true}, Clusters: 2, Hosts: 2, Datastores: 2})}
	l.must(l.SetVAppProperties("/DC0/vm/" + otherTemplate))
	l.must(l.AddCustomizationSpec("linux", false))
	l.AddKeyProvider()
	for _, name := range []string{"vm-operator-template", otherTemplate} {
		l.must(l.BootWithEFI("/DC0/vm/" + name))
	}
	for i := range 2 {
		cluster := fmt.Sprintf("/DC0/host/DC0_C%d", i)
		l.must(l.SetHostGroup(cluster, siteA, chaosHosts[2*i], chaosHosts[2*i+1]))
		l.must(l.SetHostGroup(cluster, siteB, chaosHosts[2*i]))
		l.must(l.SetDRS(cluster, vcsim.DRS{HeedsRules: profile.heedsRules}))
	}
	l.versions = l.addGolden()
	l.must(l.AddLibraryItem("golden", "appliance", "ovf", l.libraryTemplate("appliance")))
	l.planted = planted
	for range profile.replicas {
		l.replicas = append(l.replicas, l.start())
	}
	l.group = l.replicas[0].group("web", profile.size)
	l.group.Spec.Deletion.ShutdownTimeoutSeconds = seconds(30)
	l.group.Spec.Deletion.QuarantineSeconds = profile.quarantine
	if profile.tools {
		l.group.Spec.Readiness = v1alpha1.Readiness{Check: v1alpha1.ReadyToolsRunning, TimeoutSeconds: seconds(120)}
		l.group.Spec.Update.ProgressDeadlineSeconds = seconds(600)
	}
	if profile.answers {
		l.group.Spec.Readiness.TCPSocket, l.group.Spec.Readiness.TimeoutSeconds = &v1alpha1.TCPSocket{Port: 22}, seconds(120)
		l.group.Spec.Update.ProgressDeadlineSeconds = seconds(600)
	}
	if profile.library {
		l.group.Spec.Template = appliance
	}
	if profile.persistent {
		l.group.Spec.Disks = []v1alpha1.Disk{{Name: "data", SizeGiB: 1, Persistent: true}}
		l.fitPersistent()
	}
	if profile.shape != "" {
		l.group.Spec.Deletion.ShutdownTimeoutSeconds, l.group.Spec.Readiness.HTTPGet = seconds(60), &v1alpha1.HTTPGet{Port: 80}
		shapes[profile.shape](&l.group.Spec)
	}
	l.begin()
	_, err := l.AddVM("/DC0/vm", "web-1")
	l.must(err)
	l.isUnmanaged("/DC0/vm/web-1")
	t.Cleanup(l.onChange(func() { l.watch.look(l) }))
	return l
}

// wait waits for a random time of at most this many seconds.
func (l *life) wait(most int) {
	time.Sleep(time.Duration(l.rand.IntN(1000*most)) * time.Millisecond)
}

// begin resets what the life and the watch know about the group, because the group is newly created.
func (l *life) begin() {
	l.lives++
	l.deleting, l.past, l.specs = false, nil, []v1alpha1.VmGroupSpec{*l.group.Spec.DeepCopy()}
	l.watch.watches(l.group.UID)
	l.promises()
}

// isUnmanaged notes an unmanaged VM.
func (l *life) isUnmanaged(path string) {
	for _, vm := range l.VMs() {
		if vm.Path == path {
			l.unmanaged[vm.Ref.Value] = vm
		}
	}
}

// calls has Metacontroller make a few hook calls.
func (l *life) calls() {
	for range l.rand.IntN(4) {
		l.call(l.any())
		l.wait(20)
	}
}

// call has Metacontroller call a hook of a replica, which must always answer 200.
func (l *life) call(c *chaosReplica) metacontroller.Answer {
	l.group.URL = c.url
	hook := l.group.Sync
	if l.deleting {
		hook = l.group.Finalize
	}
	a, err := hook(within(l.t))
	switch {
	case err != nil && c.dead.Load():
		return a
	case err != nil:
		l.t.Fatalf("a hook failed: %v", err)
	}
	l.checkBlame()
	for _, m := range a.Status.Members {
		if slices.Contains(m.IPs, docker0) {
			l.t.Errorf("%s is published at docker0's address: %v", m.Name, m.IPs)
		}
	}
	l.sayOnce("%s %s %d/%d %s", c.agent, a.Status.Phase, a.Status.CurrentReplicas, a.Status.DesiredReplicas, a.Status.LastMessage)
	if l.past = append(l.past, *l.group.VmGroup.DeepCopy()); len(l.past) > 20 {
		l.past = l.past[1:]
	}
	if l.deleting && a.Finalized && !l.ending {
		l.recreate()
	}
	return a
}

// edited notes an edit of the spec, and must be called after each.
func (l *life) edited(format string, args ...any) {
	l.fitPersistent()
	l.group.Generation++
	l.say("generation %d: %s", l.group.Generation, fmt.Sprintf(format, args...))
	l.specs = append(l.specs, *l.group.Spec.DeepCopy())
	l.promises()
	l.watch.wants(*l.group.Spec.Replicas, true)
}

// recreate checks what a finalized group left behind, and creates another group of the same name.
func (l *life) recreate() {
	l.say("%s is finalized", l.group.UID)
	l.missingStay()
	l.watch.finalized(l.group.UID)
	l.rulesStay()
	l.keepRetained()
	was := l.group
	l.group = l.replicas[0].groupOf(was.Namespace, was.Name, fmt.Sprintf("uid-web-%d", l.lives+1), *was.Spec.Replicas)
	l.group.URL = was.URL
	l.group.Spec, l.group.Related = *was.Spec.DeepCopy(), was.Related
	l.group.Spec.Replace = nil
	l.begin()
}

// rulesStay notes a group whose deletion completed although vCenter refused to remove its DRS rules, as its last status says.
func (l *life) rulesStay() {
	if strings.Contains(l.group.Status.LastMessage, "DRS rules") {
		l.unruly = append(l.unruly, l.group.UID)
	}
}

// missingStay excuses the members that are missing as a group ends with Retain: its deletion doesn't wait for them.
func (l *life) missingStay() {
	if l.group.Spec.Deletion.Policy != v1alpha1.DeletionRetain {
		return
	}
	for _, vm := range l.OutsideInventory() {
		if stamp, err := stampOf(vm); err == nil && stamp.Owned(l.group.UID, vm.First) && !isStray(vm) {
			l.watch.excuse(vm.First)
			l.stayed[vm.First] = true
		}
	}
}

// keepRetained moves the retained VMs of a former group to another folder, because the next group needs their names.
func (l *life) keepRetained() {
	for _, vm := range l.VMs() { // members that are templates
		if stamp, err := stampOf(vm); err == nil && vm.Template && stamp.Owned(l.group.UID, vm.First) {
			place := fmt.Sprintf("/DC0/vm/templates-%d", l.lives)
			_, err := l.MakeFolder(place)
			l.must(err)
			l.say("the template %s moves to %s", vm.Path, place)
			l.must(l.Move(vm.Path, place))
			l.isUnmanaged(place + "/" + vm.Name)
		}
	}
	for _, vm := range l.leftBehind() {
		place := fmt.Sprintf("/DC0/vm/retained-%d", l.lives)
		_, err := l.MakeFolder(place)
		l.must(err)
		l.say("%s was left behind, and moves to %s", vm.Path, place)
		l.must(l.Move(vm.Path, place))
		l.isUnmanaged(place + "/" + vm.Name)
	}
}

// leftBehind returns the VMs that a former group left: VMs without a stamp, except for templates, VMs that become templates, and unmanaged VMs.
func (l *life) leftBehind() []vcsim.VM {
	return slices.DeleteFunc(l.VMs(), func(vm vcsim.VM) bool {
		_, unmanaged := l.unmanaged[vm.Ref.Value]
		return vm.Template || isDeployed(vm) || unmanaged || isStamped(vm)
	})
}

// trial is the testing.TB of a life. It records failures instead of failing the test, so that a script can be run again.
type trial struct {
	testing.TB
	report   func(string)
	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

// run runs a function that may call Fatal, and then the clean-ups.
func (t *trial) run(do func()) {
	run := func(f func()) {
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		<-done
	}
	run(do)
	for len(t.cleanups) > 0 {
		last := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		run(last)
	}
}

func (t *trial) Helper()             {}
func (t *trial) Cleanup(f func())    { t.cleanups = append(t.cleanups, f) }
func (t *trial) Log(...any)          {}
func (t *trial) Logf(string, ...any) {}

func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *trial) Fail() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
}

func (t *trial) FailNow()                     { t.Fail(); runtime.Goexit() }
func (t *trial) Error(args ...any)            { t.Fail(); t.report(fmt.Sprint(args...)) }
func (t *trial) Errorf(f string, args ...any) { t.Fail(); t.report(fmt.Sprintf(f, args...)) }
func (t *trial) Fatal(args ...any)            { t.Error(args...); runtime.Goexit() }
func (t *trial) Fatalf(f string, args ...any) { t.Errorf(f, args...); runtime.Goexit() }
