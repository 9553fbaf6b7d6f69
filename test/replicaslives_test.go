package test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
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
	replicasKeep  = flag.String("replicas.keep", "", "the steps of the script to carry out, such as 3,9,12; all by default")
)

// TestLivesWithSeveralReplicas runs random lives with two or three replicas of the server: each hook call goes to any of them;
// replicas stop at a call to vCenter and continue before or after their lease ends, are killed and started, lose the network, and
// get parents that are old. At no moment are two VMs of one ordinal on; in the end there are exactly the members of the spec; and
// when the group was finalized, nothing of it is left, whatever arrives late. A failing script is shrunk and repeated like that of
// TestChaos.
func TestLivesWithSeveralReplicas(t *testing.T) {
	t.Parallel()
	replicaLives.test(t, crew{abreast: runtime.GOMAXPROCS(0), first: *replicasSeed, lives: *replicasLives, lasts: *replicasFor}, *replicasKeep,
		shrinkTime(*replicasFor > 0 || *replicasLives > 1))
}

// replicasLife is one life.
type replicasLife struct {
	*rig
	counts  *counts
	rand    *rand.Rand // of the step that runs now
	servers []*wiredReplica
	thaws   map[int]func() // of the replicas that are stopped
	group   *metacontroller.Group
	old     []metacontroller.Group // earlier states of the group
	asked   time.Time              // when a replica was last asked to finalize the group, which was not selected

	mu     sync.Mutex // guards the fields below
	diary  []string
	wrongs []string
	seen   lastSeen
}

// runReplicasLife runs a life through the steps, with a vCenter and replicas of its own, which end with it.
func runReplicasLife(t *testing.T, seed uint64, steps []step, planted *defect, counts *counts) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		c := &replicasLife{counts: counts, thaws: map[int]func(){}}
		tr := &trial{TB: t, report: c.violated}
		tr.run(func() { c.live(tr, seed, steps, planted) })
		o = outcome{wrong: c.wrongs, diary: c.diary}
	})
	return o
}

func (c *replicasLife) live(t testing.TB, seed uint64, steps []step, planted *defect) {
	c.rand = rand.New(rand.NewPCG(seed, 3))
	c.rig = newRigBy(t, wayOf(seed), vcsim.Config{Templates: []string{"vm-operator-template", otherTemplate}, Guest: vcsim.Guest{Tools: seed%2 == 0}})
	c.planted = planted
	for range 2 + c.rand.IntN(2) {
		c.servers = append(c.servers, c.serveWired())
	}
	c.group = c.servers[0].group("web", 3)
	c.group.Spec.Deletion = v1alpha1.Deletion{ShutdownTimeoutSeconds: seconds(60), QuarantineSeconds: []int32{0, 0, 12 * 3600}[c.rand.IntN(3)]}
	c.group.Spec.Placement.Folder = []string{"", "teams/a"}[c.rand.IntN(2)]
	twins := c.sample(c.twinsOn)
	for _, s := range steps {
		c.rand = rand.New(rand.NewPCG(s.dice, 0))
		c.step(s)
	}
	c.rand = rand.New(rand.NewPCG(seed, 4))
	c.settle()
	c.end()
	if seen := twins(); seen.most > 0 {
		t.Errorf("two VMs of one ordinal were on at once")
	}
}

func (c *replicasLife) violated(text string) {
	c.say("!!! %s", text)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrongs = append(c.wrongs, text)
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
