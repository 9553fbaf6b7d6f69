package test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/breaker"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// The campaign breaks a call but once, and so cannot tell whether what goes on failing is tried in a hot loop.
func TestWhatGoesOnFailingIsNotTriedInAHotLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t, vcsim.Config{})
	c := r.serveWired()
	g := c.group("web", 1)
	for _, x := range []struct {
		method string
		how    breaker.Break
	}{
		{"CloneVM_Task", breaker.Break{Kind: breaker.Faulted, Fault: &types.SystemError{Reason: "again"}}},
		{"PowerOnVM_Task", breaker.Break{Kind: breaker.Faulted, Fault: &types.TaskInProgress{}}},
	} {
		var tries atomic.Int64
		c.wire.On(func(call breaker.Call) breaker.Break {
			if call.Method != x.method {
				return breaker.Break{}
			}
			tries.Add(1)
			return x.how
		})
		g.Edit(func(*spec) {}) // so that nothing is waited for that failed before
		eventually(t, patience, x.method, func() bool { r.one(g); return tries.Load() > 0 })
		began := time.Now()
		for time.Since(began) < time.Second {
			r.one(g)
			time.Sleep(50 * time.Millisecond)
		}
		// A second is the shortest that is waited after a failure.
		if most := 2 + int64(time.Since(began)/time.Second); tries.Load() > most {
			t.Errorf("%s was tried %d times within %s; %d are enough", x.method, tries.Load(), time.Since(began), most)
		}
	}
	c.wire.On(nil)
	g.Edit(func(*spec) {})
	up(t, g)
}
