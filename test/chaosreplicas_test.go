package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// chaosReplica is a replica of the server that has its own wire to vCenter.
type chaosReplica struct {
	*serverReplica
	wire  *vcsim.Wire
	agent string // the replica's user agent in vCenter's list of sessions
	// dead is set if the replica was killed. Parts of it still run in the test's process, but the test ignores what they do.
	dead atomic.Bool

	counts *counts
	mu     sync.Mutex // guards the fields below
	orders []*wireOrder
	// stops names a method: from the replica's next call of the method on, no call passes until stops is empty and resumed is closed. stopped is the time
	// of that call.
	stops   string
	stopped time.Time
	resumed chan struct{}
	// strays is how many sessions the replica may have left behind in vCenter without knowing about them.
	strays int
}

// wireOrder makes the next calls of the listed methods fail; if it lists none, the next calls of any method.
type wireOrder struct {
	methods []string
	left    int
	how     vcsim.Break
}

func (l *life) start() *chaosReplica {
	l.born++
	wire := l.wire()
	c := &chaosReplica{wire: wire, agent: fmt.Sprintf("replica-%d", l.born), counts: l.counts}
	l.wires = append(l.wires, wire)
	wire.On(func(call vcsim.Call) vcsim.Break {
		if b := c.wait(call); b.Kind != vcsim.Pass {
			return b
		}
		if l.faults != nil {
			if b, breaks := l.faults.ask(l, wire, call); breaks {
				return c.applyBreak(b)
			}
		}
		return c.ask(call)
	})
	c.serverReplica = l.serve(inCluster0, func(v *vsphere.Config, cfg *loop.Config) {
		l.through(wire, v)
		v.UserAgent, v.ExtraKeys, v.PCIDevices = c.agent, vsphere.ExtraKeys{"sched.*"}, vsphere.PCIDevices{"*"}
		cfg.Slots = 4
	})
	l.t.Cleanup(c.resume)
	return c
}

// ask decides what happens to a call.
func (c *chaosReplica) ask(call vcsim.Call) vcsim.Break {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.orders, func(o *wireOrder) bool {
		return o.left > 0 && (len(o.methods) == 0 || slices.Contains(o.methods, call.Method))
	})
	if i < 0 {
		return vcsim.Break{}
	}
	o := c.orders[i]
	o.left--
	c.counts.add("break", o.how.Kind.String())
	c.take(o.how)
	return o.how
}

// applyBreak lets a call break in a way that ask has already chosen.
func (c *chaosReplica) applyBreak(b vcsim.Break) vcsim.Break {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(b)
	return b
}

// take notes the consequences of a break for the replica. The caller holds mu.
func (c *chaosReplica) take(b vcsim.Break) {
	switch b.Kind {
	case vcsim.KilledBefore, vcsim.KilledAfter:
		c.dead.Store(true)
	case vcsim.ReplyLost, vcsim.Refused, vcsim.Stalled:
		c.strays++ // the call may have been a login or a logout
	}
}

// clientGoes is the time after which a replica gives up a call and closes its connection (vsphere's answerTimeout). A call that has not reached vCenter
// by then never does. (If a PowerOn reached vCenter later, the server could not fence it: docs/design.md, "Known limits".)
const clientGoes = 90 * time.Second

// wait holds the calls of a replica that stopped.
func (c *chaosReplica) wait(call vcsim.Call) vcsim.Break {
	c.mu.Lock()
	if c.stops == "" || c.stopped.IsZero() && call.Method != c.stops {
		c.mu.Unlock()
		return vcsim.Break{}
	}
	if c.stopped.IsZero() {
		c.stopped = time.Now()
		c.counts.add("break", "Stopped")
	}
	resumed, began := c.resumed, time.Now()
	c.mu.Unlock()
	<-resumed
	if time.Since(began) > clientGoes {
		return vcsim.Break{Kind: vcsim.Refused}
	}
	return vcsim.Break{}
}

// stopAt makes the replica stop at its next call of a method, as if its process were paused: no call passes, and Metacontroller doesn't call it.
func (c *chaosReplica) stopAt(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stops, c.stopped, c.resumed = method, time.Time{}, make(chan struct{})
}

func (c *chaosReplica) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops != "" {
		c.stops = ""
		c.strays++
		close(c.resumed)
	}
}

// isStopped reports whether the replica has stopped, or will stop at a later call.
func (c *chaosReplica) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stops != ""
}

func (c *chaosReplica) order(o *wireOrder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders = append(c.orders, o)
}

// disconnected notes that connections were cut. A login may have been in progress, whose session the replica then doesn't know.
func (c *chaosReplica) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strays++
}

// repair ends all trouble of the replica's wire.
func (c *chaosReplica) repair() {
	c.mu.Lock()
	c.orders = nil
	c.mu.Unlock()
	c.resume()
	c.wire.Mend()
}

// any returns a random replica that is alive and has not stopped. It drops dead replicas, and starts a replica if none is left.
func (l *life) any() *chaosReplica {
	l.reap()
	return pick(l.rand, l.awake())
}

func (l *life) awake() []*chaosReplica {
	return slices.DeleteFunc(slices.Clone(l.replicas), (*chaosReplica).isStopped)
}

func (l *life) reap() {
	l.replicas = slices.DeleteFunc(l.replicas, func(c *chaosReplica) bool {
		if c.dead.Load() {
			l.say("%s was killed", c.agent)
			c.resume()
			c.stop()
		}
		return c.dead.Load()
	})
	if len(l.awake()) == 0 {
		c := l.start()
		l.replicas = append(l.replicas, c)
		l.say("%s is started", c.agent)
	}
}

// complete starts replicas until the life has as many as its profile says.
func (l *life) complete() {
	l.reap()
	for len(l.replicas) < l.profile.replicas {
		c := l.start()
		l.replicas = append(l.replicas, c)
		l.say("%s is started", c.agent)
	}
}

// restarts lists the operations that stop, kill and start replicas of the server.
var restarts = []operation{
	{"a replica is stopped and started", 3, func(l *life) {
		l.reap()
		i := l.rand.IntN(len(l.replicas))
		l.say("%s is stopped", l.replicas[i].agent)
		l.replicas[i].resume()
		l.replicas[i].stop()
		l.replicas = slices.Delete(l.replicas, i, i+1)
		l.complete()
	}},
	{"a replica is killed", 2, func(l *life) {
		c := l.any()
		c.wire.Kill()
		c.dead.Store(true)
		l.counts.add("break", "Killed")
	}},
	{"a replica is killed at a call", 4, func(l *life) {
		c := l.any()
		o := &wireOrder{methods: l.someMethods(c), left: 1, how: vcsim.Break{Kind: pick(l.rand, []vcsim.BreakKind{vcsim.KilledBefore, vcsim.KilledAfter})}}
		l.say("%s is %s at its next of %v", c.agent, o.how.Kind, o.methods)
		c.order(o)
	}},
	{"all replicas run again", 4, (*life).complete},
}

// stops are the operations that pause and resume a replica. The calls that a paused replica has begun arrive late, and its knowledge is out of date.
var stops = []operation{
	{"a replica stops at a call", 6, func(l *life) {
		l.reap()
		if awake := l.awake(); len(awake) > 1 {
			c, method := pick(l.rand, awake), pick(l.rand, []string{"CloneVM_Task", "PowerOnMultiVM_Task", "PowerOffVM_Task", "Destroy_Task", "CreateFolder",
				"ReconfigVM_Task", "RetrievePropertiesEx", "WaitForUpdatesEx", "ModifyListView", "MoveIntoFolder_Task", "ShutdownGuest"})
			l.say("%s stops at its next %s", c.agent, method)
			c.stopAt(method)
		}
	}},
	{"a replica continues", 4, func(l *life) {
		c := pick(l.rand, l.replicas)
		l.say("%s continues: %t", c.agent, c.isStopped())
		c.resume()
	}},
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

const attachTags = "POST /rest/com/vmware/cis/tagging/tag-association?~action=attach-multiple-tags-to-object"

// changing are the calls that change something in vCenter.
var changing = []string{"CloneVM_Task", "PowerOnMultiVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task", "ReconfigVM_Task", "CreateFolder", "ShutdownGuest",
	"ResetVM_Task", "MoveIntoFolder_Task", "ReconfigureComputeResource_Task", attachTags}

// someMethods chooses the methods whose next call breaks: all that change something, any method (nil), or a single method, which either changes
// something or was called by the replica before.
func (l *life) someMethods(c *chaosReplica) []string {
	n, one := l.rand.IntN(10), l.rand.IntN(1000)
	if called := c.wire.Log(); n >= 8 && len(called) > 0 {
		return []string{called[one%len(called)].Method}
	}
	switch {
	case n < 4:
		return changing
	case n < 6:
		return nil
	}
	return []string{changing[one%len(changing)]}
}

// chaosFaults are faults that vCenter can answer to any call, and that don't tell whether an object exists.
var chaosFaults = []types.BaseMethodFault{
	&types.TaskInProgress{}, &types.InvalidState{}, &types.ConcurrentAccess{}, &types.NoPermission{PrivilegeId: "VirtualMachine.Inventory.Create"},
	&types.InsufficientResourcesFault{}, &types.NoDiskSpace{Datastore: "LocalDS_0"}, &types.HostCommunication{}, &types.Timedout{},
	&types.SystemError{Reason: "chaos"}, &types.GenericVmConfigFault{Reason: "chaos"}, &types.HostNotConnected{}, &types.LimitExceeded{},
	&types.ResourceInUse{}, &types.RequestCanceled{}, &types.NotEnoughLicenses{},
}

// breaks lists the failures of the wire and of vCenter.
var breaks = []operation{
	{"a wire breaks", 14, func(l *life) {
		c := l.any()
		kind := pick(l.rand, []vcsim.BreakKind{vcsim.Refused, vcsim.ReplyLost, vcsim.SessionGone, vcsim.Faulted, vcsim.Stalled})
		o := &wireOrder{methods: l.someMethods(c), left: 1 + l.rand.IntN(3), how: vcsim.Break{Kind: kind}}
		o.how.Fault = pick(l.rand, chaosFaults)
		o.how.Stall = time.Duration(1+l.rand.IntN(120)) * time.Second
		l.say("%s: %d calls of %v are %s (%T, %s)", c.agent, o.left, o.methods, kind, o.how.Fault, o.how.Stall)
		c.order(o)
	}},
	{"a wire is cut", 3, func(l *life) {
		c := l.any()
		l.say("%s is disconnected", c.agent)
		c.disconnected()
		c.wire.Cut()
		l.counts.add("break", "Cut")
	}},
	{"the path to the guests", 2, func(l *life) {
		cut := l.rand.IntN(2) == 0
		l.say("the path to the guests is cut: %t", cut)
		l.CutGuests(cut)
	}},
	{"the wires are repaired", 4, func(l *life) {
		for _, c := range l.replicas {
			c.wire.Mend()
		}
	}},
	{"sessions end", 1, func(l *life) { l.DropSessions(); l.counts.add("break", "DropSessions") }},
	{"vCenter is down", 1, func(l *life) {
		l.Down()
		l.calls()
		l.wait(120)
		l.Up()
		l.disconnectAll("Down")
	}},
	{"vCenter restarts", 1, func(l *life) { l.Restart(); l.disconnectAll("Restart") }},
	{"tasks fail", 3, func(l *life) {
		kind, n := pick(l.rand, []vcsim.Kind{vcsim.Clone, vcsim.PowerOn, vcsim.PowerOff, vcsim.Destroy, vcsim.Reconfigure, vcsim.ShutdownGuest,
			vcsim.Reset, vcsim.Rename, vcsim.MoveInto, vcsim.ReconfigureCluster}), 1+l.rand.IntN(3)
		fault := pick(l.rand, chaosFaults)
		l.say("%d tasks %s fail: %T", n, kind, fault)
		l.FailTask(kind, nil, fault, n)
		l.counts.add("break", "FailTask")
	}},
	{"replies are lost", 2, func(l *life) {
		method, n := pick(l.rand, changing), 1+l.rand.IntN(3)
		l.say("%d replies of %s are lost", n, method)
		l.LoseReply(method, n)
		l.counts.add("break", "LoseReply")
	}},
	{"a privilege is lost", 1, func(l *life) {
		method := pick(l.rand, changing)
		l.say("%s is denied", method)
		l.Deny(method, "VirtualMachine.Interact.PowerOn")
		l.counts.add("break", "Deny")
	}},
	{"vCenter recovers", 3, func(l *life) { l.Heal() }},
}

func (l *life) disconnectAll(how string) {
	l.counts.add("break", how)
	for _, c := range l.replicas {
		c.disconnected()
	}
}
