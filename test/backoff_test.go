package test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// The campaign breaks each call only once, so it can't show whether a call that keeps failing is retried in a hot loop.
func TestARepeatedFailureIsNotRetriedInAHotLoop(t *testing.T) {
	inRig(t, vcsim.Config{}, func(t *testing.T, r *rig) {
		c := r.serveWired()
		g := c.group("web", 1)
		for _, x := range []struct {
			method string
			how    vcsim.Break
			most   int64 // within 10 minutes
		}{
			{"CloneVM_Task", vcsim.Break{Kind: vcsim.Faulted, Fault: &types.SystemError{Reason: "again"}}, 12}, // the delay doubles from 1 s to 2 min
			{"PowerOnMultiVM_Task", vcsim.Break{Kind: vcsim.Faulted, Fault: &types.TaskInProgress{}}, 155},     // ends without a change of the spec or of vCenter: retried every 4 s
		} {
			var tries atomic.Int64
			c.wire.On(func(call vcsim.Call) vcsim.Break {
				if call.Method != x.method {
					return vcsim.Break{}
				}
				tries.Add(1)
				return x.how
			})
			g.Edit(func(*spec) {}) // so that no back-off of an earlier failure is pending
			eventually(t, patience, x.method, func() bool { r.one(g); return tries.Load() > 0 })
			began := time.Now()
			for time.Since(began) < 10*time.Minute {
				r.one(g)
				time.Sleep(10 * time.Second)
			}
			if got := tries.Load(); got > x.most {
				t.Errorf("%s was called %d times within 10 minutes, want at most %d", x.method, got, x.most)
			}
		}
		c.wire.On(nil)
		g.Edit(func(*spec) {})
		up(t, g)
	})
}
