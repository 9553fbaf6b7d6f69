package test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/test/breaker"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// Copies of the server in this process have a lease that a test can wait for. A pause of one is modelled on its wire to
// vCenter: from a chosen call on nothing passes, and no hook calls it; so whatever it had begun arrives late, and what it
// knows is old. (What a pause does to the process itself is for copiesprocess_test.go.)
const copyLease = 1500 * time.Millisecond

// wiredCopy is one of several copies of the server, with a wire of its own to vCenter.
type wiredCopy struct {
	*copyOfServer
	wire *breaker.Wire
	t    testing.TB
}

// serveWired starts a copy whose calls go through a wire.
func (r *rig) serveWired(change ...func(*vsphere.Config, *loop.Config)) *wiredCopy {
	r.t.Helper()
	w, err := breaker.New(r.VCenter)
	r.must(err)
	r.t.Cleanup(func() { _ = w.Close() })
	wired := func(v *vsphere.Config, l *loop.Config) {
		w.Point(v)
		l.Slots, l.Lease, l.Resync = 4, copyLease, copyLease/2
	}
	return &wiredCopy{r.serve(append([]func(*vsphere.Config, *loop.Config){wired}, change...)...), w, r.t}
}

// freeze has everything on the copy's wire stand still from its next call of a method on, until thaw. frozen is closed
// when that call has come.
func (c *wiredCopy) freeze(method string) (frozen <-chan struct{}, thaw func()) {
	came, gate := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(came) })
	cold := false
	c.wire.On(func(call breaker.Call) breaker.Break { // one at a time: the others wait before it
		if cold = cold || call.Method == method; cold {
			first()
			<-gate
		}
		return breaker.Break{}
	})
	thaw = sync.OnceFunc(func() { close(gate) })
	c.t.Cleanup(thaw)
	return came, thaw
}

// answered tells that all calls of a method that came to the wire have been answered, and that there was one.
func (c *wiredCopy) answered(method string) bool {
	calls := slices.DeleteFunc(c.wire.Log(), func(e breaker.Entry) bool { return e.Method != method })
	return len(calls) > 0 && !slices.ContainsFunc(calls, func(e breaker.Entry) bool { return !e.Done })
}

// done waits until the copy has nothing under way and no lease to begin anything.
func (c *wiredCopy) done() {
	c.t.Helper()
	eventually(c.t, patience, "the copy has nothing to do", func() bool { return len(c.loop.Groups()) == 0 })
}

// empty demands that there is nothing in vCenter but its templates.
func (r *rig) empty(templates int) {
	r.t.Helper()
	if vms := r.VMs(); len(vms) != templates {
		r.t.Errorf("VMs are left behind: %v", refs(slices.DeleteFunc(vms, func(vm vcsim.VM) bool { return vm.Template })))
	}
}

// watch counts something every now and then, from outside, until stop, which tells what was seen.
func (r *rig) watch(every time.Duration, count func() int) (stop func() extremes) {
	return r.sample(func() int { time.Sleep(every); return count() })
}
