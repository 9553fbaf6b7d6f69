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

// chaosReplica is a replica of the server, with a wire of its own to vCenter.
type chaosReplica struct {
	*serverReplica
	wire  *vcsim.Wire
	agent string // its name in vCenter's list of sessions
	// dead: its process was killed. What still runs of it in this process isn't counted.
	dead atomic.Bool

	counts *counts
	mu     sync.Mutex // guards the fields below
	orders []*wireOrder
	// strays is how many sessions it may have left behind in vCenter without knowing.
	strays int
}

// wireOrder makes the next calls of some methods fail; of any method, if there are none.
type wireOrder struct {
	methods []string
	left    int
	how     vcsim.Break
}

func (l *life) start() *chaosReplica {
	l.born++
	wire := l.wire()
	c := &chaosReplica{wire: wire, agent: fmt.Sprintf("replica-%d", l.born), counts: l.counts}
	wire.On(c.ask)
	c.serverReplica = l.serve(inCluster0, func(v *vsphere.Config, cfg *loop.Config) {
		l.through(wire, v)
		v.UserAgent = c.agent
		cfg.Slots = 4
	})
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
	switch o.how.Kind {
	case vcsim.KilledBefore, vcsim.KilledAfter:
		c.dead.Store(true)
	case vcsim.ReplyLost, vcsim.Refused, vcsim.Stalled:
		c.strays++ // if it was a login, or a logout
	}
	return o.how
}

func (c *chaosReplica) order(o *wireOrder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders = append(c.orders, o)
}

// disconnected notes that connections were cut: a login may have been in progress.
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
	c.wire.Mend()
}

// any returns a replica that is alive, chosen at random. It drops the dead ones, and starts one if none is left.
func (l *life) any() *chaosReplica {
	l.reap()
	return l.replicas[l.rand.IntN(len(l.replicas))]
}

func (l *life) reap() {
	l.replicas = slices.DeleteFunc(l.replicas, func(c *chaosReplica) bool {
		if c.dead.Load() {
			l.say("%s was killed", c.agent)
			c.stop()
		}
		return c.dead.Load()
	})
	if len(l.replicas) == 0 {
		l.replicas = append(l.replicas, l.start())
		l.say("%s is started", l.replicas[0].agent)
	}
}

// complete starts the missing replicas.
func (l *life) complete() {
	l.reap()
	for len(l.replicas) < l.profile.replicas {
		c := l.start()
		l.replicas = append(l.replicas, c)
		l.say("%s is started", c.agent)
	}
}

// restarts lists what happens to the replicas of the server.
var restarts = []operation{
	{"a replica is stopped and started", 3, func(l *life) {
		l.reap()
		i := l.rand.IntN(len(l.replicas))
		l.say("%s is stopped", l.replicas[i].agent)
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

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

const attachTags = "POST /rest/com/vmware/cis/tagging/tag-association/id:?~action=attach-multiple-tags-to-object"

// changing are the calls that change something in vCenter.
var changing = []string{"CloneVM_Task", "PowerOnMultiVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task", "ReconfigVM_Task", "CreateFolder", "ShutdownGuest",
	"ResetVM_Task", "MoveIntoFolder_Task", "ReconfigureComputeResource_Task", attachTags}

// someMethods chooses the calls to break: the next that changes something, the next of any kind, or one method, of those that
// change something or of those that the replica called before.
func (l *life) someMethods(c *chaosReplica) []string {
	n, one := l.rand.IntN(10), l.rand.IntN(1000)
	if called := c.wire.Calls(); n >= 8 && len(called) > 0 {
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

// chaosFaults are what vCenter may answer to any call without saying that something exists or is gone.
var chaosFaults = []types.BaseMethodFault{
	&types.TaskInProgress{}, &types.InvalidState{}, &types.ConcurrentAccess{}, &types.NoPermission{PrivilegeId: "VirtualMachine.Inventory.Create"},
	&types.InsufficientResourcesFault{}, &types.NoDiskSpace{Datastore: "LocalDS_0"}, &types.HostCommunication{}, &types.Timedout{},
	&types.SystemError{Reason: "chaos"}, &types.GenericVmConfigFault{Reason: "chaos"}, &types.HostNotConnected{}, &types.LimitExceeded{},
	&types.ResourceInUse{}, &types.RequestCanceled{}, &types.NotEnoughLicenses{},
}

// breaks lists what happens on the way to vCenter, and in it.
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
