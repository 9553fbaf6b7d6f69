package test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Replicas in this process have a lease that is so short that a test can wait for its end. A test pauses a replica on its wire to vCenter: from a
// chosen call on, no call passes, and the replica gets no hook calls. So its calls arrive late, and what it knows is old.
// (test/promises stops processes.)
const leaseTime = 90 * time.Second

// wiredReplica is one of several replicas of the server, with a wire of its own to vCenter.
type wiredReplica struct {
	*serverReplica
	wire *vcsim.Wire
	t    testing.TB
}

// serveWired starts a replica whose calls go through a wire.
func (r *rig) serveWired(change ...func(*vsphere.Config, *loop.Config)) *wiredReplica {
	r.t.Helper()
	w := r.wire()
	wired := func(v *vsphere.Config, l *loop.Config) {
		r.through(w, v)
		l.Slots, l.Lease, l.Resync = 4, leaseTime, leaseTime/2
	}
	return &wiredReplica{r.serve(append([]func(*vsphere.Config, *loop.Config){wired}, change...)...), w, r.t}
}

// freeze stops all calls on the replica's wire, from its next call of the given method on until thaw. frozen is closed when that first call arrives.
func (c *wiredReplica) freeze(method string) (frozen <-chan struct{}, thaw func()) {
	return c.freezeFor(method, patience)
}

// freezeFor is freeze, but a call that has waited for longer than the given time never reaches vCenter.
func (c *wiredReplica) freezeFor(method string, most time.Duration) (frozen <-chan struct{}, thaw func()) {
	came, gate := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(came) })
	cold := false
	c.wire.On(func(call vcsim.Call) vcsim.Break { // the wire handles one call at a time, so while this call is stopped, all other calls wait
		if cold = cold || call.Method == method; cold {
			began := time.Now()
			first()
			<-gate
			if time.Since(began) > most {
				return vcsim.Break{Kind: vcsim.Refused}
			}
		}
		return vcsim.Break{}
	})
	thaw = sync.OnceFunc(func() { close(gate) })
	c.t.Cleanup(thaw)
	return came, thaw
}

// upAtTwo starts two replicas, and creates a group that both replicas report as RUNNING.
func (r *rig) upAtTwo() (g *metacontroller.Group, a, b *serverReplica) {
	r.t.Helper()
	a, b = r.serve(), r.serve()
	g = a.group("web", 1)
	up(r.t, g)
	upAt(r.t, g, b.url)
	g.URL = a.url
	return g, a, b
}

// answered reports whether the wire had at least one call of a method, and all calls of the method have been answered.
func (c *wiredReplica) answered(method string) bool {
	calls := slices.DeleteFunc(c.wire.Log(), func(e vcsim.Entry) bool { return e.Method != method })
	return len(calls) > 0 && !slices.ContainsFunc(calls, func(e vcsim.Entry) bool { return !e.Done })
}

// leases returns the number of groups for which a replica has a lease or a running step.
func leases(l *loop.Loop) (n int) {
	for _, g := range l.Groups() {
		if g.Lease || slices.ContainsFunc(g.Pending, func(p plan.PendingReport) bool { return p.State == plan.Running }) {
			n++
		}
	}
	return n
}

// done waits until the replica has no running step, and no lease with which it could begin a step.
func (c *wiredReplica) done() {
	c.t.Helper()
	eventually(c.t, patience, "the replica has nothing to do", func() bool { return leases(c.loop) == 0 })
}

// empty checks that vCenter has nothing but its templates.
func (r *rig) empty(templates int) {
	r.t.Helper()
	if vms := r.VMs(); len(vms) != templates {
		r.t.Errorf("VMs are left behind: %v", refs(slices.DeleteFunc(vms, func(vm vcsim.VM) bool { return vm.Template })))
	}
}

// wire opens a connection to vCenter for one replica.
func (r *rig) wire() *vcsim.Wire {
	r.t.Helper()
	w, err := r.Wire(r.listen())
	r.must(err)
	r.t.Cleanup(func() { _ = w.Close() })
	return w
}

// through connects a replica to vCenter through a wire. (The wire shows the certificate of its vCenter.)
func (r *rig) through(w *vcsim.Wire, c *vsphere.Config) {
	c.Host = hostOf(w.URL())
	if r.direct {
		c.Through = w.Direct
	}
}
