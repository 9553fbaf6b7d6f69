package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// shapes are the kinds of groups. Most lives have the plain shape; the rich shape uses more features, and so more methods of vCenter.
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

// ofLibrary is the shape whose members are cloned from an item of a content library. It is updated by checking in a version of the item.
const ofLibrary = "library"

// These are the scenarios of lives. In each scenario, a group is created, changed and deleted.
const (
	scaled  = "scaled"
	updated = "updated"
)

var (
	scenarios  = []string{scaled, updated}
	replicasOf = map[string]int32{scaled: 3, updated: 2}
)

// stages are the steps of the lives, by scenario.
var stages = map[string][]operation{
	scaled: {
		{"not selected for a moment", 1, (*life).unselect},
		{"scale to 5", 1, func(l *life) { l.meet("/DC0/vm/vm-operator/default"); l.scale(5) }},
		{"scale to 2", 1, func(l *life) { l.scale(2) }},
		{"heal one that is off", 1, byOperator((*life).powerOff)},
		{"heal one that is gone", 1, byOperator(func(l *life, vm vcsim.VM) error { return l.Destroy(vm.Path) })},
		{"heal one that hangs", 1, byOperator(func(l *life, vm vcsim.VM) error { return l.hangsAtBoot(vm.Path, vcsim.HungUntilReset) })},
	},
	updated: {
		{"roll", 1, func(l *life) {
			if l.group.Spec.Template == golden {
				l.versions[0], l.versions[1] = l.versions[1], l.versions[0]
				l.CheckIn("ubuntu", l.versions[0])
				return
			}
			l.edit("another template", func(s *spec) { s.Template = otherTemplate })
		}},
		{"resize", 1, func(l *life) { l.edit("resize", func(s *spec) { s.CPU, s.Memory = 3, 5 }) }},
		{"more disks", 1, func(l *life) {
			l.edit("more disks", func(s *spec) {
				if len(s.Disks) > 0 {
					s.Disks = append(slices.Clone(s.Disks), v1alpha1.Disk{Name: "log", SizeGiB: 1})
					s.Disks[0].SizeGiB++
				}
			})
		}},
		{"user data", 1, func(l *life) {
			l.group.Related = []metacontroller.Related{{Kind: "Secret", Name: "boot", Data: map[string]string{"user-data": "#cloud-config 1"}}}
			l.edit("user data", func(s *spec) { s.UserData = &v1alpha1.UserData{SecretKeyRef: &v1alpha1.KeyRef{Name: "boot"}} })
		}},
	},
}

func (l *life) edit(how string, change func(*spec)) {
	change(&l.group.Spec)
	l.edited("%s", how)
}

func (l *life) scale(n int32) { l.edit(fmt.Sprint("scale to ", n), func(s *spec) { s.Replicas = &n }) }

func (l *life) powerOff(vm vcsim.VM) error { return l.PowerOff(vm.Path) }

// byOperator makes an operator do something to the first member that is on. The promise of availability doesn't cover that.
func byOperator(do func(*life, vcsim.VM) error) func(*life) {
	return func(l *life) {
		l.watch.promised(l.leastOf(&l.group.Spec) - 1)
		serving := slices.DeleteFunc(l.mine(), func(vm vcsim.VM) bool { return !isOn(vm) })
		l.watch.removesByHand()
		l.touches(serving[0])
		l.must(do(l, serving[0]))
	}
}

// meet makes two unmanaged VMs in a folder above the group's: one that has a member's name, and a clone of a member that has the member's stamp.
func (l *life) meet(folder string) {
	_, err := l.AddVM(folder, "web-0")
	l.must(err)
	l.must(l.CloneVM(l.mine()[0].Path, folder, "web-1"))
	l.isUnmanaged(folder + "/web-0")
	l.isUnmanaged(folder + "/web-1")
}

// faults are the breaks of a life, counted over all its replicas.
type faults struct {
	mu          sync.Mutex // guards the fields below
	brokenCalls []brokenCall
	nth         map[string]int
	brokenAt    map[brokenCall]place // where calls were broken
	made        map[string]int       // the number of calls until the group existed, by method
}

// place is one call of one replica.
type place struct {
	wire *vcsim.Wire
	n    int
}

// ask decides what happens to a call. Each chosen call breaks only once, so its retry succeeds.
func (f *faults) ask(l *life, wire *vcsim.Wire, c vcsim.Call) (b vcsim.Break, breaks bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nth[c.Method]++
	i := slices.IndexFunc(f.brokenCalls, func(s brokenCall) bool { return s.method == c.Method && s.nth == f.nth[c.Method] })
	if i < 0 {
		return b, false
	}
	s := f.brokenCalls[i]
	f.brokenAt[s] = place{wire, c.N}
	l.say("the break: %s", s)
	if s.kind == taskFails {
		l.FailTask(taskKinds[c.Method], nil, s.fault(), 1)
	}
	return s.order(), true
}

// leastStall is the shortest stall of a call whose caller gives up before the stall is over. (The shortest time limit of a call is 2 s.)
const leastStall = time.Second

// whyNot says why a break did not happen; empty if it did.
func (f *faults) whyNot(s brokenCall) string {
	f.mu.Lock()
	at, is := f.brokenAt[s]
	calls := f.nth[s.method]
	f.mu.Unlock()
	switch {
	case !is:
		return fmt.Sprintf("this life called the method %d times", calls)
	case s.kind == taskFails:
		return ""
	}
	if e := at.wire.Log()[at.n-1]; e.Broken || s.kind == breakStalled && e.Took >= leastStall {
		return ""
	}
	return "its caller, the session or the replica was gone already"
}

// runVariant runs the life of a variant with breaks. learnt is how often an unbroken life calls each method; nil if that is not known.
func runVariant(t *testing.T, j job, learnt map[string]int, planted *defect, counts *counts) (o outcome, f *faults) {
	f = &faults{brokenCalls: j.brokenCalls, nth: map[string]int{}, brokenAt: map[brokenCall]place{}, made: map[string]int{}}
	p := profile{peaceful: true, replicas: *campaignReplicas, tools: true, shape: j.shape, size: replicasOf[j.scenario], faults: f}
	o = inBubble(t, wayOfName(j.name()), p, planted, counts, func(l *life) {
		l.rand = rand.New(rand.NewPCG(hashOf(j.name()), 0))
		for i, s := range slices.Concat([]operation{{"create", 1, func(*life) {}}}, stages[j.scenario]) {
			l.say("# %d: %s", i, s.name)
			s.do(l)
			l.reach()
			if i == 0 {
				f.made = l.callsSoFar()
			}
		}
		l.end(false)
		l.bound(learnt)
	})
	return o, f
}

// callsSoFar returns how many calls all replicas made, by method.
func (l *life) callsSoFar() map[string]int {
	n := map[string]int{}
	for _, wire := range l.wires {
		for _, c := range wire.Log() {
			n[c.Method]++
		}
	}
	return n
}

// These are the most calls that breaks can cost beyond those of a life without breaks. A failed step is retried, perhaps in another way: a member
// that can't be resized is cloned again, with a dozen calls. Of twenty breaks most cost little. After a kill, running steps can begin again, a
// lost session is opened again, and the server learns again how long tasks take: it reads the first task of a kind each time that the task's age
// has grown by an eighth, which is 58 times in the 40 s of a clone. After most kills, there are three or four kinds of tasks.
const (
	changesAfter, changesAfterMore, changesAfterKill = 24, 3, 10
	readsAfter, readsAfterMore, readsAfterKill       = 240, 15, 200
)

// bound checks that the breaks cost only few more calls than a life without breaks makes.
func (l *life) bound(learnt map[string]int) {
	if l.t.Failed() || learnt == nil {
		return
	}
	changes, reads, n := 0, 0, len(l.faults.brokenAt)
	for method, calls := range l.callsSoFar() {
		if isChange(method) {
			changes += calls - learnt[method]
		} else {
			reads += calls - learnt[method]
		}
	}
	mostChanges, mostReads := changesAfter+n*changesAfterMore, readsAfter+n*readsAfterMore
	for s := range l.faults.brokenAt {
		if s.kind == breakKilledBefore || s.kind == breakKilledAfter {
			mostChanges, mostReads = mostChanges+changesAfterKill, mostReads+readsAfterKill
		}
	}
	if changes > mostChanges || reads > mostReads {
		l.t.Errorf("%d more calls that change something than in an unbroken life, at most %d; %d more that read, at most %d", changes, mostChanges, reads, mostReads)
	}
}

// isChange reports whether a method changes something.
func isChange(method string) bool {
	return strings.HasSuffix(method, "_Task") || method == "CreateFolder" || method == "ShutdownGuest" ||
		strings.HasPrefix(method, "POST ") && !strings.HasSuffix(method, "~action=find")
}
