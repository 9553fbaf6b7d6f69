package test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/stamp"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

var (
	replicasLives = flag.Int("replicas.lives", 1, "how many lives with several replicas of the server to run, if -replicas.for is 0")
	replicasFor   = flag.Duration("replicas.for", 0, "how long to run lives with several replicas")
	replicasSeed  = flag.Uint64("replicas.seed", 2, "the first seed; a failure names its own")
)

// TestLivesWithSeveralReplicas runs random lives with two or three replicas of the server: each hook call goes to any of them;
// replicas stop at a call to vCenter and continue before or after their lease ends, are killed and started, lose the network, and
// get parents that are old. At no moment are two VMs of one ordinal on; in the end there are exactly the members of the spec; and
// when the group was finalized, nothing of it is left, whatever arrives late.
func TestLivesWithSeveralReplicas(t *testing.T) {
	t.Parallel()
	crew{abreast: runtime.GOMAXPROCS(0), first: *replicasSeed, lives: *replicasLives, lasts: *replicasFor}.run(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { runReplicasLife(t, seed) })
	})
}

// replicasLife is one life.
type replicasLife struct {
	*rig
	rand    *rand.Rand
	servers []*wiredReplica
	thaws   map[int]func() // of the replicas that are stopped
	group   *metacontroller.Group
	old     []metacontroller.Group // earlier states of the group

	mu    sync.Mutex
	diary []string
	seen  lastSeen
}

func runReplicasLife(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	c := &replicasLife{rand: random, thaws: map[int]func(){}, rig: newRigBy(t, wayOf(seed), vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate},
		Guest: vcsim.Guest{Tools: seed%2 == 0}})}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: go test ./test -race -run 'TestLivesWithSeveralReplicas$' -replicas.seed %d\nwhat happened:\n%s", seed, strings.Join(c.lines(), "\n"))
		}
	})
	for range 2 + random.IntN(2) {
		c.servers = append(c.servers, c.serveWired())
	}
	c.group = c.servers[0].group("web", 3)
	c.group.Spec.Deletion = v1alpha1.Deletion{ShutdownTimeoutSeconds: seconds(60), QuarantineSeconds: []int32{0, 0, 12 * 3600}[random.IntN(3)]}
	c.group.Spec.Placement.Folder = []string{"", "teams/a"}[random.IntN(2)]
	twins := c.sample(c.twinsOn)
	for range lengthOf(seed) {
		c.step()
	}
	c.settle()
	c.end()
	if seen := twins(); seen.most > 0 {
		t.Errorf("two VMs of one ordinal were on at once")
	}
}

func (c *replicasLife) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary = append(c.diary, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// wait waits up to this many seconds.
func (c *replicasLife) wait(most int) {
	time.Sleep(time.Duration(c.rand.IntN(1000*most)) * time.Millisecond)
}

func (c *replicasLife) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.diary)
}

// twinsOn counts the VMs that are on beside another one of their ordinal, in quarantine or not.
func (c *replicasLife) twinsOn() (n int) {
	on, vms := map[int32]bool{}, c.VMs()
	for _, text := range c.seen.changes(vms) {
		c.say("    %s", text)
	}
	for _, vm := range vms {
		if stamp, err := stamp.Decode(vm.ExtraConfig[stamp.Key]); err == nil && isOn(vm) {
			if on[stamp.Ordinal] {
				n++
			}
			on[stamp.Ordinal] = true
		}
	}
	return n
}

// awake returns any replica that isn't stopped.
func (c *replicasLife) awake() int {
	for {
		if i := c.rand.IntN(len(c.servers)); c.thaws[i] == nil {
			return i
		}
	}
}

// sync calls any replica, and sometimes keeps the state of the group.
func (c *replicasLife) sync() {
	if c.rand.IntN(3) == 0 {
		c.old = append(c.old, metacontroller.Group{VmGroup: *c.group.DeepCopy(), Children: c.group.Children, Client: c.group.Client})
	}
	i := c.awake()
	c.group.URL = c.servers[i].url
	a, err := c.group.Sync(within(c.t))
	if err != nil {
		c.t.Fatal("a hook failed:", err)
	}
	c.say("replica %d, generation %d: %s %d/%d %s", i, c.group.Generation, a.Status.Phase, a.Status.CurrentReplicas, a.Status.DesiredReplicas, a.Status.LastMessage)
}

// stale sends any replica an earlier state of the group. Its answer is sometimes stored, as Metacontroller would.
func (c *replicasLife) stale(store bool) {
	if len(c.old) == 0 {
		return
	}
	g := c.old[c.rand.IntN(len(c.old))]
	i := c.awake()
	g.URL = c.servers[i].url
	a, err := g.Sync(within(c.t))
	if err != nil {
		c.t.Fatal("a hook failed:", err)
	}
	c.say("replica %d, stale, generation %d: %s %s", i, g.Generation, a.Status.Phase, a.Status.LastMessage)
	if store {
		c.group.Status, c.group.Children = g.Status, g.Children
	}
}

// unselect has a replica asked to finalize the group as one that is no longer selected: nothing may be removed.
func (c *replicasLife) unselect() {
	i := c.awake()
	c.group.URL = c.servers[i].url
	finalized, said, err := c.group.Unselect(within(c.t))
	if err != nil {
		c.t.Fatal("a hook failed:", err)
	}
	c.say("replica %d, not selected: finalized %t, %s", i, finalized, said)
}

var replicasMethods = []string{"CloneVM_Task", "PowerOnMultiVM_Task", "PowerOffVM_Task", "Destroy_Task", "CreateFolder", "ReconfigVM_Task", "RetrievePropertiesEx",
	"WaitForUpdatesEx", "ModifyListView", "MoveIntoFolder_Task", "Rename_Task", "ShutdownGuest"}

// clientGoes is when a replica gives up a call and closes its connection (vsphere's answerTimeout): what has not reached vCenter by
// then never does. (A PowerOn that did could not be fenced: docs/design.md, "Known limits".)
const clientGoes = 90 * time.Second

// freezeOne stops a replica at its next call of some method.
func (c *replicasLife) freezeOne() {
	if len(c.thaws) == len(c.servers)-1 {
		return
	}
	i, method := c.awake(), replicasMethods[c.rand.IntN(len(replicasMethods))]
	c.say("replica %d stops at its next %s", i, method)
	_, c.thaws[i] = c.servers[i].freezeFor(method, clientGoes)
}

func (c *replicasLife) thaw(i int) {
	if c.thaws[i] == nil {
		return
	}
	c.say("replica %d continues", i)
	c.thaws[i]()
	c.servers[i].wire.On(nil)
	delete(c.thaws, i)
}

func (c *replicasLife) step() {
	for range 1 + c.rand.IntN(3) {
		c.sync()
		c.wait(20)
	}
	i := c.rand.IntN(len(c.servers))
	switch c.rand.IntN(13) {
	case 0, 1:
		c.group.Scale(int32(c.rand.IntN(6)))
		c.say("scaled to %d", *c.group.Spec.Replicas)
	case 2:
		c.group.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Template = []string{"vm-operator-template", otherTemplate}[c.rand.IntN(2)]
		})
		c.say("template %s", c.group.Spec.Template)
	case 3:
		c.group.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = int32(1 + c.rand.IntN(4)) })
		c.say("cpu %d", c.group.Spec.CPU)
	case 4, 5, 6:
		c.freezeOne()
	case 7, 8:
		c.thaw(i)
	case 9:
		c.kill(i)
	case 10:
		c.say("replica %d has no network for a moment", i)
		c.servers[i].wire.Cut()
		c.wait(60)
		c.servers[i].wire.Mend()
	case 11:
		c.unselect()
	default:
		c.stale(c.rand.IntN(2) == 0)
	}
	c.wait(120)
}

// kill ends a replica at once, whatever it had under way, and starts another one.
func (c *replicasLife) kill(i int) {
	c.say("replica %d is killed, and another one started", i)
	c.servers[i].wire.Kill()
	c.thaw(i)
	c.servers[i].stop()
	c.servers[i] = c.serveWired()
}

// wrong reports what differs from the spec.
func (c *replicasLife) wrong() string {
	seen, s := map[int32]bool{}, &c.group.Spec
	for _, vm := range c.members() {
		stamp, err := stamp.Decode(vm.ExtraConfig[stamp.Key])
		if err != nil || stamp.Marked || !isOn(vm) || seen[stamp.Ordinal] || stamp.Revision != plan.Revision(s) || vm.CPUs != s.CPU {
			return fmt.Sprintf("%s: %v, %s, %d CPUs, %+v", vm.Path, err, vm.Power, vm.CPUs, stamp)
		}
		seen[stamp.Ordinal] = true
	}
	if len(seen) != int(*s.Replicas) {
		return fmt.Sprintf("want %d members; ordinals: %v", *s.Replicas, seen)
	}
	return ""
}

// settle lets all replicas continue, and waits until everything is as the newest spec says, and each replica reports that. (A
// replica now does what it was about to do when it stopped: it may still ask a guest to halt, say, which is then powered on again.)
func (c *replicasLife) settle() {
	c.say("quiet")
	for i := range c.servers {
		c.thaw(i)
	}
	for began := time.Now(); ; {
		for ; c.wrong() != ""; time.Sleep(seldom) {
			if time.Since(began) > patience {
				c.t.Fatal(c.wrong())
			}
			c.sync()
		}
		for _, s := range c.servers {
			upAt(c.t, c.group, s.url)
		}
		if c.wrong() == "" {
			return
		}
	}
}

// end deletes the group through any replicas, while others get the group as it was before, and stop.
func (c *replicasLife) end() {
	c.say("deleted")
	c.group.Generation++
	c.freezeOne()
	ctx := within(c.t)
	for {
		if c.rand.IntN(4) == 0 {
			c.stale(false)
		}
		if c.rand.IntN(20) == 0 {
			c.freezeOne()
		}
		i := c.awake()
		c.group.URL = c.servers[i].url
		a, err := c.group.Finalize(ctx)
		if err != nil {
			c.t.Fatalf("finalize: %v; last: %s", err, c.group.Status.LastMessage)
		}
		c.say("finalized by replica %d: %v %s", i, a.Finalized, a.Status.LastMessage)
		if a.Finalized {
			break
		}
		c.wait(20)
	}
	if len(c.thaws) > 0 && c.rand.IntN(2) == 0 {
		time.Sleep(replicaLease)
	}
	for i := range c.servers {
		c.thaw(i)
	}
	for _, s := range c.servers {
		s.done()
	}
	c.empty(2)
}
