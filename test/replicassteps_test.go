package test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// replicasOperations lists what can happen in a life with several replicas.
var replicasOperations = []operationIn[replicasLife]{
	{"scale", 2, func(c *replicasLife) {
		c.group.Scale(int32(c.rand.IntN(6)))
		c.say("scaled to %d", *c.group.Spec.Replicas)
	}},
	{"template", 1, func(c *replicasLife) {
		c.group.Edit(func(s *v1alpha1.VmGroupSpec) {
			s.Template = []string{"vm-operator-template", otherTemplate}[c.rand.IntN(2)]
		})
		c.say("template %s", c.group.Spec.Template)
	}},
	{"cpu", 1, func(c *replicasLife) {
		c.group.Edit(func(s *v1alpha1.VmGroupSpec) { s.CPU = int32(1 + c.rand.IntN(4)) })
		c.say("cpu %d", c.group.Spec.CPU)
	}},
	{"a replica stops at a call", 3, (*replicasLife).freezeOne},
	{"a replica continues", 2, func(c *replicasLife) { c.thaw(c.any()) }},
	{"a replica is killed", 1, func(c *replicasLife) { c.kill(c.any()) }},
	{"a replica has no network for a moment", 1, func(c *replicasLife) {
		i := c.any()
		c.say("replica %d has no network for a moment", i)
		c.counts.add("break", "Cut")
		c.servers[i].wire.Cut()
		c.wait(60)
		c.servers[i].wire.Mend()
	}},
	{"the group is not selected for a moment", 1, (*replicasLife).unselect},
	{"a stale parent arrives", 1, func(c *replicasLife) { c.stale(c.rand.IntN(2) == 0) }},
}

// replicasScript is the life with several replicas that a seed gives.
func replicasScript(seed uint64) []step { return scriptOf(seed, replicasOperations) }

// step has Metacontroller call a few times, and then something happens.
func (c *replicasLife) step(s step) {
	for range 1 + c.rand.IntN(3) {
		c.sync()
		c.wait(20)
	}
	c.counts.add("operation", s.operation)
	c.say("# %d: %s", s.n, s.operation)
	named(replicasOperations, s.operation).do(c)
	c.wait(120)
}

// any returns any replica, stopped or not.
func (c *replicasLife) any() int { return c.rand.IntN(len(c.servers)) }

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

// unselect has replicas asked to finalize the group as one that is no longer selected: nothing of it may be removed. Half of these
// times everything is as the spec says before, and replicas are asked for longer than a lease: then nothing may change.
func (c *replicasLife) unselect() {
	// A label that changes twice within a third of a lease may reach different replicas: a known limit (docs/design.md, "A finalize
	// without deletionTimestamp").
	if since := time.Since(c.asked); since <= replicaLease/3 {
		time.Sleep(replicaLease/3 - since + time.Second)
	}
	during, members := time.Duration(0), ""
	if c.rand.IntN(2) == 0 {
		c.calm()
		during, members = time.Duration(c.rand.IntN(200))*time.Second, c.looks()
	}
	for began := time.Now(); ; time.Sleep(2 * time.Second) {
		i := c.awake()
		c.group.URL = c.servers[i].url
		finalized, said, err := c.group.Unselect(within(c.t))
		c.say("replica %d, not selected: finalized %t, %s", i, finalized, said)
		c.judgeUnselected(c.group, finalized, err)
		if now := c.looks(); during > 0 && now != members {
			c.t.Fatalf("%s has changed from\n%s\nto\n%s", unselectedWrong, members, now)
		}
		if c.asked = time.Now(); time.Since(began) >= during {
			return
		}
	}
}

// calm is settle, and then no replica has anything to do: one that saw vCenter a moment later than another may have begun a step since.
func (c *replicasLife) calm() {
	busy := func(s *wiredReplica) bool {
		return slices.ContainsFunc(s.loop.Groups(), func(r plan.Report) bool { return len(r.Pending) > 0 })
	}
	for {
		c.settle()
		time.Sleep(seldom)
		if c.wrong() == "" && !slices.ContainsFunc(c.servers, busy) {
			return
		}
	}
}

// looks is what the members look like.
func (c *replicasLife) looks() string {
	var lines []string
	for _, vm := range c.members() {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %d CPUs %v", vm.Ref.Value, vm.Path, vm.InstanceUUID, vm.Power, vm.CPUs, vm.ExtraConfig))
	}
	return strings.Join(lines, "\n")
}

var replicasMethods = []string{"CloneVM_Task", "PowerOnMultiVM_Task", "PowerOffVM_Task", "Destroy_Task", "CreateFolder", "ReconfigVM_Task", "RetrievePropertiesEx",
	"WaitForUpdatesEx", "ModifyListView", "MoveIntoFolder_Task", "ShutdownGuest"}

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
	frozen, thaw := c.servers[i].freezeFor(method, clientGoes)
	c.thaws[i] = func() {
		select {
		case <-frozen:
			c.counts.add("break", "Frozen")
		default:
		}
		thaw()
	}
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

// kill ends a replica at once, whatever it had under way, and starts another one.
func (c *replicasLife) kill(i int) {
	c.say("replica %d is killed, and another one started", i)
	c.counts.add("break", "Killed")
	c.servers[i].wire.Kill()
	c.thaw(i)
	c.servers[i].stop()
	c.servers[i] = c.serveWired()
}
